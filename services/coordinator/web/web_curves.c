/* SPDX-License-Identifier: Apache-2.0 */
/* web_curves.c - see web_curves.h. */
#include "services/coordinator/web/web_curves.h"

#include "common/artifact/report_csv.h"
#include "common/base/strbuf.h"
#include "common/base/train_columns.h"
#include "common/base/xalloc.h"
#include "common/job/plan.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The columns of a point. */
typedef enum column {
    STEP,
    SECONDS,
    EPOCH,
    LOSS,
    LOSS_MIN,
    LOSS_MAX,
    ACCURACY,
    SPEED,
    UP,
    DOWN,
    UP_FLOAT32,
    DOWN_FLOAT32,
    WAITING,
    COLUMNS /* behind them those of further metrics, by name */
} column;

enum { MOST_COLUMNS = COLUMNS + PS_METRICS_MAX };

static const char *const names[COLUMNS] = {"step",
                                           "seconds",
                                           "epoch",
                                           "loss",
                                           "loss_min",
                                           "loss_max",
                                           "accuracy",
                                           "samples_per_second",
                                           "bytes_up",
                                           "bytes_down",
                                           "bytes_up_float32",
                                           "bytes_down_float32",
                                           "seconds_waiting"};

/* The columns of TR- and EV- reports from which the columns of a point are read; NULL: in no
 * report. */
static const char *const report_names[COLUMNS] = {
    [STEP] = "step",   [SECONDS] = "time_s",    [EPOCH] = "epoch",
    [LOSS] = "loss",   [ACCURACY] = "accuracy", [SPEED] = "samples_per_s",
    [UP] = "bytes_up", [DOWN] = "bytes_down",   [WAITING] = "wait_s",
};

typedef struct line {
    size_t count, width; /* points, and their columns */
    /* Each of points (count) is merged of `stride` added points, the last one of `taken` so far. */
    size_t stride, taken;
    double *points; /* (PS_CURVE_POINTS, width) */
} line;

enum { COMPUTE, EXCHANGE, WAIT, TIMES };

static const char *const time_names[TIMES] = {"compute_s", "exchange_s", "wait_s"};

/* Where the time of ranks went, by the report ROUND- of a job that is over. A span is `stride`
 * successive rounds, the last of n_spans has `taken` so far. */
typedef struct rounds {
    size_t n_ranks;
    uint64_t count;                   /* number of rounds */
    double (*seconds)[TIMES];         /* (n_ranks) sums over all rounds */
    float (*waits)[PS_CURVE_COLUMNS]; /* (n_ranks) the longest wait of a rank in each span */
    size_t n_spans, stride, taken;
} rounds;

typedef struct curve {
    char *job_id;
    int64_t began_us;
    uint64_t used;                /* value of ps_curves.clock when the curve got its last point */
    bool is_whole;                /* made of the reports of a job that is over */
    line *lines[PS_CURVE_ROUNDS]; /* line of each ps_curve_part; that of PS_CURVE_TESTS is NULL
                                     unless is_whole */
    size_t n_metrics;             /* their columns in the lines begin at COLUMNS */
    char metrics[PS_METRICS_MAX][PS_REPORT_CSV_NAME_BYTES];
    rounds rounds; /* n_ranks is 0 unless is_whole */
} curve;

struct ps_curves {
    curve *all[PS_CURVES_MAX];
    uint64_t clock;
};

ps_curves *ps_curves_create(void)
{
    return ps_xcalloc(1, sizeof(ps_curves));
}

static void destroy(curve *c)
{
    if (c) {
        for (size_t i = 0; i < PS_CURVE_ROUNDS; i++) {
            if (c->lines[i]) {
                free(c->lines[i]->points);
            }
            free(c->lines[i]);
        }
        free(c->rounds.seconds);
        free(c->rounds.waits);
        free(c->job_id);
        free(c);
    }
}

void ps_curves_destroy(ps_curves *curves)
{
    for (size_t i = 0; curves && i < PS_CURVES_MAX; i++) {
        destroy(curves->all[i]);
    }
    free(curves);
}

