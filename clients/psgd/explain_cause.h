/* SPDX-License-Identifier: Apache-2.0 */
/* explain_cause.h - from what ranks measured to what bounds a job. Pure: no I/O, no clock. */
#ifndef PS_CLIENTS_PSGD_EXPLAIN_CAUSE_H
#define PS_CLIENTS_PSGD_EXPLAIN_CAUSE_H

#include <stddef.h>
#include <stdint.h>

/* What one rank measured since training began. */
typedef struct ps_explain_rank {
    uint64_t steps;
    double seconds;   /* until its last step */
    double compute_s; /* in which its training thread computed or was held up */
    double wait_s;    /* in which its training thread stood still */
} ps_explain_rank;

typedef enum ps_explain_cause {
    PS_EXPLAIN_COMPUTE,   /* all ranks compute for most of the time */
    PS_EXPLAIN_STRAGGLER, /* the others wait for one rank */
    PS_EXPLAIN_EXCHANGE,  /* all ranks wait, the slowest too: links, servers or disks */
    PS_EXPLAIN_OTHER      /* neither: evaluations, checkpoints, reading data */
} ps_explain_cause;

typedef enum ps_explain_surety {
    PS_EXPLAIN_UNSURE,
    PS_EXPLAIN_LIKELY,
    PS_EXPLAIN_SURE
} ps_explain_surety;

/* The time of a step of the slowest rank, cut into shares that sum to 1. */
typedef struct ps_explanation {
    ps_explain_cause cause;
    ps_explain_surety surety;
    size_t slowest; /* the rank that computes longest for a step */
    double steps_per_s;
    double compute;   /* computing, as long as the median rank takes */
    double straggler; /* what the slowest rank takes longer, while others wait */
    double exchange;  /* in which even the slowest rank waits */
    double other;
} ps_explanation;

/* Returns what bounds a job of n >= 1 ranks. Each has steps and seconds above 0, and times that are
 * finite and at least 0. */
ps_explanation ps_explain(const ps_explain_rank *ranks, size_t n);

/* Returns the steps a second of the slowest rank if `share` of the time of a step were gone. */
double ps_explain_without(const ps_explanation *e, double share);

#endif
