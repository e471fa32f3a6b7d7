/* SPDX-License-Identifier: Apache-2.0 */
/* test_rank.c - a rank of a worker process: what it reports when it cannot begin, and before it
 * begins. A real rank with a real server. */
#include "tests/support/cmocka_all.h"

#include "tests/support/kept_bytes.h"
#include "tests/support/node_world.h"
#include "tests/support/train_world.h"

/* A rank on the loop of a node. `train` has its server and its session. */
typedef struct rank_world {
    node_world node;
    train_world train;
    ps_buf *state; /* file from which the rank goes on; NULL: none */
    ps_rank *rank;
    flag ended;
    ps_status status, result;
    bool was_running;
    uint64_t held_at; /* what the progress of the rank said */
} rank_world;

static void on_ended(void *arg)
{
    rank_world *w = arg;

    w->result = ps_rank_result(w->rank);
    flag_raise(&w->ended);
}

/* No test here asks for a checkpoint. */
static void on_saved(void *arg, uint32_t rank, uint64_t clock, ps_snapshot state,
                     ps_snapshot weights)
{
    (void)arg;
    (void)rank;
    (void)clock;
    ps_snapshot_drop(&state);
    ps_snapshot_drop(&weights);
}

static void create(void *arg)
{
    rank_world *w = arg;
    ps_rank_conf conf = {
        .loop = w->node.loop,
        .node = w->node.node,
        .session = &w->train.workers[0].session,
        .weights = w->train.workers[0].session.weights,
        .ended = on_ended,
        .saved = on_saved,
        .arg = w,
        .state = w->state,
    };

    w->status = ps_rank_create(&conf, &w->rank);
}

static void start(void *arg)
{
    rank_world *w = arg;

    ps_rank_start(w->rank);
    w->was_running = ps_rank_is_running(w->rank);
}

static void hold(void *arg)
{
    rank_world *w = arg;

    ps_rank_hold(w->rank);
    w->held_at = ps_rank_progress(w->rank)->held_at;
}

static void stop(void *arg)
{
    rank_world *w = arg;

    ps_rank_stop(w->rank);
}

static void destroy(void *arg)
{
    rank_world *w = arg;

    ps_rank_destroy(w->rank);
}

static void begin(rank_world *w, ps_buf *state, const char *choices)
{
    memset(w, 0, sizeof *w);
    nw_begin(&w->node, &nw_worker_hooks, NULL, NULL, 0, NULL);
    tw_begin(&w->train, 1, 1, choices);
    flag_init(&w->ended);
    w->state = state;
    nw_run(&w->node, create, w);
    must(w->status, "rank");
}

static void end(rank_world *w)
{
    nw_run(&w->node, destroy, w);
    ps_buf_unref(w->state);
    flag_fini(&w->ended);
    tw_end(&w->train);
    nw_end(&w->node);
}

static void a_rank_whose_file_is_torn_fails_with_the_cause(void **state)
{
    ps_buf *torn = ps_buf_create(10);
    rank_world w;

    (void)state;
    memset(torn->data, 'x', 10);
    torn->len = 10;
    begin(&w, torn, "");
    nw_run(&w.node, start, &w);
    assert_true(w.was_running);
    flag_wait(&w.ended);
    assert_int_equal(w.result.code, PS_DATA_LOSS);
    assert_non_null(strstr(w.result.text, "checkpoint of rank 0: "));
    end(&w);
}

/* The coordinator would take the clock of a rank that has not begun for one at which all can end,
 * and asks again until it has one. */
static void a_rank_that_is_held_before_it_begins_is_held_when_it_has_begun(void **state)
{
    rank_world w;

    (void)state;
    begin(&w, NULL, "");
    nw_run(&w.node, hold, &w);
    assert_int_equal(w.held_at, 0);
    nw_run(&w.node, start, &w);
    nw_run(&w.node, hold, &w);
    assert_in_range(w.held_at, 1, w.train.job.plan->total_clocks - 1);
    nw_run(&w.node, stop, &w);
    flag_wait(&w.ended);
    assert_int_equal(w.result.code, PS_CANCELLED);
    end(&w);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_whose_file_is_torn_fails_with_the_cause),
        cmocka_unit_test(a_rank_that_is_held_before_it_begins_is_held_when_it_has_begun),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, tw_draw_glyphs, tw_drop_glyphs);
}
