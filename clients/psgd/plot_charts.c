/* SPDX-License-Identifier: Apache-2.0 */
/* plot_charts.c - see plot_charts.h.
 *
 * A chart of one job shows training and tests in different colours. In a chart of several jobs each
 * job has a colour; beyond PS_PLOT_COLOURS jobs the colours occur again, with dashed lines.
 * Training is faint there if the job has tests.
 */
#include "clients/psgd/plot_charts.h"

#include "common/base/shorten.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BARS_MAX = 24, LINES_MAX = 2 * PS_PLOT_JOBS_MAX, SPEEDS = 48 };

void ps_plot_set_compare(ps_plot_set *set)
{
    for (size_t i = 0; i < set->n; i++) {
        ps_plot_facts_init(&set->facts[i], json_object_get(set->jobs[i].summary, "spec"));
    }
    ps_plot_facts_differ(set->facts, set->n, &set->differing);
    for (size_t i = 0; i < set->n; i++) {
        ps_plot_facts_label(&set->facts[i], &set->differing, set->labels[i]);
        if (set->labels[i][0] == '\0') {
            ps_shorten(set->labels[i], sizeof set->labels[i], set->jobs[i].id);
        }
    }
}

void ps_plot_set_fini(ps_plot_set *set)
{
    for (size_t i = 0; i < set->n; i++) {
        ps_plot_job_fini(&set->jobs[i]);
        ps_plot_facts_fini(&set->facts[i]);
    }
    ps_plot_facts_fini(&set->differing);
}

const char *ps_plot_charts_x_title(ps_plot_x x)
{
    return x == PS_PLOT_BY_STEP   ? "steps"
           : x == PS_PLOT_BY_TIME ? "time since training began"
                                  : "bytes that all workers sent and received";
}

static ps_plot_unit unit_of(ps_plot_x x)
{
    return x == PS_PLOT_BY_STEP   ? PS_PLOT_COUNT
           : x == PS_PLOT_BY_TIME ? PS_PLOT_SECONDS
                                  : PS_PLOT_BYTES;
}

static const double *row_at(const ps_plot_rows *rows, size_t i)
{
    return rows->values + i * rows->stride;
}

/* Returns the end of the horizontal axis: the largest x of all jobs; 1 if none is above 0. */
static double end_of(const ps_plot_set *set)
{
    double end = 0;

    for (size_t j = 0; j < set->n; j++) {
        const ps_plot_job *job = &set->jobs[j];

        for (size_t r = 0; r <= job->n_ranks; r++) {
            const ps_plot_rows *rows = r < job->n_ranks ? &job->ranks[r].train : &job->tests;
            double x = rows->n > 0 ? ps_plot_job_x(job, row_at(rows, rows->n - 1), set->x) : 0;

            end = isfinite(x) ? fmax(end, x) : end;
        }
    }
    return end > 0 ? end : 1;
}

static size_t slot_of(const ps_plot_job *job, const char *metric)
{
    for (size_t m = 0; m < job->n_metrics; m++) {
        if (strcmp(job->metrics[m], metric) == 0) {
            return PS_PLOT_METRICS + m;
        }
    }
    return 0;
}

/* Adds the values in column `slot` of the rows to a line. Adds none if `slot` is 0: the job then
 * has no such column. */
static void fill(ps_plot_line *line, const ps_plot_job *job, const ps_plot_rows *rows, size_t slot,
                 ps_plot_x x)
{
    for (size_t i = 0; slot > 0 && i < rows->n; i++) {
        const double *row = row_at(rows, i);

        ps_plot_columns_add(&line->columns, ps_plot_job_x(job, row, x), row[slot]);
    }
}

static bool is_empty(const ps_plot_line *line)
{
    for (size_t i = 0; i < line->columns.n; i++) {
        if (line->columns.at[i].count > 0) {
            return false;
        }
    }
    return true;
}

/* Appends the chart with its lines to `out` if any line has a point. Frees the lines in any case.
 * Returns whether a line has a point. */
static bool finish(ps_strbuf *out, ps_plot_chart *chart, ps_plot_line *lines, size_t n)
{
    bool has_points = false;

    for (size_t i = 0; i < n; i++) {
        has_points = has_points || !is_empty(&lines[i]);
    }
    chart->lines = lines;
    chart->n = n;
    if (has_points) {
        ps_plot_svg_lines(out, chart);
    }
    for (size_t i = 0; i < n; i++) {
        ps_plot_columns_fini(&lines[i].columns);
    }
    return has_points;
}

/* Returns whether a metric is a share from 0 to 1, by its name: it has "accuracy" in it, or begins
 * with "top_". */
static bool is_share(const char *metric)
{
    return strstr(metric, "accuracy") != NULL || strncmp(metric, "top_", 4) == 0;
}

