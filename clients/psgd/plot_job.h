/* SPDX-License-Identifier: Apache-2.0 */
/* plot_job.h - what pictures show of a job, read from the folder of its files. */
#ifndef PS_CLIENTS_PSGD_PLOT_JOB_H
#define PS_CLIENTS_PSGD_PLOT_JOB_H

#include "common/artifact/report_csv.h"

#include "common/base/status.h"

#include <jansson.h>
#include <stdint.h>

enum { PS_PLOT_RANKS_MAX = 256, PS_PLOT_METRICS_MAX = 18 }; /* loss, accuracy, 16 others */

/* Numbers of a row; the metrics follow, the loss first. NaN: not known. */
enum {
    PS_PLOT_TIME, /* seconds since training began */
    PS_PLOT_STEP,
    PS_PLOT_UP, /* bytes of the rank since then */
    PS_PLOT_DOWN,
    PS_PLOT_WAIT, /* seconds that it waited since then */
    PS_PLOT_METRICS
};

typedef struct ps_plot_rows {
    size_t n, cap, stride; /* rows; numbers of a row */
    double *values;        /* (n, stride) */
} ps_plot_rows;

typedef struct ps_plot_rank {
    ps_plot_rows train; /* a row for each step, or two for several */
    double compute_s;   /* of all rounds; NaN: not known */
} ps_plot_rank;

/* What the horizontal axis is. */
typedef enum ps_plot_x { PS_PLOT_BY_STEP, PS_PLOT_BY_TIME, PS_PLOT_BY_BYTES } ps_plot_x;

typedef struct ps_plot_job {
    char *id, *title;
    json_t *summary; /* summary.json, an object; empty if the folder has none */
    size_t n_metrics;
    char metrics[PS_PLOT_METRICS_MAX][PS_REPORT_CSV_NAME_BYTES];
    size_t n_ranks;      /* the highest rank with a report, plus 1 */
    ps_plot_rank *ranks; /* (n_ranks) */
    ps_plot_rows tests;  /* means over ranks, by step, ascending */
    /* Bytes of all ranks at moments that are equally far apart. */
    size_t n_moments;
    double end_s;      /* the last moment */
    double *up, *down; /* (n_moments) */
} ps_plot_job;

/* Reads the reports (TR-, EV-), the rounds and summary.json of the folder `path`. Keeps at most
 * `rows_max` rows: of more, those with the least and the greatest loss of neighbours. The caller
 * calls ps_plot_job_fini in any case. Fails with NOT_FOUND if the folder has no reports, with
 * DATA_LOSS if a file is none of psgd's, or as files do. */
PS_MUST_USE ps_status ps_plot_job_read(ps_plot_job *job, const char *path, size_t rows_max);

/* Returns where a row lies on the horizontal axis. */
double ps_plot_job_x(const ps_plot_job *job, const double *row, ps_plot_x x);

/* Returns the bytes that all ranks had sent (`up`) or received at a time. */
double ps_plot_job_bytes(const ps_plot_job *job, double time_s, bool is_up);

/* Appends a row of `stride` numbers. */
void ps_plot_rows_add(ps_plot_rows *rows, const double *row);

/* Halves the rows: of each four neighbours those with the least and the greatest loss stay. */
void ps_plot_rows_halve(ps_plot_rows *rows);

/* Frees what was read; a zeroed job is allowed. */
void ps_plot_job_fini(ps_plot_job *job);

#endif
