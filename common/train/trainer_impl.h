/* SPDX-License-Identifier: Apache-2.0 */
/* trainer_impl.h - what the files trainer*.c share; for them only. */
#ifndef PS_COMMON_TRAIN_TRAINER_IMPL_H
#define PS_COMMON_TRAIN_TRAINER_IMPL_H

#include "common/train/trainer.h"

#include "common/artifact/events.h"
#include "common/artifact/report.h"
#include "common/data/ahead.h"
#include "common/train/evaluation.h"
#include "common/train/holdup.h"

#include <pthread.h>

/* Of an update with local steps; see common/update/local.h. A variable's slots
 * lie together: (slots, size) at slots * its place. */
typedef struct trainer_rounds {
    const ps_local *local; /* NULL: none of this is used */
    float *replica;        /* (param_count) x */
    float *grad;           /* (param_count) g; NULL: in the exchange's block */
    float *slots;          /* (slots, param_count) of the method */
    float *rule_state;     /* (slots, param_count) of the local rule */
    uint64_t **touched;    /* (variables) of sparse ones, where they are tracked: see ps_stretch */
    bool *is_in;           /* (workers) take part in this round */
    ps_round now;
    uint64_t own_steps;                                /* taken by this worker */
    bool is_adopting, completes_step, completes_round; /* of the block in hand */
} trainer_rounds;

struct ps_trainer {
    ps_trainer_conf conf;
    const ps_plan *plan;
    ps_exchange *exchange;
    ps_gate *gate;
    void (*done)(void *arg);
    void *done_arg;
    pthread_t thread;
    bool started;
    ps_status result;

    ps_model *model;
    float *weights;     /* (param_count) */
    ps_buf *grad;       /* param_count floats */
    float *optim_state; /* (slots, param_count), when the optimizer is here */
    float *x;           /* (batch, features) */
    float *targets;     /* (batch, target_width) */
    ps_feed *feed;
    ps_ahead *ahead;      /* NULL: samples are in memory */
    uint64_t next_wanted; /* of this worker's blocks of the epoch, the first it does not know of */
    uint32_t *order;      /* (train_count) */
    size_t batch;         /* rows of x */
    ps_evaluation evaluation;

    ps_report *train_report, *eval_report;
    ps_train_row last_row; /* of the last step; step 0: none. Written when its exchange is over */
    ps_events *events;     /* the same for viewers of curves */
    int64_t began_us, last_row_us;
    uint64_t clock;   /* exchanges finished */
    uint64_t step;    /* steps finished; the clock where every step is one */
    uint64_t stop_at; /* the clock where the thread ends; UINT64_MAX: with the job */
    bool sends;       /* the block in hand completes a contribution */
    bool has_order;
    uint32_t order_epoch; /* that `order` is of */
    trainer_rounds rounds;
    struct trainer_tables *tables; /* sparse ones; NULL: none */
    ps_holdup holdup;              /* what the job's straggler does to this worker */

    pthread_mutex_t files_mutex; /* guards the reports and events */
    pthread_mutex_t mutex;       /* guards progress, past and part */
    ps_trainer_progress progress;
    ps_trainer_evaluation past[PS_EVALUATIONS_KEPT]; /* ring, by number */
    ps_buf *part; /* of the last evaluation; NULL: none, or they are not split */
};

static inline float *ps_trainer_gradients(ps_trainer *t)
{
    return (float *)(void *)t->grad->data;
}

/* Returns the touched rows (*count), ascending, of a variable whose gradient is zeros in all others.
 * NULL, and *count is 1: any value of the gradient may be something. */
static inline const uint32_t *ps_trainer_touched(ps_trainer *t, uint32_t variable, size_t *count)
{
    *count = 1;
    return t->plan->by_rows[variable] ? ps_model_rows(t->model, variable, count) : NULL;
}

/* The trainer's thread, all of these; false: stopped or failed, go home. */

