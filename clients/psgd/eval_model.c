/* SPDX-License-Identifier: Apache-2.0 */
/* eval_model.c - see eval_model.h. */
#include "clients/psgd/eval_model.h"

#include "clients/psgd/eval_tables.h"

#include "common/artifact/weights.h"
#include "common/base/files.h"
#include "common/base/xalloc.h"
#include "common/job/describe.h"
#include "common/job/look.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_BYTES = 4096 };

/* --- the job ------------------------------------------------------------------- */

/* Sets m->job_id and m->step from a model file's metadata, and *out to the job description there,
 * as JSON. With --job *out is NULL, as the job file describes the job. Without --job it fails if
 * the model file has no description. */
static ps_status read_description(ps_eval_model *m, json_t **out)
{
    ps_safetensors *file = NULL;
    ps_status st = ps_safetensors_open_shapes(m->path, &file);
    const char *text, *job_id, *step;

    if (!ps_is_ok(&st)) {
        return st;
    }
    text = ps_safetensors_meta(file, PS_DESCRIPTION_KEY);
    job_id = ps_safetensors_meta(file, "job");
    step = ps_safetensors_meta(file, "step");
    m->job_id = ps_xstrdup(job_id != NULL ? job_id : "");
    m->step = ps_xstrdup(step != NULL ? step : "");
    if (m->job_path != NULL) {
        *out = NULL;
    } else if (text == NULL) {
        st =
            ps_fail(PS_INVALID_ARGUMENT, "%s does not name its network; give the job file by --job",
                    PS_PATH_SHOWN(m->path));
    } else {
        json_error_t why;

        *out = json_loads(text, JSON_REJECT_DUPLICATES, &why);
        if (!json_is_object(*out)) {
            json_decref(*out);
            st = ps_fail(PS_INVALID_ARGUMENT, "%s: \"%s\" of its metadata is not a JSON object",
                         PS_PATH_SHOWN(m->path), PS_DESCRIPTION_KEY);
        }
    }
    ps_safetensors_close(file);
    return st;
}

/* Removes the job's section "data" (files, columns, counts) if the flags name another data set than
 * that section, which belongs to its own data set. */
static void forget_other_data(const ps_eval_model *m, json_t *json)
{
    const char *name = json_string_value(json_object_get(json_object_get(json, "data"), "name"));

    if (m->flags.data != NULL && (name == NULL || strcmp(name, m->flags.data) != 0)) {
        json_object_del(json, "data");
    }
}

static ps_status read_spec(ps_eval_model *m, ps_error *error, Psgd__V1__JobSpec **out)
{
    json_t *json = NULL;
    ps_status st = read_description(m, &json);

    if (!ps_is_ok(&st)) {
        ps_error_init(error, st, NULL);
        return st;
    }
    if (json == NULL) {
        return ps_spec_build(m->job_path, &m->flags, error, out);
    }
    forget_other_data(m, json);
    st = ps_spec_build_json(json, m->path, &m->flags, error, out);
    json_decref(json);
    return st;
}

static void note_violation(void *arg, const char *field, const char *text)
{
    ps_error_violate(arg, field, "%s", text);
}

/* Sets m->plan from the job that the job file (--job) describes, or else the model file, changed by
 * the flags. Writes what is wrong to *error. */
static ps_status make_plan(ps_eval_model *m, ps_error *error)
{
    Psgd__V1__JobSpec *spec = NULL, *full = NULL;
    ps_status st = read_spec(m, error, &spec);

    if (!ps_is_ok(&st)) {
        return st;
    }
    ps_error_init(error, ps_ok(), NULL);
    st = ps_look(spec, m->data_path, &full);
    if (ps_is_ok(&st)) {
        st = ps_code_complete(full, note_violation, error);
    }
    if (ps_is_ok(&st)) {
        st = ps_plan_create(full, note_violation, error, &m->plan);
        psgd__v1__job_spec__free_unpacked(full, NULL);
    }
    if (ps_is_ok(&st) && ps_plan_is_foreign(m->plan)) {
        st = ps_fail(PS_INVALID_ARGUMENT,
                     "%s has a foreign model, which only the program that has trained it computes",
                     PS_PATH_SHOWN(m->path));
    }
    error->status = st;
    psgd__v1__job_spec__free_unpacked(spec, NULL);
    return st;
}

