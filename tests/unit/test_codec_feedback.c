/* SPDX-License-Identifier: Apache-2.0 */
/* test_codec_feedback.c - what a sender keeps from one contribution to the next. */
#include "tests/support/cmocka_all.h"

#include "common/base/draw.h"
#include "common/codec/feedback.h"
#include "common/codec/wrap.h"
#include "tests/support/codec_cases.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What is sent in some rounds of contributions: as a receiver adds it up, and as the
 * last one was. */
typedef struct sender {
    const ps_codec *codec;
    ps_params params;
    float *state;
    float given[N], sum[N], last[N];
    size_t skipped;
} sender;

static void open_sender(sender *s, const ps_codec *c, const ps_params *params)
{
    size_t floats = ps_feedback_floats(c, params, N);

    memset(s, 0, sizeof *s);
    s->codec = c;
    s->params = *params;
    s->state = floats > 0 ? calloc(floats, sizeof *s->state) : NULL;
}

static void send_round(sender *s, uint64_t round, const float *x)
{
    size_t room = s->codec->size(&s->params, N), floats;
    uint8_t *bytes = malloc(room + 1), *again = malloc(room + 1);
    float *before;
    ps_encoding head;
    size_t len;

    floats = ps_feedback_floats(s->codec, &s->params, N);
    before = malloc((floats + 1) * sizeof *before);
    memcpy(s->given, x, sizeof s->given);
    ps_feedback_carry(s->codec, &s->params, s->state, s->given, N);
    len = ps_feedback_encode(s->codec, &s->params, s->state, round, 3, s->given, N, bytes, &head);
    if (s->state != NULL) {
        memcpy(before, s->state, floats * sizeof *before);
    }
    assert_int_equal(
        ps_feedback_encode(s->codec, &s->params, s->state, round, 3, s->given, N, again, &head),
        len);
    assert_memory_equal(bytes, again, len); /* sent again, as it was */
    assert_true(s->state == NULL || memcmp(before, s->state, floats * sizeof *before) == 0);
    codec_decoded(s->codec, &head, bytes, PS_INTO_SET, s->last, N);
    for (size_t i = 0; i < N; i++) {
        s->sum[i] += s->last[i];
    }
    s->skipped += len == 0;
    free(bytes);
    free(again);
    free(before);
}

/* Sum of what was sent, and what is lost yet, is the sum of what was given. */
static void telescopes(const ps_codec *c, const ps_params *params)
{
    enum { ROUNDS = 60 };
    static sender s;
    static float x[N];
    double sum[N] = {0};
    ps_params fed = *params;

    fed.v[c->own + PS_WRAP_FEEDBACK] = 1;
    fed.v[c->own + PS_WRAP_DIFFERENCE] = fed.v[c->own + PS_WRAP_MOMENTUM] = 0;
    open_sender(&s, c, &fed);
    for (uint64_t round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < N; i++) {
            x[i] = (float)ps_draw_normal(round, i);
            sum[i] += (double)x[i];
        }
        send_round(&s, round, x);
    }
    for (size_t i = 0; i < N; i++) {
        double lost = ps_feedback_is_on(c, &fed) ? (double)s.state[i] : 0;
        double size = 1 + fabs((double)s.sum[i]) + fabs(lost);

        assert_true(fabs((double)s.sum[i] + lost - sum[i]) < 1e-4 * size);
    }
    free(s.state);
}

/* With differences, what the receiver has added up comes to what is given, however
 * coarse the codec: the error of a contractive one shrinks round by round. */
static void what_is_standing_comes_to_what_is_given(void **state)
{
    static const struct {
        const char *codec, *param;
        double value;
    } contractive[] = {{"topk", "fraction", 0.1}, {"sign", "scale", 0},      {"onebit", "rows", 0},
                       {"cot", "stochastic", 0},  {"intn", "stochastic", 0}, {"laq", "bits", 2},
                       {"bf16", "rows", 0}};
    enum { ROUNDS = 200 };
    static sender s;
    static float x[N];

    (void)state;
    codec_fill_normal(x, N);
    for (size_t k = 0; k < sizeof contractive / sizeof contractive[0]; k++) {
        const ps_codec *c = ps_codec_find(contractive[k].codec);
        ps_params params = ps_params_default(c->params);
        double norm = 0, off = 0;

        params.v[ps_param_find(c->params, contractive[k].param)] = contractive[k].value;
        params.v[c->own + PS_WRAP_DIFFERENCE] = 1;
        open_sender(&s, c, &params);
        for (uint64_t round = 0; round < ROUNDS; round++) {
            send_round(&s, round, x);
        }
        for (size_t i = 0; i < N; i++) {
            norm += (double)x[i] * (double)x[i];
            off += ((double)s.sum[i] - (double)x[i]) * ((double)s.sum[i] - (double)x[i]);
        }
        if (!(off < 1e-3 * norm)) {
            fail_msg("%s: %g of %g is left", c->name, off, norm);
        }
        free(s.state);
    }
}

