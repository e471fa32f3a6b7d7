/* SPDX-License-Identifier: Apache-2.0 */
/* predict.c - psgd predict --model FILE: writes the outputs of a model, a line for each sample. */
#include "clients/psgd/eval_model.h"
#include "clients/psgd/predict_csv.h"

#include "common/base/container_of.h"
#include "common/base/files.h"
#include "common/base/strbuf.h"
#include "common/base/xalloc.h"
#include "common/train/evaluation.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { FLUSH_BYTES = 1 << 16 };

typedef struct prediction {
    ps_eval_model model;
    const char *csv_path, *output_path;
    /* State while it runs; the members above are options. */
    ps_cli *cli;
    ps_predict_csv *csv; /* NULL: the samples are those of the data set */
    ps_file_writer writer;
    bool is_open;   /* the writer is open */
    ps_strbuf text; /* output that is not written yet */
    double *p;      /* (plan->outputs) outputs of a sample */
    uint64_t done;  /* number of samples whose outputs are in `text` or written */
    ps_event next;
} prediction;

static const ps_option options[] = {
    PS_EVAL_MODEL_OPTIONS(prediction, model),
    PS_OPTION_STRING(prediction, csv_path, .name = "csv", .metavar = "FILE",
                     .help = "inputs, instead of a data set: a line for each sample, with a number "
                             "for each input of the network as the data set's transforms leave it; "
                             "no header"),
    PS_OPTION_STRING(prediction, output_path, .name = "output", .letter = 'o', .metavar = "FILE",
                     .help = "file for the lines (default: stdout)"),
    PS_OPTION_END,
};

/* --- text ---------------------------------------------------------------------- */

/* Writes p->text to the file of --output, or without one to stdout, and empties it. */
static ps_status flush(prediction *p)
{
    ps_status st = ps_ok();

    if (p->is_open) {
        st = ps_file_writer_add(&p->writer, ps_strbuf_text(&p->text), p->text.len);
    } else {
        /* unchecked: main() checks stdout at the end */
        fwrite(ps_strbuf_text(&p->text), 1, p->text.len, stdout);
    }
    ps_strbuf_clear(&p->text);
    return st;
}

static size_t target_width(const prediction *p)
{
    return p->csv != NULL ? 0 : p->model.plan->facts.target_width;
}

static void put_header(prediction *p)
{
    const ps_plan *plan = p->model.plan;

    if (p->cli->format != PS_FORMAT_TEXT) {
        ps_strbuf_puts(&p->text, p->cli->format == PS_FORMAT_JSON ? "[" : "");
        return;
    }
    ps_strbuf_puts(&p->text, "index");
    for (size_t j = 0; j < plan->outputs; j++) {
        ps_strbuf_printf(&p->text, ",output%zu", j);
    }
    ps_strbuf_puts(&p->text, plan->facts.classes > 0 ? ",class" : "");
    for (size_t j = 0; j < target_width(p); j++) {
        ps_strbuf_printf(&p->text, plan->facts.classes > 0 ? ",target" : ",target%zu", j);
    }
    ps_strbuf_putc(&p->text, '\n');
}

/* Appends a number as "%.9g", which keeps every bit of a float32. JSON has no NaN and no infinity,
 * so there they are null. */
static void put_number(prediction *p, double value)
{
    if (!isfinite(value) && p->cli->format != PS_FORMAT_TEXT) {
        ps_strbuf_puts(&p->text, "null");
    } else {
        ps_strbuf_printf(&p->text, "%.9g", isnan(value) ? (double)NAN : value);
    }
}

static void put_csv_row(prediction *p, int64_t said, const float *targets)
{
    const ps_plan *plan = p->model.plan;

    ps_strbuf_printf(&p->text, "%" PRIu64, p->done);
    for (size_t j = 0; j < plan->outputs; j++) {
        ps_strbuf_putc(&p->text, ',');
        put_number(p, p->p[j]);
    }
    if (plan->facts.classes > 0) {
        ps_strbuf_putc(&p->text, ',');
        put_number(p, said < 0 ? (double)NAN : (double)said);
    }
    for (size_t j = 0; j < target_width(p); j++) {
        ps_strbuf_putc(&p->text, ',');
        put_number(p, (double)targets[j]);
    }
    ps_strbuf_putc(&p->text, '\n');
}

static void put_json_row(prediction *p, int64_t said, const float *targets)
{
    const ps_plan *plan = p->model.plan;
    bool is_array = p->cli->format == PS_FORMAT_JSON;

    ps_strbuf_puts(&p->text, !is_array ? "" : p->done > 0 ? ",\n " : "\n ");
    ps_strbuf_printf(&p->text, "{\"index\":%" PRIu64 ",\"outputs\":[", p->done);
    for (size_t j = 0; j < plan->outputs; j++) {
        ps_strbuf_puts(&p->text, j > 0 ? "," : "");
        put_number(p, p->p[j]);
    }
    ps_strbuf_putc(&p->text, ']');
    if (plan->facts.classes > 0) {
        ps_strbuf_puts(&p->text, ",\"class\":");
        put_number(p, said < 0 ? (double)NAN : (double)said);
    }
    for (size_t j = 0; j < target_width(p); j++) {
        ps_strbuf_puts(&p->text, j > 0                     ? ","
                                 : plan->facts.classes > 0 ? ",\"target\":"
                                                           : ",\"targets\":[");
        put_number(p, (double)targets[j]);
    }
    ps_strbuf_puts(&p->text, target_width(p) > 0 && plan->facts.classes == 0 ? "]}" : "}");
    ps_strbuf_puts(&p->text, is_array ? "" : "\n");
}

