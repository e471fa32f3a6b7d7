/* SPDX-License-Identifier: Apache-2.0 */
/* test_trainer.c - real training of small jobs: trainers, exchanges and servers
 * in one process; what they learn, write, and stop for. */
#include "tests/support/cmocka_all.h"

#include "tests/support/measured.h"
#include "tests/support/train_world.h"

#include "common/artifact/safetensors.h"
#include "common/base/xalloc.h"
#include "common/nn/blas.h"
#include "common/train/trainer.h"
#include "common/wire/wire_client.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- reports ----------------------------------------------------------------------- */

/* A file of the folder, to be freed; NULL if there is none. */
static char *content(const train_world *w, const char *name)
{
    char *bytes = NULL;
    size_t n;
    ps_status st = ps_file_read(temp_dir_file(&w->folder, name), 16 << 20, &bytes, &n);

    return ps_is_ok(&st) ? bytes : NULL;
}

static size_t line_count(const char *text)
{
    size_t lines = 0;

    for (; *text != '\0'; text++) {
        lines += *text == '\n';
    }
    return lines;
}

static void model_file_must_hold(const train_world *w, const char *name, const float *block)
{
    const ps_layout *layout = &w->job.plan->layout;
    ps_safetensors *file = NULL;
    ps_status st = ps_safetensors_open(temp_dir_file(&w->folder, name), &file);

    assert_string_equal(st.text, "");
    assert_int_equal(ps_safetensors_count(file), layout->variable_count);
    for (uint32_t v = 0; v < layout->variable_count; v++) {
        const ps_variable *var = &layout->variables[v];
        const ps_tensor *tensor = ps_safetensors_at(file, v);

        assert_string_equal(tensor->name, var->name);
        assert_memory_equal(tensor->data, block + var->at, var->size * sizeof(float));
    }
    ps_safetensors_close(file);
}

/* --- tests ------------------------------------------------------------------------- */

static void two_workers_learn_and_write_what_they_did(void **state)
{
    enum { STEPS = 3 * TW_TRAIN / 40 };
    train_world w;
    char *train, *eval[2], *row;
    float *weights;
    double first_loss = 0;

    (void)state;
    tw_begin(&w, 2, 2, "");
    assert_int_equal(w.job.plan->total_steps, STEPS);
    tw_start(&w);
    tw_join(&w);
    tw_must_be_done(&w);
    for (uint32_t i = 0; i < 2; i++) {
        const ps_trainer_progress *p = &w.workers[i].progress;

        assert_int_equal(p->step, STEPS);
        assert_int_equal(p->epoch, 3);
        assert_int_equal(p->evaluations, 3);
        assert_int_equal(p->samples, STEPS * 20);
        assert_true(p->loss < 2.0);
        assert_true(p->eval_loss < 1.3 && p->eval_values[0] > 0.55);
    }
    train = content(&w, "TR-t-N(0).csv");
    assert_non_null(train);
    assert_int_equal(line_count(train), 1 + STEPS);
    row = strchr(train, '\n') + 1;
    assert_int_equal(sscanf(row, "%*f,1,1,1,%lf", &first_loss), 1);
    assert_true(first_loss > 2.0 && first_loss < 3.0);
    free(train);
    eval[0] = content(&w, "EV-t-N(0).csv");
    eval[1] = content(&w, "EV-t-N(1).csv");
    assert_int_equal(line_count(eval[0]), 1 + 3);
    drop_measured(eval[0]);
    drop_measured(eval[1]);
    assert_string_equal(eval[0], eval[1]);
    assert_int_equal(strncmp(eval[0], "epoch,step,loss,accuracy\n", 25), 0);
    free(eval[0]);
    free(eval[1]);
    weights = tw_served(&w);
    model_file_must_hold(&w, "MODEL-t-N(0).safetensors", weights);
    assert_null(content(&w, "MODEL-t-N(1).safetensors"));
    free(weights);
    tw_end(&w);
}

static void evaluations_within_epochs_change_no_weight(void **state)
{
    static const char every[] = ", \"eval_every_steps\": 20";
    train_world w;
    char *eval, *row;
    int step = 0, epoch = 0, expected[][2] = {{1, 20},  {1, 40},  {1, 50},  {2, 60}, {2, 80},
                                              {2, 100}, {3, 120}, {3, 140}, {3, 150}};
    size_t count = sizeof expected / sizeof expected[0];

    (void)state;
    tw_begin(&w, 2, 1, every);
    assert_int_equal(w.job.plan->batches_per_epoch, 50);
    tw_start(&w);
    tw_join(&w);
    tw_must_be_done(&w);
    assert_int_equal(w.workers[0].progress.evaluations, count);
    eval = content(&w, "EV-t-N(1).csv");
    assert_non_null(eval);
    assert_int_equal(line_count(eval), 1 + count);
    row = strchr(eval, '\n') + 1;
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(sscanf(row, "%d,%d,", &epoch, &step), 2);
        assert_int_equal(epoch, expected[i][0]);
        assert_int_equal(step, expected[i][1]);
        row = strchr(row, '\n') + 1;
    }
    free(eval);
    tw_end(&w);
    tw_must_train_alike(every, 1, "", 1, 2);
}