ps_targets ps_trainer_targets(const ps_trainer *t); /* of the samples gathered last */
void ps_trainer_order(ps_trainer *t, uint32_t epoch);
void ps_trainer_report_step(ps_trainer *t, uint32_t epoch, uint32_t batch, const ps_score *score);
/* After the model was trained on, or shown, n samples gathered, in a step counted from 1. If
 * the loss is not finite the job fails with the step and the layer where something was first
 * not so; weights are the exchange's again by then, and not looked at. */
bool ps_trainer_is_finite(ps_trainer *t, uint64_t step, double loss, size_t n);
/* The whole test set on the weights of the clock that comes next. */
bool ps_trainer_evaluate(ps_trainer *t, uint32_t epoch);
/* Whether steps from `before` to now have reached a multiple of the job's eval_every_steps. */
bool ps_trainer_is_due(const ps_trainer *t, uint64_t before);
/* Whether the clock is that of ps_trainer_stop_at. */
bool ps_trainer_is_at_stop(const ps_trainer *t);
bool ps_trainer_train_steps(ps_trainer *t);
bool ps_trainer_train_rounds(ps_trainer *t);
void ps_trainer_turn_to_increments(ps_trainer *t, uint32_t first_variable, uint32_t count);

/* RESOURCE_EXHAUSTED if there is too little memory. */
PS_MUST_USE ps_status ps_trainer_init_rounds(ps_trainer *t);
void ps_trainer_fini_rounds(ps_trainer *t);
size_t ps_trainer_rounds_memory(const ps_trainer *t);

/* Sparse tables; nothing happens where there are none. Brings the rows of n samples gathered, whose
 * ids then are places; false: go home. Then, of a block: its gradients leave. */
PS_MUST_USE ps_status ps_trainer_init_tables(ps_trainer *t);
void ps_trainer_fini_tables(ps_trainer *t);
bool ps_trainer_pull_rows(ps_trainer *t, size_t n);
void ps_trainer_push_rows(ps_trainer *t, size_t n);
/* Where the exchange can: gathers the block after the i-th of the clock and asks for its rows,
 * while that is computed. Is one ahead? It becomes the block in hand, with its n samples; false:
 * go home. At the end: how many there were, to the log. */
void ps_trainer_go_ahead(ps_trainer *t, uint32_t epoch, uint32_t i);
bool ps_trainer_is_ahead(const ps_trainer *t);
bool ps_trainer_take_ahead(ps_trainer *t, uint32_t block, size_t n);
void ps_trainer_log_tables(const ps_trainer *t);
/* Samples of the i-th of the blocks held, in a step of the epoch; from a file those of the blocks
 * after it are read meanwhile. */
void ps_trainer_gather(ps_trainer *t, uint32_t epoch, uint64_t step, uint32_t i, float *x,
                       float *targets);

/* Clips the final gradients of these variables in the block g, which stands for `share` of a
 * mean gradient, unless all are clipped together. Trainer's thread, as below. */
void ps_trainer_clip(ps_trainer *t, float *g, uint32_t first_variable, uint32_t count,
                     double share);
/* Clips all variables together when backward is through, then tells of each layer's, last
 * layer first. */
void ps_trainer_clip_all(ps_trainer *t, float *g, double share, ps_model_ready_fn *ready);

/* The files of a worker in the job's folder. Trainer's thread. */
PS_MUST_USE ps_status ps_trainer_open_reports(ps_trainer *t);
PS_MUST_USE ps_status ps_trainer_close_reports(ps_trainer *t); /* those that are open */
void ps_trainer_put_train(ps_trainer *t, const ps_train_row *row);
/* The log also says when the evaluation began and ended, in seconds of training. */
void ps_trainer_put_eval(ps_trainer *t, const ps_eval_row *row, int64_t began_us);
PS_MUST_USE ps_status ps_trainer_write_model(ps_trainer *t);
/* Calls `write` until it says something else than RESOURCE_EXHAUSTED, or training is stopped, with
 * growing pauses; progress shows what it waits for. Returns what `write` said last. */
PS_MUST_USE ps_status ps_trainer_write_patiently(ps_trainer *t, ps_status (*write)(ps_trainer *t));

#endif
