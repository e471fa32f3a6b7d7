/* SPDX-License-Identifier: Apache-2.0 */
/* trainer.h - the thread that computes a worker's share of a job.
 *
 * For each step it gathers the blocks that the worker holds, runs forward as
 * weights come in and backward as gradients go out, and after each epoch
 * evaluates on the whole test set. A step that was over before its weights came
 * (with redundancy: others brought the same blocks) is skipped: no row is
 * written for it, and none for an epoch that ends so. It writes the reports and, on rank 0, the
 * model file into the session's folder.
 */
#ifndef PS_SERVICES_WORKER_TRAINER_H
#define PS_SERVICES_WORKER_TRAINER_H

#include "services/worker/exchange.h"

typedef struct ps_trainer ps_trainer;

/* Where it is; a copy. */
typedef struct ps_trainer_progress {
    uint64_t step;         /* clocks finished */
    uint32_t epoch;        /* from 1 */
    double loss, accuracy; /* of the last step's blocks */
    uint64_t samples;
    uint32_t evaluations;
    double eval_loss, eval_accuracy;
} ps_trainer_progress;

/* Takes all memory it will need, RESOURCE_EXHAUSTED if there is too little. The
 * session is kept. */
PS_MUST_USE ps_status ps_trainer_create(const ps_session *session, ps_trainer **out);

/* Initial weights in place; also where an exchange writes later ones. */
float *ps_trainer_weights(ps_trainer *t);
ps_buf *ps_trainer_grad(ps_trainer *t);

/* Starts the thread; `done` is posted to `loop` when it has ended, by itself or
 * because the exchange's gate was closed. */
PS_MUST_USE ps_status ps_trainer_start(ps_trainer *t, ps_exchange *exchange, ps_loop *loop,
                                       ps_event *done);

/* After `done`: how it ended. CANCELLED if it was stopped. */
ps_status ps_trainer_result(ps_trainer *t);

/* Not while the thread runs; after `done` it is joined. NULL is allowed. */
void ps_trainer_destroy(ps_trainer *t);

/* Any thread. */
ps_trainer_progress ps_trainer_get_progress(ps_trainer *t);

#endif