static curve *find(const ps_curves *curves, const char *job_id)
{
    for (size_t i = 0; i < PS_CURVES_MAX; i++) {
        if (curves->all[i] && strcmp(curves->all[i]->job_id, job_id) == 0) {
            return curves->all[i];
        }
    }
    return NULL;
}

bool ps_curves_has(const ps_curves *curves, const char *job_id)
{
    return find(curves, job_id) != NULL;
}

bool ps_curves_is_whole(const ps_curves *curves, const char *job_id)
{
    const curve *c = find(curves, job_id);

    return c && c->is_whole;
}

static line *create_line(void)
{
    line *l = ps_xcalloc(1, sizeof *l);

    l->stride = 1;
    l->width = COLUMNS;
    l->points = ps_xcalloc(PS_CURVE_POINTS, l->width * sizeof *l->points);
    return l;
}

static double *point_at(const line *l, size_t i)
{
    return l->points + i * l->width;
}

/* Adds a column to a line, without a value in the points so far. */
static void widen(line *l)
{
    line old = *l;

    l->width++;
    l->points = ps_xcalloc(PS_CURVE_POINTS, l->width * sizeof *l->points);
    for (size_t i = 0; i < l->count; i++) {
        memcpy(point_at(l, i), point_at(&old, i), old.width * sizeof *old.points);
        point_at(l, i)[old.width] = (double)NAN;
    }
    free(old.points);
}

/* Returns the column of a metric, which is added if it is new; MOST_COLUMNS: there is no room, or
 * the name is too long. */
static size_t column_of(curve *c, const char *name)
{
    size_t i = 0;

    while (i < c->n_metrics && strcmp(c->metrics[i], name) != 0) {
        i++;
    }
    if (i == PS_METRICS_MAX || strlen(name) >= sizeof c->metrics[0]) {
        return MOST_COLUMNS;
    }
    if (i == c->n_metrics) {
        memcpy(c->metrics[c->n_metrics++], name, strlen(name) + 1);
        for (size_t k = 0; k < PS_CURVE_ROUNDS; k++) {
            if (c->lines[k]) {
                widen(c->lines[k]);
            }
        }
    }
    return COLUMNS + i;
}

static curve *create_curve(const char *job_id)
{
    curve *c = ps_xcalloc(1, sizeof *c);

    c->job_id = ps_xstrdup(job_id);
    c->lines[PS_CURVE_TRAINING] = create_line();
    return c;
}

/* Stores a curve: in the place of the job's earlier curve, else in a free place, else in that of
 * the curve which got its last point longest ago. */
static void put(ps_curves *curves, curve *c)
{
    size_t at = 0;

    for (size_t i = 0; i < PS_CURVES_MAX; i++) {
        const curve *other = curves->all[i], *oldest = curves->all[at];

        if (other && strcmp(other->job_id, c->job_id) == 0) {
            at = i;
            break;
        }
        if (oldest && (!other || other->used < oldest->used)) {
            at = i;
        }
    }
    destroy(curves->all[at]);
    curves->all[at] = c;
    c->used = ++curves->clock;
}

/* Merges the later point `b` into `a`, both of `width` columns: all columns become those of `b`,
 * but LOSS_MIN and LOSS_MAX the least and the greatest of both, and an accuracy or metric that `b`
 * lacks stays. */
static void merge(double *a, const double *b, size_t width)
{
    double low = fmin(a[LOSS_MIN], b[LOSS_MIN]), high = fmax(a[LOSS_MAX], b[LOSS_MAX]);
    double accuracy = isnan(b[ACCURACY]) ? a[ACCURACY] : b[ACCURACY];

    memcpy(a, b, COLUMNS * sizeof *a);
    a[LOSS_MIN] = low;
    a[LOSS_MAX] = high;
    a[ACCURACY] = accuracy;
    for (size_t k = COLUMNS; k < width; k++) {
        a[k] = isnan(b[k]) ? a[k] : b[k];
    }
}

static void halve(line *l)
{
    for (size_t i = 0; i < l->count / 2; i++) {
        double point[MOST_COLUMNS];

        memcpy(point, point_at(l, 2 * i), l->width * sizeof *point);
        merge(point, point_at(l, 2 * i + 1), l->width);
        memcpy(point_at(l, i), point, l->width * sizeof *point);
    }
    l->count /= 2;
    l->stride *= 2;
    l->taken = l->stride;
}

