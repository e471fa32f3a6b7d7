/* SPDX-License-Identifier: Apache-2.0 */
/* eval.c - psgd eval --model FILE: evaluates a model on a data set in this process, with the code
 * of the workers.
 *
 * A model file of psgd says which network it is of and which data it was trained on. A job file or
 * flags override that.
 */
#include "clients/psgd/build_spec.h"
#include "clients/psgd/cli.h"
#include "clients/psgd/eval_tables.h"

#include "common/artifact/weights.h"
#include "common/base/container_of.h"
#include "common/base/files.h"
#include "common/base/xalloc.h"
#include "common/job/describe.h"
#include "common/job/look.h"
#include "common/rpc/pbjson.h"
#include "common/train/evaluation.h"
#include "common/train/evaluation_export.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_BYTES = 4096 };

typedef struct evaluation {
    const char *model_path, *job_path, *data_path, *split_name, *export_path;
    ps_spec_flags flags;
    ps_option_list tables;
    /* State while it runs. */
    ps_cli *cli;
    char *job_id, *step; /* as the model file says; "" if it does not */
    ps_plan *plan;
    ps_model *model;
    float *weights;           /* param_count values */
    ps_evaluation_rows *rows; /* rows of sparse tables; NULL: the model has none */
    ps_dataset *data;
    ps_feed *feed; /* the data, through the transforms of the job */
    ps_evaluation said;
    float *x, *targets; /* values of a batch */
    ps_event next;
} evaluation;

static const ps_option options[] = {
    PS_OPTION_STRING(evaluation, model_path, .name = "model", .letter = 'm', .metavar = "FILE",
                     .help = "the model file (safetensors)"),
    PS_OPTION_LIST(evaluation, tables, .name = "table", .letter = 'T', .metavar = "FILE",
                   .help = "file of a sparse table, of each server; changes behind what they "
                           "change (default: those of the same job beside the model)"),
    PS_OPTION_STRING(evaluation, export_path, .name = "export", .metavar = "FILE",
                     .help = "write a model with sparse tables with a row for every id, as "
                             "safetensors, or as ONNX if FILE ends in .onnx"),
    PS_OPTION_STRING(evaluation, job_path, .name = "job", .letter = 'j', .metavar = "FILE",
                     .help = "job file with its network and data (default: what the model file "
                             "says)"),
    PS_OPTION_STRING(evaluation, flags.data, .name = "data", .letter = 'D', .metavar = "NAME",
                     .help = "data set, instead of the job's"),
    PS_OPTION_STRING(evaluation, data_path, .name = "data-path", .env = "PSGD_DATA",
                     .metavar = "DIR", .help = "folder of the data sets, with mnist/ and others"),
    PS_OPTION_STRING(evaluation, split_name, .name = "split", .choices = "test|train",
                     .value = "test", .help = "which samples"),
    PS_OPTION_STRING(evaluation, flags.train_limit, .name = "train-limit", .metavar = "N",
                     .help = "training samples to use; 0: all"),
    PS_OPTION_STRING(evaluation, flags.test_limit, .name = "test-limit", .metavar = "N",
                     .help = "test samples to use; 0: all"),
    PS_OPTION_LIST(evaluation, flags.metrics, .name = "metric", .letter = 'M', .metavar = "NAME",
                   .help = "metric beside the loss (default: the metrics of the job)"),
    PS_OPTION_LIST(evaluation, flags.set, .name = "set", .letter = 's', .metavar = "PATH=VALUE",
                   .help = "set any field of the job, such as model.loss=mse"),
    PS_OPTION_END,
};

/* --- the job ------------------------------------------------------------------- */

/* Reads what the model file says of itself, as JSON. */
static ps_status read_description(evaluation *e, json_t **out)
{
    ps_safetensors *file = NULL;
    ps_status st = ps_safetensors_open_shapes(e->model_path, &file);
    const char *text, *job_id, *step;

    if (!ps_is_ok(&st)) {
        return st;
    }
    text = ps_safetensors_meta(file, PS_DESCRIPTION_KEY);
    job_id = ps_safetensors_meta(file, "job");
    step = ps_safetensors_meta(file, "step");
    e->job_id = ps_xstrdup(job_id != NULL ? job_id : "");
    e->step = ps_xstrdup(step != NULL ? step : "");
    if (e->job_path != NULL) {
        *out = NULL;
    } else if (text == NULL) {
        st =
            ps_fail(PS_INVALID_ARGUMENT, "%s does not name its network; give the job file by --job",
                    PS_PATH_SHOWN(e->model_path));
    } else {
        json_error_t why;

        *out = json_loads(text, JSON_REJECT_DUPLICATES, &why);
        if (!json_is_object(*out)) {
            json_decref(*out);
            st = ps_fail(PS_INVALID_ARGUMENT, "%s: \"%s\" of its metadata is not a JSON object",
                         PS_PATH_SHOWN(e->model_path), PS_DESCRIPTION_KEY);
        }
    }
    ps_safetensors_close(file);
    return st;
}