static bool draw_metric(const ps_plot_set *set, const char *metric, double end, ps_strbuf *out)
{
    ps_plot_line lines[LINES_MAX];
    char title[PS_REPORT_CSV_NAME_BYTES];
    ps_plot_chart chart = {.title = title,
                           .x_title = ps_plot_charts_x_title(set->x),
                           .x_unit = unit_of(set->x),
                           .y_unit = is_share(metric) ? PS_PLOT_SHARE : PS_PLOT_NUMBER};
    bool is_one = set->n == 1;
    size_t n = 0;

    snprintf(title, sizeof title, "%s", metric);
    title[0] = (char)toupper((unsigned char)title[0]);
    for (size_t j = 0; j < set->n; j++) {
        const ps_plot_job *job = &set->jobs[j];
        ps_plot_line *train = &lines[n++], *test = &lines[n++];
        unsigned colour = (unsigned)(j % PS_PLOT_COLOURS);
        bool is_dashed = j >= PS_PLOT_COLOURS;
        size_t slot = slot_of(job, metric);

        *train = (ps_plot_line){.colour = colour,
                                .has_band = is_one,
                                .is_faint = true,
                                .is_dashed = is_dashed,
                                .name = is_one ? "training" : NULL};
        *test = (ps_plot_line){.colour = is_one ? 1 : colour,
                               .has_marks = job->tests.n <= 40,
                               .is_dashed = is_dashed,
                               .name = is_one ? "test" : NULL};
        ps_plot_columns_init(&train->columns, 0, end, PS_PLOT_COLUMNS);
        ps_plot_columns_init(&test->columns, 0, end, PS_PLOT_COLUMNS);
        for (size_t r = 0; r < job->n_ranks; r++) {
            fill(train, job, &job->ranks[r].train, slot, set->x);
        }
        fill(test, job, &job->tests, slot, set->x);
        train->is_faint = !is_one && !is_empty(test);
    }
    return finish(out, &chart, lines, n);
}

/* Draws the bytes that all ranks have sent and received so far, against steps or time: for one job
 * a line for each way, for several jobs a line for each job's sum. */
static bool draw_bytes(const ps_plot_set *set, double end, ps_strbuf *out)
{
    ps_plot_line lines[LINES_MAX];
    ps_plot_chart chart = {.title = set->n == 1 ? "Bytes" : "Bytes, up and down",
                           .x_title = ps_plot_charts_x_title(set->x),
                           .x_unit = unit_of(set->x),
                           .y_unit = PS_PLOT_BYTES,
                           .from_zero = true};
    size_t n = 0;

    for (size_t j = 0; j < set->n; j++) {
        const ps_plot_job *job = &set->jobs[j];
        const ps_plot_rows *rows = job->n_ranks > 0 ? &job->ranks[0].train : &job->tests;
        unsigned colour = (unsigned)(j % PS_PLOT_COLOURS);
        size_t first = n;

        for (size_t way = 0; way < (set->n == 1 ? 2 : 1); way++) {
            lines[n] = (ps_plot_line){.colour = set->n == 1 ? (unsigned)way : colour,
                                      .is_dashed = set->n == 1 ? way == 1 : j >= PS_PLOT_COLOURS,
                                      .name = set->n > 1 ? NULL
                                              : way == 0 ? "up"
                                                         : "down"};
            ps_plot_columns_init(&lines[n++].columns, 0, end, PS_PLOT_COLUMNS);
        }
        for (size_t i = 0; i < rows->n; i++) {
            const double *row = row_at(rows, i);
            double x = ps_plot_job_x(job, row, set->x);
            double up = ps_plot_job_bytes(job, row[PS_PLOT_TIME], true);
            double down = ps_plot_job_bytes(job, row[PS_PLOT_TIME], false);

            ps_plot_columns_add(&lines[first].columns, x, set->n == 1 ? up : up + down);
            if (set->n == 1) {
                ps_plot_columns_add(&lines[first + 1].columns, x, down);
            }
        }
    }
    return finish(out, &chart, lines, n);
}

/* Draws the steps a second of rank 0 of each job, one point for each of SPEEDS parts of its rows.
 * Time in which the rank waited counts. A job with SPEEDS rows or fewer has no line. */
static bool draw_speed(const ps_plot_set *set, double end, ps_strbuf *out)
{
    ps_plot_line lines[LINES_MAX];
    ps_plot_chart chart = {.title = "Steps a second",
                           .x_title = ps_plot_charts_x_title(set->x),
                           .x_unit = unit_of(set->x),
                           .y_unit = PS_PLOT_NUMBER,
                           .from_zero = true};

    for (size_t j = 0; j < set->n; j++) {
        const ps_plot_job *job = &set->jobs[j];
        const ps_plot_rows *rows = job->n_ranks > 0 ? &job->ranks[0].train : &job->tests;
        ps_plot_line *line = &lines[j];

        *line = (ps_plot_line){.colour = (unsigned)(j % PS_PLOT_COLOURS),
                               .is_dashed = j >= PS_PLOT_COLOURS};
        ps_plot_columns_init(&line->columns, 0, end, PS_PLOT_COLUMNS);
        for (size_t i = 0; i < SPEEDS && rows->n > SPEEDS; i++) {
            const double *a = row_at(rows, i * (rows->n - 1) / SPEEDS);
            const double *b = row_at(rows, (i + 1) * (rows->n - 1) / SPEEDS);
            double seconds = b[PS_PLOT_TIME] - a[PS_PLOT_TIME];
            double middle = (ps_plot_job_x(job, a, set->x) + ps_plot_job_x(job, b, set->x)) / 2;

            ps_plot_columns_add(&line->columns, middle,
                                (b[PS_PLOT_STEP] - a[PS_PLOT_STEP]) / seconds);
        }
    }
    return finish(out, &chart, lines, set->n);
}

