/* SPDX-License-Identifier: Apache-2.0 */
/* test_replica.c - an update that broadcasts changes: servers and replicas keep the
 * same bits, whatever breaks, and what is not the same is found. */
#include "tests/support/cmocka_all.h"

#include "tests/support/train_world.h"

#include "common/nn/blas.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORKERS = 4, SERVERS = 2, ROUNDS = 500 };

/* 5 epochs of 100 rounds of a step each; coarse codecs both ways, batch norm in between. */
static const char job[] =
    ", \"model\": {\"layers\": [{\"kind\": \"conv2d\", \"params\": {\"filters\": 4, \"kernel\": 5, "
    "\"stride\": 3}}, {\"kind\": \"batch_norm\"}, {\"kind\": \"relu\"}, {\"kind\": \"flatten\"}, "
    "{\"kind\": \"dense\", \"params\": {\"units\": 10}}]}, \"block_size\": 5, \"epochs\": 5, "
    "\"optimizer\": {\"local\": {\"name\": \"sgd\", \"params\": {\"lr\": 0.05}}}, "
    "\"update\": {\"name\": \"dqlosp\", \"params\": {\"steps\": 1}}, "
    "\"codec\": {\"up\": {\"name\": \"intn\", \"params\": {\"bits\": 4, \"error_feedback\": 1}}, "
    "\"down\": {\"name\": \"intn\", \"params\": {\"bits\": 4, \"error_feedback\": 1}}}";

static void replicas_must_be_the_servers(train_world *w)
{
    size_t n = w->job.plan->layout.param_count * sizeof(float);
    float *weights = tw_served(w);

    for (uint32_t i = 0; i < WORKERS; i++) {
        assert_memory_equal(w->workers[i].session.weights, weights, n);
    }
    assert_true(memcmp(weights, w->job.weights, n) != 0);
    free(weights);
}

static void wait_for_step(train_world *w, uint64_t step)
{
    while (ps_trainer_get_progress(w->workers[0].trainer).step < step) {
    }
}

static void replicas_have_the_servers_checksum_after_each_of_500_rounds(void **state)
{
    train_world w;

    (void)state;
    tw_begin(&w, WORKERS, SERVERS, job);
    assert_int_equal(w.job.plan->total_clocks, ROUNDS);
    tw_start(&w);
    tw_join(&w);
    tw_must_be_done(&w);
    for (uint32_t i = 0; i < WORKERS; i++) {
        assert_int_equal(w.workers[i].stats.verified,
                         (uint64_t)ROUNDS * w.job.plan->layout.slice_count);
        assert_int_equal(w.workers[i].stats.resyncs, 0);
        assert_true(w.workers[i].progress.eval_values[0] > 0.5);
    }
    replicas_must_be_the_servers(&w);
    tw_end(&w);
}

/* What was on its way is lost; the worker asks again. */
static void a_broadcast_that_is_lost_on_the_way_is_had_again(void **state)
{
    train_world w;

    (void)state;
    tw_begin(&w, WORKERS, SERVERS, job);
    tw_start(&w);
    for (uint64_t step = 50; step <= 450; step += 80) {
        uint32_t server = (uint32_t)(step / 80) % SERVERS;

        wait_for_step(&w, step);
        dp_server_break(&w.servers[server]);
        dp_server_resume(&w.servers[server]);
    }
    tw_join(&w);
    tw_must_be_done(&w);
    for (uint32_t i = 0; i < WORKERS; i++) {
        assert_int_equal(w.workers[i].stats.verified,
                         (uint64_t)ROUNDS * w.job.plan->layout.slice_count);
        assert_int_equal(w.workers[i].stats.resyncs, 0);
    }
    replicas_must_be_the_servers(&w);
    tw_end(&w);
}

static void a_replica_of_other_bits_is_found_and_mended(void **state)
{
    train_world w;
    uint32_t bits;

    (void)state;
    tw_begin(&w, WORKERS, SERVERS, job);
    memcpy(&bits, &w.workers[2].session.weights[7], sizeof bits);
    bits ^= 1; /* the last bit of one value */
    memcpy(&w.workers[2].session.weights[7], &bits, sizeof bits);
    tw_start(&w);
    tw_join(&w);
    tw_must_be_done(&w);
    for (uint32_t i = 0; i < WORKERS; i++) {
        assert_int_equal(w.workers[i].stats.verified,
                         (uint64_t)ROUNDS * w.job.plan->layout.slice_count);
        assert_int_equal(w.workers[i].stats.resyncs, i == 2 ? 1 : 0);
    }
    replicas_must_be_the_servers(&w);
    tw_end(&w);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replicas_have_the_servers_checksum_after_each_of_500_rounds),
        cmocka_unit_test(a_broadcast_that_is_lost_on_the_way_is_had_again),
        cmocka_unit_test(a_replica_of_other_bits_is_found_and_mended),
    };

    ps_nn_init_process();
    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, tw_draw_glyphs, tw_drop_glyphs);
}
