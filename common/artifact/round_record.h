/* SPDX-License-Identifier: Apache-2.0 */
/* round_record.h - the record of a job's rounds: ROUND-{title}.csv, a line for each round.
 *
 * Each rank writes what it did in a part, a file of fixed-size entries. When the job is over, the
 * parts of all ranks that left one become the CSV: by the coordinator, or by psgd train. So a job
 * that failed or was cancelled has a record too, and memory holds one entry for each rank.
 *
 * Of a long job an entry stands for several rounds: the first PS_THIN_ROWS rounds (thin.h) have one
 * each, the entries after them stand for 2 rounds, then 4, and so on, PS_THIN_ROWS entries of each
 * kind. Which rounds these are depends on their numbers alone, so the entries of all ranks match.
 * Of n rounds at most PS_THIN_ROWS * (1 + log2(1 + n / PS_THIN_ROWS)) entries are kept.
 *
 * A part is "PSGDRND1" | u64 metrics | entries, all little-endian; an entry is
 *     u64 round, steps, bytes_up, bytes_down | f64 time_s, loss, compute_s, exchange_s, wait_s |
 *     u64 1 if the round was evaluated, else 0 | f64 test loss | f64 for each metric
 */
#ifndef PS_COMMON_ARTIFACT_ROUND_RECORD_H
#define PS_COMMON_ARTIFACT_ROUND_RECORD_H

#include "common/artifact/outlet.h"
#include "common/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PS_ROUND_METRICS_MAX = 16, PS_ROUND_HEAD_BYTES = 16 };

/* What one rank did in a round. Bytes and durations are those of this round alone. NaN: there is no
 * such value. */
typedef struct ps_round_entry {
    uint64_t round;                /* number of the round, from 1 */
    uint64_t steps;                /* local steps; 0: the rank took no part */
    uint64_t bytes_up, bytes_down; /* bytes of the exchange that ends the round */
    /* when the weights made by the exchange that ends the round had arrived; seconds since training
     * began */
    double time_s;
    double loss; /* training loss, mean over the round's steps */
    /* computing time of the training thread, without evaluations and waits */
    double compute_s;
    /* time from when the rank sent the round's first contribution until all weights had arrived */
    double exchange_s;
    double wait_s;     /* time for which the training thread stood still */
    bool is_evaluated; /* true: test_loss and values are set */
    double test_loss;
    /* the job's metrics on the test samples, if is_evaluated */
    double values[PS_ROUND_METRICS_MAX];
} ps_round_entry;

/* Returns the bytes of an entry of a job with so many metrics. */
size_t ps_round_entry_bytes(size_t metric_count);

typedef struct ps_rounds ps_rounds;

/* Creates or replaces a part. One thread at a time. Fails as ps_outlet_open (outlet.h). */
PS_MUST_USE ps_status ps_rounds_open(const char *path, size_t metric_count, ps_rounds **out);
/* Appends the entry of one round; rounds ascend. Where an entry of the file stands for several
 * rounds, their entries are joined: sums of steps, bytes and durations, the mean loss over all
 * steps, the last time_s and the last evaluation. Entries stay in memory until one comes at least a
 * second after the last write, or 64 KiB have gathered; flush and close write them. */
void ps_rounds_add(ps_rounds *rounds, const ps_round_entry *entry);
/* Appends the joined entry to whose rounds more would be added, if there is one. Call it before the
 * file is copied. */
void ps_rounds_settle(ps_rounds *rounds);
/* Writes buffered entries. Fails with RESOURCE_EXHAUSTED while the disk is full. */
PS_MUST_USE ps_status ps_rounds_flush(ps_rounds *rounds);
/* Writes what is buffered and frees `rounds` in any case. */
PS_MUST_USE ps_status ps_rounds_close(ps_rounds *rounds);
/* Returns the file, to copy and replace its content (outlet.h). */
ps_outlet *ps_rounds_outlet(ps_rounds *rounds);

/* The parts of a job. */
typedef struct ps_rounds_parts {
    uint32_t ranks;
    /* (ranks): paths of the parts. NULL, or a path without a file: the rank left no part */
    char *const *paths;
    const char *const *metrics; /* (metric_count) */
    size_t metric_count;
    /* true: a rank evaluates a share of the test samples, so the CSV has no test values */
    bool has_shares;
} ps_rounds_parts;

/* Writes the CSV of all parts, whole or not at all; *is_written is false if no part has an entry.
 * Of a part that is cut or damaged, all from the damage on is left out, and that is logged. Any
 * thread. Fails as files do. */
PS_MUST_USE ps_status ps_rounds_merge(const ps_rounds_parts *parts, const char *path,
                                      bool *is_written);

/* Writes "ROUND-{title}.csv", a safe file name, into name[0..cap), cap > PS_NAME_MAX. */
void ps_rounds_name(char *name, size_t cap, const char *title);

/* Prefix and suffix of the name of a rank's part, for ps_artifact_name (report.h). */
#define PS_ROUNDS_PREFIX "ROUND"
#define PS_ROUNDS_SUFFIX ".part"

#endif