static void one_seed_gives_one_model_on_any_number_of_servers(void **state)
{
    (void)state;
    tw_must_train_alike("", 1, "", 3, 3);
}

static void the_optimizer_on_the_worker_gives_the_bits_of_the_one_on_the_server(void **state)
{
    (void)state;
    tw_must_train_alike(", \"optimizer\": {\"rule\": {\"name\": \"adam\"}}", 1,
                        ", \"optimizer\": {\"rule\": {\"name\": \"adam\"}, \"side\": "
                        "\"OPTIMIZER_SIDE_WORKER\"}",
                        2, 1);
}

static void blocks_on_two_holders_give_one_model(void **state)
{
    static const char choices[] =
        ", \"assignment\": {\"name\": \"iid\", \"params\": {\"redundancy\": 2}}";

    (void)state;
    tw_must_train_alike(choices, 1, choices, 2, 4);
}

/* Steps, with evaluations between them, of several blocks, in rounds. */
static void samples_that_are_read_ahead_give_the_model_of_those_in_memory(void **state)
{
    static const char *const choices[] = {
        "",
        ", \"eval_every_steps\": 7",
        ", \"assignment\": {\"name\": \"uneven\", \"params\": {\"ratio_1\": 3}}",
        ", \"update\": {\"name\": \"localsgd\", \"params\": {\"steps\": 4}}",
    };

    (void)state;
    for (size_t i = 0; i < sizeof choices / sizeof choices[0]; i++) {
        float *weights[2];
        size_t n = 0, samples[2];

        for (size_t far = 0; far < 2; far++) {
            train_world w;

            tw_put_far(tw_glyphs, far == 1);
            tw_begin(&w, 2, 1, choices[i]);
            samples[far] = ps_trainer_memory(w.workers[0].trainer).samples;
            tw_start(&w);
            tw_join(&w);
            tw_must_be_done(&w);
            weights[far] = tw_served(&w);
            n = w.job.plan->layout.param_count * sizeof(float);
            tw_end(&w);
        }
        tw_put_far(tw_glyphs, false);
        assert_true(samples[1] > samples[0]);
        assert_memory_equal(weights[0], weights[1], n);
        free(weights[0]);
        free(weights[1]);
    }
}

#define STEADY                                                                                     \
    ", \"epochs\": 6, \"optimizer\": {\"rule\": {\"name\": \"adam\", \"params\": {\"lr\": "        \
    "0.001}}}"

static void other_policies_learn_too(void **state)
{
    static const char *const choices[] = {
        /* at a rate at which no timing makes Adam swing */
        STEADY ", \"consistency\": {\"name\": \"ssp\", \"params\": {\"bound\": 2}}",
        STEADY ", \"consistency\": {\"name\": \"asp\"}",
        ", \"update\": {\"name\": \"gradient_average\"}",
        ", \"codec\": {\"up\": {\"name\": \"int8\"}, \"down\": {\"name\": \"int8\"}}",
    };

    (void)state;
    for (size_t i = 0; i < sizeof choices / sizeof choices[0]; i++) {
        train_world w;

        tw_begin(&w, 2, 1, choices[i]);
        tw_start(&w);
        tw_join(&w);
        tw_must_be_done(&w);
        for (uint32_t k = 0; k < 2; k++) {
            assert_true(w.workers[k].progress.eval_values[0] > 0.3);
        }
        tw_end(&w);
    }
}

static void a_loss_that_is_not_finite_stops_with_the_step_and_the_layer_named(void **state)
{
    train_world w;

    (void)state;
    tw_begin(&w, 1, 1, "");
    w.workers[0].session.weights[0] = NAN;
    tw_start(&w);
    tw_join(&w);
    assert_int_equal(w.workers[0].result.code, PS_INTERNAL);
    assert_string_equal(w.workers[0].result.text,
                        "rank 0, step 1: the loss is not finite: layer 0 (dense0): output 0 of "
                        "sample 0 is nan, by dense0.weight");
    assert_int_equal(w.workers[0].progress.step, 0);
    assert_null(content(&w, "MODEL-t-N(0).safetensors"));
    tw_end(&w);
}

