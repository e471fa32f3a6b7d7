/* SPDX-License-Identifier: Apache-2.0 */
/* test_tally.c - tallies of parts merge to the bits of the whole, and travel. */
#include "common/base/draw.h"
#include "common/base/xalloc.h"

#include "tests/support/cmocka_all.h"
#include "tests/support/metric_world.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t seed = 20261125;

enum { PARTS = 5 };

/* The form of a tally; free it. */
static uint8_t *form_of(ps_tally *tally, size_t *len)
{
    uint8_t *bytes;

    *len = ps_tally_bytes(tally);
    bytes = ps_xmalloc(*len + 1);
    bytes[*len] = 0xa5;
    ps_tally_write(tally, bytes);
    assert_int_equal(bytes[*len], 0xa5);
    return bytes;
}

static void expect_same(ps_tally *got, ps_tally *want)
{
    size_t got_len, want_len;
    uint8_t *a = form_of(got, &got_len), *b = form_of(want, &want_len);
    double x = ps_tally_value(got), y = ps_tally_value(want);

    assert_int_equal(got_len, want_len);
    assert_memory_equal(a, b, got_len);
    assert_memory_equal(&x, &y, sizeof x);
    free(a);
    free(b);
}

/* fn for every metric and every kind of facts that fits it. */
typedef void each_fn(const ps_metric *metric, const ps_params *params, const metric_world *at,
                     ps_tally *whole);

static void visit(const ps_metric *metric, void *arg)
{
    static metric_world at;
    each_fn *const *fn = arg;
    ps_params params = ps_params_default(metric->params);
    int k = ps_param_find(metric->params, "k");

    if (k >= 0) {
        params.v[k] = 2;
    }
    for (unsigned kind = 0; kind < METRIC_KINDS; kind++) {
        ps_tally whole;
        ps_status st;

        metric_world_draw(&at, kind, seed);
        st = ps_metric_fits(metric, &params, &at.facts);
        if (ps_is_ok(&st)) {
            ps_tally_init(&whole, metric, &params, &at.facts);
            metric_world_add(&at, 0, METRIC_N, &whole);
            (*fn)(metric, &params, &at, &whole);
            ps_tally_fini(&whole);
        }
    }
}

static void each(each_fn *fn)
{
    ps_metric_each(visit, &fn);
}

/* Samples one at a time to any of the parts, which are then merged in any order. */
static void check_merge(const ps_metric *metric, const ps_params *params, const metric_world *at,
                        ps_tally *whole)
{
    for (uint64_t round = 0; round < 8; round++) {
        uint64_t key = ps_draw_key(seed, PS_DRAW_TEST, 1, round, 0);
        ps_tally part[PARTS], merged;
        uint32_t samples[METRIC_N], order[PARTS];

        ps_draw_permutation(key, samples, METRIC_N);
        ps_draw_permutation(~key, order, PARTS);
        ps_tally_init(&merged, metric, params, &at->facts);
        for (size_t p = 0; p < PARTS; p++) {
            ps_tally_init(&part[p], metric, params, &at->facts);
        }
        for (size_t i = 0; i < METRIC_N; i++) {
            size_t p = ps_draw_below(key, METRIC_N + i, round < 4 ? PARTS : 2); /* some are empty */

            metric_world_add(at, samples[i], 1, &part[p]);
        }
        for (size_t p = 0; p < PARTS; p++) {
            if (round % 2 == 0) { /* sorted in before or by the merge */
                (void)ps_tally_value(&part[order[p]]);
            }
            ps_tally_merge(&merged, &part[order[p]]);
        }
        expect_same(&merged, whole);
        for (size_t p = 0; p < PARTS; p++) {
            ps_tally_fini(&part[p]);
        }
        ps_tally_fini(&merged);
    }
}

static void parts_merge_to_the_bits_of_the_whole_in_any_order(void **state)
{
    (void)state;
    print_message("seed %llu\n", (unsigned long long)seed);
    each(check_merge);
}

static void check_travel(const ps_metric *metric, const ps_params *params, const metric_world *at,
                         ps_tally *whole)
{
    ps_tally read;
    size_t len;
    uint8_t *bytes = form_of(whole, &len);
    ps_status st;

    ps_tally_init(&read, metric, params, &at->facts);
    metric_world_add(at, 0, 3, &read); /* is replaced */
    st = ps_tally_read(&read, bytes, len);
    assert_true(ps_is_ok(&st));
    expect_same(&read, whole);
    metric_world_add(at, 0, 50, &read); /* goes on */
    metric_world_add(at, 0, 50, whole);
    expect_same(&read, whole);
    ps_tally_clear(&read);
    ps_tally_clear(whole);
    expect_same(&read, whole);
    assert_true(isnan(ps_tally_value(&read)));
    free(bytes);
    ps_tally_fini(&read);
}

