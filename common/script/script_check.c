/* SPDX-License-Identifier: Apache-2.0 */
/* script_check.c - see script_check.h. */
#include "common/script/script_check.h"

#include "common/base/clock.h"
#include "common/base/draw.h"
#include "common/base/nonfinite.h"
#include "common/base/xalloc.h"
#include "common/codec/codec.h"
#include "common/script/script_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    KEYS = 64,
    BIAS_VALUES = 1000,
    /* limits for all trials of a codec, to bound a coordinator's work: of the calls (at the lowest
     * priority of their processor time), and of the clock, because others have the processor first
     * and the calls pause */
    MOST_US = 10 * 1000 * 1000,
    CLOCK_US = PS_SCRIPT_TRIAL_US
};

/* A bias (ps_script_measure.bias) above this is not chance: for an unbiased codec, the mean square
 * of 1,000 mean errors is within 1 +- 0.2 of its expected value. */
static const double BIAS_MOST = 2;

/* What the slices of the trials contain. */
typedef enum content { NORMAL, ZEROS, ONE_LARGE, TINY, EQUAL, CONTENTS } content;
static const char *const content_names[] = {"normal draws", "zeros", "one value of a million",
                                            "values of 1e-30", "equal values"};

static void fill(content what, float *x, size_t n)
{
    uint64_t key = ps_draw_key(1, PS_DRAW_TEST, what, n, 0);

    for (size_t i = 0; i < n; i++) {
        float draw = (float)ps_draw_normal(key, i);

        x[i] = what == NORMAL ? draw : what == TINY ? draw * 1e-30f : what == EQUAL ? 0.25f : 0;
    }
    if (what == ONE_LARGE) {
        x[n / 2] = 1e6f;
    }
}

typedef struct trial {
    ps_script *script;
    const ps_codec *codec;
    ps_params params;
    float x[PS_CODEC_VALUES], y[PS_CODEC_VALUES];
    uint8_t bytes[2][PS_CODEC_ROOM];
    ps_encoding head;
    size_t len;
    int64_t encode_ns, decode_ns;
    int64_t end_us; /* time at which the trial is given up, if its calls took less than MOST_US */
} trial;

/* Encodes x to bytes[to] and decodes it to y. */
static ps_status once(trial *t, size_t n, uint64_t key, int to)
{
    int64_t begin = ps_clock_ns(), middle;
    int most_us;
    ps_status st;

    t->len = ps_codec_encode(t->codec, &t->params, key, 0, t->x, n, t->bytes[to], &t->head);
    middle = ps_clock_ns();
    st = ps_script_failure(t->script);
    if (ps_is_ok(&st)) {
        st = ps_codec_decode(t->codec, &t->head.msg, t->bytes[to], t->len, PS_INTO_SET, t->y, n);
    }
    most_us = ps_script_trial_us(t->script) > MOST_US ? MOST_US
              : ps_clock_us() > t->end_us             ? CLOCK_US
                                                      : 0;
    if (ps_is_ok(&st) && most_us > 0) {
        st = ps_fail(
            PS_FAILED_PRECONDITION,
            "the trial of the codec takes longer than %d s; a slice of %zu has taken %.3g s",
            most_us / 1000000, n, (double)(ps_clock_ns() - begin) * 1e-9);
    }
    t->encode_ns = middle - begin;
    t->decode_ns = ps_clock_ns() - middle;
    return st;
}

static ps_status check_slice(trial *t, content what, size_t n, ps_script_measure *m)
{
    ps_status st;
    size_t len;

    fill(what, t->x, n);
    st = once(t, n, 1, 0);
    len = t->len;
    if (ps_is_ok(&st)) {
        st = once(t, n, 1, 1);
    }
    if (!ps_is_ok(&st)) {
        return st;
    }
    if (t->len != len || memcmp(t->bytes[0], t->bytes[1], len) != 0) {
        return ps_fail(PS_FAILED_PRECONDITION, "encode: the same slice and key give other bytes");
    }
    if (ps_first_nonfinite(t->y, n) < n) {
        return ps_fail(PS_FAILED_PRECONDITION, "decode: value %zu is not finite",
                       ps_first_nonfinite(t->y, n) + 1);
    }
    for (size_t i = 0; i < n && t->codec->facts(&t->params).keeps_zeros; i++) {
        if (t->x[i] == 0 && t->y[i] != 0) {
            return ps_fail(PS_FAILED_PRECONDITION,
                           "value %zu is 0 and becomes %g, but keeps_zeros is true", i + 1,
                           (double)t->y[i]);
        }
    }
    m->encode_ns = fmax(m->encode_ns, n == PS_CODEC_VALUES ? (double)t->encode_ns / (double)n : 0);
    m->decode_ns = fmax(m->decode_ns, n == PS_CODEC_VALUES ? (double)t->decode_ns / (double)n : 0);
    if (what == NORMAL && n == PS_CODEC_VALUES) {
        double of_x = 0, of_error = 0;

        for (size_t i = 0; i < n; i++) {
            of_x += (double)t->x[i] * (double)t->x[i];
            of_error += ((double)t->y[i] - (double)t->x[i]) * ((double)t->y[i] - (double)t->x[i]);
        }
        m->bits = 8 * (double)len / (double)n;
        m->error = sqrt(of_error / of_x);
    }
    return st;
}

