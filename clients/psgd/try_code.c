/* SPDX-License-Identifier: Apache-2.0 */
/* try_code.c - psgd code test: tries files of code as a coordinator does, without one. */
#include "clients/psgd/cli.h"
#include "clients/psgd/text_table.h"

#include "common/base/files.h"
#include "common/codec/codec_cost.h"
#include "common/script/script_check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MEASURE_US = 50 * 1000 };

typedef struct code {
    ps_text_table table;
} code;

static void add_cell(ps_text_table *table, const char *format, double value)
{
    char text[32];

    snprintf(text, sizeof text, format, value);
    ps_text_table_add(table, text);
}

static void add_codec(ps_text_table *table, const char *name, double bits, double error,
                      double encode_ns, double decode_ns)
{
    ps_text_table_add(table, name);
    add_cell(table, "%.2f", bits);
    add_cell(table, "%.4f", error);
    add_cell(table, "%.2f", encode_ns);
    add_cell(table, "%.2f", decode_ns);
}

/* Prints a table with what the codec `name` of a file costs, by `m`, and what built-in codecs cost
 * for comparison. Then prints how far the mean of 64 encodings is from the values. */
static void show_codec(code *c, const char *name, const ps_script_measure *m)
{
    static const char *const head[] = {"CODEC", "BITS", "ERROR", "ENCODE NS", "DECODE NS"};
    static const char *const beside[] = {"f32", "int8", "cot", "topk"};

    c->table.n_columns = sizeof head / sizeof head[0];
    for (size_t i = 0; i < c->table.n_columns; i++) {
        ps_text_table_add(&c->table, head[i]);
    }
    add_codec(&c->table, name, m->bits, m->error, m->encode_ns, m->decode_ns);
    for (size_t i = 0; i < sizeof beside / sizeof beside[0]; i++) {
        ps_codec_cost cost = {0};
        ps_status st = ps_codec_cost_measure(beside[i], 100000, MEASURE_US, &cost);

        if (ps_is_ok(&st)) {
            add_codec(&c->table, beside[i], 8 * cost.bytes, cost.error, cost.encode_ns,
                      cost.decode_ns);
        }
    }
    ps_text_table_print(&c->table);
    if (isfinite(m->bias)) {
        printf("mean of 64 encodings: off by %.2f times what chance makes\n", sqrt(m->bias));
    } else {
        puts("mean of 64 encodings: all are alike");
    }
}

/* Describes and checks the plugin in a file of code, and shows what it costs if it is a codec.
 * Returns false after a message if the file cannot be read, holds no plugin, or fails the check. */
static bool try_file(code *c, const char *path)
{
    const char *slash = strrchr(path, '/');
    ps_script_measure measure = {0};
    ps_script_about about;
    ps_script *script = NULL;
    char *text = NULL;
    size_t n = 0;
    ps_status st = ps_file_read(path, PS_SANDBOX_TEXT_MAX, &text, &n);

    if (ps_is_ok(&st)) {
        st = ps_wrap(ps_script_describe(text, n, &about), "%s", PS_PATH_SHOWN(path));
    }
    if (ps_is_ok(&st)) {
        script = ps_script_open(slash != NULL ? slash + 1 : path, text, n, &about);
        st = ps_script_check(script, &measure);
    }
    if (ps_is_ok(&st)) {
        printf("%s: %s %s: %s\n", path, about.kind, about.name, about.summary);
        if (ps_script_codec(script) != NULL) {
            show_codec(c, about.name, &measure);
        }
    } else {
        fprintf(stderr, "psgd: %s\n", st.text);
    }
    ps_script_close(script);
    free(text);
    return ps_is_ok(&st);
}

static ps_exit run(ps_cli *cli, void *arg)
{
    bool is_good = true;

    if (strcmp(ps_cli_argument(cli, 0), "test") != 0 || cli->config->n_args < 2) {
        fprintf(stderr, "psgd: psgd code test FILE... is allowed\n");
        return PS_EXIT_ARGUMENTS;
    }
    for (size_t i = 1; i < cli->config->n_args; i++) {
        is_good &= try_file(arg, ps_cli_argument(cli, i));
    }
    return is_good ? PS_EXIT_OK : PS_EXIT_ARGUMENTS;
}

static void fini(void *arg)
{
    ps_text_table_fini(&((code *)arg)->table);
}

static const ps_option options[] = {PS_OPTION_END};

const ps_subcommand ps_subcommand_code = {
    .command =
        {.name = "psgd code",
         .summary =
             "Tries files of Lua code as a coordinator does before it accepts a job with them: "
             "that they load, that their functions answer, and of codecs bits, error, bias and "
             "cost, beside built-in codecs.",
         .usage = "test FILE...",
         .args_max = 64,
         .examples = "psgd code test topk_lua.lua"},
    .options = options,
    .options_size = sizeof(code),
    .is_local = true,
    .run = run,
    .fini = fini,
};
