/* SPDX-License-Identifier: Apache-2.0 */
/* mlflow.c - see mlflow.h. */
#include "common/tracker/mlflow.h"

#include "common/base/strbuf.h"
#include "common/base/utf8.h"
#include "common/base/xalloc.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { PARAMS_MAX = 2000 }; /* most parameters of a run; further ones are not sent */

/* Each run has the id of its job as this tag. By the tag a process that was started again finds the
 * run. */
#define JOB_TAG "psgd_job"

/* --- parameters --------------------------------------------------------------------- */

/* Returns the first `max` characters of `text`, in memory that the caller frees. */
static char *cut(const char *text, size_t max)
{
    size_t n = strlen(text), at = 0;

    for (size_t count = 0; at < n && count < max; count++) {
        size_t length = ps_utf8_length(text + at, n - at);

        at += length > 0 ? length : 1;
    }
    return ps_xstrndup(text, at);
}

static void add_param(ps_mlflow_params *out, const char *key, const char *value)
{
    ps_mlflow_param *p;

    if (value[0] == '\0' || strlen(key) > PS_MLFLOW_KEY_MAX || out->count == PARAMS_MAX) {
        return;
    }
    p = &out->items[out->count++];
    p->key = ps_xstrdup(key);
    p->value = cut(value, PS_MLFLOW_VALUE_MAX);
}

/* Appends `name` to a parameter's name, behind a dot unless it is the first part. All characters
 * but letters, digits and - become "_", because MLflow refuses some of them in names. */
static void add_name(ps_strbuf *path, const char *name)
{
    ps_strbuf_puts(path, path->len > 0 ? "." : "");
    for (; *name != '\0'; name++) {
        bool is_letter = (*name >= 'a' && *name <= 'z') || (*name >= 'A' && *name <= 'Z') ||
                         (*name >= '0' && *name <= '9') || *name == '-';

        ps_strbuf_putc(path, is_letter ? *name : '_');
    }
}

/* Adds every number, truth value and text within `value` to the parameters. A name has the keys and
 * indices that lead to the value. Leaves out the member "tracker" of the outermost object, empty
 * texts, names longer than PS_MLFLOW_KEY_MAX, and what goes beyond PARAMS_MAX. The recursion is
 * bounded by the depth of the message of which the JSON was made. */
static void flatten(const json_t *value, ps_strbuf *path, ps_mlflow_params *out)
{
    size_t length = path->len, i;
    char number[40] = "";
    const char *key;
    const json_t *item;

    switch (json_typeof(value)) {
    case JSON_OBJECT:
        for (void *at = json_object_iter((json_t *)value); at != NULL;
             at = json_object_iter_next((json_t *)value, at)) {
            key = json_object_iter_key(at);
            item = json_object_iter_value(at);
            if (length == 0 && strcmp(key, "tracker") == 0) {
                continue;
            }
            add_name(path, key);
            flatten(item, path, out);
            ps_strbuf_truncate(path, length);
        }
        break;
    case JSON_ARRAY:
        json_array_foreach((json_t *)value, i, item)
        {
            ps_strbuf_printf(path, ".%zu", i);
            flatten(item, path, out);
            ps_strbuf_truncate(path, length);
        }
        break;
    case JSON_STRING:
        add_param(out, ps_strbuf_text(path), json_string_value(value));
        break;
    case JSON_INTEGER:
        snprintf(number, sizeof number, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
        break;
    case JSON_REAL:
        snprintf(number, sizeof number, "%.15g", json_real_value(value));
        break;
    case JSON_TRUE:
    case JSON_FALSE:
        snprintf(number, sizeof number, "%s", json_is_true(value) ? "true" : "false");
        break;
    case JSON_NULL:
        break;
    }
    add_param(out, ps_strbuf_text(path), number);
}

void ps_mlflow_params_of(const json_t *spec, ps_mlflow_params *out)
{
    ps_strbuf path = {0};

    *out = (ps_mlflow_params){.items = ps_xcalloc(PARAMS_MAX, sizeof out->items[0])};
    flatten(spec, &path, out);
    ps_strbuf_fini(&path);
}

void ps_mlflow_params_fini(ps_mlflow_params *params)
{
    for (size_t i = 0; i < params->count; i++) {
        free(params->items[i].key);
        free(params->items[i].value);
    }
    free(params->items);
    *params = (ps_mlflow_params){0};
}

/* --- requests ----------------------------------------------------------------------- */

/* Returns the JSON text of `body`, or "{}" if there is none, in memory that the caller frees. Takes
 * over the reference to `body`. */
static char *text_of(json_t *body)
{
    char *text = json_dumps(body, JSON_COMPACT | JSON_REAL_PRECISION(17));

    json_decref(body);
    return text != NULL ? text : ps_xstrdup("{}");
}

/* Returns `text` as a JSON string, or an empty one if it is not UTF-8. */
static json_t *string(const char *text)
{
    json_t *s = json_string(text);

    return s != NULL ? s : json_string("");
}

static json_t *pair(const char *key, const char *value)
{
    return json_pack("{s:o, s:o}", "key", string(key), "value", string(value));
}

char *ps_mlflow_create_experiment(const ps_mlflow_job *job)
{
    return text_of(json_pack("{s:o}", "name", string(job->title)));
}

char *ps_mlflow_search_run(const ps_mlflow_job *job, const char *experiment_id)
{
    json_t *filter = json_sprintf("tags." JOB_TAG " = '%s'", job->id);

    return text_of(json_pack("{s:[o], s:o, s:i}", "experiment_ids", string(experiment_id), "filter",
                             filter, "max_results", 1));
}

char *ps_mlflow_create_run(const ps_mlflow_job *job, const char *experiment_id)
{
    const char *user = job->owner[0] != '\0' ? job->owner : "psgd";
    json_t *tags = json_pack("[o, o, o, o]", pair(JOB_TAG, job->id), pair("mlflow.user", user),
                             pair("mlflow.source.name", "psgd"), pair("psgd_version", PS_VERSION));

    return text_of(json_pack("{s:o, s:o, s:o, s:I, s:o}", "experiment_id", string(experiment_id),
                             "run_name", string(job->id), "user_id", string(user), "start_time",
                             (json_int_t)job->start_ms, "tags", tags));
}

char *ps_mlflow_log_params(const char *run_id, const ps_mlflow_param *params, size_t count)
{
    json_t *list = json_array();

    for (size_t i = 0; i < count; i++) {
        json_array_append_new(list, pair(params[i].key, params[i].value));
    }
    return text_of(json_pack("{s:o, s:o}", "run_id", string(run_id), "params", list));
}

char *ps_mlflow_log_metrics(const char *run_id, const ps_mlflow_metric *metrics, size_t count)
{
    json_t *list = json_array();

    for (size_t i = 0; i < count; i++) {
        const ps_mlflow_metric *m = &metrics[i];

        json_array_append_new(list, json_pack("{s:o, s:f, s:I, s:I}", "key", string(m->key),
                                              "value", m->value, "timestamp",
                                              (json_int_t)m->wall_ms, "step", (json_int_t)m->step));
    }
    return text_of(json_pack("{s:o, s:o}", "run_id", string(run_id), "metrics", list));
}

char *ps_mlflow_end_run(const char *run_id, ps_mlflow_end how, int64_t end_ms)
{
    static const char *const names[] = {
        [PS_MLFLOW_FINISHED] = "FINISHED",
        [PS_MLFLOW_FAILED] = "FAILED",
        [PS_MLFLOW_KILLED] = "KILLED",
    };

    return text_of(json_pack("{s:o, s:s, s:I}", "run_id", string(run_id), "status", names[how],
                             "end_time", (json_int_t)end_ms));
}

/* --- answers ------------------------------------------------------------------------ */

/* Copies an id of the tracker's answer to `out`. Returns false if it could not be put into a
 * request as it is: if it is empty, too long, or has other characters than letters, digits, _ and
 * -. */
static bool take_id(const json_t *value, char out[PS_MLFLOW_ID_BYTES])
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";
    const char *text = json_string_value(value);

    if (text == NULL || text[0] == '\0' || strlen(text) >= PS_MLFLOW_ID_BYTES ||
        text[strspn(text, letters)] != '\0') {
        return false;
    }
    snprintf(out, PS_MLFLOW_ID_BYTES, "%s", text);
    return true;
}

