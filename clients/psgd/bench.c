/* SPDX-License-Identifier: Apache-2.0 */
/* bench.c - psgd bench: measures on this machine what codecs cost and what they save. */
#include "clients/lib/psgd.h"
#include "clients/psgd/cli.h"
#include "clients/psgd/text_table.h"

#include "common/base/clock.h"
#include "common/base/draw.h"
#include "common/base/xalloc.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RUNS_MIN = 3 };

static const double FAST_BITS = 100e9; /* a link above it is not told apart */

typedef struct bench {
    int64_t values, for_us;
    /* Behind the options. */
    float *x, *y, *state;
    uint8_t *bytes;
    ps_text_table table;
    json_t *json;
    double plain_ns; /* what f32 takes for a value, both ways */
} bench;

/* What a codec costs a value. */
typedef struct cost {
    double bytes, encode_ns, decode_ns, error;
} cost;

static const ps_option options[] = {
    PS_OPTION_INT(bench, values, .name = "values", .metavar = "N", .value = "1000000", .min = 1000,
                  .max = 1e8, .help = "normal draws that are encoded at once"),
    PS_OPTION_DURATION(bench, for_us, .name = "for", .metavar = "TIME", .value = "50ms",
                       .min = 1000, .max = 60e6,
                       .help = "time for encoding, and for decoding, of each codec"),
    PS_OPTION_END,
};

static int encode(const bench *b, const psgd_codec *codec, uint64_t clock, size_t size, size_t *len)
{
    psgd_draw draw = {.clock = clock};

    return psgd_codec_encode(codec, &draw, b->state, b->x, (size_t)b->values, b->bytes, size, len);
}

/* Measures a codec: the fastest run of each direction. Returns a code of psgd.h. */
static int measure(bench *b, const psgd_codec *codec, cost *out)
{
    size_t n = (size_t)b->values, floats = psgd_codec_state_floats(codec, n), len = 0;
    size_t size = psgd_codec_bound(codec, n);
    double wrong = 0, whole = 0, best[2] = {INFINITY, INFINITY};
    int code = PSGD_OK;

    b->bytes = ps_xmalloc(size);
    b->state = floats > 0 ? ps_xcalloc(floats, sizeof(float)) : NULL;
    for (int decodes = 0; decodes < 2; decodes++) {
        int64_t until_us = ps_clock_us() + b->for_us;

        for (uint64_t run = 0; code == PSGD_OK && (run < RUNS_MIN || ps_clock_us() < until_us);
             run++) {
            int64_t began_ns = ps_clock_ns();

            code = decodes ? psgd_codec_decode(codec, b->bytes, len, b->y, n, 0)
                           : encode(b, codec, run, size, &len);
            best[decodes] = fmin(best[decodes], (double)(ps_clock_ns() - began_ns));
        }
        if (decodes == 0 && code == PSGD_OK) { /* the first encoding again: no state is in it */
            if (b->state != NULL) {
                memset(b->state, 0, floats * sizeof *b->state);
            }
            code = encode(b, codec, 0, size, &len);
        }
    }
    for (size_t i = 0; i < n; i++) {
        double d = (double)b->y[i] - b->x[i];

        wrong += d * d;
        whole += (double)b->x[i] * b->x[i];
    }
    *out = (cost){.bytes = (double)len / (double)n,
                  .encode_ns = best[0] / (double)n,
                  .decode_ns = best[1] / (double)n,
                  .error = sqrt(wrong / whole)};
    free(b->bytes);
    free(b->state);
    b->bytes = NULL;
    b->state = NULL;
    return code;
}

/* Returns the rate of a link, in bits a second, below which encoding, sending and decoding take
 * less time than they do with f32. INFINITY: at every rate. 0: at none. */
static double pays_below(const bench *b, const cost *c)
{
    double saved_bits = 8 * ((double)sizeof(float) - c->bytes);
    double more_ns = c->encode_ns + c->decode_ns - b->plain_ns;

    return saved_bits <= 0 ? 0 : more_ns <= 0 ? INFINITY : saved_bits / more_ns * 1e9;
}

static void add_cell(ps_text_table *table, const char *format, double value)
{
    char text[32];

    snprintf(text, sizeof text, format, value);
    ps_text_table_add(table, text);
}

