/* SPDX-License-Identifier: Apache-2.0 */
/* bench_codec.c - how fast codecs are beside memcpy, on one core.
 *
 * 16 MiB of float32 in slices of 16,384 values; GB/s counts float32 bytes, also
 * for memcpy; the best of five passes each, interleaved. Each codec with its defaults,
 * what its sender keeps included (error feedback, momentum, own state), then some
 * with other numbers; then powersgd of one variable that goes whole. Where there is a target, for
 * encoding as for decoding, the row ends with it and with whether both reach it; exits with 1 if
 * one does not.
 */
#include "common/base/clock.h"
#include "common/base/draw.h"
#include "common/base/xalloc.h"
#include "common/codec/codec.h"
#include "common/codec/factors.h"
#include "common/codec/feedback.h"
#include "common/codec/kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VALUES = 4 << 20, SLICES = VALUES / PS_CODEC_VALUES, PASSES = 5, CASES_MOST = 48 };

static const struct {
    const char *codec, *param;
    double value;
} others[] = {
    {"int8", "lossless", 1},   {"int8", "lossless", 2},       {"f32", "rows", 64},
    {"intn", "bits", 8},       {"sign", "error_feedback", 1}, {"topk", "error_feedback", 1},
    {"intn", "difference", 1}, {"dgc", "momentum", 0.9},
};

/* GB/s that each codec is to reach with its defaults; of a busy machine they say little, but
 * then so does its memcpy. */
static const struct {
    const char *codec;
    double gbps;
} targets[] = {
    {"f16", 8},  {"bf16", 8},    {"int8", 8},    {"sign", 4},   {"ternary", 4}, {"intn", 4},
    {"qsgd", 2}, {"natural", 2}, {"randomk", 4}, {"topk", 1.5}, {"dgc", 1.5},   {"powersgd", 1},
};
static const double whole_target = 1;

#define TARGETS (sizeof targets / sizeof targets[0])
#define ALL_TARGETS (TARGETS + 1)

/* All values as one matrix, as the codec has them with its defaults. */
enum { WHOLE_COLUMNS = 4096, WHOLE_ROWS = VALUES / WHOLE_COLUMNS, WHOLE_RANK = 4 };

typedef struct bench_case {
    const ps_codec *codec;
    const char *param; /* that is not at its default; NULL: none */
    ps_params params;
    double encode, set, add; /* GB/s, best */
} bench_case;

typedef struct world {
    float *x, *g, *y; /* the values; those that a sender works on; decoded ones */
    uint8_t *bytes;
    ps_encoding heads[SLICES];
    bench_case cases[CASES_MOST];
    size_t count;
    bench_case whole;
    ps_factors factors;
    float *lost; /* (VALUES) of the whole */
    double copy;
} world;

static void best(double *gbps, int64_t start_us)
{
    double now = VALUES * 4e-3 / (double)(ps_clock_us() - start_us);

    *gbps = now > *gbps ? now : *gbps;
}

static void encode_all(const bench_case *c, world *w, float *state, size_t floats, size_t bytes)
{
    for (size_t s = 0; s < SLICES; s++) {
        float *g = w->g + s * PS_CODEC_VALUES, *kept = state != NULL ? state + s * floats : NULL;

        ps_feedback_carry(c->codec, &c->params, kept, g, PS_CODEC_VALUES);
        ps_feedback_encode(c->codec, &c->params, kept, s, (uint32_t)s, g, PS_CODEC_VALUES,
                           w->bytes + s * bytes, &w->heads[s]);
    }
}

static void decode_all(const bench_case *c, world *w, ps_into into, size_t bytes)
{
    for (size_t s = 0; s < SLICES; s++) {
        const Psgd__V1__Encoding *head = &w->heads[s].msg;
        ps_status st = ps_codec_decode(c->codec, head, w->bytes + s * bytes, head->payload_bytes,
                                       into, w->y + s * PS_CODEC_VALUES, PS_CODEC_VALUES);

        if (!ps_is_ok(&st)) {
            fprintf(stderr, "%s\n", st.text);
            exit(1);
        }
    }
}

static void measure(bench_case *c, world *w)
{
    size_t bytes = c->codec->size(&c->params, PS_CODEC_VALUES);
    size_t floats = ps_feedback_floats(c->codec, &c->params, PS_CODEC_VALUES);
    float *state = floats > 0 ? ps_xcalloc(floats * SLICES, sizeof *state) : NULL;
    int64_t start;

    memcpy(w->g, w->x, VALUES * sizeof *w->x);
    if (state != NULL) { /* pages there, history too */
        encode_all(c, w, state, floats, bytes);
        memcpy(w->g, w->x, VALUES * sizeof *w->x);
    }
    start = ps_clock_us();
    encode_all(c, w, state, floats, bytes);
    best(&c->encode, start);
    start = ps_clock_us();
    decode_all(c, w, PS_INTO_SET, bytes);
    best(&c->set, start);
    start = ps_clock_us();
    decode_all(c, w, PS_INTO_ADD, bytes);
    best(&c->add, start);
    free(state);
}

