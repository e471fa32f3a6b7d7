/* SPDX-License-Identifier: Apache-2.0 */
/* test_rounds.c - real training in rounds of local steps: what goes on while an
 * exchange is under way, and what does not depend on the number of servers. */
#include "tests/support/cmocka_all.h"

#include "tests/support/patience.h"
#include "tests/support/train_world.h"

#include "common/base/xalloc.h"
#include "common/nn/blas.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- An exchange that is slow on purpose ---- */

/* Of one worker. It brings the weights of the next clock when `bring` is called and
 * not before. */
typedef struct slow_exchange {
    ps_exchange base;
    ps_gate gate;
    ps_placement placement;
    const ps_plan *plan;
    float *weights, *grad;
    uint32_t *all;

    pthread_mutex_t mutex; /* guards all below */
    pthread_cond_t changed;
    uint32_t ready;
    uint64_t in; /* contributions that are in */
} slow_exchange;

static bool slow_begin(ps_exchange *exchange, uint64_t clock, uint32_t block, bool is_last)
{
    (void)clock;
    (void)block;
    (void)is_last;
    return ps_gate_wait_acks(exchange->gate);
}

static void slow_ready(ps_exchange *exchange, uint32_t first_variable, uint32_t count)
{
    slow_exchange *x = (slow_exchange *)(void *)exchange;

    (void)first_variable;
    pthread_mutex_lock(&x->mutex);
    x->ready += count;
    if (x->ready == x->plan->layout.variable_count) {
        x->ready = 0;
        x->in++;
        pthread_cond_signal(&x->changed);
    }
    pthread_mutex_unlock(&x->mutex);
}

static const ps_exchange_ops slow_ops = {
    .begin = slow_begin,
    .ready = slow_ready,
};

static void slow_init(slow_exchange *x, const ps_plan *plan, float *weights, ps_buf *grad)
{
    memset(x, 0, sizeof *x);
    x->base.ops = &slow_ops;
    x->base.gate = &x->gate;
    x->plan = plan;
    x->weights = weights;
    x->grad = (float *)(void *)grad->data;
    x->all = ps_xcalloc(plan->layout.slice_count, sizeof *x->all);
    for (uint32_t s = 0; s < plan->layout.slice_count; s++) {
        x->all[s] = s;
    }
    ps_placement_init(&x->placement, &plan->layout, 1, 0);
    snprintf(x->placement.servers[0].node_id, PS_ENDPOINT_ID_MAX, "slow");
    ps_gate_init(&x->gate, &x->placement, PS_TEST_PATIENCE_S * INT64_C(1000000));
    pthread_mutex_init(&x->mutex, NULL);
    pthread_cond_init(&x->changed, NULL);
}

static void slow_fini(slow_exchange *x)
{
    ps_gate_fini(&x->gate);
    ps_placement_fini(&x->placement);
    pthread_cond_destroy(&x->changed);
    pthread_mutex_destroy(&x->mutex);
    free(x->all);
}

static void slow_wait(slow_exchange *x, uint64_t contributions)
{
    pthread_mutex_lock(&x->mutex);
    while (x->in < contributions) {
        pthread_cond_wait(&x->changed, &x->mutex);
    }
    pthread_mutex_unlock(&x->mutex);
}

/* The contribution to `clock` takes effect. */
static void slow_bring(slow_exchange *x, uint64_t clock)
{
    for (size_t i = 0; i < x->plan->layout.param_count; i++) {
        x->weights[i] -= 0.01f * x->grad[i];
    }
    ps_gate_delivered(&x->gate, 0, x->all, x->plan->layout.slice_count, clock + 1, true);
}

static void note_done(void *arg)
{
    flag *done = arg;

    done->event.fire(&done->event, true);
}

/* Weights of the next clock come when all steps of the round after have been taken:
 * who waited for them first would wait for ever. */