/* Removes files, columns and counts if another data set was named, since they belong to the old
 * one. */
static void forget_other_data(const evaluation *e, json_t *json)
{
    const char *name = json_string_value(json_object_get(json_object_get(json, "data"), "name"));

    if (e->flags.data != NULL && (name == NULL || strcmp(name, e->flags.data) != 0)) {
        json_object_del(json, "data");
    }
}

static ps_status read_spec(evaluation *e, ps_error *error, Psgd__V1__JobSpec **out)
{
    json_t *json = NULL;
    ps_status st = read_description(e, &json);

    if (!ps_is_ok(&st)) {
        ps_error_init(error, st, NULL);
        return st;
    }
    if (json == NULL) {
        return ps_spec_build(e->job_path, &e->flags, error, out);
    }
    forget_other_data(e, json);
    st = ps_spec_build_json(json, e->model_path, &e->flags, error, out);
    json_decref(json);
    return st;
}

static void note_violation(void *arg, const char *field, const char *text)
{
    ps_error_violate(arg, field, "%s", text);
}

/* Makes the plan from file, model and flags. Writes what is wrong to *error. */
static ps_status make_plan(evaluation *e, ps_error *error)
{
    Psgd__V1__JobSpec *spec = NULL, *full = NULL;
    ps_status st = read_spec(e, error, &spec);

    if (!ps_is_ok(&st)) {
        return st;
    }
    ps_error_init(error, ps_ok(), NULL);
    st = ps_look(spec, e->data_path, &full);
    if (ps_is_ok(&st)) {
        st = ps_plan_create(full, note_violation, error, &e->plan);
        psgd__v1__job_spec__free_unpacked(full, NULL);
    }
    error->status = st;
    psgd__v1__job_spec__free_unpacked(spec, NULL);
    return st;
}

/* --- model and data ------------------------------------------------------------ */

static ps_status load_model(evaluation *e)
{
    const ps_layout *layout = &e->plan->layout;
    ps_status st = ps_plan_model(e->plan, PS_EVALUATION_BATCH, &e->model);

    if (!ps_is_ok(&st)) {
        return st;
    }
    e->weights = calloc(layout->param_count, sizeof *e->weights);
    if (e->weights == NULL) {
        return ps_fail(PS_RESOURCE_EXHAUSTED, "out of memory for %zu parameters",
                       layout->param_count);
    }
    return ps_weights_read(e->model_path, layout->stored, layout->stored_count, e->weights);
}

static ps_status export_model(const evaluation *e)
{
    if (e->rows == NULL) {
        return ps_fail(PS_INVALID_ARGUMENT, "--export: the model has no sparse tables, so the "
                                            "model file is complete already");
    }
    return ps_wrap(ps_evaluation_export(e->plan, e->weights, e->rows, e->export_path), "%s",
                   PS_PATH_SHOWN(e->export_path));
}

static ps_status load_data(evaluation *e)
{
    const ps_data_conf *conf = &e->plan->data_conf;
    char folder[PATH_BYTES] = "";
    ps_status st = ps_ok();

    if (ps_data_file_count(conf) > 0) {
        if (e->data_path == NULL || e->data_path[0] == '\0') {
            return ps_fail(PS_NOT_FOUND, "data set %s: give its folder by --data-path or PSGD_DATA",
                           conf->source->name);
        }
        st = ps_path_join(folder, sizeof folder, e->data_path, ps_data_folder(conf));
    }
    if (ps_is_ok(&st)) {
        st = ps_data_load(conf, folder, NULL, &e->data);
    }
    return ps_is_ok(&st) ? ps_plan_feed(e->plan, e->data, &e->feed) : st;
}

/* --- the work ------------------------------------------------------------------ */

static ps_split split_of(const evaluation *e)
{
    return strcmp(e->split_name, "train") == 0 ? PS_TRAIN : PS_TEST;
}

static void fail(evaluation *e, const ps_status *st)
{
    ps_cli_status(st);
    ps_cli_end(e->cli, PS_EXIT_ARGUMENTS);
}

