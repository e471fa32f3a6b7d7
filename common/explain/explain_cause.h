/* SPDX-License-Identifier: Apache-2.0 */
/* explain_cause.h - from what ranks measured to what bounds a job. Pure: no I/O, no clock. */
#ifndef PS_COMMON_EXPLAIN_EXPLAIN_CAUSE_H
#define PS_COMMON_EXPLAIN_EXPLAIN_CAUSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PS_EXPLAIN_RANKS_MAX = 256, PS_EXPLAIN_NODE_BYTES = 129 };

/* What one rank measured. */
typedef struct ps_explain_rank {
    uint32_t number; /* the rank */
    uint64_t steps;
    double seconds; /* time that `steps` took */
    /* how much of `seconds` the rank's training thread computed, took samples or was held up */
    double compute_s;
    double wait_s; /* seconds in which that thread stood still for weights or acknowledgements */
    /* seconds of compute_s in which that thread stood still for samples from a disk */
    double read_s;
    /* seconds for which that disk was read, also while the thread computed or waited */
    double disk_s;
    double bytes_up, bytes_down;         /* bytes sent and received, as they were on the wire */
    double float32_up, float32_down;     /* bytes that the same values have as plain float32 */
    char node_id[PS_EXPLAIN_NODE_BYTES]; /* node that carries the rank; "": not known */
} ps_explain_rank;

typedef enum ps_explain_cause {
    PS_EXPLAIN_COMPUTE,   /* none of the other causes takes a fifth of a step */
    PS_EXPLAIN_DATA,      /* ranks stand still until samples are read from a disk */
    PS_EXPLAIN_STRAGGLER, /* the others wait for one rank */
    PS_EXPLAIN_EXCHANGE,  /* all ranks wait, the slowest too: links, servers or their disks */
    PS_EXPLAIN_OTHER,     /* none of these: evaluations, checkpoints */
    PS_EXPLAIN_CAUSES
} ps_explain_cause;

typedef enum ps_explain_surety {
    PS_EXPLAIN_UNSURE,
    PS_EXPLAIN_LIKELY,
    PS_EXPLAIN_SURE
} ps_explain_surety;

typedef struct ps_explanation {
    ps_explain_cause cause;
    ps_explain_surety surety;
    size_t slowest;     /* index of the rank that computes longest for a step */
    uint64_t steps;     /* steps of the slowest rank that were measured */
    double steps_per_s; /* steps that the slowest rank makes in a second */
    /* the slowest rank stands still for its disk for longer than half of the STRAGGLER share */
    bool is_straggler_read;
    /* The time of a step of the slowest rank, cut into shares that sum to 1:
     *   COMPUTE    computing, less DATA and STRAGGLER
     *   DATA       standing still for samples, less what others wait for, which is STRAGGLER
     *   STRAGGLER  what the slowest rank takes longer than the others, while they wait
     *   EXCHANGE   in which even the slowest rank waits
     *   OTHER      the rest */
    double shares[PS_EXPLAIN_CAUSES];
} ps_explanation;

/* Returns what bounds a job of n >= 1 ranks. Each has steps and seconds above 0, and times that are
 * finite and at least 0. */
ps_explanation ps_explain(const ps_explain_rank *ranks, size_t n);

/* Returns the steps a second of the slowest rank if `share` of the time of a step were gone. */
double ps_explain_without(const ps_explanation *e, double share);

/* Returns "compute", "data" and so on. */
const char *ps_explain_cause_name(ps_explain_cause cause);
/* Returns "unsure", "likely" or "sure". */
const char *ps_explain_surety_name(ps_explain_surety surety);

#endif
