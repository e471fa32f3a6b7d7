/* SPDX-License-Identifier: Apache-2.0 */
/* metric.h - what an evaluation says of a model: a number worked out of all samples.
 *
 * A metric is a const table: what it adds of each sample to a tally, and what
 * number the tally stands for. The tally (tally.h) is the same for all metrics
 * and holds nothing that depends on the order of samples: counts, exact sums,
 * a sorted ranking. So tallies of parts of a test set merge to the very bits of
 * the whole. To add one: common/metric/NAME.c (kin may share a file), a line in
 * list.h, a line in CMakeLists.txt.
 *
 * Letters: n samples, O outputs; y (n, O) a model's outputs, row-major; t the
 * targets; p = the outputs as the loss reads them (ps_output_link).
 */
#ifndef PS_COMMON_METRIC_METRIC_H
#define PS_COMMON_METRIC_METRIC_H

#include "common/base/param.h"
#include "common/base/status.h"
#include "common/nn/targets.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What is compared. */
typedef struct ps_metric_facts {
    size_t outputs;   /* O */
    uint32_t classes; /* 0: targets are values */
    size_t target_width;
    ps_output_link link;
} ps_metric_facts;

/* Targets that a metric understands. */
typedef enum ps_metric_targets {
    PS_TARGETS_ANY,
    PS_TARGETS_CLASSES, /* one output for each, or one for two */
    PS_TARGETS_LOGITS,  /* classes, by softmax */
    PS_TARGETS_BINARY   /* one class (the number `positive`) against the others, or one
                         * value a sample, 0 or 1 */
} ps_metric_targets;

struct ps_tally;

typedef struct ps_metric {
    const char *name;
    const char *summary;    /* one line with the formula */
    const ps_param *params; /* (optional); of PS_TARGETS_BINARY the first is `positive` */
    ps_metric_targets targets;

    /* What its tally keeps. */
    unsigned counts, sums; /* at most PS_TALLY_COUNTS, PS_TALLY_SUMS */
    bool ranks;

    /* (optional) What else must hold; INVALID_ARGUMENT says what is wrong. */
    PS_MUST_USE ps_status (*fits)(const ps_params *params, const ps_metric_facts *facts);
    /* Adds n samples; the tally counts them itself. */
    void (*add)(struct ps_tally *tally, const float *y, ps_targets t, size_t n);
    /* Of a tally with samples; NaN when there is no such number. */
    double (*value)(const struct ps_tally *tally);
} ps_metric;

const ps_metric *ps_metric_find(const char *name); /* NULL if there is none */
void ps_metric_each(void (*fn)(const ps_metric *metric, void *arg), void *arg);

/* Whether a metric makes sense for a model. INVALID_ARGUMENT says why not. */
PS_MUST_USE ps_status ps_metric_fits(const ps_metric *metric, const ps_params *params,
                                     const ps_metric_facts *facts);

/* The number `positive`, first of the table of a metric for PS_TARGETS_BINARY. */
enum { PS_METRIC_POSITIVE };
#define PS_METRIC_POSITIVE_LINE                                                                    \
    {                                                                                              \
        .name = "positive", .value = 1, .min = 0, .max = PS_CLASSES_MAX - 1, .is_integer = true,   \
        .help = "class that counts as positive, all others as negative"                            \
    }

#endif
