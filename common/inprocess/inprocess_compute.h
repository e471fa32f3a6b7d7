/* SPDX-License-Identifier: Apache-2.0 */
/* inprocess_compute.h - runs a job that computes (JobSpec.compute) in one process, each of its
 * threads with a sandbox. The result has the bytes of the same job on a cluster.
 */
#ifndef PS_COMMON_INPROCESS_INPROCESS_COMPUTE_H
#define PS_COMMON_INPROCESS_INPROCESS_COMPUTE_H

#include "common/job/plan.h"

#include "psgd/v1/job.pb-c.h"

/* All texts are borrowed until ps_inprocess_compute_destroy. */
typedef struct ps_inprocess_compute_conf {
    const ps_plan *plan; /* kept */
    const char *job_id;
    const char *folder;    /* folder of the job's files; created if it does not exist */
    const char *data_path; /* folder of the data sets; NULL: none */
    uint32_t threads;      /* >= 1 */
    /* called when all threads have ended: on the thread that ends last, as its last act, or on the
     * thread that starts the job, if a thread cannot be started and the others have ended before */
    void (*done)(void *arg);
    void *arg;
} ps_inprocess_compute_conf;

typedef struct ps_inprocess_compute ps_inprocess_compute;

/* Loads the text, if the job has one, and starts the threads. Returns NOT_FOUND if the text needs
 * files and conf->data_path names no folder, else the failures of ps_data_load and of ps_dir_make.
 * If not all threads can be started, the job fails instead. */
PS_MUST_USE ps_status ps_inprocess_compute_start(const ps_inprocess_compute_conf *conf,
                                                 ps_inprocess_compute **out);

/* Stops the job: the threads end soon, and `done` is called. Any thread. */
void ps_inprocess_compute_stop(ps_inprocess_compute *run);

/* Returns the job's message: state, partitions that are done, and after finish its files. Valid
 * until the next call. One thread at a time. */
const Psgd__V1__Job *ps_inprocess_compute_now(ps_inprocess_compute *run);

/* Joins the threads, merges the records into the result unless the job was stopped or has failed,
 * removes the records, and writes summary.json and manifest.json. Call it after `done`. Returns the
 * first failure, CANCELLED if the job was stopped, else OK. */
PS_MUST_USE ps_status ps_inprocess_compute_finish(ps_inprocess_compute *run);

/* Frees the job, whose threads do not run. NULL is allowed. */
void ps_inprocess_compute_destroy(ps_inprocess_compute *run);

#endif