/* h is one thing: what the sender believes the receiver has is what it has added up, to the
 * bit, with every codec, and also where nothing was sent. */
static void both_sides_have_one(const ps_codec *c, const ps_params *params)
{
    enum { ROUNDS = 12 };
    static sender s;
    static float x[N];
    ps_params moved = *params;

    moved.v[c->own + PS_WRAP_DIFFERENCE] = 1;
    moved.v[c->own + PS_WRAP_FEEDBACK] = moved.v[c->own + PS_WRAP_MOMENTUM] = 0;
    open_sender(&s, c, &moved);
    for (uint64_t round = 0; round < ROUNDS; round++) {
        const float *standing = s.state, *change = s.state + N;

        for (size_t i = 0; i < N; i++) {
            x[i] = (float)(ps_draw_normal(1, i) + 0.1 * ps_draw_normal(2 + round, i));
        }
        send_round(&s, round, x);
        for (size_t i = 0; i < N; i++) {
            float has = standing[i] + change[i];

            assert_true(has == s.sum[i]);
        }
    }
    free(s.state);
}

static void what_is_standing_is_the_same_on_both_sides(void **state)
{
    (void)state;
    codec_each_case(both_sides_have_one);
}

static void a_small_change_is_left_out_but_not_for_ever(void **state)
{
    const ps_codec *f32 = ps_codec_find("f32");
    ps_params params = ps_params_default(f32->params);
    static sender s;
    static float x[N];

    (void)state;
    params.v[f32->own + PS_WRAP_DIFFERENCE] = 1;
    params.v[f32->own + PS_WRAP_LAZY] = 0.01;
    assert_false(ps_codec_is_plain(f32, &params));
    open_sender(&s, f32, &params);
    codec_fill_normal(x, N);
    send_round(&s, 0, x);
    assert_int_equal(s.skipped, 0);
    assert_memory_equal(s.sum, x, sizeof x);
    for (uint64_t round = 1; round <= PS_FEEDBACK_SKIPS; round++) {
        x[0] += 0.001f;
        send_round(&s, round, x);
        assert_int_equal(s.skipped, round);
    }
    send_round(&s, 20, x);
    assert_int_equal(s.skipped, PS_FEEDBACK_SKIPS);
    for (size_t i = 0; i < N; i++) {
        x[i] *= 2;
    }
    send_round(&s, 21, x); /* a large one */
    assert_int_equal(s.skipped, PS_FEEDBACK_SKIPS);
    for (size_t i = 0; i < N; i++) {
        assert_true(fabsf(s.sum[i] - x[i]) <= 1e-6f * fabsf(x[i]));
    }
    free(s.state);
}

/* Gradient descent of two workers who each have the same samples in every step, as in LAG and
 * LAQ: losses sum of slope (x - centre)^2 / 2. Returns the distance from the optimum, and
 * how many encodings of `steps` times two were sent, and their bytes. */
static double descend_lazily(const ps_codec *c, double lazy, uint64_t steps, size_t *sent,
                             size_t *bytes)
{
    static sender s[2];
    static float x[N], g[N];
    ps_params params = ps_params_default(c->params);
    double off = 0;

    params.v[c->own + PS_WRAP_DIFFERENCE] = 1;
    params.v[c->own + PS_WRAP_LAZY] = lazy;
    for (int k = 0; k < 2; k++) {
        open_sender(&s[k], c, &params);
    }
    memset(x, 0, sizeof x);
    *sent = *bytes = 0;
    for (uint64_t step = 0; step < steps; step++) {
        for (int k = 0; k < 2; k++) {
            size_t before = s[k].skipped;

            for (size_t i = 0; i < N; i++) {
                float slope = i % 2 == 0 ? 1.0f : 0.25f;

                g[i] = slope * (x[i] - (float)ps_draw_normal((uint64_t)k, i));
            }
            send_round(&s[k], step, g);
            *sent += s[k].skipped == before;
            *bytes += s[k].skipped == before ? c->size(&params, N) : 0;
        }
        for (size_t i = 0; i < N; i++) {
            x[i] -= 0.05f * (s[0].sum[i] + s[1].sum[i]);
        }
    }
    for (size_t i = 0; i < N; i++) {
        double centre = (ps_draw_normal(0, i) + ps_draw_normal(1, i)) / 2;

        off += ((double)x[i] - centre) * ((double)x[i] - centre) / N;
    }
    for (int k = 0; k < 2; k++) {
        free(s[k].state);
    }
    return sqrt(off);
}