static void a_stop_is_told_with_the_step_and_the_rows_so_far_are_there(void **state)
{
    train_world w;
    ps_trainer_progress p;
    char *train;

    (void)state;
    tw_begin(&w, 1, 1, ", \"block_size\": 5");
    tw_start(&w);
    do {
        p = ps_trainer_get_progress(w.workers[0].trainer);
    } while (p.step < 5);
    ps_gate_stop(ps_exchange_gate(w.workers[0].exchange));
    tw_join(&w);
    assert_int_equal(w.workers[0].result.code, PS_CANCELLED);
    assert_non_null(strstr(w.workers[0].result.text, "stopped at step"));
    train = content(&w, "TR-t-N(0).csv");
    assert_int_equal(line_count(train), 1 + w.workers[0].progress.step);
    free(train);
    tw_end(&w);
}

static void a_server_that_ends_the_attempt_is_the_reason(void **state)
{
    train_world w;
    ps_trainer_progress p;

    (void)state;
    tw_begin(&w, 1, 2, ", \"block_size\": 5");
    tw_start(&w);
    do {
        p = ps_trainer_get_progress(w.workers[0].trainer);
    } while (p.step < 5);
    dp_server_close(&w.servers[1]);
    tw_join(&w);
    assert_int_equal(w.workers[0].result.code, PS_ABORTED);
    assert_non_null(strstr(w.workers[0].result.text, "ps-1"));
    tw_end(&w);
}

static void a_folder_that_cannot_be_written_is_the_reason(void **state)
{
    train_world w;

    (void)state;
    tw_begin(&w, 1, 1, "");
    snprintf(w.workers[0].session.folder, sizeof w.workers[0].session.folder, "%s/none",
             w.folder.path);
    tw_start(&w);
    tw_join(&w);
    assert_int_equal(w.workers[0].result.code, PS_NOT_FOUND);
    tw_end(&w);
}

/* --- a twin ------------------------------------------------------------------------ */

typedef struct twin {
    const ps_plan *plan;
    ps_model *model;
    float *w, *g, *sum, *state[3]; /* of workers 0 and 1, and of the servers */
    float *x, *t;
} twin;

static void twin_init(twin *at, const ps_plan *plan)
{
    size_t n = plan->layout.param_count, batch = plan->spec->block_size;
    ps_status st = ps_plan_model(plan, batch, &at->model);

    assert_string_equal(st.text, "");
    at->plan = plan;
    at->w = ps_xcalloc(n, sizeof(float));
    at->g = ps_xcalloc(n, sizeof(float));
    at->sum = ps_xcalloc(n, sizeof(float));
    for (size_t i = 0; i < 3; i++) {
        at->state[i] = ps_xcalloc(n * plan->optim->slots, sizeof(float));
    }
    at->x = ps_xcalloc(batch * plan->facts.features, sizeof(float));
    at->t = ps_xcalloc(batch, sizeof(float));
    ps_model_init(at->model, plan->spec->seed, at->w);
}

static void twin_fini(twin *at)
{
    ps_model_destroy(at->model);
    free(at->w);
    free(at->g);
    free(at->sum);
    for (size_t i = 0; i < 3; i++) {
        free(at->state[i]);
    }
    free(at->x);
    free(at->t);
}

/* As the job has it, of a gradient that is `share` of a mean one. */
static void twin_clip(twin *at, double share)
{
    const ps_plan *plan = at->plan;
    double limit = plan->clip_params.v[PS_CLIP_LIMIT] * share, all = 0;

    for (uint32_t v = 0; v < plan->layout.variable_count; v++) {
        const ps_variable *var = &plan->layout.variables[v];

        all += ps_clip_square_sum(at->g + var->at, var->size);
        if (plan->clip->unit == PS_CLIP_VALUE) {
            ps_clip_values(at->g + var->at, var->size, (float)limit);
        } else if (plan->clip->unit == PS_CLIP_VARIABLE) {
            ps_clip_to_norm(at->g + var->at, var->size,
                            ps_clip_square_sum(at->g + var->at, var->size), limit);
        }
    }
    if (plan->clip->unit == PS_CLIP_ALL) {
        ps_clip_to_norm(at->g, plan->layout.param_count, all, limit);
    }
}

/* What worker k sends at a clock, added to the sum. */
static void twin_worker(twin *at, const uint32_t *order, uint64_t clock, uint32_t k, double share)
{
    const ps_plan *plan = at->plan;
    uint32_t size = plan->spec->block_size;
    size_t n = plan->layout.param_count;
    ps_moment moment = {.t = clock + 1, .step = clock, .share = share};
    ps_score score = {0};

    ps_dataset_gather(tw_glyphs, PS_TRAIN, order + (size_t)k * size, 0, size, at->x, at->t);
    ps_model_train(at->model, at->w, at->x, ps_targets_classes(at->t), size,
                   plan->update->block_scale(&plan->update_facts), false, at->g, NULL, &score);
    twin_clip(at, share);
    if (!plan->optim_on_server) {
        ps_descent_increment(&plan->descent, moment, at->g, at->w, at->state[k], at->g, n);
    }
    for (size_t i = 0; i < n; i++) {
        at->sum[i] = k == 0 ? at->g[i] : at->sum[i] + at->g[i];
    }
}

