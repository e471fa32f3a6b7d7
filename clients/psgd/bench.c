/* SPDX-License-Identifier: Apache-2.0 */
/* bench.c - psgd bench: measures on this machine what codecs cost and what they save. */
#include "clients/lib/psgd.h"
#include "clients/psgd/cli.h"
#include "clients/psgd/show.h"
#include "clients/psgd/text_table.h"

#include "common/codec/codec_cost.h"

#include <math.h>
#include <stdio.h>

static const double FAST_BITS = 100e9; /* bits a second; faster rates are shown as "over" it */

typedef struct bench {
    int64_t values, for_us;
    /* State while it runs; the members above are options. */
    ps_text_table table;
    json_t *json;
    double plain_ns; /* nanoseconds that f32 takes to encode and decode a value */
} bench;

static const ps_option options[] = {
    PS_OPTION_INT(bench, values, .name = "values", .metavar = "N", .value = "1000000", .min = 1000,
                  .max = 1e8, .help = "normal draws that are encoded at once"),
    PS_OPTION_DURATION(bench, for_us, .name = "for", .metavar = "TIME", .value = "50ms",
                       .min = 1000, .max = 60e6,
                       .help = "time for encoding, and for decoding, of each codec"),
    PS_OPTION_END,
};

/* Returns the rate of a link, in bits a second, below which encoding, sending and decoding take
 * less time than they do with f32. INFINITY: they do at every rate. 0: they do at no rate. */
static double pays_below(const bench *b, const ps_codec_cost *c)
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

static void show(bench *b, const char *spec, const ps_codec_cost *c)
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

/* Measures a codec. If `shows`, adds the result to the table or the JSON; else stores the codec's
 * time in plain_ns. Returns false after a message if it fails, as for an unknown codec. */
static bool add(bench *b, const char *spec, bool shows)
{
    ps_codec_cost c = {0};

    ps_status st = ps_codec_cost_measure(spec, (size_t)b->values, b->for_us, &c);

    if (!ps_is_ok(&st)) {
        fprintf(stderr, "psgd: %s: %s\n", PS_PLAIN(spec, 80), PS_PLAIN(st.text, 400));
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
    bench *b = arg;
    const char *name;
    bool is_good;

    b->json = cli->format == PS_FORMAT_TEXT ? NULL : json_array();
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
