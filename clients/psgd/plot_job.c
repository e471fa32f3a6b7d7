/* SPDX-License-Identifier: Apache-2.0 */
/* plot_job.c - see plot_job.h. */
#include "clients/psgd/plot_job.h"

#include "common/base/files.h"
#include "common/base/shorten.h"
#include "common/base/xalloc.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PATH_BYTES = 4096,
    FILE_BYTES_MAX = 512 << 20,
    SUMMARY_BYTES_MAX = 16 << 20,
    ROWS_LEAST = 1024, /* least limit for the rows of a report, however many reports there are */
    MOMENTS = 1024
};

/* --- rows ------------------------------------------------------------------------ */

void ps_plot_rows_add(ps_plot_rows *rows, const double *row)
{
    if (rows->n == rows->cap) {
        rows->cap = rows->cap == 0 ? 256 : rows->cap * 2;
        rows->values = ps_xrealloc(rows->values, rows->cap * rows->stride * sizeof *row);
    }
    memcpy(rows->values + rows->n * rows->stride, row, rows->stride * sizeof *row);
    rows->n++;
}

static const double *row_at(const ps_plot_rows *rows, size_t i)
{
    return rows->values + i * rows->stride;
}

void ps_plot_rows_halve(ps_plot_rows *rows)
{
    size_t kept = 0, stride = rows->stride;

    for (size_t i = 0; i < rows->n; i += 4) {
        size_t end = i + 4 < rows->n ? i + 4 : rows->n, least = i, greatest = i;

        for (size_t j = i + 1; j < end; j++) {
            double loss = row_at(rows, j)[PS_PLOT_METRICS];

            least = loss < row_at(rows, least)[PS_PLOT_METRICS] ? j : least;
            greatest = loss > row_at(rows, greatest)[PS_PLOT_METRICS] ? j : greatest;
        }
        if (least == greatest) {
            /* All losses of these rows are equal, or the first one is not a number: keep the first
             * row and the last. */
            greatest = end - 1;
        }
        for (size_t j = i; j < end; j++) {
            if (j == least || j == greatest) {
                memmove(rows->values + kept * stride, row_at(rows, j), stride * sizeof(double));
                kept++;
            }
        }
    }
    rows->n = kept;
}

/* --- files ----------------------------------------------------------------------- */

/* Returns the slot of a metric in the job's rows. Adds the metric if it is new; returns 0 if there
 * is no room for it. */
static size_t slot_of_metric(ps_plot_job *job, const char *name)
{
    for (size_t i = 0; i < job->n_metrics; i++) {
        if (strcmp(job->metrics[i], name) == 0) {
            return PS_PLOT_METRICS + i;
        }
    }
    if (job->n_metrics == PS_PLOT_METRICS_MAX) {
        return 0;
    }
    snprintf(job->metrics[job->n_metrics], PS_REPORT_CSV_NAME_BYTES, "%s", name);
    return PS_PLOT_METRICS + job->n_metrics++;
}

/* Returns for each column of a report its slot in rows plus 1, or 0 if the column is not needed or
 * has no room. Adds new metrics to the job. The caller frees the list. */
static size_t *find_slots(ps_plot_job *job, const ps_report_csv *csv)
{
    static const struct {
        const char *name;
        size_t slot;
    } fixed[] = {{"time_s", PS_PLOT_TIME + 1},
                 {"step", PS_PLOT_STEP + 1},
                 {"bytes_up", PS_PLOT_UP + 1},
                 {"bytes_down", PS_PLOT_DOWN + 1},
                 {"wait_s", PS_PLOT_WAIT + 1},
                 {"samples_per_s", 0},
                 {"epoch", 0},
                 {"batch", 0}};
    size_t *slots = ps_xcalloc(csv->n_columns, sizeof *slots);

    for (size_t i = 0; i < csv->n_columns; i++) {
        size_t f = 0;

        while (f < sizeof fixed / sizeof fixed[0] && strcmp(fixed[f].name, csv->names[i]) != 0) {
            f++;
        }
        if (f < sizeof fixed / sizeof fixed[0]) {
            slots[i] = fixed[f].slot;
        } else {
            size_t slot = slot_of_metric(job, csv->names[i]);

            slots[i] = slot > 0 ? slot + 1 : 0;
        }
    }
    return slots;
}