static void show_text(evaluation *e)
{
    double values[PS_METRICS_MAX];

    ps_evaluation_values(&e->said, values);
    printf("model     %s\n", e->model_path);
    if (e->job_id[0] != '\0') {
        printf("of        job %s%s%s\n", e->job_id, e->step[0] != '\0' ? ", step " : "", e->step);
    }
    printf("data      %s, %s set, %llu samples\n", e->plan->data->name, e->split_name,
           (unsigned long long)e->said.samples);
    printf("%-9s %.6g\n", "loss", ps_evaluation_loss(&e->said));
    for (size_t m = 0; m < e->plan->metric_count; m++) {
        printf("%-9s %.6g\n", e->plan->metrics[m].metric->name, values[m]);
    }
}

/* Adds a number, or null if it is not finite. */
static void put_number(json_t *metrics, const char *name, double value)
{
    json_object_set_new(metrics, name, isfinite(value) ? json_real(value) : json_null());
}

/* Adds a text, or nothing if it is not UTF-8. */
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
    for (size_t m = 0; m < e->plan->metric_count; m++) {
        put_number(metrics, e->plan->metrics[m].metric->name, values[m]);
    }
    put_text(all, "model", e->model_path);
    put_text(all, "job", e->job_id);
    put_text(all, "step", e->step);
    put_text(all, "data", e->plan->data->name);
    put_text(all, "split", e->split_name);
    json_object_set_new(all, "samples", json_integer((json_int_t)e->said.samples));
    json_object_set_new(all, "metrics", metrics);
    ps_cli_json_value(e->cli, all);
    json_decref(all);
}

static void end(evaluation *e)
{
    ps_status st = ps_feed_status(e->feed);

    if (!ps_is_ok(&st)) {
        fail(e, &st);
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
    const ps_data_facts *facts = &e->plan->facts;
    uint32_t done = (uint32_t)e->said.samples;
    uint32_t left = ps_dataset_count(e->data, split_of(e)) - done;
    uint32_t n = left < PS_EVALUATION_BATCH ? left : PS_EVALUATION_BATCH;
    ps_status st;

    if (!ok) {
        return;
    }
    ps_feed_gather(e->feed, 0, split_of(e), NULL, done, n, e->x, e->targets);
    st = e->rows != NULL ? ps_evaluation_rows_put(e->rows, e->weights, e->x, n) : ps_ok();
    if (!ps_is_ok(&st)) {
        fail(e, &st);
        return;
    }
    ps_evaluation_add(&e->said, e->model, e->weights, e->x,
                      facts->classes > 0 ? ps_targets_classes(e->targets)
                                         : ps_targets_values(e->targets, facts->target_width),
                      n);
    if (n < left) {
        ps_loop_post(e->cli->loop, &e->next);
    } else {
        end(e);
    }
}

static void start(ps_cli *cli, void *arg)
{
    evaluation *e = arg;
    ps_status st = load_model(e);

    if (ps_is_ok(&st)) {
        st = ps_eval_tables(e->plan, e->model_path, &e->tables, &e->rows);
    }
    if (ps_is_ok(&st) && e->export_path != NULL) {
        st = export_model(e);
    }
    if (ps_is_ok(&st)) {
        st = load_data(e);
    }
    if (ps_is_ok(&st) && ps_dataset_count(e->data, split_of(e)) == 0) {
        st = ps_fail(PS_FAILED_PRECONDITION, "data set %s has no %s samples", e->plan->data->name,
                     e->split_name);
    }
    if (!ps_is_ok(&st)) {
        fail(e, &st);
        return;
    }
    e->x = ps_xcalloc((size_t)PS_EVALUATION_BATCH * e->plan->facts.features, sizeof *e->x);
    e->targets =
        ps_xcalloc((size_t)PS_EVALUATION_BATCH * e->plan->facts.target_width, sizeof *e->targets);
    ps_evaluation_init(&e->said, e->plan);
    e->next.fire = on_next;
    ps_loop_post(cli->loop, &e->next);
}

static bool prepare(ps_cli *cli, void *arg)
{
    evaluation *e = arg;
    ps_error error;
    ps_status st;

    e->cli = cli;
    if (e->model_path == NULL) {
        fputs("psgd: --model is missing; give the file of the model by --model FILE\n", stderr);
        return false;
    }
    st = make_plan(e, &error);
    if (!ps_is_ok(&st)) {
        ps_spec_locate(e->job_path, &error);
        ps_cli_error(&error);
    }
    return ps_is_ok(&st);
}

static void fini(void *arg)
{
    evaluation *e = arg;

    ps_evaluation_fini(&e->said);
    free(e->x);
    free(e->targets);
    ps_feed_destroy(e->feed);
    ps_dataset_destroy(e->data);
    free(e->weights);
    ps_evaluation_rows_close(e->rows);
    ps_model_destroy(e->model);
    ps_plan_destroy(e->plan);
    free(e->job_id);
    free(e->step);
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