/* --- model and data ------------------------------------------------------------ */

static ps_status load_weights(ps_eval_model *m)
{
    const ps_layout *layout = &m->plan->layout;
    ps_status st = ps_plan_model(m->plan, PS_EVALUATION_BATCH, &m->model);

    if (!ps_is_ok(&st)) {
        return st;
    }
    m->weights = calloc(layout->param_count, sizeof *m->weights);
    if (m->weights == NULL) {
        return ps_fail(PS_RESOURCE_EXHAUSTED, "out of memory for %zu parameters",
                       layout->param_count);
    }
    return ps_weights_read(m->path, layout->stored, layout->stored_count, m->weights);
}

static ps_status load_data(ps_eval_model *m)
{
    const ps_data_conf *conf = &m->plan->data_conf;
    char folder[PATH_BYTES] = "";
    ps_status st = ps_ok();

    if (ps_data_file_count(conf) > 0) {
        if (m->data_path == NULL || m->data_path[0] == '\0') {
            return ps_fail(PS_NOT_FOUND, "data set %s: give its folder by --data-path or PSGD_DATA",
                           conf->source->name);
        }
        st = ps_path_join(folder, sizeof folder, m->data_path, ps_data_folder(conf));
    }
    if (ps_is_ok(&st)) {
        st = ps_data_load(conf, folder, NULL, &m->data);
    }
    return ps_is_ok(&st) ? ps_plan_feed(m->plan, m->data, 0, &m->feed) : st;
}

ps_split ps_eval_model_split(const ps_eval_model *m)
{
    return strcmp(m->split_name, "train") == 0 ? PS_TRAIN : PS_TEST;
}

bool ps_eval_model_plan(ps_eval_model *m)
{
    ps_error error;
    ps_status st;

    if (m->path == NULL) {
        fputs("psgd: --model is missing; give the file of the model by --model FILE\n", stderr);
        return false;
    }
    st = make_plan(m, &error);
    if (!ps_is_ok(&st)) {
        ps_spec_locate(m->job_path, &error);
        ps_cli_error(&error);
    }
    return ps_is_ok(&st);
}

ps_status ps_eval_model_load(ps_eval_model *m)
{
    ps_status st = load_weights(m);

    if (ps_is_ok(&st)) {
        st = ps_eval_tables(m->plan, m->path, &m->tables, &m->rows);
    }
    m->x = ps_xcalloc((size_t)PS_EVALUATION_BATCH * m->plan->facts.features, sizeof *m->x);
    return st;
}

ps_status ps_eval_model_load_data(ps_eval_model *m)
{
    ps_status st = load_data(m);

    if (ps_is_ok(&st) && ps_dataset_count(m->data, ps_eval_model_split(m)) == 0) {
        st = ps_fail(PS_FAILED_PRECONDITION, "data set %s has no %s samples", m->plan->data->name,
                     m->split_name);
    }
    m->targets =
        ps_xcalloc((size_t)PS_EVALUATION_BATCH * m->plan->facts.target_width, sizeof *m->targets);
    return st;
}

uint32_t ps_eval_model_gather(ps_eval_model *m, uint64_t done)
{
    uint32_t left = ps_dataset_count(m->data, ps_eval_model_split(m)) - (uint32_t)done;
    uint32_t n = left < PS_EVALUATION_BATCH ? left : PS_EVALUATION_BATCH;

    ps_feed_gather(m->feed, 0, ps_eval_model_split(m), NULL, (uint32_t)done, n, m->x, m->targets);
    return n;
}

ps_status ps_eval_model_put_rows(ps_eval_model *m, uint32_t n)
{
    return m->rows != NULL ? ps_evaluation_rows_put(m->rows, m->weights, m->x, n) : ps_ok();
}

void ps_eval_model_fini(ps_eval_model *m)
{
    free(m->x);
    free(m->targets);
    ps_feed_destroy(m->feed);
    ps_dataset_destroy(m->data);
    free(m->weights);
    ps_evaluation_rows_close(m->rows);
    ps_model_destroy(m->model);
    ps_plan_destroy(m->plan);
    free(m->job_id);
    free(m->step);
}

void ps_eval_model_fail(ps_cli *cli, const ps_status *st)
{
    ps_cli_status(st);
    ps_cli_end(cli, PS_EXIT_ARGUMENTS);
}
