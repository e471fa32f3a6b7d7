/* SPDX-License-Identifier: Apache-2.0 */
/* bench_codec.c - how fast codecs are beside memcpy, on one core.
 *
 * 16 MiB of float32 in slices of 16,384 values; GB/s counts float32 bytes, also
 * for memcpy; the best of five passes each, interleaved.
 */
#include "common/base/clock.h"
#include "common/base/draw.h"
#include "common/base/xalloc.h"
#include "common/codec/codec.h"
#include "common/codec/kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VALUES = 4 << 20, SLICES = VALUES / PS_CODEC_VALUES, PASSES = 5, CODECS_MOST = 32 };

typedef struct world {
    float *x, *y;
    uint8_t *bytes;
    ps_encoding heads[SLICES];
    double copy, encode[CODECS_MOST], set[CODECS_MOST], add[CODECS_MOST]; /* GB/s, best */
    size_t at;
} world;

static void best(double *gbps, int64_t start_us)
{
    double now = VALUES * 4e-3 / (double)(ps_clock_us() - start_us);

    *gbps = now > *gbps ? now : *gbps;
}

static void decode_all(const ps_codec *codec, world *w, ps_into into, size_t bytes)
{
    for (size_t s = 0; s < SLICES; s++) {
        const Psgd__V1__Encoding *head = &w->heads[s].msg;
        ps_status st = ps_codec_decode(codec, head, w->bytes + s * bytes, head->payload_bytes, into,
                                       w->y + s * PS_CODEC_VALUES, PS_CODEC_VALUES);

        if (!ps_is_ok(&st)) {
            fprintf(stderr, "%s\n", st.text);
            exit(1);
        }
    }
}

static void measure(const ps_codec *codec, void *arg)
{
    world *w = arg;
    ps_params params = ps_params_default(codec->params);
    size_t bytes = codec->size(&params, PS_CODEC_VALUES);
    int64_t start = ps_clock_us();

    for (size_t s = 0; s < SLICES; s++) {
        ps_codec_encode(codec, &params, s, (uint32_t)s, w->x + s * PS_CODEC_VALUES, PS_CODEC_VALUES,
                        w->bytes + s * bytes, &w->heads[s]);
    }
    best(&w->encode[w->at], start);
    start = ps_clock_us();
    decode_all(codec, w, PS_INTO_SET, bytes);
    best(&w->set[w->at], start);
    start = ps_clock_us();
    decode_all(codec, w, PS_INTO_ADD, bytes);
    best(&w->add[w->at], start);
    w->at++;
}

static void print(const ps_codec *codec, void *arg)
{
    world *w = arg;

    printf("%-10s %8.1f %8.1f %8.1f\n", codec->name, w->encode[w->at], w->set[w->at],
           w->add[w->at]);
    w->at++;
}

int main(void)
{
    world *w = ps_xcalloc(1, sizeof *w);

    w->x = ps_xaligned_alloc(VALUES * sizeof *w->x);
    w->y = ps_xaligned_alloc(VALUES * sizeof *w->y);
    w->bytes = ps_xaligned_alloc(VALUES * sizeof *w->x);
    for (size_t i = 0; i < VALUES; i++) {
        w->x[i] = (float)(ps_draw_unit(1, i) - 0.5) * 0.01f;
    }
    memset(w->y, 0, VALUES * sizeof *w->y);
    memset(w->bytes, 0, VALUES * sizeof *w->x);
    for (int pass = 0; pass < PASSES; pass++) {
        int64_t start = ps_clock_us();

        memcpy(w->bytes, w->x, VALUES * sizeof *w->x);
        best(&w->copy, start);
        w->at = 0;
        ps_codec_each(measure, w);
    }
    printf("kernels %s; GB/s of float32; memcpy %.1f\n", ps_kernels_best()->name, w->copy);
    printf("%-10s %8s %8s %8s\n", "codec", "encode", "set", "add");
    w->at = 0;
    ps_codec_each(print, w);
    free(w->x);
    free(w->y);
    free(w->bytes);
    free(w);
    return 0;
}
