/* SPDX-License-Identifier: Apache-2.0 */
/* test_shard_delay.c - corrected delays against DC-ASGD as it is published, in doubles. */
#include "tests/support/cmocka_all.h"

#include "tests/support/shard_world.h"

#include "common/base/draw.h"
#include "common/base/xalloc.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORKERS = 3, SLICES = 4, VALUES_MAX = 512, STEPS = 60 };

typedef struct twin {
    double w[VALUES_MAX], had[WORKERS][VALUES_MAX], m[VALUES_MAX];
} twin;

/* w -= rate (g + lambda_t g g (w - had)), for values that are no state. */
static void twin_push(twin *t, const world *w, uint32_t worker, const float *g, size_t at,
                      uint32_t s, double lambda, double decay)
{
    for (size_t i = 0; i < w->slices[s].n; i++) {
        double x = (double)g[i], square = x * x, factor = lambda, *v = &t->w[at + i];

        if (decay > 0) {
            t->m[at + i] = decay * t->m[at + i] + (1 - decay) * square;
            factor = lambda / sqrt(t->m[at + i] + 1e-7);
        }
        if (w->slices[s].is_state) {
            *v -= x;
        } else {
            *v -= 0.5 * (x + factor * square * (*v - t->had[worker][at + i]));
        }
    }
}

static void pull(ps_store *shard, uint32_t worker, uint64_t clock)
{
    ps_status st = ps_store_pull_begin(shard, worker, clock);
    ps_store_answer answer;
    ps_store_piece pieces[SLICES];

    assert_string_equal(st.text, "");
    ps_store_pull_next(shard, worker, 1 << 20, pieces, SLICES, &answer);
    assert_true(answer.is_last);
}

static void runs_as_published(double lambda, double decay, const char *down)
{
    uint64_t key = ps_draw_key(7, PS_DRAW_TEST, 0, 0, 0), clock[WORKERS] = {0};
    twin *t = ps_xcalloc(1, sizeof *t);
    float *g = ps_xcalloc(VALUES_MAX, sizeof *g);
    ps_store *shard;
    world w;

    world_init(&w, "asp", WORKERS, SLICES);
    world_codecs(&w, "f32", down);
    w.slices[2].is_state = true;
    w.conf.delay = (ps_delay){.lambda = lambda, .decay = decay};
    shard = ps_store_create(&w.conf);
    for (uint64_t step = 0; step < STEPS; step++) {
        uint32_t worker = (uint32_t)ps_draw_below(key, step, WORKERS);
        const float *weights;
        size_t at = 0;

        for (uint32_t s = 0; s < SLICES; s++) {
            ps_store_outcome outcome;
            ps_status st;

            world_values(&w.slices[s], clock[worker], worker, g);
            twin_push(t, &w, worker, g, at, s, lambda, decay);
            st = world_push(&w, shard, worker, clock[worker], worker, s, &outcome);
            assert_string_equal(st.text, "");
            at += w.slices[s].n;
        }
        pull(shard, worker, ++clock[worker]);
        weights = ps_store_weights(shard);
        for (size_t i = 0; i < at; i++) {
            if (!(fabs((double)weights[i] - t->w[i]) <= 1e-4 * (1 + fabs(t->w[i])))) {
                fail_msg("step %llu: value %zu is %.9g, should be %.9g", (unsigned long long)step,
                         i, (double)weights[i], t->w[i]);
            }
            t->w[i] = (double)weights[i]; /* roundings do not add up */
            t->had[worker][i] = t->w[i];
        }
    }
    ps_store_destroy(shard);
    free(t);
    free(g);
}

static void gradients_are_corrected_as_published(void **state)
{
    (void)state;
    runs_as_published(0.04, 0, "f32");
    runs_as_published(0.2, 0.95, "f32");
}

static void without_a_lambda_nothing_is_corrected(void **state)
{
    (void)state;
    runs_as_published(0, 0, "f32");
}

/* Fresh gradients need no correction. */
static void no_delay_is_no_correction(void **state)
{
    const float g[3] = {1, -2, 3}, w[3] = {4, 5, 6};
    float out[3], m[3] = {0};

    (void)state;
    ps_delay_correct((ps_delay){.lambda = 2, .decay = 0.5}, g, w, w, m, out, 3);
    assert_memory_equal(out, g, sizeof g);
    assert_true(m[2] == 4.5f);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_corrected_as_published),
        cmocka_unit_test(without_a_lambda_nothing_is_corrected),
        cmocka_unit_test(no_delay_is_no_correction),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
