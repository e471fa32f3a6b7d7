/* SPDX-License-Identifier: Apache-2.0 */
#include "common/codec/codec_cost.h"

#include "common/base/clock.h"
#include "common/base/draw.h"
#include "common/base/xalloc.h"
#include "common/codec/codec_spec.h"
#include "common/codec/feedback.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { RUNS_MIN = 3 };

/* The encoding of a slice. */
typedef struct encoded {
    ps_encoding head;
    uint8_t *payload; /* (the codec's size) */
    size_t bytes, head_bytes;
    float *state; /* what feedback and codec keep between encodings; NULL: nothing */
} encoded;

typedef struct measuring {
    const ps_codec *codec;
    ps_params params;
    size_t n, slices;
    float *x, *y;   /* (n) */
    encoded *slice; /* (slices) */
} measuring;

static size_t values_of(const measuring *m, size_t slice)
{
    size_t left = m->n - slice * PS_CODEC_VALUES;

    return left < PS_CODEC_VALUES ? left : PS_CODEC_VALUES;
}

static void encode(measuring *m, uint64_t clock)
{
    float carried[PS_CODEC_VALUES];

    for (size_t i = 0; i < m->slices; i++) {
        const float *x = m->x + i * PS_CODEC_VALUES;
        encoded *s = &m->slice[i];
        size_t n = values_of(m, i);
        uint64_t key = ps_draw_key(0, PS_DRAW_UP, (uint32_t)i, clock, 0);

        if (s->state != NULL) {
            memcpy(carried, x, n * sizeof *x);
            ps_feedback_carry(m->codec, &m->params, s->state, carried, n);
            x = carried;
        }
        s->bytes = ps_feedback_encode(m->codec, &m->params, s->state, key, (uint32_t)i, x, n,
                                      s->payload, &s->head);
        s->head_bytes = psgd__v1__encoding__get_packed_size(&s->head.msg);
    }
}

static ps_status decode(measuring *m)
{
    ps_status st = ps_ok();

    for (size_t i = 0; i < m->slices && ps_is_ok(&st); i++) {
        const encoded *s = &m->slice[i];
        size_t n = values_of(m, i);

        st = ps_codec_check(m->codec, &s->head.msg, s->payload, s->bytes, n);
        if (ps_is_ok(&st)) {
            st = ps_codec_decode(m->codec, &s->head.msg, s->payload, s->bytes, PS_INTO_SET,
                                 m->y + i * PS_CODEC_VALUES, n);
        }
    }
    return st;
}

/* Encodes or decodes all slices again and again, for for_us and at least RUNS_MIN times. Sets
 * *best_ns to the nanoseconds of the fastest run. */
static ps_status repeat(measuring *m, bool decodes, int64_t for_us, double *best_ns)
{
    int64_t until_us = ps_clock_us() + for_us;
    ps_status st = ps_ok();

    *best_ns = (double)INFINITY;
    for (uint64_t run = 0; ps_is_ok(&st) && (run < RUNS_MIN || ps_clock_us() < until_us); run++) {
        int64_t began_ns = ps_clock_ns();

        if (decodes) {
            st = decode(m);
        } else {
            encode(m, run);
        }
        *best_ns = fmin(*best_ns, (double)(ps_clock_ns() - began_ns));
    }
    return st;
}

static double error_of(const measuring *m)
{
    double wrong = 0, whole = 0;

    for (size_t i = 0; i < m->n; i++) {
        double d = (double)m->y[i] - (double)m->x[i];

        wrong += d * d;
        whole += (double)m->x[i] * (double)m->x[i];
    }
    return sqrt(wrong / whole);
}

static void init(measuring *m, size_t values)
{
    uint64_t key = ps_draw_key(1, PS_DRAW_INIT, 0, 0, 0);

    m->n = values;
    m->slices = (values + PS_CODEC_VALUES - 1) / PS_CODEC_VALUES;
    m->x = ps_xcalloc(values, sizeof *m->x);
    m->y = ps_xcalloc(values, sizeof *m->y);
    for (size_t i = 0; i < values; i++) {
        m->x[i] = (float)ps_draw_normal(key, i);
    }
    m->slice = ps_xcalloc(m->slices, sizeof *m->slice);
    for (size_t i = 0; i < m->slices; i++) {
        size_t n = values_of(m, i), floats = ps_feedback_floats(m->codec, &m->params, n);

        m->slice[i].payload = ps_xmalloc(m->codec->size(&m->params, n));
        m->slice[i].state = floats > 0 ? ps_xcalloc(floats, sizeof(float)) : NULL;
    }
}

/* Clears the state of all slices, so that the next encoding is the first one. */
static void forget(measuring *m)
{
    for (size_t i = 0; i < m->slices; i++) {
        size_t floats = ps_feedback_floats(m->codec, &m->params, values_of(m, i));

        if (m->slice[i].state != NULL) {
            memset(m->slice[i].state, 0, floats * sizeof *m->slice[i].state);
        }
    }
}

static void fini(measuring *m)
{
    for (size_t i = 0; i < m->slices; i++) {
        free(m->slice[i].payload);
        free(m->slice[i].state);
    }
    free(m->slice);
    free(m->x);
    free(m->y);
}

ps_status ps_codec_cost_measure(const char *spec, size_t values, int64_t for_us, ps_codec_cost *out)
{
    double encode_ns = 0, decode_ns = 0, bytes = 0;
    measuring m = {0};
    ps_status st = ps_codec_spec_parse(spec, &m.codec, &m.params);

    if (!ps_is_ok(&st)) {
        return st;
    }
    init(&m, values);
    st = repeat(&m, false, for_us, &encode_ns);
    forget(&m);
    encode(&m, 0);
    if (ps_is_ok(&st)) {
        st = repeat(&m, true, for_us, &decode_ns);
    }
    for (size_t i = 0; i < m.slices; i++) {
        bytes += (double)(m.slice[i].bytes + m.slice[i].head_bytes);
    }
    *out = (ps_codec_cost){.bytes = bytes / (double)values,
                           .encode_ns = encode_ns / (double)values,
                           .decode_ns = decode_ns / (double)values,
                           .error = error_of(&m)};
    fini(&m);
    return st;
}
