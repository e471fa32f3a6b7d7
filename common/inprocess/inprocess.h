/* SPDX-License-Identifier: Apache-2.0 */
/* inprocess.h - a whole job in one process, without services: its workers are
 * threads, its parameter servers are shards between them; or workers hand packets
 * to each other, where the exchange is among them.
 *
 * All the rest is what nodes run: the plan, trainers, codecs with error feedback,
 * shards, the policy, the files. Under a policy that is deterministic every file
 * of weights is bit for bit that of the same job on a cluster, on however many
 * threads. The process's log goes into the job's folder meanwhile
 * (ps_log_init says in which format).
 */
#ifndef PS_COMMON_INPROCESS_INPROCESS_H
#define PS_COMMON_INPROCESS_INPROCESS_H

#include "common/job/plan.h"
#include "common/train/trainer.h"

/* All texts are kept. */
typedef struct ps_inprocess_job_conf {
    const ps_plan *plan;     /* kept */
    const char *job_id;      /* in files */
    const char *folder;      /* for them; made if it is not there. NULL: none, of a job that will
                              * not be started */
    const char *data_path;   /* where data sets are; NULL: nowhere */
    uint32_t threads;        /* workers that compute at the same time; >= 1 */
    void (*done)(void *arg); /* the last worker's last act; on its thread */
    void *arg;
} ps_inprocess_job_conf;

typedef struct ps_inprocess_job ps_inprocess_job;

/* Loads the data, draws the weights, takes all memory. NOT_FOUND: the data set
 * is not there; RESOURCE_EXHAUSTED; errors of files. */
PS_MUST_USE ps_status ps_inprocess_job_create(const ps_inprocess_job_conf *conf,
                                              ps_inprocess_job **out);

/* Only when nothing runs. NULL is allowed. */
void ps_inprocess_job_destroy(ps_inprocess_job *run);

/* What the workers hold together, and the servers: weights, optimizer state,
 * sums, or among workers what these have of it; what error feedback keeps; the data set's
 * own memory is not in it. */
typedef struct ps_inprocess_job_memory {
    ps_train_memory workers;
    size_t servers, feedback;
} ps_inprocess_job_memory;

ps_inprocess_job_memory ps_inprocess_job_get_memory(const ps_inprocess_job *run);

/* Most memory that this process has had at once, in bytes; 0 if the system does not say. */
uint64_t ps_inprocess_job_peak_bytes(void);

/* Writes the model that the job starts from, with the files of a job that ended at step 0, instead
 * of ps_inprocess_job_start; `done` does not follow. Returns how it ended, as
 * ps_inprocess_job_finish does. */
PS_MUST_USE ps_status ps_inprocess_job_write_initial(ps_inprocess_job *run);

/* Starts to train. Calls `done` when the job is over, unless the start fails. */
PS_MUST_USE ps_status ps_inprocess_job_start(ps_inprocess_job *run);
/* Stops the job: `done` is called soon. Any thread. */
void ps_inprocess_job_stop(ps_inprocess_job *run);

/* Joins the threads and writes the last files: the model as it is, summary.json, manifest.json.
 * Call it after `done`. A job that was stopped or has failed leaves a model too, unless weights are
 * not finite. Returns the first failure, CANCELLED if the job was stopped, else OK. */
PS_MUST_USE ps_status ps_inprocess_job_finish(ps_inprocess_job *run);

/* The job as it is now: state, progress, result, after finish also its files.
 * The run's own, until the next call. One thread at a time. */
const Psgd__V1__Job *ps_inprocess_job_now(ps_inprocess_job *run);

/* As ps_inprocess_job_now, with the result of the next evaluation that all workers have done and
 * that was not returned yet; NULL if there is none. Skips those that workers have forgotten, and
 * where the job splits evaluations all but the last. */
const Psgd__V1__Job *ps_inprocess_job_next_evaluation(ps_inprocess_job *run);

#endif
