/* SPDX-License-Identifier: Apache-2.0 */
/* mlflow.h - requests to MLflow's REST API and its answers, as texts.
 *
 * Pure. The bounds are those that MLflow documents for all of its stores. Older versions accept
 * values of only 500 characters, so longer values are cut to that. */
#ifndef PS_COMMON_TRACKER_MLFLOW_H
#define PS_COMMON_TRACKER_MLFLOW_H

#include "common/job/tracker_url.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    /* metrics in a request, at most; each takes less than a kilobyte */
    PS_MLFLOW_METRICS_MAX = 1000,
    PS_MLFLOW_PARAMS_MAX = 100, /* parameters in a request, at most */
    PS_MLFLOW_KEY_MAX = 250,    /* characters */
    PS_MLFLOW_VALUE_MAX = 500,  /* characters */
    PS_MLFLOW_METRIC_BYTES = 64,
    PS_MLFLOW_ID_BYTES = 128
};

/* Beginnings of the paths of calls and files, after the address of a tracker. */
#define PS_MLFLOW_CALLS "/api/2.0/mlflow/"
#define PS_MLFLOW_FILES "/api/2.0/mlflow-artifacts/artifacts/"

typedef struct ps_mlflow_param {
    char *key, *value;
} ps_mlflow_param;

typedef struct ps_mlflow_params {
    ps_mlflow_param *items; /* (count) */
    size_t count;
} ps_mlflow_params;

typedef struct ps_mlflow_metric {
    char key[PS_MLFLOW_METRIC_BYTES]; /* made of letters, digits and _ - . / */
    double value;                     /* finite */
    uint64_t step;
    int64_t wall_ms;
    uint64_t sequence; /* number of the job's event with this value; 0: none */
} ps_mlflow_metric;

/* How a run ends. */
typedef enum ps_mlflow_end { PS_MLFLOW_FINISHED, PS_MLFLOW_FAILED, PS_MLFLOW_KILLED } ps_mlflow_end;

/* The job whose run it is. */
typedef struct ps_mlflow_job {
    char *id;
    char *title; /* name of the experiment */
    char *owner; /* the principal that submitted the job; "": not known */
    int64_t start_ms;
} ps_mlflow_job;

/* A run as the tracker has it. */
typedef struct ps_mlflow_run {
    char id[PS_MLFLOW_ID_BYTES];
    /* URL for the run's files, with a slash at the end; "": the tracker takes no files */
    char files[PS_TRACKER_URL_BYTES];
} ps_mlflow_run;

/* Lists the values of a specification as parameters: "optimizer.rule.name", "model.widths.0".
 * Values that are too long are cut. Empty values, `tracker`, names that are too long, and what goes
 * beyond 2000 parameters are left out. Free the list by ps_mlflow_params_fini. */
void ps_mlflow_params_of(const json_t *spec, ps_mlflow_params *out);
void ps_mlflow_params_fini(ps_mlflow_params *params);

/* Each of the next functions returns the body of a request, which the caller frees. `count` is at
 * most PS_MLFLOW_PARAMS_MAX or PS_MLFLOW_METRICS_MAX. */
char *ps_mlflow_create_experiment(const ps_mlflow_job *job);
char *ps_mlflow_search_run(const ps_mlflow_job *job, const char *experiment_id);
char *ps_mlflow_create_run(const ps_mlflow_job *job, const char *experiment_id);
char *ps_mlflow_log_params(const char *run_id, const ps_mlflow_param *params, size_t count);
char *ps_mlflow_log_metrics(const char *run_id, const ps_mlflow_metric *metrics, size_t count);
char *ps_mlflow_end_run(const char *run_id, ps_mlflow_end how, int64_t end_ms);

/* Reads the id of the experiment from the answer to get-by-name or create. Returns false if there
 * is none, or if the experiment was deleted. */
bool ps_mlflow_read_experiment(const json_t *answer, char id[PS_MLFLOW_ID_BYTES]);

/* Reads the run from the answer to runs/create, or the first run from that to runs/search. `url` is
 * the tracker's address, with which out->files begins. Returns false if the answer has no run. */
bool ps_mlflow_read_run(const json_t *answer, const ps_tracker_url *url, ps_mlflow_run *out);

/* Returns the error_code of an answer; "" if it has none. Valid as long as the answer. */
const char *ps_mlflow_error_code(const json_t *answer);

/* Writes why the tracker refuses a request, for people, in printable ASCII. `http` is the status of
 * the answer; `answer` may be NULL. */
void ps_mlflow_why(long http, const json_t *answer, char *text, size_t cap);

#endif
