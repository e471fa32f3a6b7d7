/* SPDX-License-Identifier: Apache-2.0 */
/* test_trainer.c - real training of small jobs: trainers, exchanges and servers
 * in one process; what they learn, write, and stop for. */
#include "tests/support/cmocka_all.h"
#include "tests/support/data_rig.h"

#include "tests/support/dataplane.h"
#include "tests/support/temp_dir.h"

#include "common/artifact/safetensors.h"
#include "common/base/xalloc.h"
#include "common/nn/blas.h"
#include "common/train/trainer.h"
#include "services/worker/server_exchange.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORKERS_MAX = 4, SERVERS_MAX = 3, TRAIN = 2000, TEST = 500 };

typedef struct trainee {
    ps_session session;
    ps_loop *loop;
    ps_trainer *trainer;
    ps_exchange *exchange;
    flag done, closed;
    ps_status result;
    ps_trainer_progress progress;
} trainee;

typedef struct world {
    ps_dataset *data;
    temp_dir folder;
    dp_job job;
    side serving, working;
    dp_server servers[SERVERS_MAX];
    trainee workers[WORKERS_MAX];
    uint32_t worker_count, server_count;
} world;

static ps_dataset *glyphs; /* drawn once */

static const char *unless(const char *choices, const char *name, const char *text)
{
    return strstr(choices, name) != NULL ? "" : text;
}

static void begin(world *w, uint32_t workers, uint32_t servers, const char *choices)
{
    char json[1024];

    memset(w, 0, sizeof *w);
    w->worker_count = workers;
    w->server_count = servers;
    w->folder = temp_dir_create();
    snprintf(
        json, sizeof json,
        "{\"title\": \"t\", \"workers\": %u, \"pservers\": %u, \"epochs\": 3, "
        "\"seed\": 1, \"model\": {\"widths\": [32]}, "
        "\"data\": {\"name\": \"glyphs\", \"train_limit\": %d, \"test_limit\": %d}%s%s%s}",
        workers, servers, TRAIN, TEST,
        unless(choices, "optimizer",
               ", \"optimizer\": {\"rule\": {\"name\": \"adam\", \"params\": {\"lr\": 0.003}}}"),
        unless(choices, "block_size", ", \"block_size\": 20"), choices);
    dp_job_init(&w->job, json);
    side_start(&w->serving);
    side_start(&w->working);
    for (uint32_t i = 0; i < servers; i++) {
        dp_server_start(&w->servers[i], &w->serving, &w->job, i, 0);
    }
    for (uint32_t i = 0; i < workers; i++) {
        trainee *t = &w->workers[i];
        ps_status st;

        flag_init(&t->done);
        flag_init(&t->closed);
        dp_worker_session(&w->job, i, &t->session);
        t->session.data = glyphs;
        snprintf(t->session.folder, sizeof t->session.folder, "%s", w->folder.path);
        st = ps_trainer_create(&(ps_trainer_conf){.job_id = t->session.job_id,
                                                  .folder = t->session.folder,
                                                  .rank = i,
                                                  .plan = t->session.plan,
                                                  .data = glyphs,
                                                  .weights = t->session.weights},
                               &t->trainer);
        assert_string_equal(st.text, "");
    }
}

typedef struct opening {
    world *w;
    trainee *t;
} opening;

static void post_done(void *arg)
{
    trainee *t = arg;

    ps_loop_post(t->loop, &t->done.event);
}

static void open_worker(void *arg)
{
    const opening *o = arg;
    ps_server_exchange_conf conf = {
        .loop = o->w->working.loop,
        .session = &o->t->session,
        .incarnation = 1,
        .weights = o->t->session.weights,
        .grad = ps_trainer_grad(o->t->trainer),
    };
    ps_status st;

    o->t->exchange = ps_server_exchange_create(&conf);
    ps_server_exchange_start(o->t->exchange);
    o->t->loop = o->w->working.loop;
    st = ps_trainer_start(o->t->trainer, o->t->exchange, post_done, o->t);
    if (!ps_is_ok(&st)) {
        abort();
    }
}

static void start(world *w)
{
    for (uint32_t i = 0; i < w->worker_count; i++) {
        opening o = {w, &w->workers[i]};

        side_run(&w->working, open_worker, &o);
    }
}

static void close_worker(void *arg)
{
    trainee *t = arg;

    ps_server_exchange_stop(t->exchange, &t->closed.event);
}

static void join(world *w)
{
    for (uint32_t i = 0; i < w->worker_count; i++) {
        trainee *t = &w->workers[i];

        flag_wait(&t->done);
        side_run(&w->working, close_worker, t);
        flag_wait(&t->closed);
        t->result = ps_trainer_result(t->trainer);
        t->progress = ps_trainer_get_progress(t->trainer);
    }
}

