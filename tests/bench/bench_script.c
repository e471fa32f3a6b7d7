/* SPDX-License-Identifier: Apache-2.0 */
/* bench_script.c - a codec of a script beside a built-in one: bytes of float32 a second on one
 * core, with all that a call costs. Slices are encoded and decoded eight at a time, as those of a
 * message are, and one by one.
 *
 *     bench_script FILE BUILTIN [ROUNDS]
 */
#include "common/base/clock.h"
#include "common/base/draw.h"
#include "common/codec/codec.h"
#include "common/script/script.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CALLS = 400, MESSAGE = 8 };

static float x[MESSAGE][PS_CODEC_VALUES], y[PS_CODEC_VALUES];
static uint8_t bytes[PS_CODEC_ROOM];

static int by_value(const void *a, const void *b)
{
    double p = *(const double *)a, q = *(const double *)b;

    return (p > q) - (p < q);
}

static void check(ps_status st)
{
    if (!ps_is_ok(&st)) {
        fprintf(stderr, "%s\n", st.text);
        exit(1);
    }
}

/* Returns GB/s of encoding or of decoding, so many slices at a time. */
static double measure(const ps_codec *codec, bool decodes, uint64_t together)
{
    ps_params params = ps_params_default(codec->params);
    ps_encoding head;
    size_t n = ps_codec_encode(codec, &params, 1, 0, x[0], PS_CODEC_VALUES, bytes, &head);
    int64_t begin = ps_clock_ns();

    for (uint64_t key = 0; key < CALLS; key += together) {
        for (uint64_t i = 0; i < together && together > 1; i++) {
            (void)(decodes ? ps_codec_decode_ahead(&head.msg, bytes, PS_CODEC_VALUES)
                           : ps_codec_encode_ahead(codec, &params, key + i, x[i], PS_CODEC_VALUES,
                                                   NULL));
        }
        ps_codec_run_ahead();
        for (uint64_t i = 0; i < together && decodes; i++) {
            check(ps_codec_decode(codec, &head.msg, bytes, n, PS_INTO_SET, y, PS_CODEC_VALUES));
        }
        for (uint64_t i = 0; i < together && !decodes; i++) {
            n = ps_codec_encode(codec, &params, key + i, 0, x[i], PS_CODEC_VALUES, bytes, &head);
        }
        ps_codec_end_ahead();
    }
    return (double)CALLS * sizeof x[0] / (double)(ps_clock_ns() - begin);
}

int main(int argc, char **argv)
{
    char text[PS_SANDBOX_TEXT_MAX];
    int rounds = argc > 3 ? atoi(argv[3]) : 9;
    const ps_codec *codecs[2];
    ps_script_about about;
    FILE *f = argc > 2 ? fopen(argv[1], "re") : NULL;
    size_t n = f != NULL ? fread(text, 1, sizeof text, f) : 0;
    ps_status st = n > 0 && rounds > 0 && rounds <= 99
                       ? ps_script_describe(text, n, &about)
                       : ps_fail(PS_INVALID_ARGUMENT, "bench_script FILE BUILTIN [1..99]");
    ps_script *script;

    if (!ps_is_ok(&st) || (codecs[1] = ps_codec_find(argv[2])) == NULL) {
        fprintf(stderr, "%s\n", st.text);
        return 2;
    }
    script = ps_script_open(argv[1], text, n, &about);
    codecs[0] = ps_script_codec(script);
    for (size_t i = 0; i < MESSAGE * PS_CODEC_VALUES; i++) {
        x[i / PS_CODEC_VALUES][i % PS_CODEC_VALUES] = (float)ps_draw_normal(5, i);
    }
    for (int way = 0; way < 4; way++) {
        bool decodes = way % 2 == 1;
        double rates[2][99];

        for (int r = 0; r < rounds; r++) {
            for (int c = 0; c < 2; c++) {
                rates[c][r] = measure(codecs[c], decodes, way < 2 ? MESSAGE : 1);
            }
        }
        for (int c = 0; c < 2; c++) {
            qsort(rates[c], (size_t)rounds, sizeof rates[c][0], by_value);
        }
        printf("%s, %d at a time: %s %.2f GB/s, %s %.2f GB/s (medians of %d)\n",
               decodes ? "decode" : "encode", way < 2 ? MESSAGE : 1, codecs[0]->name,
               rates[0][rounds / 2], codecs[1]->name, rates[1][rounds / 2], rounds);
    }
    st = ps_script_failure(script);
    ps_script_close(script);
    if (!ps_is_ok(&st)) {
        fprintf(stderr, "%s\n", st.text);
    }
    return ps_is_ok(&st) ? 0 : 1;
}