static void who_has_the_same_samples_in_every_step_sends_seldom(void **state)
{
    static const char *const codecs[] = {"f32", "intn"};
    enum { STEPS = 300 };

    (void)state;
    for (size_t k = 0; k < sizeof codecs / sizeof codecs[0]; k++) {
        const ps_codec *c = ps_codec_find(codecs[k]);
        size_t all, few, all_bytes, few_bytes;
        double eager = descend_lazily(c, 0, STEPS, &all, &all_bytes);
        double lazy = descend_lazily(c, 0.05, STEPS, &few, &few_bytes);

        assert_int_equal(all, 2 * STEPS);
        assert_true(few < all / 4 && few_bytes < all_bytes / 4);
        assert_true(few >= all / (PS_FEEDBACK_SKIPS + 1)); /* nobody is silent for ever */
        if (!(eager < 0.01 && lazy < 0.05)) {
            fail_msg("%s: %g from the optimum, %g when lazy", c->name, eager, lazy);
        }
    }
}

static void momentum_grows_and_ends_where_a_value_is_sent(void **state)
{
    const ps_codec *f32 = ps_codec_find("f32"), *topk = ps_codec_find("topk");
    ps_params params = ps_params_default(f32->params);
    static sender s;
    static float x[N];

    (void)state;
    params.v[f32->own + PS_WRAP_MOMENTUM] = 0.5;
    open_sender(&s, f32, &params);
    x[0] = 1;
    send_round(&s, 0, x);
    send_round(&s, 1, x);
    assert_true(s.last[0] == 1.5f);
    send_round(&s, 2, x);
    assert_true(s.last[0] == 1.75f);
    free(s.state);

    params = ps_params_default(topk->params);
    params.v[0] = 0.001; /* one of 1000 */
    params.v[topk->own + PS_WRAP_MOMENTUM] = 0.5;
    params.v[topk->own + PS_WRAP_FEEDBACK] = 1;
    open_sender(&s, topk, &params);
    x[1] = 0.75f;
    send_round(&s, 0, x);
    assert_true(s.last[0] == 1.0f && s.last[1] == 0.0f);
    send_round(&s, 1, x); /* u = 1 anew, and 0.75 + (0.375 + 0.75) */
    assert_true(s.last[0] == 0.0f && s.last[1] == 1.875f);
    send_round(&s, 2, x); /* 1 + (0.5 + 1), and 0.75 */
    assert_true(s.last[0] == 2.5f && s.last[1] == 0.0f);
    free(s.state);
}

static void error_feedback_loses_nothing_over_time(void **state)
{
    (void)state;
    codec_each_case(telescopes);
}

static void error_feedback_is_a_parameter_of_all_that_lose(void **state)
{
    const ps_codec *f16 = ps_codec_find("f16"), *f32 = ps_codec_find("f32");
    ps_params params = ps_params_default(f16->params);
    int at = ps_param_find(f16->params, "error_feedback");

    (void)state;
    assert_true(at >= 0);
    assert_false(ps_feedback_is_on(f16, &params));
    params.v[at] = 1;
    assert_true(ps_feedback_is_on(f16, &params));
    params.v[f32->own + PS_WRAP_FEEDBACK] = 1;
    assert_false(ps_feedback_is_on(f32, &params));
}

static void error_feedback_forgets_what_is_no_number(void **state)
{
    const ps_codec *f16 = ps_codec_find("f16");
    ps_params params = ps_params_default(f16->params);
    static sender s;
    static float x[N];

    (void)state;
    x[0] = INFINITY;
    x[1] = NAN;
    x[2] = 1.0f + 0x1p-20f;
    params.v[f16->own + PS_WRAP_FEEDBACK] = 1;
    open_sender(&s, f16, &params);
    send_round(&s, 1, x);
    assert_true(s.state[0] == 0.0f && s.state[1] == 0.0f && s.state[2] == 0x1p-20f);
    free(s.state);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(error_feedback_loses_nothing_over_time),
        cmocka_unit_test(what_is_standing_is_the_same_on_both_sides),
        cmocka_unit_test(error_feedback_is_a_parameter_of_all_that_lose),
        cmocka_unit_test(error_feedback_forgets_what_is_no_number),
        cmocka_unit_test(what_is_standing_comes_to_what_is_given),
        cmocka_unit_test(a_small_change_is_left_out_but_not_for_ever),
        cmocka_unit_test(who_has_the_same_samples_in_every_step_sends_seldom),
        cmocka_unit_test(momentum_grows_and_ends_where_a_value_is_sent),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
