/* SPDX-License-Identifier: Apache-2.0 */
/* inprocess.h - runs a whole job in one process, without services: its workers are threads, and
 * its parameter servers are shards that the threads share. In a mesh the workers hand packets to
 * each other.
 *
 * Everything else is the code that nodes run: the plan, trainers, codecs with error feedback,
 * shards, the policy, the files. Under a deterministic policy every file of weights has the bits
 * of the same job on a cluster, for any number of threads. Meanwhile the process's log goes to
 * the job's folder (ps_log_init sets its format).
 */
#ifndef PS_COMMON_INPROCESS_INPROCESS_H
#define PS_COMMON_INPROCESS_INPROCESS_H

#include "common/job/plan.h"
#include "common/train/trainer.h"

#include "psgd/v1/job.pb-c.h"

/* All texts are borrowed until destroy. */
typedef struct ps_inprocess_job_conf {
    const ps_plan *plan; /* kept */
    const char *job_id;  /* the job's id, which its message, files and log lines have */
    /* folder of the job's files, created if it does not exist; NULL: none, for a job that is not
     * started */
    const char *folder;
    const char *data_path; /* folder of the data sets; NULL: none */
    uint32_t threads;      /* workers that compute at the same time; >= 1 */
    /* called when all workers have ended: on the thread of the one that ends last, as its last act,
     * or on the thread that starts the job, if they end before this has started all */
    void (*done)(void *arg);
    void *arg;
} ps_inprocess_job_conf;

typedef struct ps_inprocess_job ps_inprocess_job;

/* Loads the data, draws the weights or reads them (init_from), and allocates all memory. Returns
 * NOT_FOUND if the data set does not exist, FAILED_PRECONDITION if the job needs a coordinator (for
 * checkpoints, rollbacks, or a job in init_from), RESOURCE_EXHAUSTED without memory, else errors of
 * files. */
PS_MUST_USE ps_status ps_inprocess_job_create(const ps_inprocess_job_conf *conf,
                                              ps_inprocess_job **out);

/* Frees a job whose threads do not run. NULL is allowed. */
void ps_inprocess_job_destroy(ps_inprocess_job *run);

/* The bytes of all workers together, and of all servers: weights, optimizer state and sums; in a
 * mesh `servers` is what the workers' machines have. `feedback`: what codecs keep on the way to
 * servers. The data set is not counted. */
typedef struct ps_inprocess_job_memory {
    ps_train_memory workers;
    size_t servers, feedback;
} ps_inprocess_job_memory;

ps_inprocess_job_memory ps_inprocess_job_get_memory(const ps_inprocess_job *run);

/* Returns the peak of this process's resident memory in bytes; 0 if the system does not report it.
 */
uint64_t ps_inprocess_job_peak_bytes(void);

/* Writes the model that the job starts from, with the files of a job that ended at step 0, instead
 * of ps_inprocess_job_start; `done` does not follow. Returns how it ended, as
 * ps_inprocess_job_finish does. */
PS_MUST_USE ps_status ps_inprocess_job_write_initial(ps_inprocess_job *run);

/* Starts to train. Calls `done` when the job is over, unless the start fails. */
PS_MUST_USE ps_status ps_inprocess_job_start(ps_inprocess_job *run);
/* Stops the job: its workers end soon, and `done` is called. Any thread. */
void ps_inprocess_job_stop(ps_inprocess_job *run);

/* Writes the last files: the model as it is, summary.json, manifest.json. Call it after `done`;
 * ps_inprocess_job_destroy joins the threads. A job that was stopped or has failed leaves a model
 * too, unless weights are not finite. Returns the first failure, CANCELLED if the job was stopped,
 * else OK. */
PS_MUST_USE ps_status ps_inprocess_job_finish(ps_inprocess_job *run);

/* Returns the job's message as it is now: state, progress, result, and after finish also its files.
 * Valid until the next call. One thread at a time. */
const Psgd__V1__Job *ps_inprocess_job_now(ps_inprocess_job *run);

/* Returns the message of ps_inprocess_job_now with the result of the next evaluation that all
 * workers have done and that this function has not returned yet; NULL if there is none. Skips
 * evaluations that workers have forgotten. If the job splits evaluations, skips all but the
 * last. */
const Psgd__V1__Job *ps_inprocess_job_next_evaluation(ps_inprocess_job *run);

#endif
