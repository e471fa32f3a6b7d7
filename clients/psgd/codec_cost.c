/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/psgd/codec_cost.h"

#include "clients/lib/psgd.h"

#include "common/base/clock.h"
#include "common/base/draw.h"
#include "common/base/xalloc.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { RUNS_MIN = 3 };

typedef struct measuring {
    const psgd_codec *codec;
    float *x, *y, *state;
    uint8_t *bytes;
    size_t n, size, len;
} measuring;

static int encode(measuring *m, uint64_t clock)
{
    psgd_draw draw = {.clock = clock};

    return psgd_codec_encode(m->codec, &draw, m->state, m->x, m->n, m->bytes, m->size, &m->len);
}

/* Returns a code; *best_ns is the fastest run. */
static int repeat(measuring *m, bool decodes, int64_t for_us, double *best_ns)
{
    int64_t until_us = ps_clock_us() + for_us;
    int code = PSGD_OK;

    *best_ns = INFINITY;
    for (uint64_t run = 0; code == PSGD_OK && (run < RUNS_MIN || ps_clock_us() < until_us); run++) {
        int64_t began_ns = ps_clock_ns();

        code =
            decodes ? psgd_codec_decode(m->codec, m->bytes, m->len, m->y, m->n, 0) : encode(m, run);
        *best_ns = fmin(*best_ns, (double)(ps_clock_ns() - began_ns));
    }
    return code;
}

static double error_of(const measuring *m)
{
    double wrong = 0, whole = 0;

    for (size_t i = 0; i < m->n; i++) {
        double d = (double)m->y[i] - m->x[i];

        wrong += d * d;
        whole += (double)m->x[i] * m->x[i];
    }
    return sqrt(wrong / whole);
}

static int measure(measuring *m, int64_t for_us, ps_codec_cost *out)
{
    size_t floats = psgd_codec_state_floats(m->codec, m->n);
    double encode_ns = 0, decode_ns = 0;
    int code;

    m->size = psgd_codec_bound(m->codec, m->n);
    m->bytes = ps_xmalloc(m->size);
    m->state = floats > 0 ? ps_xcalloc(floats, sizeof(float)) : NULL;
    code = repeat(m, false, for_us, &encode_ns);
    if (code == PSGD_OK) { /* the first encoding again: no state is in it */
        if (m->state != NULL) {
            memset(m->state, 0, floats * sizeof *m->state);
        }
        code = encode(m, 0);
    }
    code = code == PSGD_OK ? repeat(m, true, for_us, &decode_ns) : code;
    *out = (ps_codec_cost){.bytes = (double)m->len / (double)m->n,
                           .encode_ns = encode_ns / (double)m->n,
                           .decode_ns = decode_ns / (double)m->n,
                           .error = error_of(m)};
    free(m->bytes);
    free(m->state);
    return code;
}

int ps_codec_cost_measure(const char *spec, size_t values, int64_t for_us, ps_codec_cost *out)
{
    uint64_t key = ps_draw_key(1, PS_DRAW_INIT, 0, 0, 0);
    psgd_codec *codec = NULL;
    int code = psgd_codec_create(spec, &codec);
    measuring m = {.codec = codec, .n = values};

    if (code != PSGD_OK) {
        return code;
    }
    m.x = ps_xcalloc(values, sizeof *m.x);
    m.y = ps_xcalloc(values, sizeof *m.y);
    for (size_t i = 0; i < values; i++) {
        m.x[i] = (float)ps_draw_normal(key, i);
    }
    code = measure(&m, for_us, out);
    psgd_codec_destroy(codec);
    free(m.x);
    free(m.y);
    return code;
}