static void end(world *w)
{
    for (uint32_t i = 0; i < w->worker_count; i++) {
        ps_trainer_destroy(w->workers[i].trainer);
        dp_session_fini(&w->workers[i].session);
        flag_fini(&w->workers[i].done);
        flag_fini(&w->workers[i].closed);
    }
    for (uint32_t i = 0; i < w->server_count; i++) {
        dp_server_stop(&w->servers[i]);
        dp_server_fini(&w->servers[i]);
    }
    side_stop(&w->serving);
    side_stop(&w->working);
    dp_job_fini(&w->job);
    temp_dir_destroy(&w->folder);
}

static void must_be_done(const world *w)
{
    for (uint32_t i = 0; i < w->worker_count; i++) {
        assert_string_equal(w->workers[i].result.text, "");
    }
}

/* --- reports ----------------------------------------------------------------------- */

/* A file of the folder, to be freed; NULL if there is none. */
static char *content(const world *w, const char *name)
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

/* The servers' weights. */
static float *served(world *w)
{
    float *block = ps_xcalloc(w->job.plan->layout.param_count, sizeof *block);

    for (uint32_t i = 0; i < w->server_count; i++) {
        dp_server_weights(&w->servers[i], block);
    }
    return block;
}

static void model_file_must_hold(const world *w, const char *name, const float *block)
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
    enum { STEPS = 3 * TRAIN / 40 };
    world w;
    char *train, *eval[2], *row;
    float *weights;
    double first_loss = 0;

    (void)state;
    begin(&w, 2, 2, "");
    assert_int_equal(w.job.plan->total_steps, STEPS);
    start(&w);
    join(&w);
    must_be_done(&w);
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
    assert_string_equal(eval[0], eval[1]);
    free(eval[0]);
    free(eval[1]);
    weights = served(&w);
    model_file_must_hold(&w, "MODEL-t-N(0).safetensors", weights);
    assert_null(content(&w, "MODEL-t-N(1).safetensors"));
    free(weights);
    end(&w);
}

/* Trains and returns the servers' weights, to be freed. */
static float *train_once(uint32_t workers, uint32_t servers, const char *choices, size_t *n)
{
    world w;
    float *weights;

    begin(&w, workers, servers, choices);
    start(&w);
    join(&w);
    must_be_done(&w);
    weights = served(&w);
    *n = w.job.plan->layout.param_count * sizeof *weights;
    end(&w);
    return weights;
}

static void must_train_alike(const char *one, uint32_t one_servers, const char *other,
                             uint32_t other_servers, uint32_t workers)
{
    size_t n, m;
    float *a = train_once(workers, one_servers, one, &n);
    float *b = train_once(workers, other_servers, other, &m);

    assert_int_equal(n, m);
    assert_memory_equal(a, b, n);
    free(a);
    free(b);
}

static void one_seed_gives_one_model_on_any_number_of_servers(void **state)
{
    (void)state;
    must_train_alike("", 1, "", 3, 3);
}

static void the_optimizer_on_the_worker_gives_the_bits_of_the_one_on_the_server(void **state)
{
    (void)state;
    must_train_alike(", \"optimizer\": {\"rule\": {\"name\": \"adam\"}}", 1,
                     ", \"optimizer\": {\"rule\": {\"name\": \"adam\"}, \"side\": "
                     "\"OPTIMIZER_SIDE_WORKER\"}",
                     2, 1);
}

static void blocks_on_two_holders_give_one_model(void **state)
{
    static const char choices[] =
        ", \"assignment\": {\"name\": \"iid\", \"params\": {\"redundancy\": 2}}";

    (void)state;
    must_train_alike(choices, 1, choices, 2, 4);
}

static void other_policies_learn_too(void **state)
{
    static const char *const choices[] = {
        ", \"consistency\": {\"name\": \"ssp\", \"params\": {\"bound\": 2}}",
        ", \"consistency\": {\"name\": \"asp\"}",
        ", \"update\": {\"name\": \"gradient_average\"}",
        ", \"codec\": {\"up\": {\"name\": \"int8\"}, \"down\": {\"name\": \"int8\"}}",
    };

    (void)state;
    for (size_t i = 0; i < sizeof choices / sizeof choices[0]; i++) {
        world w;

        begin(&w, 2, 1, choices[i]);
        start(&w);
        join(&w);
        must_be_done(&w);
        for (uint32_t k = 0; k < 2; k++) {
            assert_true(w.workers[k].progress.eval_values[0] > 0.3);
        }
        end(&w);
    }
}

static void a_loss_that_is_not_finite_stops_with_the_step_named(void **state)
{
    world w;

    (void)state;
    begin(&w, 1, 1, "");
    w.workers[0].session.weights[0] = NAN;
    start(&w);
    join(&w);
    assert_int_equal(w.workers[0].result.code, PS_INTERNAL);
    assert_string_equal(w.workers[0].result.text, "step 1: the loss is not finite");
    assert_int_equal(w.workers[0].progress.step, 0);
    assert_null(content(&w, "MODEL-t-N(0).safetensors"));
    end(&w);
}