static void trains_while_exchanging(const ps_update *u, void *arg)
{
    enum { STEPS = 5 };
    uint32_t steps = STEPS, *count = arg;
    char json[512], number[64] = "";
    slow_exchange x;
    train_world w;
    trainee *t = &w.workers[0];
    flag done;

    if (u->local == NULL || !u->local->is_overlapped) {
        return;
    }
    ++*count;
    if (u->params != NULL && strcmp(u->params[0].name, "steps") == 0) {
        snprintf(number, sizeof number, ", \"params\": {\"steps\": %u}", steps);
    } else {
        steps = 1;
    }
    snprintf(json, sizeof json,
             ", \"epochs\": 1, \"block_size\": 100, \"optimizer\": {}, \"update\": "
             "{\"name\": \"%s\"%s}",
             u->name, number);
    tw_begin(&w, 1, 1, json);
    flag_init(&done);
    slow_init(&x, w.job.plan, t->session.weights, ps_trainer_grad(t->trainer));
    assert_true(w.job.plan->total_steps == TW_TRAIN / 100);
    t->result = ps_trainer_start(t->trainer, &x.base, note_done, &done);
    assert_string_equal(t->result.text, "");
    for (uint64_t clock = 0; clock < w.job.plan->total_clocks; clock++) {
        uint64_t until = (clock + 2) * steps;

        until = until < w.job.plan->total_steps ? until : w.job.plan->total_steps;
        slow_wait(&x, clock + 1);
        while (ps_trainer_get_progress(t->trainer).step < until) {
            assert_true(ps_gate_is_open(&x.gate)); /* it gives up after its patience */
        }
        slow_bring(&x, clock);
    }
    flag_wait(&done);
    t->result = ps_trainer_result(t->trainer);
    tw_must_be_done(&w);
    assert_int_equal(ps_trainer_get_progress(t->trainer).evaluations, 1);
    assert_int_equal(ps_trainer_get_progress(t->trainer).behind, /* all but the first round's */
                     w.job.plan->total_steps - steps);
    slow_fini(&x);
    flag_fini(&done);
    tw_end(&w);
}

static void every_overlapped_update_trains_while_its_exchange_is_under_way(void **state)
{
    uint32_t count = 0;

    (void)state;
    ps_update_each(trains_while_exchanging, &count);
    assert_true(count >= 7);
}

/* ---- The same bits ---- */

static const char batch_norm[] =
    ", \"model\": {\"layers\": [{\"kind\": \"conv2d\", \"params\": {\"filters\": 4, \"kernel\": 5, "
    "\"stride\": 3}}, {\"kind\": \"batch_norm\"}, {\"kind\": \"relu\"}, {\"kind\": \"flatten\"}, "
    "{\"kind\": \"dense\", \"params\": {\"units\": 10}}]}";

static void trains_alike(const ps_update *u, void *arg)
{
    char json[768];

    (void)arg;
    if (u->local == NULL) {
        return;
    }
    snprintf(json, sizeof json,
             "%s, \"epochs\": 1, \"optimizer\": {}, \"codec\": {\"up\": {\"name\": \"int8\"}}, "
             "\"update\": {\"name\": \"%s\"}",
             batch_norm, u->name);
    tw_must_train_alike(json, 1, json, 3, 3);
}

static void rounds_end_in_the_same_bits_on_any_number_of_servers(void **state)
{
    (void)state;
    ps_update_each(trains_alike, NULL);
}

static void trains_out_of_step(const ps_update *u, void *arg)
{
    static const char *const policies[] = {"asp", "ssp"};
    uint32_t *count = arg;

    if (u->local == NULL || u->local->needs_bsp) {
        return;
    }
    for (size_t i = 0; i < sizeof policies / sizeof policies[0]; i++) {
        char json[512];
        train_world w;

        snprintf(json, sizeof json,
                 ", \"epochs\": 1, \"optimizer\": {}, \"consistency\": {\"name\": \"%s\"}, "
                 "\"codec\": {\"down\": {\"name\": \"bf16\"}}, \"update\": {\"name\": \"%s\"}",
                 policies[i], u->name);
        tw_begin(&w, 3, 2, json);
        tw_start(&w);
        tw_join(&w);
        tw_must_be_done(&w);
        for (uint32_t k = 0; k < 3; k++) {
            assert_int_equal(w.workers[k].progress.step, w.job.plan->total_steps);
        }
        tw_end(&w);
        ++*count;
    }
}

