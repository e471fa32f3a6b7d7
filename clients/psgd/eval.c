/* SPDX-License-Identifier: Apache-2.0 */
/* eval.c - psgd eval --model FILE: evaluates a model on a data set in this process, with the code
 * of the workers. */
#include "clients/psgd/eval_model.h"

#include "common/base/container_of.h"
#include "common/base/files.h"
#include "common/train/evaluation.h"
#include "common/train/evaluation_export.h"

#include <math.h>
#include <stdio.h>

typedef struct evaluation {
    ps_eval_model model;
    const char *export_path;
    /* State while it runs; the members above are options. */
    ps_cli *cli;
    ps_evaluation said;
    ps_event next;
} evaluation;

static const ps_option options[] = {
    PS_EVAL_MODEL_OPTIONS(evaluation, model),
    PS_OPTION_STRING(evaluation, export_path, .name = "export", .metavar = "FILE",
                     .help = "write a model with sparse tables with a row for every id, as "
                             "safetensors, or as ONNX if FILE ends in .onnx"),
    PS_OPTION_LIST(evaluation, model.flags.metrics, .name = "metric", .letter = 'M',
                   .metavar = "NAME",
                   .help = "metric beside the loss (default: the metrics of the job)"),
    PS_OPTION_END,
};

static ps_status export_model(const evaluation *e)
{
    if (e->model.rows == NULL) {
        return ps_fail(PS_INVALID_ARGUMENT, "--export: the model has no sparse tables, so the "
                                            "model file is complete already");
    }
    return ps_wrap(
        ps_evaluation_export(e->model.plan, e->model.weights, e->model.rows, e->export_path), "%s",
        PS_PATH_SHOWN(e->export_path));
}

static void show_text(evaluation *e)
{
    double values[PS_METRICS_MAX];

    ps_evaluation_values(&e->said, values);
    printf("model     %s\n", e->model.path);
    if (e->model.job_id[0] != '\0') {
        printf("of        job %s%s%s\n", e->model.job_id, e->model.step[0] != '\0' ? ", step " : "",
               e->model.step);
    }
    printf("data      %s, %s set, %llu samples\n", e->model.plan->data->name, e->model.split_name,
           (unsigned long long)e->said.samples);
    printf("%-9s %.6g\n", "loss", ps_evaluation_loss(&e->said));
    for (size_t m = 0; m < e->model.plan->metric_count; m++) {
        printf("%-9s %.6g\n", e->model.plan->metrics[m].metric->name, values[m]);
    }
}

/* Adds a number to the JSON object, or null if the number is not finite. */
static void put_number(json_t *metrics, const char *name, double value)
{
    json_object_set_new(metrics, name, isfinite(value) ? json_real(value) : json_null());
}

/* Adds a text to the JSON object, or nothing if the text is not UTF-8. */
static void put_text(json_t *all, const char *name, const char *text)
{
    json_object_set_new(all, name, json_string(text));
}

static void show_json(evaluation *e)
{
    json_t *metrics = json_object(), *all = json_object();
    double values[PS_METRICS_MAX];

    ps_evaluation_values(&e->said, values);

    put_number(metrics, "loss", ps_evaluation_loss(&e->said));
    for (size_t m = 0; m < e->model.plan->metric_count; m++) {
        put_number(metrics, e->model.plan->metrics[m].metric->name, values[m]);
    }
    put_text(all, "model", e->model.path);
    put_text(all, "job", e->model.job_id);
    put_text(all, "step", e->model.step);
    put_text(all, "data", e->model.plan->data->name);
    put_text(all, "split", e->model.split_name);
    json_object_set_new(all, "samples", json_integer((json_int_t)e->said.samples));
    json_object_set_new(all, "metrics", metrics);
    ps_cli_json_value(e->cli, all);
    json_decref(all);
}

static void end(evaluation *e)
{
    ps_status st = ps_feed_status(e->model.feed);

    if (!ps_is_ok(&st)) {
        ps_eval_model_fail(e->cli, &st);
        return;
    }
    if (e->cli->format == PS_FORMAT_TEXT) {
        show_text(e);
    } else {
        show_json(e);
    }
    ps_cli_end(e->cli, PS_EXIT_OK);
}

/* Evaluates one batch and posts itself again, so that the loop can handle Ctrl-C in between. */
static void on_next(ps_event *self, bool ok)
{
    evaluation *e = PS_CONTAINER_OF(self, evaluation, next);
    ps_eval_model *m = &e->model;
    const ps_data_facts *facts = &m->plan->facts;
    uint32_t n;
    ps_status st;

    if (!ok) {
        return;
    }
    n = ps_eval_model_gather(m, e->said.samples);
    st = ps_eval_model_put_rows(m, n);
    if (!ps_is_ok(&st)) {
        ps_eval_model_fail(e->cli, &st);
        return;
    }
    ps_evaluation_add(&e->said, m->model, m->weights, m->x,
                      facts->classes > 0 ? ps_targets_classes(m->targets)
                                         : ps_targets_values(m->targets, facts->target_width),
                      n);
    if (e->said.samples < ps_dataset_count(m->data, ps_eval_model_split(m))) {
        ps_loop_post(e->cli->loop, &e->next);
    } else {
        end(e);
    }
}

static void start(ps_cli *cli, void *arg)
{
    evaluation *e = arg;
    ps_status st = ps_eval_model_load(&e->model);

    if (ps_is_ok(&st) && e->export_path != NULL) {
        st = export_model(e);
    }
    if (ps_is_ok(&st)) {
        st = ps_eval_model_load_data(&e->model);
    }
    if (!ps_is_ok(&st)) {
        ps_eval_model_fail(cli, &st);
        return;
    }
    ps_evaluation_init(&e->said, e->model.plan);
    e->next.fire = on_next;
    ps_loop_post(cli->loop, &e->next);
}

static bool prepare(ps_cli *cli, void *arg)
{
    evaluation *e = arg;

    e->cli = cli;
    return ps_eval_model_plan(&e->model);
}

static void fini(void *arg)
{
    evaluation *e = arg;

    ps_evaluation_fini(&e->said);
    ps_eval_model_fini(&e->model);
}

const ps_subcommand ps_subcommand_eval = {
    .command = {.name = "psgd eval",
                .summary =
                    "Evaluates a model on a data set in this process, without a coordinator: "
                    "its loss and the metrics of its job, as a worker computes them. The model "
                    "file names the network and the data; a job file or flags override that.",
                .usage = "[options] --model FILE",
                .examples =
                    "psgd eval --model 'MODEL-mnist-N(0).safetensors' --data-path /srv/data\n"
                    "psgd eval -m m.safetensors --job job.yaml --split train\n"
                    "psgd eval -m m.safetensors -T whole.psgdtab -T changes.psgdtab\n"
                    "psgd eval -m m.safetensors --export m.onnx\n"
                    "psgd eval -m m.safetensors -M accuracy -M top_k --format json"},
    .options = options,
    .options_size = sizeof(evaluation),
    .is_local = true,
    .prepare = prepare,
    .start = start,
    .fini = fini,
};