/* Adds a point whose LOSS_MIN and LOSS_MAX are not set. First removes the points of this step and
 * of later ones. */
static void add_point(line *l, double *point)
{
    while (l->count > 0 && point_at(l, l->count - 1)[STEP] >= point[STEP]) {
        l->count--;
        l->taken = l->stride;
    }
    point[LOSS_MIN] = point[LOSS_MAX] = point[LOSS];
    if (l->count > 0 && l->taken < l->stride) {
        merge(point_at(l, l->count - 1), point, l->width);
        l->taken++;
        return;
    }
    if (l->count == PS_CURVE_POINTS) {
        halve(l);
    }
    memcpy(point_at(l, l->count++), point, l->width * sizeof *point);
    l->taken = 1;
}

void ps_curves_add(ps_curves *curves, const Psgd__V1__Job *job, int64_t wall_us)
{
    const Psgd__V1__Progress *p = job->progress;
    curve *c = find(curves, job->id);
    line *l = c ? c->lines[PS_CURVE_TRAINING] : NULL;
    double point[MOST_COLUMNS];

    if (!p || p->step == 0 ||
        (l && l->count > 0 && point_at(l, l->count - 1)[STEP] == (double)p->step)) {
        return;
    }
    if (!c || c->is_whole) { /* a whole curve is begun anew: its job trains again */
        c = create_curve(job->id);
        c->began_us = job->start_time
                          ? job->start_time->seconds * 1000000 + job->start_time->nanos / 1000
                          : wall_us;
        put(curves, c);
        l = c->lines[PS_CURVE_TRAINING];
    }
    c->used = ++curves->clock;
    point[STEP] = (double)p->step;
    point[SECONDS] = (double)(wall_us - c->began_us) * 1e-6;
    point[EPOCH] = p->epoch;
    point[LOSS] = p->loss;
    point[ACCURACY] = p->accuracy;
    point[SPEED] = p->samples_per_second;
    point[UP] = (double)p->bytes_up;
    point[DOWN] = (double)p->bytes_down;
    point[UP_FLOAT32] = (double)p->bytes_up_float32;
    point[DOWN_FLOAT32] = (double)p->bytes_down_float32;
    point[WAITING] = p->seconds_waiting;
    for (size_t k = COLUMNS; k < MOST_COLUMNS; k++) {
        point[k] = (double)NAN;
    }
    for (size_t i = 0; i < p->n_program_metrics; i++) {
        size_t k = column_of(c, p->program_metrics[i]->key);

        if (k < MOST_COLUMNS) {
            point[k] = p->program_metrics[i]->value;
        }
    }
    add_point(l, point);
}

/* Returns the values of column k of a line (or NULL), with null for what is not finite. */
static json_t *column_json(const line *l, size_t k)
{
    json_t *values = json_array();

    for (size_t i = 0; l && i < l->count; i++) {
        double v = point_at(l, i)[k];

        json_array_append_new(values, isfinite(v) ? json_real(v) : json_null());
    }
    return values;
}

/* Returns whether the line has at least one point whose value in column `at` is not NaN. */
static bool has_values(const line *l, size_t at)
{
    size_t i = 0;

    while (i < l->count && isnan(point_at(l, i)[at])) {
        i++;
    }
    return i < l->count;
}

static json_t *line_json(const curve *c, ps_curve_part part)
{
    const line *l = c ? c->lines[part] : NULL;
    json_t *object = json_object(), *metrics = json_object();

    for (size_t k = 0; k < COLUMNS; k++) {
        json_object_set_new(object, names[k], column_json(l, k));
    }
    for (size_t i = 0; l && i < c->n_metrics; i++) {
        if (has_values(l, COLUMNS + i)) {
            json_object_set_new(metrics, c->metrics[i], column_json(l, COLUMNS + i));
        }
    }
    if (json_object_size(metrics) > 0) {
        json_object_set(object, "metrics", metrics);
    }
    json_decref(metrics);
    return object;
}

