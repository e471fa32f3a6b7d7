/* SPDX-License-Identifier: Apache-2.0 */
/* metrics.h - writes metrics in the text format of Prometheus.
 *
 * Names follow its conventions: they begin with psgd_, end with the base unit, and end with _total
 * if and only if they are counters. Pure except ps_metrics_process; any thread. */
#ifndef PS_COMMON_OPS_METRICS_H
#define PS_COMMON_OPS_METRICS_H

#include "common/base/counter_table.h"
#include "common/base/histogram.h"
#include "common/base/strbuf.h"

/* A label of a sample. */
typedef struct ps_label {
    const char *name;  /* NULL: the end of the list */
    const char *value; /* UTF-8; it is escaped */
} ps_label;

#define PS_LABELS(...)                                                                             \
    (const ps_label[])                                                                             \
    {                                                                                              \
        __VA_ARGS__,                                                                               \
        {                                                                                          \
            NULL, NULL                                                                             \
        }                                                                                          \
    }

/* Begins a metric. `type` is "counter", "gauge" or "histogram". The samples of the metric must
 * follow directly. */
void ps_metrics_begin(ps_strbuf *out, const char *name, const char *type, const char *help);

/* Appends a sample. `labels` NULL: none. Not finite values are written as NaN, +Inf, -Inf. */
void ps_metrics_add(ps_strbuf *out, const char *name, const ps_label *labels, double value);

/* Adds the samples of a histogram of durations, in seconds, to a metric that was begun. `labels`
 * has at most four; NULL: none. */
void ps_metrics_histogram(ps_strbuf *out, const char *name, const ps_label *labels,
                          const ps_histogram *histogram);

/* Writes a metric that has one sample, without labels. */
void ps_metrics_one(ps_strbuf *out, const char *name, const char *type, const char *help,
                    double value);

/* The counts of one rank, server or job, and the labels that say which one it is. */
typedef struct ps_metrics_of {
    const ps_counts *counts;
    const ps_label *labels;
} ps_metrics_of;

/* Writes every counter of the table that has a metric and applies to `of` (one of PS_OF_...), as
 * psgd_worker_..., psgd_server_... or psgd_job_..., with a sample for each of the n elements of
 * `list`; nothing if n is 0. For jobs all are gauges and their names lack _total, because they
 * decrease when the job goes on from a checkpoint. */
void ps_metrics_counts(ps_strbuf *out, unsigned of, const ps_metrics_of *list, size_t n);

/* Writes psgd_build_info and the standard metrics of this process: process_cpu_seconds_total,
 * process_resident_memory_bytes, process_open_fds, process_start_time_seconds. */
void ps_metrics_process(ps_strbuf *out);

#endif