/* Reads a report's lines into `rows`, which are thinned out so that there are at most rows_max. */
static ps_status read_report(ps_plot_job *job, const char *path, size_t rows_max,
                             ps_plot_rows *rows)
{
    double row[PS_PLOT_METRICS + PS_PLOT_METRICS_MAX], *values = NULL;
    size_t n, *slots = NULL;
    ps_report_csv csv = {0};
    char *text = NULL;
    ps_status st = ps_file_read(path, FILE_BYTES_MAX, &text, &n);

    if (!ps_is_ok(&st)) {
        return st;
    }
    if (!ps_report_csv_init(&csv, text, n) || ps_report_csv_find(&csv, "step") == csv.n_columns) {
        st = ps_fail(PS_DATA_LOSS,
                     "%s: no report of psgd: its first line must name columns, "
                     "among them step",
                     PS_PATH_SHOWN(path));
        goto out;
    }
    slots = find_slots(job, &csv);
    values = ps_xcalloc(csv.n_columns, sizeof *values);
    rows->stride = PS_PLOT_METRICS + PS_PLOT_METRICS_MAX;
    while (ps_report_csv_next(&csv, values)) {
        for (size_t i = 0; i < rows->stride; i++) {
            row[i] = (double)NAN;
        }
        for (size_t i = 0; i < csv.n_columns; i++) {
            if (slots[i] > 0) {
                row[slots[i] - 1] = values[i];
            }
        }
        if (rows->n >= rows_max) {
            ps_plot_rows_halve(rows);
        }
        ps_plot_rows_add(rows, row);
    }
out:
    ps_report_csv_fini(&csv);
    free(values);
    free(slots);
    free(text);
    return st;
}

/* Adds the seconds that each rank has computed, from the file of rounds `path`, to the rank's
 * compute_s. It stays NAN if the file has no column or no number for the rank. */
static ps_status read_rounds(ps_plot_job *job, const char *path)
{
    ps_report_csv csv = {0};
    double *values = NULL;
    char *text = NULL, name[PS_REPORT_CSV_NAME_BYTES];
    size_t n, *columns = NULL;
    ps_status st = ps_file_read(path, FILE_BYTES_MAX, &text, &n);

    if (!ps_is_ok(&st)) {
        return st;
    }
    if (!ps_report_csv_init(&csv, text, n)) {
        st = ps_fail(PS_DATA_LOSS, "%s: no record of rounds: its first line must name columns",
                     PS_PATH_SHOWN(path));
        goto out;
    }
    values = ps_xcalloc(csv.n_columns, sizeof *values);
    columns = ps_xcalloc(job->n_ranks + 1, sizeof *columns);
    for (size_t r = 0; r < job->n_ranks; r++) {
        snprintf(name, sizeof name, "compute_s_%zu", r);
        columns[r] = ps_report_csv_find(&csv, name);
    }
    while (ps_report_csv_next(&csv, values)) {
        for (size_t r = 0; r < job->n_ranks; r++) {
            if (columns[r] < csv.n_columns && isfinite(values[columns[r]])) {
                double *sum = &job->ranks[r].compute_s;

                *sum = (isnan(*sum) ? 0 : *sum) + values[columns[r]];
            }
        }
    }
out:
    ps_report_csv_fini(&csv);
    free(values);
    free(columns);
    free(text);
    return st;
}

/* Returns the rank in a file's name, such as "TR-{title}-N({rank}).csv". SIZE_MAX: the name has
 * another form or does not begin with `prefix`, or the rank is PS_PLOT_RANKS_MAX or more. */