static json_t *rounds_json(const rounds *r)
{
    json_t *object = json_pack("{s:I}", "count", (json_int_t)r->count), *waits = json_array();

    for (size_t t = 0; t < TIMES; t++) {
        json_t *values = json_array();

        for (size_t k = 0; k < r->n_ranks; k++) {
            json_array_append_new(values, json_real(r->seconds[k][t]));
        }
        json_object_set_new(object, time_names[t], values);
    }
    for (size_t k = 0; k < r->n_ranks; k++) {
        json_t *values = json_array();

        for (size_t i = 0; i < r->n_spans; i++) {
            json_array_append_new(values, json_real((double)r->waits[k][i]));
        }
        json_array_append_new(waits, values);
    }
    json_object_set_new(object, "longest_wait_s", waits);
    return object;
}

json_t *ps_curves_json(const ps_curves *curves, const char *job_id)
{
    const curve *c = find(curves, job_id);
    json_t *object = line_json(c, PS_CURVE_TRAINING);

    if (c && c->is_whole) {
        json_object_set_new(object, "tests", line_json(c, PS_CURVE_TESTS));
        json_object_set_new(object, "rounds", rounds_json(&c->rounds));
    }
    return object;
}

/* --- reports --------------------------------------------------------------------------- */

struct ps_curve_reader {
    curve *curve;
    ps_curve_part part;
    ps_strbuf text;    /* bytes that were taken, of lines that are not read yet */
    ps_report_csv csv; /* columns of the present report; none before its header is read */
    double *values;    /* (csv.n_columns) of a line */
    /* index in the report of each column of a point; csv.n_columns: the report lacks it */
    size_t column[MOST_COLUMNS];
    size_t (*times)[TIMES]; /* (n_ranks) indices in ROUND- of the columns of each rank */
};

ps_curve_reader *ps_curve_reader_create(const char *job_id)
{
    ps_curve_reader *r = ps_xcalloc(1, sizeof *r);

    r->curve = create_curve(job_id);
    r->curve->is_whole = true;
    r->curve->lines[PS_CURVE_TESTS] = create_line();
    return r;
}

void ps_curve_reader_begin(ps_curve_reader *reader, ps_curve_part part)
{
    reader->part = part;
    ps_strbuf_clear(&reader->text);
    ps_report_csv_fini(&reader->csv);
}

/* Finds the columns of ranks in the header of ROUND-: of rank 0, 1 and so on, as long as there is a
 * column of the rank's waits. Begins curve->rounds for these ranks. */
static void find_ranks(ps_curve_reader *r)
{
    rounds *into = &r->curve->rounds;
    size_t most = r->csv.n_columns / TIMES, n = 0;

    free(r->times);
    r->times = ps_xcalloc(most + 1, sizeof *r->times);
    for (bool has_more = true; has_more && n < most; n += has_more) {
        for (size_t t = 0; t < TIMES; t++) {
            char name[40];

            snprintf(name, sizeof name, "%s_%zu", time_names[t], n);
            r->times[n][t] = ps_report_csv_find(&r->csv, name);
        }
        has_more = r->times[n][WAIT] < r->csv.n_columns;
    }
    free(into->seconds);
    free(into->waits);
    *into = (rounds){.n_ranks = n,
                     .seconds = ps_xcalloc(n + 1, sizeof *into->seconds),
                     .waits = ps_xcalloc(n + 1, sizeof *into->waits),
                     .stride = 1,
                     .taken = 1};
}

/* Adds the round in r->values to the rounds of the curve. If all PS_CURVE_COLUMNS spans are full,
 * first merges each two neighbours. A time that is not known counts as 0. */