static void a_stop_is_told_with_the_step_and_the_rows_so_far_are_there(void **state)
{
    world w;
    ps_trainer_progress p;
    char *train;

    (void)state;
    begin(&w, 1, 1, ", \"block_size\": 5");
    start(&w);
    do {
        p = ps_trainer_get_progress(w.workers[0].trainer);
    } while (p.step < 5);
    ps_gate_stop(ps_exchange_gate(w.workers[0].exchange));
    join(&w);
    assert_int_equal(w.workers[0].result.code, PS_CANCELLED);
    assert_non_null(strstr(w.workers[0].result.text, "stopped at step"));
    train = content(&w, "TR-t-N(0).csv");
    assert_int_equal(line_count(train), 1 + w.workers[0].progress.step);
    free(train);
    end(&w);
}

static void a_server_that_ends_the_attempt_is_the_reason(void **state)
{
    world w;
    ps_trainer_progress p;

    (void)state;
    begin(&w, 1, 2, ", \"block_size\": 5");
    start(&w);
    do {
        p = ps_trainer_get_progress(w.workers[0].trainer);
    } while (p.step < 5);
    dp_server_close(&w.servers[1]);
    join(&w);
    assert_int_equal(w.workers[0].result.code, PS_ABORTED);
    assert_non_null(strstr(w.workers[0].result.text, "ps-1"));
    end(&w);
}

static void a_folder_that_cannot_be_written_is_the_reason(void **state)
{
    world w;

    (void)state;
    begin(&w, 1, 1, "");
    snprintf(w.workers[0].session.folder, sizeof w.workers[0].session.folder, "%s/none",
             w.folder.path);
    start(&w);
    join(&w);
    assert_int_equal(w.workers[0].result.code, PS_NOT_FOUND);
    end(&w);
}

static int draw_glyphs(void **state)
{
    ps_status st = data_rig_load("glyphs", NULL, TRAIN, TEST, &glyphs);

    (void)state;
    return ps_is_ok(&st) ? 0 : -1;
}

static int drop_glyphs(void **state)
{
    (void)state;
    ps_dataset_destroy(glyphs);
    return 0;
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

    ps_dataset_gather(glyphs, PS_TRAIN, order + (size_t)k * size, 0, size, at->x, at->t);
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

        ps_epoch_order(plan->spec->seed, (uint32_t)(clock / plan->batches_per_epoch), order,
                       plan->train_count);
        for (uint32_t k = 0; k < 2; k++) {
            twin_worker(at, order + (size_t)batch * 2 * plan->spec->block_size, clock, k, share);
        }
        for (size_t i = 0; i < n; i++) {
            at->sum[i] *= merge;
            at->w[i] -= plan->optim_on_server ? 0.0f : at->sum[i];
        }
        if (plan->optim_on_server) {
            ps_descent_step(&plan->descent, moment, at->sum, at->sum, at->state[2], at->w, n);
        }
    }
    free(order);
}

static void run_beside_twin(const char *where, const char *update, const char *clip, double limit,
                            double share)
{
    char choices[512];
    float *weights;
    world w;
    twin by_hand;

    snprintf(
        choices, sizeof choices,
        ", \"epochs\": 1, \"update\": {\"name\": \"%s\"}, \"optimizer\": {\"side\": "
        "\"OPTIMIZER_SIDE_%s\", \"rule\": {\"name\": \"momentum\", \"params\": {\"lr\": 0.05}}, "
        "\"schedule\": {\"name\": \"cosine\", \"params\": {\"warmup\": 4}}, \"l1\": 0.001, "
        "\"l2\": 0.01, \"clip\": {\"name\": \"%s\", \"params\": {\"limit\": %g}}}",
        update, where, clip, limit);
    begin(&w, 2, 2, choices);
    twin_init(&by_hand, w.job.plan);
    start(&w);
    twin_run(&by_hand, share);
    join(&w);
    must_be_done(&w);
    weights = served(&w);
    for (size_t i = 0; i < w.job.plan->layout.param_count; i++) {
        if (weights[i] != by_hand.w[i]) {
            fail_msg("%s, %s, %s: weight %zu is %.9g, by hand %.9g", where, update, clip, i,
                     (double)weights[i], (double)by_hand.w[i]);
        }
    }
    free(weights);
    twin_fini(&by_hand);
    end(&w);
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
        cmocka_unit_test(one_seed_gives_one_model_on_any_number_of_servers),
        cmocka_unit_test(the_optimizer_on_the_worker_gives_the_bits_of_the_one_on_the_server),
        cmocka_unit_test(blocks_on_two_holders_give_one_model),
        cmocka_unit_test(other_policies_learn_too),
        cmocka_unit_test(a_loss_that_is_not_finite_stops_with_the_step_named),
        cmocka_unit_test(a_stop_is_told_with_the_step_and_the_rows_so_far_are_there),
        cmocka_unit_test(a_server_that_ends_the_attempt_is_the_reason),
        cmocka_unit_test(a_folder_that_cannot_be_written_is_the_reason),
    };

    ps_nn_init_process();
    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, draw_glyphs, drop_glyphs);
}