static size_t rank_of(const char *name, const char *prefix)
{
    const char *at = strncmp(name, prefix, strlen(prefix)) == 0 ? strrchr(name, '(') : NULL;
    char *rest;
    unsigned long rank;

    if (at == NULL || at - name < 2 || memcmp(at - 2, "-N", 2) != 0 || at[1] < '0' || at[1] > '9') {
        return SIZE_MAX;
    }
    rank = strtoul(at + 1, &rest, 10);
    return strcmp(rest, ").csv") == 0 && rank < PS_PLOT_RANKS_MAX ? rank : SIZE_MAX;
}

static void grow_ranks(ps_plot_job *job, size_t n)
{
    if (n > job->n_ranks) {
        job->ranks = ps_xrealloc(job->ranks, n * sizeof *job->ranks);
        for (; job->n_ranks < n; job->n_ranks++) {
            job->ranks[job->n_ranks] = (ps_plot_rank){.compute_s = (double)NAN};
        }
    }
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Lists the names of the files of a folder that begin with TR-, EV- or ROUND- and end with .csv,
 * sorted; at most 4 * PS_PLOT_RANKS_MAX. The caller frees each name and the list. */
static ps_status list(const char *path, char ***names, size_t *n)
{
    DIR *dir = opendir(path);
    const struct dirent *e;
    size_t cap = 0;

    if (dir == NULL) {
        return ps_fail_errno(errno, "%s", PS_PATH_SHOWN(path));
    }
    while ((e = readdir(dir)) != NULL && *n < 4 * PS_PLOT_RANKS_MAX) {
        const char *end = strrchr(e->d_name, '.');

        if (end == NULL || strcmp(end, ".csv") != 0 ||
            (strncmp(e->d_name, "TR-", 3) != 0 && strncmp(e->d_name, "EV-", 3) != 0 &&
             strncmp(e->d_name, "ROUND-", 6) != 0)) {
            continue;
        }
        if (*n == cap) {
            cap = cap == 0 ? 64 : cap * 2;
            *names = ps_xrealloc(*names, cap * sizeof **names);
        }
        (*names)[(*n)++] = ps_xstrdup(e->d_name);
    }
    closedir(dir);
    if (*n > 0) {
        qsort(*names, *n, sizeof **names, by_name);
    }
    return ps_ok();
}

/* --- a folder ------------------------------------------------------------------ */

static int by_step(const void *a, const void *b)
{
    double x = ((const double *)a)[PS_PLOT_STEP], y = ((const double *)b)[PS_PLOT_STEP];

    return (x > y) - (x < y);
}

/* Sorts the rows of tests, which are of all ranks, by step. Replaces those with the same step by
 * one row with the means of their numbers. */
static void merge_tests(ps_plot_rows *tests)
{
    size_t kept = 0;

    if (tests->n > 0) {
        qsort(tests->values, tests->n, tests->stride * sizeof *tests->values, by_step);
    }
    for (size_t i = 0; i < tests->n;) {
        double *out = tests->values + kept * tests->stride;
        size_t end = i + 1;

        while (end < tests->n &&
               row_at(tests, end)[PS_PLOT_STEP] == row_at(tests, i)[PS_PLOT_STEP]) {
            end++;
        }
        for (size_t k = 0; k < tests->stride; k++) {
            double sum = 0;
            size_t count = 0;

            for (size_t j = i; j < end; j++) {
                if (!isnan(row_at(tests, j)[k])) {
                    sum += row_at(tests, j)[k];
                    count++;
                }
            }
            /* `out` may be the first of these rows, whose column k is not read again */
            out[k] = count > 0 ? sum / (double)count : (double)NAN;
        }
        kept++;
        i = end;
    }
    tests->n = kept;
}

/* Adds the bytes of a rank to the job's bytes at each of its moments: n_moments times from 0 to
 * end_s, equally far apart. They are interpolated between the rank's rows. */
static void add_bytes(ps_plot_job *job, const ps_plot_rows *rows)
{
    size_t next = 0;

    for (size_t m = 0; m < job->n_moments; m++) {
        double now = job->end_s * (double)m / (double)(job->n_moments - 1), share = 1;
        const double *a, *b;

        while (next < rows->n && !(row_at(rows, next)[PS_PLOT_TIME] > now)) {
            next++;
        }
        a = next > 0 ? row_at(rows, next - 1) : NULL;
        b = next < rows->n ? row_at(rows, next) : a;
        if (a != NULL && b[PS_PLOT_TIME] > a[PS_PLOT_TIME]) {
            share = (now - a[PS_PLOT_TIME]) / (b[PS_PLOT_TIME] - a[PS_PLOT_TIME]);
        } else if (a == NULL && b != NULL && b[PS_PLOT_TIME] > 0) {
            share = now / b[PS_PLOT_TIME];
        }
        for (int k = PS_PLOT_UP; b != NULL && k <= PS_PLOT_DOWN; k++) {
            double from = a != NULL ? a[k] : 0, bytes = from + (b[k] - from) * share;

            (k == PS_PLOT_UP ? job->up : job->down)[m] += isfinite(bytes) ? bytes : 0;
        }
    }
}

static void count_bytes(ps_plot_job *job)
{
    for (size_t r = 0; r < job->n_ranks; r++) {
        const ps_plot_rows *rows = &job->ranks[r].train;
        double end = rows->n > 0 ? row_at(rows, rows->n - 1)[PS_PLOT_TIME] : 0;

        job->end_s = isfinite(end) && end > job->end_s ? end : job->end_s;
    }
    job->n_moments = MOMENTS;
    job->up = ps_xcalloc(MOMENTS, sizeof *job->up);
    job->down = ps_xcalloc(MOMENTS, sizeof *job->down);
    for (size_t r = 0; r < job->n_ranks; r++) {
        add_bytes(job, &job->ranks[r].train);
    }
}

double ps_plot_job_bytes(const ps_plot_job *job, double time_s, bool is_up)
{
    const double *bytes = is_up ? job->up : job->down;
    double place;
    size_t i;

    if (job->n_moments < 2 || !(time_s >= 0)) {
        return (double)NAN;
    }
    place = job->end_s > 0 ? time_s / job->end_s * (double)(job->n_moments - 1) : 0;
    if (place >= (double)(job->n_moments - 1)) {
        return bytes[job->n_moments - 1];
    }
    i = (size_t)place;
    return bytes[i] + (bytes[i + 1] - bytes[i]) * (place - (double)i);
}

double ps_plot_job_x(const ps_plot_job *job, const double *row, ps_plot_x x)
{
    switch (x) {
    case PS_PLOT_BY_STEP:
        return row[PS_PLOT_STEP];
    case PS_PLOT_BY_TIME:
        return row[PS_PLOT_TIME];
    case PS_PLOT_BY_BYTES:
        break;
    }
    return ps_plot_job_bytes(job, row[PS_PLOT_TIME], true) +
           ps_plot_job_bytes(job, row[PS_PLOT_TIME], false);
}

static ps_status read_summary(ps_plot_job *job, const char *folder)
{
    char path[PATH_BYTES], *text = NULL;
    const char *name;
    json_error_t error;
    size_t n;
    ps_status st = ps_path_join(path, sizeof path, folder, "summary.json");

    if (ps_is_ok(&st)) {
        st = ps_file_read(path, SUMMARY_BYTES_MAX, &text, &n);
    }
    if (st.code == PS_NOT_FOUND) { /* no summary: the job has not ended, or was killed */
        job->summary = json_object();
    } else if (!ps_is_ok(&st)) {
        return st;
    } else {
        job->summary = json_loadb(text, n, JSON_REJECT_DUPLICATES, &error);
        free(text);
        if (!json_is_object(job->summary)) {
            return ps_fail(PS_DATA_LOSS, "%s: no summary of a job: line %d: %s",
                           PS_PATH_SHOWN(path), error.line, error.text);
        }
    }
    name = json_string_value(json_object_get(job->summary, "id"));
    job->id = ps_xstrdup(name != NULL ? name : folder);
    name = json_string_value(json_object_get(json_object_get(job->summary, "spec"), "title"));
    job->title = ps_xstrdup(name != NULL ? name : job->id);
    return ps_ok();
}

/* Reads the reports whose names begin with `prefix`: TR- (training), EV- (tests) or ROUND-
 * (rounds). Fails if a rank has two training reports, because they are of different jobs. */
static ps_status read_reports(ps_plot_job *job, const char *folder, char *const *names, size_t n,
                              const char *prefix, size_t rows_max)
{
    bool is_train = prefix[0] == 'T', is_round = prefix[0] == 'R';
    char path[PATH_BYTES];

    for (size_t i = 0; i < n; i++) {
        size_t rank = rank_of(names[i], prefix);
        ps_status st;

        if (is_round ? strncmp(names[i], prefix, strlen(prefix)) != 0 : rank == SIZE_MAX) {
            continue;
        }
        st = ps_path_join(path, sizeof path, folder, names[i]);
        if (ps_is_ok(&st) && is_round) {
            st = read_rounds(job, path);
        } else if (ps_is_ok(&st) && is_train) {
            grow_ranks(job, rank + 1);
            if (job->ranks[rank].train.n > 0) {
                return ps_fail(PS_INVALID_ARGUMENT,
                               "%s: has reports of several jobs, such as %s; plot the folder of "
                               "one job",
                               PS_PATH_SHOWN(folder), names[i]);
            }
            st = read_report(job, path, rows_max, &job->ranks[rank].train);
        } else if (ps_is_ok(&st)) {
            ps_plot_rows rows = {0};

            st = read_report(job, path, rows_max, &rows);
            job->tests.stride = PS_PLOT_METRICS + PS_PLOT_METRICS_MAX;
            for (size_t k = 0; k < rows.n; k++) {
                ps_plot_rows_add(&job->tests, row_at(&rows, k));
            }
            free(rows.values);
        }
        if (!ps_is_ok(&st)) {
            return st;
        }
    }
    return ps_ok();
}

ps_status ps_plot_job_read(ps_plot_job *job, const char *path, size_t rows_max)
{
    size_t n = 0, reports = 0, of_rank;
    char **names = NULL;
    ps_status st;

    *job = (ps_plot_job){0};
    (void)slot_of_metric(job, "loss");
    st = list(path, &names, &n);
    for (size_t i = 0; i < n; i++) {
        reports += rank_of(names[i], "TR-") != SIZE_MAX;
    }
    if (ps_is_ok(&st) && reports == 0) {
        st = ps_fail(PS_NOT_FOUND,
                     "%s: has no reports (TR-TITLE-N(RANK).csv); name a folder that psgd train or "
                     "psgd download has left",
                     PS_PATH_SHOWN(path));
    }
    if (ps_is_ok(&st)) {
        st = read_summary(job, path);
    }
    of_rank = reports > 0 && rows_max / reports > ROWS_LEAST ? rows_max / reports : ROWS_LEAST;
    for (size_t i = 0; ps_is_ok(&st) && i < 3; i++) {
        static const char *const prefixes[] = {"TR-", "EV-", "ROUND-"};

        st = read_reports(job, path, names, n, prefixes[i], of_rank);
    }
    if (ps_is_ok(&st)) {
        merge_tests(&job->tests);
        count_bytes(job);
    }
    for (size_t i = 0; i < n; i++) {
        free(names[i]);
    }
    free(names);
    return st;
}

void ps_plot_job_fini(ps_plot_job *job)
{
    for (size_t r = 0; r < job->n_ranks; r++) {
        free(job->ranks[r].train.values);
    }
    free(job->ranks);
    free(job->tests.values);
    free(job->up);
    free(job->down);
    free(job->id);
    free(job->title);
    json_decref(job->summary);
    *job = (ps_plot_job){0};
}