static void multiply_all(world *w, ps_into into)
{
    for (size_t s = 0; s < SLICES; s++) {
        size_t first = s * PS_CODEC_VALUES;

        ps_factors_multiply(w->factors.p + first / WHOLE_COLUMNS, WHOLE_ROWS, w->factors.sent,
                            WHOLE_RANK, WHOLE_COLUMNS, first, PS_CODEC_VALUES, into, w->y + first);
    }
}

static void encode_whole(world *w)
{
    const bench_case *c = &w->whole;

    for (size_t s = 0; s < SLICES; s++) {
        ps_feedback_carry(c->codec, &c->params, w->lost + s * PS_CODEC_VALUES,
                          w->g + s * PS_CODEC_VALUES, PS_CODEC_VALUES);
    }
    ps_factors_step(&w->factors, 1, w->g);
    multiply_all(w, PS_INTO_SET);
    for (size_t s = 0; s < SLICES; s++) {
        ps_feedback_keep(c->codec, &c->params, w->lost + s * PS_CODEC_VALUES,
                         w->g + s * PS_CODEC_VALUES, w->y + s * PS_CODEC_VALUES, PS_CODEC_VALUES);
    }
}

static void measure_whole(world *w)
{
    int64_t start;

    memcpy(w->g, w->x, VALUES * sizeof *w->x);
    start = ps_clock_us();
    encode_whole(w);
    best(&w->whole.encode, start);
    start = ps_clock_us();
    multiply_all(w, PS_INTO_SET);
    best(&w->whole.set, start);
    start = ps_clock_us();
    multiply_all(w, PS_INTO_ADD);
    best(&w->whole.add, start);
}

static void add_case(const ps_codec *codec, void *arg)
{
    world *w = arg;

    w->cases[w->count++] = (bench_case){.codec = codec, .params = ps_params_default(codec->params)};
}

static void add_others(world *w)
{
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        bench_case *c = &w->cases[w->count];

        add_case(ps_codec_find(others[i].codec), w);
        c->param = others[i].param;
        c->params.v[ps_param_find(c->codec->params, c->param)] = others[i].value;
    }
}

/* 0: none. */
static double target_of(const bench_case *c)
{
    for (size_t i = 0; i < TARGETS && c->param == NULL; i++) {
        if (strcmp(targets[i].codec, c->codec->name) == 0) {
            return targets[i].gbps;
        }
    }
    return 0;
}

/* Whether its target is met; 0: it has none. */
static bool print(const bench_case *c, const char *name, double target)
{
    bool is_met = c->encode >= target && c->set >= target;

    printf("%-24s %8.1f %8.1f %8.1f", name, c->encode, c->set, c->add);
    if (target > 0) {
        printf(" %8.1f %s", target, is_met ? "met" : "NOT MET");
    }
    putchar('\n');
    return is_met;
}

static bool print_case(const bench_case *c)
{
    char name[64];

    snprintf(name, sizeof name, "%s", c->codec->name);
    if (c->param != NULL) {
        snprintf(name, sizeof name, "%s %s=%g", c->codec->name, c->param,
                 c->params.v[ps_param_find(c->codec->params, c->param)]);
    }
    return print(c, name, target_of(c));
}

int main(void)
{
    world *w = ps_xcalloc(1, sizeof *w);
    size_t missed = 0;

    w->x = ps_xaligned_alloc(VALUES * sizeof *w->x);
    w->g = ps_xaligned_alloc(VALUES * sizeof *w->g);
    w->y = ps_xaligned_alloc(VALUES * sizeof *w->y);
    w->bytes = ps_xaligned_alloc(VALUES * sizeof *w->x);
    for (size_t i = 0; i < VALUES; i++) {
        w->x[i] = (float)(ps_draw_unit(1, i) - 0.5) * 0.01f;
    }
    memset(w->y, 0, VALUES * sizeof *w->y);
    memset(w->bytes, 0, VALUES * sizeof *w->x);
    w->whole.codec = ps_codec_find("powersgd");
    w->whole.params = ps_params_default(w->whole.codec->params);
    w->lost = ps_xcalloc(VALUES, sizeof *w->lost);
    ps_factors_init(&w->factors, WHOLE_RANK, WHOLE_ROWS, WHOLE_COLUMNS);
    ps_codec_each(add_case, w);
    add_others(w);
    for (int pass = 0; pass < PASSES; pass++) {
        int64_t start = ps_clock_us();

        memcpy(w->bytes, w->x, VALUES * sizeof *w->x);
        best(&w->copy, start);
        for (size_t i = 0; i < w->count; i++) {
            measure(&w->cases[i], w);
        }
        measure_whole(w);
    }
    printf("kernels %s; GB/s of float32; memcpy %.1f\n", ps_kernels_best()->name, w->copy);
    printf("%-24s %8s %8s %8s %8s\n", "codec", "encode", "set", "add", "target");
    for (size_t i = 0; i < w->count; i++) {
        missed += !print_case(&w->cases[i]);
    }
    missed += !print(&w->whole, "powersgd, whole", whole_target);
    printf("%zu of %zu targets met\n", ALL_TARGETS - missed, ALL_TARGETS);
    ps_factors_fini(&w->factors);
    free(w->lost);
    free(w->x);
    free(w->g);
    free(w->y);
    free(w->bytes);
    free(w);
    return missed > 0;
}
