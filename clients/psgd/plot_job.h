/* SPDX-License-Identifier: Apache-2.0 */
/* plot_job.h - what pictures show of a job, read from the folder of its files. */
#ifndef PS_CLIENTS_PSGD_PLOT_JOB_H
#define PS_CLIENTS_PSGD_PLOT_JOB_H

#include "common/artifact/report_csv.h"

#include "common/base/status.h"

#include <jansson.h>
#include <stdint.h>

/* most metrics: loss, accuracy, 16 others */
enum { PS_PLOT_RANKS_MAX = 256, PS_PLOT_METRICS_MAX = 18 };

/* Indices of the numbers of a row. From PS_PLOT_METRICS on follow the metrics, the loss first. NaN:
 * not known. */
enum {
    PS_PLOT_TIME, /* seconds since training began */
    PS_PLOT_STEP,
    PS_PLOT_UP,   /* bytes that the rank has sent since training began */
    PS_PLOT_DOWN, /* bytes that the rank has received since training began */
    PS_PLOT_WAIT, /* seconds that the rank has waited since training began */
    PS_PLOT_METRICS
};

typedef struct ps_plot_rows {
    size_t n, cap, stride; /* number of rows, room for rows, and numbers in each row */
    double *values;        /* (n, stride) */
} ps_plot_rows;

typedef struct ps_plot_rank {
    /* a row for each step; of a long job two rows for several steps (ps_plot_rows_halve) */
    ps_plot_rows train;
    double compute_s; /* seconds of computing in all rounds; NaN: not known */
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
    /* Bytes of all ranks at n_moments times that divide 0 to end_s evenly. */
    size_t n_moments;
    double end_s;      /* the last of these times, in seconds */
    double *up, *down; /* (n_moments) */
} ps_plot_job;

/* Reads the reports (TR-, EV-), the records of rounds and summary.json in the folder `path`. Of
 * each report keeps at most its share of `rows_max` rows, or 1024 if that is more; of a longer
 * report, only those of neighbours with the least and the greatest loss. The caller calls
 * ps_plot_job_fini after a failure too. Returns NOT_FOUND if the folder has no training reports,
 * DATA_LOSS if a file was not written by psgd, INVALID_ARGUMENT if a rank has two training reports;
 * else fails as reading files does. */
PS_MUST_USE ps_status ps_plot_job_read(ps_plot_job *job, const char *path, size_t rows_max);

/* Returns where a row lies on the horizontal axis; NaN: not known. */
double ps_plot_job_x(const ps_plot_job *job, const double *row, ps_plot_x x);

/* Returns how many bytes all ranks had sent (is_up) or received by a time in seconds; NaN: not
 * known. */
double ps_plot_job_bytes(const ps_plot_job *job, double time_s, bool is_up);

/* Appends a row of `stride` numbers. */
void ps_plot_rows_add(ps_plot_rows *rows, const double *row);

/* Halves the number of rows: of each four neighbours those with the least and the greatest loss
 * stay. */
void ps_plot_rows_halve(ps_plot_rows *rows);

/* Frees what was read; a zeroed job is allowed. */
void ps_plot_job_fini(ps_plot_job *job);

#endif