static void add_round(ps_curve_reader *r)
{
    rounds *into = &r->curve->rounds;

    into->count++;
    if (into->n_spans > 0 && into->taken < into->stride) {
        into->taken++;
    } else {
        if (into->n_spans == PS_CURVE_COLUMNS) {
            for (size_t k = 0; k < into->n_ranks; k++) {
                float *waits = into->waits[k];

                for (size_t i = 0; i < PS_CURVE_COLUMNS; i++) {
                    waits[i / 2] = i % 2 == 0 ? waits[i] : fmaxf(waits[i / 2], waits[i]);
                }
                memset(waits + PS_CURVE_COLUMNS / 2, 0, PS_CURVE_COLUMNS / 2 * sizeof *waits);
            }
            into->n_spans /= 2;
            into->stride *= 2;
        }
        into->n_spans++;
        into->taken = 1;
    }
    for (size_t k = 0; k < into->n_ranks; k++) {
        float *longest = &into->waits[k][into->n_spans - 1];

        for (size_t t = 0; t < TIMES; t++) {
            size_t at = r->times[k][t];
            double value = at < r->csv.n_columns ? r->values[at] : 0;

            into->seconds[k][t] += isfinite(value) ? value : 0;
            if (t == WAIT && isfinite(value)) {
                *longest = fmaxf(*longest, (float)fmin(value, 1e30));
            }
        }
    }
}

/* Finds the columns of further metrics in the header of TR- or EV-. */
static void find_metrics(ps_curve_reader *r)
{
    for (size_t k = COLUMNS; k < MOST_COLUMNS; k++) {
        r->column[k] = r->csv.n_columns;
    }
    for (size_t i = 0; i < r->csv.n_columns; i++) {
        const char *name = r->csv.names[i];
        size_t k = ps_train_columns_have(name) ? MOST_COLUMNS : column_of(r->curve, name);

        if (k < MOST_COLUMNS) {
            r->column[k] = i;
        }
    }
}

/* Reads the header of a report, which is in r->text. Returns false if it is not one of psgd's
 * reports. */
static bool read_header(ps_curve_reader *r)
{
    if (!ps_report_csv_init(&r->csv, r->text.data, r->text.len)) {
        return false;
    }
    free(r->values);
    r->values = ps_xcalloc(r->csv.n_columns, sizeof *r->values);
    for (size_t k = 0; k < COLUMNS; k++) {
        r->column[k] =
            report_names[k] ? ps_report_csv_find(&r->csv, report_names[k]) : r->csv.n_columns;
    }
    if (r->part == PS_CURVE_ROUNDS) {
        find_ranks(r);
    } else {
        find_metrics(r);
    }
    return r->part == PS_CURVE_ROUNDS || r->column[STEP] < r->csv.n_columns;
}

bool ps_curve_reader_take(ps_curve_reader *reader, const void *bytes, size_t n)
{
    ps_report_csv *csv = &reader->csv;
    double point[MOST_COLUMNS];
    size_t left;

    ps_strbuf_append(&reader->text, bytes, n);
    if (csv->n_columns > 0) {
        ps_report_csv_go_on(csv, reader->text.data, reader->text.len);
    } else if (n == 0 || !memchr(bytes, '\n', n)) {
        return reader->text.len <= PS_CURVE_LINE_MAX;
    } else if (!read_header(reader)) {
        return false;
    }
    while (ps_report_csv_next(csv, reader->values)) {
        if (reader->part == PS_CURVE_ROUNDS) {
            add_round(reader);
            continue;
        }
        for (size_t k = 0; k < MOST_COLUMNS; k++) {
            point[k] = reader->column[k] < csv->n_columns ? reader->values[reader->column[k]]
                                                          : (double)NAN;
        }
        if (isfinite(point[STEP])) {
            add_point(reader->curve->lines[reader->part], point);
        }
    }
    left = (size_t)(csv->end - csv->at);
    if (left > 0) {
        memmove(reader->text.data, csv->at, left);
    }
    ps_strbuf_truncate(&reader->text, left);
    return left <= PS_CURVE_LINE_MAX;
}

void ps_curves_put(ps_curves *curves, ps_curve_reader *reader)
{
    put(curves, reader->curve);
    reader->curve = NULL;
    ps_curve_reader_destroy(reader);
}

void ps_curve_reader_destroy(ps_curve_reader *reader)
{
    if (reader) {
        destroy(reader->curve);
        ps_report_csv_fini(&reader->csv);
        ps_strbuf_fini(&reader->text);
        free(reader->times);
        free(reader->values);
        free(reader);
    }
}