static void what_was_written_is_read_and_goes_on(void **state)
{
    (void)state;
    each(check_travel);
}

static void check_damage(const ps_metric *metric, const ps_params *params, const metric_world *at,
                         ps_tally *whole)
{
    ps_tally read;
    size_t len;
    uint8_t *bytes = form_of(whole, &len);
    uint64_t key = ps_draw_key(seed, PS_DRAW_TEST, 2, 0, 0);
    ps_status st;

    ps_tally_init(&read, metric, params, &at->facts);
    for (size_t cut = 0; cut < len; cut += 1 + cut / 8) {
        uint8_t *part = ps_xmalloc(cut + 1);

        memcpy(part, bytes, cut);
        st = ps_tally_read(&read, part, cut);
        assert_int_equal(st.code, PS_DATA_LOSS);
        free(part);
    }
    for (uint64_t i = 0; i < 300; i++) { /* some of these are forms too: they must be usable */
        size_t place = ps_draw_below(key, 2 * i, len);
        uint8_t was = bytes[place];

        bytes[place] ^= (uint8_t)(1u << ps_draw_below(key, 2 * i + 1, 8));
        st = ps_tally_read(&read, bytes, len);
        if (ps_is_ok(&st)) {
            (void)ps_tally_value(&read);
            ps_tally_merge(&read, whole);
            (void)ps_tally_value(&read);
        }
        bytes[place] = was;
    }
    free(bytes);
    ps_tally_fini(&read);
}

static void damaged_forms_are_refused_or_harmless(void **state)
{
    (void)state;
    each(check_damage);
}

/* ---- The ranking ---- */

static void put(ps_ranking *ranking, const float *scores, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        ps_ranking_add(ranking, scores[i], i % 2 == 1);
    }
}

static void a_ranking_counts_every_score_once(void **state)
{
    static float scores[50000];
    ps_ranking ranking = {0};
    uint64_t key = ps_draw_key(seed, PS_DRAW_TEST, 3, 0, 0), totals[2];

    (void)state;
    for (size_t i = 0; i < 50000; i++) {
        scores[i] = (float)ps_draw_below(key, i, 9001) - 4500.0f;
    }
    scores[17] = NAN;
    scores[20] = -0.0f;
    put(&ranking, scores, 50000);
    ps_ranking_sort(&ranking);
    ps_ranking_totals(&ranking, totals);
    assert_true(totals[0] == 25000 && totals[1] == 24999 && ranking.nan[1] == 1);
    for (size_t i = 0; i < ranking.n; i++) {
        assert_true(i == 0 || ranking.ranks[i - 1].score < ranking.ranks[i].score);
        assert_true(!signbit(ranking.ranks[i].score) || ranking.ranks[i].score != 0.0f);
    }
    ps_ranking_fini(&ranking);
}

static void refuse(const ps_ranking *ranking, const char *why)
{
    size_t len = ps_ranking_bytes(ranking);
    uint8_t *bytes = ps_xmalloc(len);
    ps_ranking read = {0};
    ps_status st;

    ps_ranking_write(ranking, bytes);
    st = ps_ranking_read(&read, bytes, len);
    assert_int_equal(st.code, PS_DATA_LOSS);
    assert_non_null(strstr(st.text, why));
    free(bytes);
}

static void a_ranking_that_is_none_is_refused(void **state)
{
    ps_rank ranks[3] = {{1, {1, 0}}, {2, {0, 1}}, {3, {1, 1}}};
    ps_ranking ranking = {.ranks = ranks, .n = 3};

    (void)state;
    ranks[1].score = 1;
    refuse(&ranking, "do not ascend");
    ranks[1].score = NAN;
    refuse(&ranking, "do not ascend");
    ranks[1].score = 2;
    ranks[0].score = -0.0f;
    refuse(&ranking, "do not ascend");
    ranks[0].score = 1;
    ranks[2].count[0] = ranks[2].count[1] = 0;
    refuse(&ranking, "counts 0 and 0 of score 3");
    ranks[2].count[1] = UINT64_C(1) << 49;
    refuse(&ranking, "of score 3");
    ranks[2].count[1] = ranks[1].count[0] = UINT64_C(1) << 48;
    refuse(&ranking, "of score"); /* together */
    ranking.nan[0] = UINT64_MAX;
    refuse(&ranking, "of score NaN");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_merge_to_the_bits_of_the_whole_in_any_order),
        cmocka_unit_test(what_was_written_is_read_and_goes_on),
        cmocka_unit_test(damaged_forms_are_refused_or_harmless),
        cmocka_unit_test(a_ranking_counts_every_score_once),
        cmocka_unit_test(a_ranking_that_is_none_is_refused),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
