/* SPDX-License-Identifier: Apache-2.0 */
/* trainer.h - the thread that computes a worker's share of a job.
 *
 * For each step it gathers the blocks that the worker holds, runs forward as
 * weights come in and backward as gradients go out, and after each epoch, and as often
 * in between as the job wants, evaluates on the test set. Under an update with local steps
 * (common/update/local.h) it trains on a replica, in rounds, and evaluates the shared weights
 * after each round in which an evaluation was due. A step that was over before its weights came
 * (with redundancy: others brought the same blocks) is skipped: no row is written for it, and none
 * for an epoch that ends so. It writes the reports and, on rank 0, the model files into the job's
 * folder.
 */
#ifndef PS_COMMON_TRAIN_TRAINER_H
#define PS_COMMON_TRAIN_TRAINER_H

#include "common/base/buf.h"
#include "common/data/dataset.h"
#include "common/job/plan.h"
#include "common/train/exchange.h"

typedef struct ps_trainer ps_trainer;

enum { PS_EVALUATIONS_KEPT = 32 };

/* What an evaluation found. */
typedef struct ps_trainer_evaluation {
    uint32_t number; /* from 1 */
    double loss, values[PS_METRICS_MAX];
} ps_trainer_evaluation;

/* Where it is; a copy. */
typedef struct ps_trainer_progress {
    uint64_t step;         /* finished */
    uint32_t epoch;        /* from 1 */
    double loss, accuracy; /* of the last step's blocks */
    uint64_t samples;
    char waiting_for[PS_STATUS_TEXT_BYTES]; /* the file that a full disk keeps it from; "": none */
    uint64_t behind; /* steps taken while an exchange was under way from first to last */
    uint32_t evaluations;
    double eval_loss, eval_values[PS_METRICS_MAX]; /* the last one's; the plan's metrics */
} ps_trainer_progress;

/* Whose share of what. All pointers are kept. */
typedef struct ps_trainer_conf {
    const char *job_id;
    const char *folder; /* for its files */
    uint32_t rank;
    const ps_plan *plan;
    const ps_dataset *data;
    float *weights; /* (param_count) initial; also where an exchange writes later ones */
} ps_trainer_conf;

/* Takes all memory it will need, RESOURCE_EXHAUSTED if there is too little. */
PS_MUST_USE ps_status ps_trainer_create(const ps_trainer_conf *conf, ps_trainer **out);

/* Bytes of what training holds as long as it lasts, beside the data set. */
typedef struct ps_train_memory {
    size_t weights, gradients;
    size_t optimizer;   /* its state, where this worker has it */
    size_t activations; /* of a block or of a batch of the test set, and scratch */
    size_t samples;     /* gathered, and the order of all */
    size_t rounds;      /* of local steps: the replica and what the method keeps */
} ps_train_memory;

ps_train_memory ps_trainer_memory(const ps_trainer *t);

ps_buf *ps_trainer_grad(ps_trainer *t); /* the gradient block, for the exchange */

/* ---- A rank as a file ---- */

/* Lets the thread end when `clock` exchanges are finished, before the job is over: with all that
 * was pushed acknowledged and the weights of that clock there. It writes no model then. Before
 * start; without, the thread ends with the job. */
void ps_trainer_stop_at(ps_trainer *t, uint64_t clock);

/* Writes what the rank keeps from one clock to the next: the shared weights as it has them, its
 * optimizer's state, its replica with the method's state and the local rule's, and what the
 * exchange keeps (residuals, estimates). Draws follow from the clock, so they are not in it. Not
 * while the thread runs, and only where it ended by ps_trainer_stop_at. Fails as `write` does, and
 * with FAILED_PRECONDITION for an exchange among workers, whose state no file has.
 *
 * The file is one of common/base/state.h, magic "PSGDRNK1", version 1:
 *   kind 1, first        u64 hash of the plan; u32 rank, variables; u64 clock, step, own steps of
 *                        local rounds; f64 sum of the local rule's rates in the last round
 *   kind 2, by variable  f32 size weights; f32 slots * size of the optimizer, where it is here;
 *                        f32 size replica, f32 slots * size of the method, f32 slots * size of the
 *                        local rule, where there are rounds; u64 rows: the last round that touched
 *                        each, where that is tracked; what the exchange keeps (coder.h)
 */
PS_MUST_USE ps_status ps_trainer_save(ps_trainer *t, ps_exchange *exchange,
                                      ps_state_write_fn *write, void *arg);

/* Reads it into a trainer and an exchange that have not begun: ps_trainer_start goes on from there.
 * After a failure both are only good for destroy.
 *
 * DATA_LOSS            not such a file, cut, or damaged; names the offset
 * FAILED_PRECONDITION  of another job or rank; an exchange among workers
 */
PS_MUST_USE ps_status ps_trainer_load(ps_trainer *t, ps_exchange *exchange, const uint8_t *bytes,
                                      size_t len);

/* Starts the thread. Its last act, having ended by itself or because the
 * exchange's gate was closed, is done(arg). */
PS_MUST_USE ps_status ps_trainer_start(ps_trainer *t, ps_exchange *exchange,
                                       void (*done)(void *arg), void *arg);

/* After `done`: how it ended. CANCELLED if it was stopped. */
ps_status ps_trainer_result(ps_trainer *t);

/* Not while the thread runs; after `done` it is joined. NULL is allowed. */
void ps_trainer_destroy(ps_trainer *t);

/* Any thread. */
ps_trainer_progress ps_trainer_get_progress(ps_trainer *t);

/* Gives an evaluation by its number. Returns false if there is none of that number, or if it is
 * not among the last PS_EVALUATIONS_KEPT. Any thread. */
bool ps_trainer_get_evaluation(ps_trainer *t, uint32_t number, ps_trainer_evaluation *out);

/* Where the job splits evaluations: what this worker found in its share in the last
 * one, as ps_evaluation_write makes it, and the number of that, from 1; a reference, the
 * caller's. NULL before the first. Any thread. */
ps_buf *ps_trainer_get_part(ps_trainer *t, uint32_t *evaluation);

#endif
