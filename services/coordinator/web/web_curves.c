/* SPDX-License-Identifier: Apache-2.0 */
/* web_curves.c - see web_curves.h. */
#include "services/coordinator/web/web_curves.h"

#include "common/base/xalloc.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The columns of a point. STEP is the first, so that points of one step are found. */
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
    COLUMNS
} column;

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

typedef struct curve {
    char *job_id;
    int64_t began_us;
    uint64_t used; /* when it got its last point, in the order of all */
    size_t count;
    size_t stride, taken; /* values that a point stands for; those in the last point */
    double points[PS_CURVE_POINTS][COLUMNS];
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

/* Returns a new curve, in a free place or in that of the one that has been still for longest. */
static curve *add_curve(ps_curves *curves, const char *job_id, int64_t wall_us)
{
    size_t oldest = 0;
    curve *c = ps_xcalloc(1, sizeof *c);

    for (size_t i = 0; i < PS_CURVES_MAX; i++) {
        if (!curves->all[i]) {
            oldest = i;
            break;
        }
        if (curves->all[i]->used < curves->all[oldest]->used) {
            oldest = i;
        }
    }
    destroy(curves->all[oldest]);
    curves->all[oldest] = c;
    c->job_id = ps_xstrdup(job_id);
    c->began_us = wall_us;
    c->stride = 1;
    return c;
}

/* Merges the later point `b` into `a`: counters are those of the later one. */
static void merge(double *a, const double *b)
{
    double low = fmin(a[LOSS_MIN], b[LOSS_MIN]), high = fmax(a[LOSS_MAX], b[LOSS_MAX]);

    memcpy(a, b, COLUMNS * sizeof *a);
    a[LOSS_MIN] = low;
    a[LOSS_MAX] = high;
}

static void halve(curve *c)
{
    for (size_t i = 0; i < c->count / 2; i++) {
        double point[COLUMNS];

        memcpy(point, c->points[2 * i], sizeof point);
        merge(point, c->points[2 * i + 1]);
        memcpy(c->points[i], point, sizeof point);
    }
    c->count /= 2;
    c->stride *= 2;
    c->taken = c->stride;
}

void ps_curves_add(ps_curves *curves, const Psgd__V1__Job *job, int64_t wall_us)
{
    const Psgd__V1__Progress *p = job->progress;
    curve *c = find(curves, job->id);
    double point[COLUMNS];

    if (!p || p->step == 0 ||
        (c && c->count > 0 && c->points[c->count - 1][STEP] == (double)p->step)) {
        return;
    }
    if (!c) {
        int64_t began_us = job->start_time
                               ? job->start_time->seconds * 1000000 + job->start_time->nanos / 1000
                               : wall_us;
        c = add_curve(curves, job->id, began_us);
    }
    c->used = ++curves->clock;
    while (c->count > 0 && c->points[c->count - 1][STEP] > (double)p->step) {
        c->count--;
        c->taken = c->stride;
    }
    point[STEP] = (double)p->step;
    point[SECONDS] = (double)(wall_us - c->began_us) * 1e-6;
    point[EPOCH] = p->epoch;
    point[LOSS] = point[LOSS_MIN] = point[LOSS_MAX] = p->loss;
    point[ACCURACY] = p->accuracy;
    point[SPEED] = p->samples_per_second;
    point[UP] = (double)p->bytes_up;
    point[DOWN] = (double)p->bytes_down;
    point[UP_FLOAT32] = (double)p->bytes_up_float32;
    point[DOWN_FLOAT32] = (double)p->bytes_down_float32;
    point[WAITING] = p->seconds_waiting;
    if (c->count > 0 && c->taken < c->stride) {
        merge(c->points[c->count - 1], point);
        c->taken++;
        return;
    }
    if (c->count == PS_CURVE_POINTS) {
        halve(c);
    }
    memcpy(c->points[c->count++], point, sizeof point);
    c->taken = 1;
}

json_t *ps_curves_json(const ps_curves *curves, const char *job_id)
{
    const curve *c = find(curves, job_id);
    json_t *object = json_object();

    for (int k = 0; k < COLUMNS; k++) {
        json_t *values = json_array();

        for (size_t i = 0; c && i < c->count; i++) {
            double v = c->points[i][k];

            json_array_append_new(values, isfinite(v) ? json_real(v) : json_null());
        }
        json_object_set_new(object, names[k], values);
    }
    return object;
}