static void rounds_need_not_be_in_step(void **state)
{
    uint32_t count = 0;

    (void)state;
    ps_update_each(trains_out_of_step, &count);
    assert_true(count >= 20);
}

/* One worker that takes one plain step a round is plain descent. */
static void a_round_of_one_step_by_one_worker_is_a_step(void **state)
{
    size_t n, m;
    float *a = tw_train_once(1, 1,
                             ", \"optimizer\": {\"rule\": {\"name\": \"sgd\", \"params\": "
                             "{\"lr\": 0.05}}}",
                             &n);
    float *b = tw_train_once(1, 2,
                             ", \"optimizer\": {\"local\": {\"name\": \"sgd\", \"params\": "
                             "{\"lr\": 0.05}}}, \"update\": {\"name\": \"parameter_average\"}",
                             &m);
    double most = 0;

    (void)state;
    assert_int_equal(n, m);
    for (size_t i = 0; i < n / sizeof *a; i++) {
        double off = (double)(a[i] > b[i] ? a[i] - b[i] : b[i] - a[i]);

        most = off > most ? off : most;
    }
    assert_true(most < 1e-4); /* 300 steps, a rounding of differences each */
    free(a);
    free(b);
}

static void rounds_that_cross_epochs_are_evaluated_once_each(void **state)
{
    train_world w;

    (void)state;
    /* 25 steps an epoch; rounds of 10: epochs end within the rounds that end at 30, 50, 75. */
    tw_begin(&w, 4, 1,
             ", \"update\": {\"name\": \"localsgd\", \"params\": {\"steps\": 10}}, "
             "\"optimizer\": {\"local\": {\"name\": \"sgd\", \"params\": {\"lr\": 0.1}}}");
    assert_int_equal(w.job.plan->total_steps, 75);
    assert_int_equal(w.job.plan->total_clocks, 8);
    tw_start(&w);
    tw_join(&w);
    tw_must_be_done(&w);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(w.workers[i].progress.step, 75);
        assert_int_equal(w.workers[i].progress.epoch, 3);
        assert_int_equal(w.workers[i].progress.evaluations, 3);
    }
    tw_end(&w);
}

static void rounds_are_evaluated_when_they_reach_what_is_due(void **state)
{
    train_world w;

    (void)state;
    /* 50 steps an epoch, rounds of 8: 20 is reached at 24, 40 at 40, the epoch and 60 at 56
     * and 64, 80 at 80, both 100s at 104, 120 at 120, 140 at 144, 150 at 150. */
    tw_begin(&w, 2, 1,
             ", \"eval_every_steps\": 20, \"update\": {\"name\": \"losp\", \"params\": "
             "{\"steps\": 8}}, \"optimizer\": {\"local\": {\"name\": \"sgd\", \"params\": "
             "{\"lr\": 0.05}}}");
    assert_int_equal(w.job.plan->batches_per_epoch, 50);
    tw_start(&w);
    tw_join(&w);
    tw_must_be_done(&w);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(w.workers[i].progress.step, 150);
        assert_int_equal(w.workers[i].progress.evaluations, 9);
    }
    tw_end(&w);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_overlapped_update_trains_while_its_exchange_is_under_way),
        cmocka_unit_test(rounds_end_in_the_same_bits_on_any_number_of_servers),
        cmocka_unit_test(rounds_need_not_be_in_step),
        cmocka_unit_test(a_round_of_one_step_by_one_worker_is_a_step),
        cmocka_unit_test(rounds_that_cross_epochs_are_evaluated_once_each),
        cmocka_unit_test(rounds_are_evaluated_when_they_reach_what_is_due),
    };

    ps_nn_init_process();
    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, tw_draw_glyphs, tw_drop_glyphs);
}
