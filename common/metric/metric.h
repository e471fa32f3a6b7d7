/* SPDX-License-Identifier: Apache-2.0 */
/* metric.h - metrics: numbers that an evaluation computes from all samples of a model.
 *
 * A metric is a const table: what each sample adds to a tally, and which number a tally stands
 * for. A tally (tally.h) has the same form for all metrics and does not depend on the order of
 * samples: it holds counts, exact sums, or a sorted ranking. So tallies of parts of a test set
 * merge to the bits of the whole. To add one: write common/metric/NAME.c (related metrics may
 * share a file), add a line to list.h and one to CMakeLists.txt.
 *
 * Letters: n samples, O outputs; y (n, O) the outputs of a model, row-major; t the targets; p
 * the outputs as the loss reads them (ps_output_link).
 */
#ifndef PS_COMMON_METRIC_METRIC_H
#define PS_COMMON_METRIC_METRIC_H

#include "common/base/param.h"
#include "common/base/status.h"
#include "common/nn/targets.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The shape and meaning of outputs and targets. */
typedef struct ps_metric_facts {
    size_t outputs;   /* O */
    uint32_t classes; /* 0: targets are values */
    size_t target_width;
    ps_output_link link;
} ps_metric_facts;

/* The targets that a metric accepts. */
typedef enum ps_metric_targets {
    PS_TARGETS_ANY,
    PS_TARGETS_CLASSES, /* one output per class, or one output for two classes */
    PS_TARGETS_LOGITS,  /* classes, with the loss softmax_cross_entropy */
    /* one class (the number `positive`) against all others, or one target value per sample, 0
     * or 1 */
    PS_TARGETS_BINARY
} ps_metric_targets;

struct ps_tally;

typedef struct ps_metric {
    const char *name;
    const char *summary;    /* one line with the formula */
    const ps_param *params; /* (optional); the first of a PS_TARGETS_BINARY metric is `positive` */
    ps_metric_targets targets;
    bool is_cost; /* a smaller number is better */

    unsigned counts; /* counts that its tally uses, at most PS_TALLY_COUNTS */
    unsigned sums;   /* sums that its tally uses, at most PS_TALLY_SUMS */
    bool ranks;      /* its tally uses the ranking */

    /* (optional) Checks further conditions. Returns INVALID_ARGUMENT with what is wrong. */
    PS_MUST_USE ps_status (*fits)(const ps_params *params, const ps_metric_facts *facts);
    /* Adds n samples. The tally counts samples itself. */
    void (*add)(struct ps_tally *tally, const float *y, ps_targets t, size_t n);
    /* Returns the number of a tally that has samples; NaN if it is not defined. */
    double (*value)(const struct ps_tally *tally);
} ps_metric;

/* Returns the metric with this name, or NULL if there is none. */
const ps_metric *ps_metric_find(const char *name);
/* Calls `fn` for every metric, in the order of list.h. */
void ps_metric_each(void (*fn)(const ps_metric *metric, void *arg), void *arg);

/* Checks whether a metric is defined for a model with these facts. Returns INVALID_ARGUMENT
 * with the reason if it is not. */
PS_MUST_USE ps_status ps_metric_fits(const ps_metric *metric, const ps_params *params,
                                     const ps_metric_facts *facts);

/* The number `positive`, which is the first of every PS_TARGETS_BINARY metric. */
enum { PS_METRIC_POSITIVE };
#define PS_METRIC_POSITIVE_LINE                                                                    \
    {                                                                                              \
        .name = "positive", .value = 1, .min = 0, .max = PS_CLASSES_MAX - 1, .is_integer = true,   \
        .help = "class that counts as positive; all others count as negative"                      \
    }

#endif