bool ps_mlflow_read_experiment(const json_t *answer, char id[PS_MLFLOW_ID_BYTES])
{
    const json_t *experiment = json_object_get(answer, "experiment");
    const char *stage = json_string_value(json_object_get(experiment, "lifecycle_stage"));

    return (stage == NULL || strcmp(stage, "active") == 0) &&
           take_id(json_object_get(experiment != NULL ? experiment : answer, "experiment_id"), id);
}

/* Writes the address for a run's files to `out`. It is always below the tracker that was asked: of
 * `uri` only the path counts, not the host. Writes "" if the tracker takes no files, because it
 * keeps them in a store of its own, such as s3://. Also if the path has ".." or characters that
 * need escapes, or is too long. */
static void read_files(const char *uri, const ps_tracker_url *url, char *out, size_t cap)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._~-/";
    static const char scheme[] = "mlflow-artifacts:";
    const char *path = uri != NULL ? uri : "";
    int n;

    out[0] = '\0';
    if (strncmp(path, scheme, sizeof scheme - 1) != 0) {
        return;
    }
    path += sizeof scheme - 1;
    if (strncmp(path, "//", 2) == 0) { /* skips "//" and the host behind it */
        path += 2 + strcspn(path + 2, "/");
    }
    path += strspn(path, "/");
    if (path[0] == '\0' || path[strspn(path, letters)] != '\0' || strstr(path, "..") != NULL) {
        return;
    }
    n = snprintf(out, cap, "%s" PS_MLFLOW_FILES "%s/", url->base, path);
    if (n < 0 || (size_t)n >= cap) {
        out[0] = '\0';
    }
}

bool ps_mlflow_read_run(const json_t *answer, const ps_tracker_url *url, ps_mlflow_run *out)
{
    const json_t *run = json_object_get(answer, "run");
    const json_t *info = json_object_get(
        run != NULL ? run : json_array_get(json_object_get(answer, "runs"), 0), "info");

    if (!take_id(json_object_get(info, "run_id"), out->id)) {
        return false;
    }
    read_files(json_string_value(json_object_get(info, "artifact_uri")), url, out->files,
               sizeof out->files);
    return true;
}

const char *ps_mlflow_error_code(const json_t *answer)
{
    const char *code = json_string_value(json_object_get(answer, "error_code"));

    return code != NULL ? code : "";
}

void ps_mlflow_why(long http, const json_t *answer, char *text, size_t cap)
{
    const char *message = json_string_value(json_object_get(answer, "message"));
    const char *code = ps_mlflow_error_code(answer);

    snprintf(text, cap, "it answers HTTP %ld%s%.40s%s%.160s", http, code[0] != '\0' ? " " : "",
             code, message != NULL ? ": " : "", message != NULL ? message : "");
    for (char *c = text; *c != '\0'; c++) {
        *c = *c >= 0x20 && *c <= 0x7e ? *c : '?';
    }
}