/* The job by hand, for two workers of one block each. */
static void twin_run(twin *at, double share)
{
    const ps_plan *plan = at->plan;
    size_t n = plan->layout.param_count;
    float merge = plan->update->merge_scale(&plan->update_facts);
    uint32_t *order = ps_xcalloc(plan->train_count, sizeof *order);

    for (uint64_t clock = 0; clock < plan->total_steps; clock++) {
        uint32_t batch = (uint32_t)(clock % plan->batches_per_epoch);
        ps_moment moment = {.t = clock + 1, .step = clock, .share = 1};

        ps_worker_order(plan->spec->seed, (uint32_t)(clock / plan->batches_per_epoch), 0, order,
                        plan->train_count);
        for (uint32_t k = 0; k < 2; k++) {
            twin_worker(at, order + (size_t)batch * 2 * plan->spec->block_size, clock, k, share);
        }
        for (size_t i = 0; i < n; i++) {
            at->sum[i] *= merge;
            at->w[i] -= plan->optim_on_server ? 0.0f : at->sum[i];
        }
        if (plan->optim_on_server) {
            ps_descent_step(&plan->descent, moment, at->sum, at->sum, at->w, at->state[2], at->w,
                            n);
        }
    }
    free(order);
}

static void run_beside_twin(const char *where, const char *update, const char *clip, double limit,
                            double share)
{
    char choices[512];
    float *weights;
    train_world w;
    twin by_hand;

    snprintf(
        choices, sizeof choices,
        ", \"epochs\": 1, \"update\": {\"name\": \"%s\"}, \"optimizer\": {\"side\": "
        "\"OPTIMIZER_SIDE_%s\", \"rule\": {\"name\": \"momentum\", \"params\": {\"lr\": 0.05}}, "
        "\"schedule\": {\"name\": \"cosine\", \"params\": {\"warmup\": 4}}, \"l1\": 0.001, "
        "\"l2\": 0.01, \"clip\": {\"name\": \"%s\", \"params\": {\"limit\": %g}}}",
        update, where, clip, limit);
    tw_begin(&w, 2, 2, choices);
    twin_init(&by_hand, w.job.plan);
    tw_start(&w);
    twin_run(&by_hand, share);
    tw_join(&w);
    tw_must_be_done(&w);
    weights = tw_served(&w);
    for (size_t i = 0; i < w.job.plan->layout.param_count; i++) {
        if (weights[i] != by_hand.w[i]) {
            fail_msg("%s, %s, %s: weight %zu is %.9g, by hand %.9g", where, update, clip, i,
                     (double)weights[i], (double)by_hand.w[i]);
        }
    }
    free(weights);
    twin_fini(&by_hand);
    tw_end(&w);
}

static void schedule_penalties_and_clipping_are_those_of_a_loop_by_hand(void **state)
{
    double part = (double)(float)(1.0 / 40) * 20; /* of two workers, as block_scale has it */
    double whole = (double)(float)(1.0 / 20) * 20;

    (void)state;
    run_beside_twin("SERVER", "gradient", "global_norm", 0.5, whole);
    run_beside_twin("WORKER", "gradient", "norm", 0.25, whole);
    run_beside_twin("WORKER", "gradient_average", "value", 0.01, part);
    run_beside_twin("SERVER", "gradient_average", "global_norm", 0.5, part);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(schedule_penalties_and_clipping_are_those_of_a_loop_by_hand),
        cmocka_unit_test(two_workers_learn_and_write_what_they_did),
        cmocka_unit_test(evaluations_within_epochs_change_no_weight),
        cmocka_unit_test(one_seed_gives_one_model_on_any_number_of_servers),
        cmocka_unit_test(the_optimizer_on_the_worker_gives_the_bits_of_the_one_on_the_server),
        cmocka_unit_test(blocks_on_two_holders_give_one_model),
        cmocka_unit_test(samples_that_are_read_ahead_give_the_model_of_those_in_memory),
        cmocka_unit_test(other_policies_learn_too),
        cmocka_unit_test(a_loss_that_is_not_finite_stops_with_the_step_and_the_layer_named),
        cmocka_unit_test(a_stop_is_told_with_the_step_and_the_rows_so_far_are_there),
        cmocka_unit_test(a_server_that_ends_the_attempt_is_the_reason),
        cmocka_unit_test(a_folder_that_cannot_be_written_is_the_reason),
    };

    ps_nn_init_process();
    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, tw_draw_glyphs, tw_drop_glyphs);
}