static void show(bench *b, const char *spec, const cost *c)
{
    double below = pays_below(b, c);

    if (b->json != NULL) {
        json_array_append_new(b->json, json_pack("{s:s, s:f, s:f, s:f, s:f, s:o}", "codec", spec,
                                                 "bytes_per_value", c->bytes, "encode_ns",
                                                 c->encode_ns, "decode_ns", c->decode_ns, "error",
                                                 c->error, "pays_below_bits_per_s",
                                                 isinf(below) ? json_null() : json_real(below)));
        return;
    }
    ps_text_table_add(&b->table, spec);
    add_cell(&b->table, "%.3f", c->bytes);
    add_cell(&b->table, "%.2f", c->encode_ns);
    add_cell(&b->table, "%.2f", c->decode_ns);
    add_cell(&b->table, "%.3f", c->error);
    if (below == 0) {
        ps_text_table_add(&b->table, "never");
    } else if (below > FAST_BITS) {
        add_cell(&b->table, "over %.0f Gbit/s", FAST_BITS * 1e-9);
    } else if (below >= 1e9) {
        add_cell(&b->table, "%.1f Gbit/s", below * 1e-9);
    } else {
        add_cell(&b->table, "%.0f Mbit/s", below * 1e-6);
    }
}

/* Measures a codec and shows it. Returns false after a message if the codec is unknown. */
static bool add(bench *b, const char *spec, bool shows)
{
    psgd_codec *codec = NULL;
    cost c = {0};
    int code = psgd_codec_create(spec, &codec);

    if (code == PSGD_OK) {
        code = measure(b, codec, &c);
        psgd_codec_destroy(codec);
    }
    if (code != PSGD_OK) {
        fprintf(stderr, "psgd: %s: %s\n", spec, psgd_last_error());
        return false;
    }
    if (!shows) {
        b->plain_ns = c.encode_ns + c.decode_ns;
    } else {
        show(b, spec, &c);
    }
    return true;
}

static ps_exit run(ps_cli *cli, void *arg)
{
    static const char *const head[] = {"CODEC",     "BYTES", "ENCODE NS",
                                       "DECODE NS", "ERROR", "PAYS ON LINKS BELOW"};
    uint64_t key = ps_draw_key(1, PS_DRAW_INIT, 0, 0, 0);
    bench *b = arg;
    const char *name;
    bool is_good;

    b->x = ps_xcalloc((size_t)b->values, sizeof *b->x);
    b->y = ps_xcalloc((size_t)b->values, sizeof *b->y);
    b->json = cli->format == PS_FORMAT_TEXT ? NULL : json_array();
    for (int64_t i = 0; i < b->values; i++) {
        b->x[i] = (float)ps_draw_normal(key, (uint64_t)i);
    }
    b->table.n_columns = sizeof head / sizeof head[0];
    for (size_t i = 0; i < b->table.n_columns; i++) {
        ps_text_table_add(&b->table, head[i]);
    }
    is_good = add(b, "f32", false);
    for (size_t i = 0; is_good && i < cli->config->n_args; i++) {
        is_good = add(b, ps_cli_argument(cli, i), true);
    }
    for (size_t i = 0; is_good && cli->config->n_args == 0 && (name = psgd_codec_name(i)) != NULL;
         i++) {
        is_good = add(b, name, true);
    }
    if (is_good && b->json != NULL) {
        ps_cli_json_value(cli, b->json);
    } else if (is_good) {
        ps_text_table_print(&b->table);
    }
    return is_good ? PS_EXIT_OK : PS_EXIT_ARGUMENTS;
}

static void fini(void *arg)
{
    bench *b = arg;

    free(b->x);
    free(b->y);
    json_decref(b->json);
    ps_text_table_fini(&b->table);
}

const ps_subcommand ps_subcommand_bench = {
    .command = {.name = "psgd bench",
                .summary =
                    "Measures on this machine what codecs cost: bytes and nanoseconds a value, on "
                    "one thread, the error of one encoding relative to the values, and the link "
                    "below which a codec is faster than f32. Without a CODEC, all with their "
                    "defaults.",
                .usage = "[options] [CODEC...]",
                .args_max = 64,
                .examples = "psgd bench\n"
                            "psgd bench int8 topk:fraction=0.01,error_feedback=1\n"
                            "psgd bench --format json > codecs.json"},
    .options = options,
    .options_size = sizeof(bench),
    .is_local = true,
    .run = run,
    .fini = fini,
};
