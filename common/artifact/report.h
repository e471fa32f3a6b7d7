/* SPDX-License-Identifier: Apache-2.0 */
/* report.h - writes the CSV reports of a worker: a header, then line by line, in any locale. */
#ifndef PS_COMMON_ARTIFACT_REPORT_H
#define PS_COMMON_ARTIFACT_REPORT_H

#include "common/artifact/outlet.h"
#include "common/base/status.h"

#include <stddef.h>
#include <stdint.h>

typedef struct ps_report ps_report;

/* A line of TR-{title}-N({id}).csv: time_s,epoch,batch,step,loss,accuracy,
 * samples_per_s,bytes_up,bytes_down,wait_s, then further metrics by name */
typedef struct ps_train_row {
    double time_s;  /* seconds since training began */
    uint32_t epoch; /* counts from 1 */
    uint64_t batch; /* number of the batch in its epoch, from 1 */
    uint64_t step;  /* counts from 1 */
    double loss;
    double accuracy; /* NaN if targets are values, or a program has not said it */
    double samples_per_s;
    uint64_t bytes_up, bytes_down; /* since training began */
    double wait_s;        /* time in which training waited for others, since training began */
    const double *values; /* values of the metrics with which the file was opened */
} ps_train_row;

/* A line of EV-{title}-N({id}).csv: epoch, step, loss, the job's metrics by name, then
 * time_s,bytes_up,bytes_down. Of a synchronous job all but the last three columns are equal on all
 * workers, unless evaluations are split: each worker's loss and metrics are then of its share. */
typedef struct ps_eval_row {
    uint32_t epoch;
    uint64_t step;
    double loss;
    const double *values;          /* values of the metrics with which the file was opened */
    double time_s;                 /* when the evaluation began, in seconds since training began */
    uint64_t bytes_up, bytes_down; /* since training began, until the evaluation began */
} ps_eval_row;

/* Creates or replaces a TR file with these metrics and writes its header. Numbers that are not
 * whole have up to nine digits, and a point in any locale; lines end with \n. Fails as
 * ps_outlet_open (outlet.h). One thread at a time. */
PS_MUST_USE ps_status ps_report_open_train(const char *path, const char *const *metrics,
                                           size_t metric_count, ps_report **out);

/* Creates or replaces an EV file with these metrics, as ps_report_open_train does. */
PS_MUST_USE ps_status ps_report_open_eval(const char *path, const char *const *metrics,
                                          size_t metric_count, ps_report **out);
/* Appends a line to a TR file. It stays in memory until a line comes at least a second after the
 * last write, or 64 KiB have gathered; flush and close write it. */
void ps_report_train(ps_report *report, const ps_train_row *row);

/* Appends a line to an EV file and tries to write it at once. */
void ps_report_eval(ps_report *report, const ps_eval_row *row);
/* Writes the buffered lines. While the disk is full it fails with RESOURCE_EXHAUSTED and keeps the
 * lines for the next call. */
PS_MUST_USE ps_status ps_report_flush(ps_report *report);
/* Writes what is buffered and frees `report` in any case. Fails if the rest cannot be written. */
PS_MUST_USE ps_status ps_report_close(ps_report *report);
/* Returns the file, to copy and replace its content (outlet.h). */
ps_outlet *ps_report_outlet(ps_report *report);

/* Writes a name such as "TR-{title}-N({id}).csv" into name[0..cap), cap > PS_NAME_MAX. The
 * result is a safe file name (files.h): other characters of title and id become '_', and a long
 * title is cut. */
void ps_artifact_name(char *name, size_t cap, const char *prefix, const char *title, const char *id,
                      const char *suffix);
/* Writes the name of a file of which a job has only one, such as "ROUND-{title}.csv", by the rules
 * of ps_artifact_name. */
void ps_artifact_name_of_job(char *name, size_t cap, const char *prefix, const char *title,
                             const char *suffix);

#endif