/* --- the work ------------------------------------------------------------------ */

static ps_status predict_batch(prediction *p, uint32_t n)
{
    ps_eval_model *m = &p->model;
    ps_status st = ps_eval_model_put_rows(m, n);
    const float *y;

    if (!ps_is_ok(&st)) {
        return st;
    }
    y = ps_model_predict(m->model, m->weights, m->x, n);
    for (uint32_t i = 0; i < n && ps_is_ok(&st); i++) {
        const float *row = y + i * m->plan->outputs;
        const float *targets = p->csv != NULL ? NULL : m->targets + i * target_width(p);
        int64_t said = ps_evaluation_class(m->plan, row);

        ps_evaluation_read(m->plan, row, p->p);
        if (p->cli->format == PS_FORMAT_TEXT) {
            put_csv_row(p, said, targets);
        } else {
            put_json_row(p, said, targets);
        }
        p->done++;
        if (p->text.len >= FLUSH_BYTES) {
            st = flush(p);
        }
    }
    return st;
}

static ps_status finish(prediction *p)
{
    ps_status st = p->csv != NULL ? ps_ok() : ps_feed_status(p->model.feed);

    ps_strbuf_puts(&p->text, p->cli->format == PS_FORMAT_JSON ? "\n]\n" : "");
    if (ps_is_ok(&st)) {
        st = flush(p);
    }
    if (ps_is_ok(&st) && p->is_open) {
        p->is_open = false;
        st = ps_file_writer_commit(&p->writer);
    }
    return st;
}

/* Predicts one batch and posts itself again, so that the loop can handle Ctrl-C in between. */
static void on_next(ps_event *self, bool ok)
{
    prediction *p = PS_CONTAINER_OF(self, prediction, next);
    ps_eval_model *m = &p->model;
    uint32_t n;
    bool is_over;
    ps_status st;

    if (!ok || p->cli->ended) {
        return;
    }
    n = p->csv != NULL ? ps_predict_csv_next(p->csv, PS_EVALUATION_BATCH, m->x)
                       : ps_eval_model_gather(m, p->done);
    st = predict_batch(p, n);
    is_over = p->csv != NULL ? ps_predict_csv_is_over(p->csv)
                             : p->done == ps_dataset_count(m->data, ps_eval_model_split(m));
    if (ps_is_ok(&st) && is_over) {
        st = finish(p);
    }
    if (!ps_is_ok(&st)) {
        ps_eval_model_fail(p->cli, &st);
    } else if (is_over) {
        ps_cli_end(p->cli, PS_EXIT_OK);
    } else {
        ps_loop_post(p->cli->loop, &p->next);
    }
}

static void on_interrupt(void *arg)
{
    prediction *p = arg;

    ps_cli_end(p->cli, PS_EXIT_INTERRUPTED);
}

static void start(ps_cli *cli, void *arg)
{
    prediction *p = arg;
    ps_status st = ps_eval_model_load(&p->model);

    if (ps_is_ok(&st)) {
        st = p->csv_path != NULL ? ps_predict_csv_open(p->csv_path, &p->model.plan->facts, &p->csv)
                                 : ps_eval_model_load_data(&p->model);
    }
    if (ps_is_ok(&st) && p->output_path != NULL) {
        st = ps_wrap(ps_file_writer_open(&p->writer, p->output_path), "--output");
        p->is_open = ps_is_ok(&st);
    }
    if (!ps_is_ok(&st)) {
        ps_eval_model_fail(cli, &st);
        return;
    }
    p->p = ps_xcalloc(p->model.plan->outputs, sizeof *p->p);
    put_header(p);
    cli->on_interrupt = on_interrupt;
    cli->arg = p;
    p->next.fire = on_next;
    ps_loop_post(cli->loop, &p->next);
}

static bool prepare(ps_cli *cli, void *arg)
{
    prediction *p = arg;

    p->cli = cli;
    if (p->csv_path != NULL && p->model.flags.data != NULL) {
        fprintf(stderr, "psgd: --csv %s and --data %s both name inputs; give one of them\n",
                p->csv_path, p->model.flags.data);
        return false;
    }
    return ps_eval_model_plan(&p->model);
}

static void fini(void *arg)
{
    prediction *p = arg;

    if (p->is_open) {
        ps_file_writer_abandon(&p->writer);
    }
    ps_strbuf_fini(&p->text);
    free(p->p);
    ps_predict_csv_close(p->csv);
    ps_eval_model_fini(&p->model);
}

const ps_subcommand ps_subcommand_predict = {
    .command = {.name = "psgd predict",
                .summary =
                    "Writes the outputs of a model for the samples of a data set or of a CSV "
                    "file, in this process, without a coordinator. Each sample has a line, in "
                    "order: its index from 0, the outputs, for classes the predicted class, and "
                    "the target if the samples are from a data set. Outputs are probabilities if "
                    "the loss takes logits. Lines are CSV; JSON with --format json or jsonl.",
                .usage = "[options] --model FILE",
                .examples =
                    "psgd predict --model 'MODEL-mnist-N(0).safetensors' --data-path /srv/data\n"
                    "psgd predict -m m.safetensors --csv inputs.csv -o outputs.csv\n"
                    "psgd predict -m m.safetensors --split train --train-limit 100 --format jsonl"},
    .options = options,
    .options_size = sizeof(prediction),
    .is_local = true,
    .prepare = prepare,
    .start = start,
    .fini = fini,
};