/* Encodes normal draws with KEYS keys. Sets m->bias to the mean square of the mean errors as a
 * multiple of what chance makes. Fails if the codec claims to be unbiased and m->bias is too large.
 */
static ps_status measure_bias(trial *t, ps_script_measure *m)
{
    static const size_t n = BIAS_VALUES;
    double *mean = ps_xcalloc(n, sizeof *mean), *square = ps_xcalloc(n, sizeof *square);
    double found = 0, expected = 0;
    ps_status st = ps_ok();

    fill(NORMAL, t->x, n);
    for (uint64_t key = 0; key < KEYS && ps_is_ok(&st); key++) {
        st = once(t, n, ps_draw_u64(7, key), 0);
        for (size_t i = 0; i < n; i++) {
            double error = (double)t->y[i] - (double)t->x[i];

            mean[i] += error / KEYS;
            square[i] += error * error / KEYS;
        }
    }
    for (size_t i = 0; i < n; i++) {
        found += mean[i] * mean[i];
        expected += (square[i] - mean[i] * mean[i]) / (KEYS - 1);
    }
    m->bias = found == 0 ? 0 : expected > 0 ? found / expected : INFINITY;
    free(mean);
    free(square);
    if (ps_is_ok(&st) && t->codec->facts(&t->params).is_unbiased && m->error > 1e-5 &&
        m->bias > BIAS_MOST) {
        st = ps_fail(
            PS_FAILED_PRECONDITION,
            "unbiased is true, but the mean of %d encodings is off by %.1f times what chance makes",
            KEYS, sqrt(m->bias));
    }
    return st;
}

static ps_status check_codec(ps_script *script, const ps_codec *codec, ps_script_measure *m)
{
    static const size_t lengths[] = {1, 2, 1000, PS_CODEC_VALUES};
    trial *t = ps_xcalloc(1, sizeof *t);
    ps_status st = ps_ok();

    t->script = script;
    t->codec = codec;
    t->end_us = ps_clock_us() + CLOCK_US;
    t->params = ps_params_default(codec->params);
    for (size_t l = 0; l < sizeof lengths / sizeof lengths[0]; l++) {
        for (int what = 0; what < CONTENTS && ps_is_ok(&st); what++) {
            st = ps_wrap(check_slice(t, (content)what, lengths[l], m), "a slice of %zu, %s",
                         lengths[l], content_names[what]);
        }
    }
    if (ps_is_ok(&st)) {
        st = measure_bias(t, m);
    }
    free(t);
    return st;
}

static ps_status check_schedule(ps_script *script, const ps_schedule *schedule)
{
    static const uint64_t totals[] = {1, 2, 1000, 1000000};
    ps_params params = ps_params_default(schedule->params);

    for (size_t i = 0; i < sizeof totals / sizeof totals[0]; i++) {
        (void)ps_schedule_factor(schedule, &params, 0, totals[i]);
        (void)ps_schedule_factor(schedule, &params, totals[i] / 2, totals[i]);
        (void)ps_schedule_factor(schedule, &params, totals[i], totals[i]);
    }
    return ps_script_failure(script);
}

static ps_status check_policy(ps_script *script, const ps_consistency *policy)
{
    static const uint64_t done[] = {5, 6, UINT64_MAX};
    const ps_clocks clocks = {
        .workers = 3, .contributors = 3, .live = 2, .done = done, .least = 5, .clock = 5};
    ps_params params = ps_params_default(policy->params);
    float scale = 1;

    for (uint64_t ahead = 1; ahead < 3; ahead++) {
        const ps_arrival arrival = {.worker = 1, .contributor = 1, .clock = 6, .staleness = ahead};

        (void)policy->admit(&params, &clocks, 1, 5 + ahead);
        (void)policy->on_push(&params, &clocks, &arrival, &scale);
    }
    return ps_script_failure(script);
}

static ps_status check(ps_script *script, ps_script_measure *measure)
{
    if (ps_script_codec(script) != NULL) {
        return check_codec(script, ps_script_codec(script), measure);
    }
    if (ps_script_schedule(script) != NULL) {
        return check_schedule(script, ps_script_schedule(script));
    }
    if (ps_script_consistency(script) != NULL) {
        return check_policy(script, ps_script_consistency(script));
    }
    return ps_ok();
}

ps_status ps_script_check(ps_script *script, ps_script_measure *measure)
{
    ps_script_measure unused = {0};
    ps_status st;

    if (measure != NULL) {
        *measure = unused;
        return check(script, measure);
    }
    ps_script_trial_begin(script);
    st = check(script, &unused);
    ps_script_trial_end(script);
    return st;
}