/* --- waits ------------------------------------------------------------------------- */

typedef struct waiting {
    size_t job, rank;
    double compute_s, wait_s, rest_s;
} waiting;

static int longest_first(const void *a, const void *b)
{
    const waiting *x = a, *y = b;

    return (x->wait_s < y->wait_s) - (x->wait_s > y->wait_s);
}

static int by_place(const void *a, const void *b)
{
    const waiting *x = a, *y = b;

    return x->job != y->job ? (x->job > y->job) - (x->job < y->job)
                            : (x->rank > y->rank) - (x->rank < y->rank);
}

/* Writes to `found` the workers of job `j` that waited longest, at most `most`, in order of rank.
 * Returns their number. */
static size_t find_waiting(const ps_plot_set *set, size_t j, size_t most, waiting *found)
{
    const ps_plot_job *job = &set->jobs[j];
    waiting all[PS_PLOT_RANKS_MAX];
    size_t n = 0;

    for (size_t r = 0; r < job->n_ranks; r++) {
        const ps_plot_rows *rows = &job->ranks[r].train;
        const double *last = rows->n > 0 ? row_at(rows, rows->n - 1) : NULL;
        double compute = job->ranks[r].compute_s;

        if (last == NULL || !isfinite(last[PS_PLOT_WAIT]) || !isfinite(last[PS_PLOT_TIME])) {
            continue;
        }
        compute = isnan(compute) ? 0 : compute;
        all[n++] = (waiting){j, r, compute, last[PS_PLOT_WAIT],
                             fmax(0, last[PS_PLOT_TIME] - last[PS_PLOT_WAIT] - compute)};
    }
    if (n == 0) {
        return 0;
    }
    qsort(all, n, sizeof *all, longest_first);
    n = n < most ? n : most;
    qsort(all, n, sizeof *all, by_place);
    memcpy(found, all, n * sizeof *all);
    return n;
}

static bool draw_waits(const ps_plot_set *set, ps_strbuf *out)
{
    ps_plot_bars chart = {.title = "Where time goes",
                          .x_title = "time",
                          .parts = {"computes", "waits", "else"},
                          .unit = PS_PLOT_SECONDS,
                          .has_colours = set->n > 1};
    size_t n = 0, ranks = 0, most = BARS_MAX / set->n;
    ps_plot_bar bars[BARS_MAX];
    waiting found[BARS_MAX];
    bool has_compute = false;

    most = most > 0 ? most : 1;
    for (size_t j = 0; j < set->n; j++) {
        n += find_waiting(set, j, most, found + n);
        ranks = ranks > set->jobs[j].n_ranks ? ranks : set->jobs[j].n_ranks;
    }
    if (n == 0) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        bars[i] = (ps_plot_bar){.colour = (unsigned)(found[i].job % PS_PLOT_COLOURS),
                                .parts = {found[i].compute_s, found[i].wait_s, found[i].rest_s}};
        snprintf(bars[i].label, sizeof bars[i].label, "worker %zu", found[i].rank);
        has_compute = has_compute || found[i].compute_s > 0;
    }
    if (!has_compute) {
        chart.parts[0] = NULL;
    }
    if (ranks > most) {
        chart.x_title = "time, of the workers that waited longest";
    }
    chart.bars = bars;
    chart.n = n;
    ps_plot_svg_bars(out, &chart);
    return true;
}

size_t ps_plot_charts_draw(const ps_plot_set *set, ps_strbuf charts[PS_PLOT_CHARTS_MAX])
{
    double end = end_of(set);
    size_t n = 0;

    for (size_t j = 0; j < set->n; j++) {
        for (size_t m = 0; m < set->jobs[j].n_metrics && n < PS_PLOT_METRICS_MAX; m++) {
            const char *metric = set->jobs[j].metrics[m];
            bool is_drawn = false;

            for (size_t k = 0; k < j; k++) {
                is_drawn = is_drawn || slot_of(&set->jobs[k], metric) > 0;
            }
            n += !is_drawn && draw_metric(set, metric, end, &charts[n]);
        }
    }
    n += set->x != PS_PLOT_BY_BYTES && draw_bytes(set, end, &charts[n]);
    n += draw_speed(set, end, &charts[n]);
    n += draw_waits(set, &charts[n]);
    return n;
}
