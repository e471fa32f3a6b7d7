/* SPDX-License-Identifier: Apache-2.0 */
/* counter_table.h - the table of everything that workers and servers count.
 *
 * A counter has one line here. Its name is its field in WorkerProgress, ServerCounters and Progress
 * (proto/psgd/v1), and its key in summary.json. Loops over the table fill these messages
 * (common/job/counts.h), sum up a job, write /metrics (common/ops/metrics.h) and check
 * docs/monitoring.md. To add a counter, add a line here, a field in the messages that have it, a
 * row in the document.
 */
#ifndef PS_COMMON_BASE_COUNTER_TABLE_H
#define PS_COMMON_BASE_COUNTER_TABLE_H

#include <stdbool.h>
#include <stdint.h>

typedef enum ps_counter_kind {
    PS_COUNTER, /* only grows during an attempt */
    PS_GAUGE    /* a value of now */
} ps_counter_kind;

/* Who has a counter. */
enum { PS_OF_WORKER = 1, PS_OF_SERVER = 2, PS_OF_JOB = 4 };

/* How the value of a job is made of those of its ranks. SUM takes all ranks, also lost ones; the
 * others take only ranks that are not lost. */
typedef enum ps_counter_merge {
    PS_MERGE_NONE, /* the job has no such value, or makes it otherwise */
    PS_MERGE_SUM,
    PS_MERGE_LEAST,
    PS_MERGE_LARGEST,
    PS_MERGE_MEAN,
    PS_MERGE_MEAN_AT_STEP /* the mean over the ranks that are at the job's step and have a value,
                           * which is not NaN; for values that belong to one step, such as the loss
                           */
} ps_counter_merge;

typedef struct ps_counter {
    const char *name;
    const char *unit; /* "": none */
    ps_counter_kind kind;
    unsigned of; /* PS_OF_... */
    ps_counter_merge merge;
    const char *help;
    /* its name in /metrics, behind the prefix psgd_worker_, psgd_server_ or psgd_job_; NULL: it is
     * not there. A name that ends in _total is a counter in /metrics */
    const char *metric;
} ps_counter;

enum {
    PS_COUNT_STEP,
    PS_COUNT_TOTAL_STEPS,
    PS_COUNT_EPOCH,
    PS_COUNT_LOSS,
    PS_COUNT_ACCURACY,
    PS_COUNT_SAMPLES,
    PS_COUNT_ITERATIONS,
    PS_COUNT_EVALUATIONS,
    PS_COUNT_SAMPLES_PER_SECOND,
    PS_COUNT_ETA_SECONDS,
    PS_COUNT_WORKERS_ALIVE,
    PS_COUNT_WORKERS_TOTAL,
    PS_COUNT_BYTES_UP,
    PS_COUNT_BYTES_DOWN,
    PS_COUNT_BYTES_UP_FLOAT32,
    PS_COUNT_BYTES_DOWN_FLOAT32,
    PS_COUNT_MESSAGES_UP,
    PS_COUNT_MESSAGES_DOWN,
    PS_COUNT_BYTES_THROUGH_MEMORY,
    PS_COUNT_SECONDS_WAITING,
    PS_COUNT_TIMED_STEPS,
    PS_COUNT_SECONDS_TRAINING,
    PS_COUNT_SECONDS_COMPUTING,
    PS_COUNT_SECONDS_READING,
    PS_COUNT_SECONDS_DISK,
    PS_COUNT_RESYNCS,
    PS_COUNT_APPLIED,
    PS_COUNT_DUPLICATES,
    PS_COUNT_DROPPED,
    PS_COUNT_LATE,
    PS_COUNT_LEFT_OUT,
    PS_COUNT_OPEN,
    PS_COUNT_PARKED,
    PS_COUNT_PARKED_BYTES,
    PS_COUNT_PULLS_WAITED,
    PS_COUNT_VERSION,
    PS_COUNT_STALENESS_MAX,
    PS_COUNT_STALENESS_SUM,
    PS_COUNT_ROWS,
    PS_COUNT_ROWS_MET,
    PS_COUNT_ROWS_ADMITTED,
    PS_COUNT_ROWS_REMOVED,
    PS_COUNT_RECOVERIES,
    PS_COUNT_ROLLBACKS,
    PS_COUNT_STEPS_REPEATED,
    PS_COUNT_SECONDS_LOST,
    PS_COUNT_CHECKPOINTS,
    PS_COUNT_CHECKPOINTS_SKIPPED,
    PS_COUNT_CONNECTIONS_REFUSED,
    PS_COUNT_CONNECTIONS_CLOSED,
    PS_COUNTERS
};

extern const ps_counter ps_counters[PS_COUNTERS];

/* The values, by PS_COUNT_.... A double is exact up to 2^53. */
typedef struct ps_counts {
    double v[PS_COUNTERS];
} ps_counts;

/* The counts of a job while ranks are added. Zeroed memory is empty. */
typedef struct ps_counts_sum {
    ps_counts so_far; /* the merged values; of a mean the sum, not divided yet */
    uint32_t alive;   /* ranks added that are not lost */
    /* by counter: how many of the `alive` ranks are at the least step and have a value that is not
     * NaN */
    uint32_t at_step[PS_COUNTERS];
} ps_counts_sum;

/* Adds the counts of one rank. */
void ps_counts_add(ps_counts_sum *sum, const ps_counts *rank, bool is_lost);

/* Adds to the counts of a job those counts of one server that a job has and workers have not, such
 * as rows. */
void ps_counts_add_server(ps_counts *job, const ps_counts *server);

/* Returns the counts of the job. A count that is not merged is 0. If all ranks are lost, all but
 * the sums are 0. A mean at the least step is NaN if no rank there has a value. */
ps_counts ps_counts_of_job(const ps_counts_sum *sum);

#endif
