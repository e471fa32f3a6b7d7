/* SPDX-License-Identifier: Apache-2.0 */
/* trainer_impl.h - state and functions that the files trainer*.c share; for them only. */
#ifndef PS_COMMON_TRAIN_TRAINER_IMPL_H
#define PS_COMMON_TRAIN_TRAINER_IMPL_H

#include "common/train/trainer.h"

#include "common/artifact/events.h"
#include "common/artifact/report.h"
#include "common/artifact/round_record.h"
#include "common/artifact/thin.h"
#include "common/base/state.h"
#include "common/data/ahead.h"
#include "common/trace/trace.h"
#include "common/train/evaluation.h"
#include "common/train/holdup.h"
#include "common/train/step_metrics.h"

#include <pthread.h>

/* State of an update with local steps (common/update/local.h). The slots of a variable are
 * (slots, size), at slots * the variable's offset. */
typedef struct trainer_rounds {
    const ps_local *local; /* NULL: no local steps; the rest is unused */
    float *replica;        /* (param_count) x */
    float *grad;           /* (param_count) g; NULL: it is in the exchange's block */
    float *slots;          /* state of the update: (its slots, param_count) */
    float *rule_state;     /* state of the local optimizer: (its slots, param_count) */
    uint64_t **touched;    /* (variables): of sparse ones that are tracked; see ps_stretch */
    bool *is_in;           /* (workers): takes part in this round */
    ps_round now;
    uint32_t tables_stepped; /* of those that grow, in the current step */
    uint64_t own_steps;      /* taken by this worker */
    bool is_within;          /* t->clock has begun */
    uint32_t stepped; /* steps of this round that were taken before its exchange could begin */
    bool is_adopting, completes_step, completes_round; /* of the current block */
} trainer_rounds;

/* The record of the rank's rounds (common/artifact/round_record.h). An entry is written when the
 * exchange of its round is over, which is while the next one is computed. */
typedef struct trainer_record {
    ps_rounds *file;
    ps_round_entry now;    /* of the round that is computed; its loss is a sum */
    ps_round_entry before; /* of the round that is exchanged; its round is 0 if there is none */
    bool is_sent;          /* the exchange of `now` has begun */
    /* time at which the exchange of `before` began, and that of `now`; 0: it did not */
    int64_t sent_us[2];
    int64_t began_ns;         /* time at which `now` began, or the evaluation before it ended */
    int64_t began_waited_ns;  /* the gate's waiting time at that moment */
    int64_t waited_ns;        /* that at the end of `before` */
    int64_t computed_ns;      /* of all rounds before `now`, without evaluations and waits */
    int64_t started_ns;       /* time at which training began in this attempt */
    int64_t evaluation_ns;    /* time at which an evaluation began (ps_trace_begin) */
    ps_exchange_stats so_far; /* the traffic that the written entries contain */
} trainer_record;

/* A row of the curves that may be written. */
typedef struct trainer_curve_row {
    ps_train_row row;
    double values[PS_METRICS_MAX]; /* row.values */
    double wall_s;
} trainer_curve_row;

/* Which rows of the steps are written (common/artifact/thin.h). */
typedef struct trainer_curve {
    ps_thin thin;
    trainer_curve_row least, greatest; /* rows that are kept of the present window */
    trainer_curve_row last;            /* the last row of all */
    uint64_t written;                  /* step of the last row that was written; 0: none */
} trainer_curve;

enum { PS_TRAINER_FILES = 4 };

/* The reports of a job up to the checkpoint that it goes on from. */
typedef struct trainer_earlier {
    double seconds, wait_s;          /* of training */
    uint64_t bytes_up, bytes_down;   /* of the exchange */
    ps_buf *files[PS_TRAINER_FILES]; /* the contents of TR, EV, ROUND and TB; NULL: none */
} trainer_earlier;

/* What the rank says with its contributions, for whoever goes on with it (trainer_said.c). */
typedef struct trainer_said {
    bool is_on;
    bool is_last_block;    /* of its contributions to the clock, the one in hand is the last */
    uint64_t clock;        /* 1 + the last clock with which it said something; 0: none */
    ps_strbuf evaluations; /* since then */
    ps_buf *base;          /* the reports up to the clock at which it began; NULL: none */
    size_t base_at;        /* bytes of it that were said */
    ps_buf *before;        /* what the rank had said before this attempt; NULL: nothing */
    bool evaluates_first;  /* the weights of the first clock may not have been evaluated */
} trainer_said;

/* Where a rank that was parked goes on (trainer_place.c). */
typedef struct trainer_place {
    bool lacks_weights; /* the rank's file has none: they are those of `from` */
    bool pulls_weights; /* those are not what servers give, which is pulled */
    uint64_t from;      /* the first clock to which contributions are sent again; t->clock: none */
    bool owes_evaluation; /* of the weights of t->clock */
    bool is_held;         /* it begins no clock before the job's early end is known */
    uint32_t epoch;       /* of that evaluation */
} trainer_place;

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
    bool has_diverged; /* result is the failure of a number that is not finite */
    bool has_ended;    /* as the job does there; `reports` then has the reports of the end, if the
                        * plan carries ranks */

    ps_model *model;
    float *weights;     /* (param_count) */
    ps_buf *grad;       /* param_count floats */
    float *optim_state; /* (slots, param_count) if this worker steps the weights */
    float *x;           /* (batch, features) */
    float *targets;     /* (batch, target_width) */
    ps_feed *feed;
    ps_ahead *ahead; /* NULL: samples are in memory */
    uint64_t
        next_wanted; /* first of this worker's blocks of the epoch that `ahead` was not told of */
    uint32_t *order; /* (ps_plan_order_count) */
    size_t batch;    /* samples that x holds */
    ps_evaluation evaluation;
    ps_step_metrics step_metrics;

    ps_report *train_report, *eval_report;
    trainer_curve curve;
    /* of the step before. It is held back until it is known whether that step was the last; then
     * it is written when its exchange is over. Its step is 0 if there is none */
    ps_train_row last_row;
    ps_events *events; /* the reports as curves for TensorBoard */
    trainer_record record;
    ps_trace_ring *trace;
    int64_t began_us, last_row_us;
    uint64_t metrics_at; /* step whose values step_metrics has; 0: none yet */
    trainer_said said;
    ps_buf *reports; /* the part of a checkpoint with the reports; NULL: none */
    uint32_t report_sections;
    ps_buf *program;         /* part of a checkpoint: what the program keeps; NULL: nothing */
    trainer_earlier earlier; /* what the job has had before the checkpoint that it goes on from */
    uint64_t clock;          /* exchanges finished */
    uint64_t step;           /* steps finished; equal to `clock` without local steps */
    uint64_t evaluated_at;   /* 1 + clock of the last evaluation; 0: none */
    bool is_evaluating;      /* within ps_trainer_evaluate, of this epoch */
    uint32_t evaluated_epoch;
    trainer_place place; /* where it begins; zeros but after a park */
    uint64_t stop_at;    /* clock at which the thread ends; UINT64_MAX: at the end of the job */
    bool sends;          /* the current block completes a contribution */
    ps_score score;      /* of the blocks of the running step so far */
    bool has_order;
    uint32_t order_epoch; /* epoch of `order` */
    trainer_rounds rounds;
    struct trainer_tables *tables; /* for sparse variables; NULL: the job has none */
    ps_holdup holdup;              /* delays of the job's straggler */

    pthread_mutex_t files_mutex; /* guards the reports and events */
    pthread_mutex_t mutex;       /* guards progress, past and part */
    ps_trainer_progress progress;
    ps_trainer_evaluation past[PS_EVALUATIONS_KEPT]; /* ring: index is number modulo its size */
    ps_buf *part; /* part of the last evaluation; NULL: none yet, or evaluations are not split */
};

static inline float *ps_trainer_gradients(ps_trainer *t)
{
    return (float *)(void *)t->grad->data;
}

/* Returns the touched rows (*count), ascending, of a variable whose gradient is zero in all others.
 * Returns NULL, with *count 1, if any value of the gradient may be nonzero. */
static inline const uint32_t *ps_trainer_touched(ps_trainer *t, uint32_t variable, size_t *count)
{
    *count = 1;
    return t->plan->table_of[variable] != PS_NO_TABLE ? ps_model_rows(t->model, variable, count)
                                                      : NULL;
}

/* All functions below are for the trainer's thread. One that returns bool returns false if the gate
 * was stopped or has failed, unless its comment says otherwise; the caller then returns. */

/* Returns the targets of the samples that were gathered last. */
ps_targets ps_trainer_targets(const ps_trainer *t);
void ps_trainer_order(ps_trainer *t, uint32_t epoch);
/* Adds the outputs of a block to the metrics of the step (a ps_model_outputs_fn). */
void ps_trainer_see_outputs(void *trainer, const float *y, size_t n);
void ps_trainer_report_step(ps_trainer *t, uint32_t epoch, uint32_t batch);
/* Checks the loss of n gathered samples after a pass of the model in `step`, counted from 1. If it
 * is not finite, fails the gate with the step and the first layer whose output is not finite, and
 * returns false. It does not look at weights, which the exchange may be writing. */
bool ps_trainer_is_finite(ps_trainer *t, uint64_t step, double loss, size_t n);
/* Evaluates the test set, or this worker's share, on the weights of t->clock. */
bool ps_trainer_evaluate(ps_trainer *t, uint32_t epoch);
/* Returns whether there is a multiple of the job's eval_every_steps in (before, now]. */
bool ps_trainer_is_due(const ps_trainer *t, uint64_t before, uint64_t now);
/* Returns whether t->clock is that of ps_trainer_stop_at. */
bool ps_trainer_is_at_stop(const ps_trainer *t);
/* Writes whether the job ends at t->clock, as was agreed upon while the clock before ran. Call it
 * before t->clock begins. */
bool ps_trainer_begin_clock(ps_trainer *t, bool *is_end);
/* Evaluates at the end of the job, unless the weights of t->clock are evaluated. */
bool ps_trainer_evaluate_end(ps_trainer *t, uint32_t epoch);
bool ps_trainer_train_steps(ps_trainer *t);
bool ps_trainer_train_rounds(ps_trainer *t);
void ps_trainer_turn_to_increments(ps_trainer *t, uint32_t first_variable, uint32_t count);

/* Allocates t->rounds. Returns RESOURCE_EXHAUSTED if there is too little memory. */
PS_MUST_USE ps_status ps_trainer_init_rounds(ps_trainer *t);
void ps_trainer_fini_rounds(ps_trainer *t);
size_t ps_trainer_rounds_memory(const ps_trainer *t);

/* trainer_foreign.c: has a program compute the gradient of the mean loss of the block in hand, at
 * weights (param_count), which are complete; writes scale * the gradient to `to`, and calls `ready`
 * (optional) for its variables as they come. Sets t->score. */
bool ps_trainer_foreign_block(ps_trainer *t, const float *weights, float scale, float *to,
                              ps_model_ready_fn *ready);

/* Copies what the program keeps, for a checkpoint: a copy of the process would share it. Without
 * such a program does nothing. Fails if the program has written what is no block of named values.
 */
PS_MUST_USE ps_status ps_trainer_keep_program(ps_trainer *t);
/* Frees that copy. */
void ps_trainer_drop_program(ps_trainer *t);
/* Reads what a program kept into the memory of the program. */
PS_MUST_USE ps_status ps_trainer_take_program(ps_trainer *t, ps_state_in *in);

/* Sparse tables. Without tables these functions do nothing and return true or OK; those that pull
 * do nothing if the vocabulary is fixed. */
PS_MUST_USE ps_status ps_trainer_init_tables(ps_trainer *t);
void ps_trainer_fini_tables(ps_trainer *t);
/* Pulls the rows of the n gathered samples, and replaces ids in t->x by positions of these rows. */
bool ps_trainer_pull_rows(ps_trainer *t, size_t n);
/* In rounds of local steps: puts the rows of the n gathered samples into the replica, and their
 * state of the local rule into `state` (slots, param_count); pulls those that the round does not
 * hold. Replaces ids in t->x by positions. */
bool ps_trainer_take_round_rows(ps_trainer *t, float *state, size_t n);
/* Returns how many local steps of the round the row at this position has taken. */
uint64_t ps_trainer_row_steps(const ps_trainer *t, uint32_t position);
/* Takes the rows back from the replica after the local step. */
void ps_trainer_keep_round_rows(ps_trainer *t, const float *state);
/* Pushes what the round has changed of its rows, before the last table is ready, and drops them. */
void ps_trainer_push_round_rows(ps_trainer *t);
/* Notes that the gradients of these variables are final. With the last table among them, pushes the
 * rows of the contribution. */
void ps_trainer_push_rows(ps_trainer *t, uint32_t first_variable, uint32_t count);
/* Gathers the block after the i-th of t->clock and requests its rows, which then arrive while the
 * i-th is computed. Does nothing if the exchange or the job does not prefetch. */
void ps_trainer_go_ahead(ps_trainer *t, uint32_t epoch, uint32_t i);
/* Returns whether a block was gathered by ps_trainer_go_ahead and not taken yet. */
bool ps_trainer_is_ahead(const ps_trainer *t);
/* Makes that block, of n samples, the current one, and blocks until its rows have arrived. */
bool ps_trainer_take_ahead(ps_trainer *t, uint32_t block, size_t n);
/* Waits for the rows of a block that was gathered by ps_trainer_go_ahead and will not be trained.
 */
bool ps_trainer_drop_ahead(ps_trainer *t);
/* Logs how many blocks were prefetched. Call it at the end. */
void ps_trainer_log_tables(const ps_trainer *t);
/* Copies the samples of the i-th held block of `step` to x and targets. If samples are in a file,
 * also requests those of the next blocks, which are read in the background. */
void ps_trainer_gather(ps_trainer *t, uint32_t epoch, uint64_t step, uint32_t i, float *x,
                       float *targets);

/* Clips the final gradients of these variables in g (param_count), which is `share` of a mean
 * gradient. Does nothing if the job clips all variables together. */
void ps_trainer_clip(ps_trainer *t, float *g, uint32_t first_variable, uint32_t count,
                     double share);
/* Clips all variables together after backward, then calls `ready` for each layer, last layer first.
 */
void ps_trainer_clip_all(ps_trainer *t, float *g, double share, ps_model_ready_fn *ready);

/* Open and close the worker's files in the job's folder. */
PS_MUST_USE ps_status ps_trainer_open_reports(ps_trainer *t);

/* Returns the row of `step`, whose samples were added to the metrics. */
ps_train_row ps_trainer_row(ps_trainer *t, uint32_t epoch, uint32_t batch, uint64_t step);

/* trainer_said.c. Nothing is said in jobs that cannot be rescued (plan.h). */

/* Begins to say things, before the first clock; evaluates first, if that may be missing. */
bool ps_trainer_begin_said(ps_trainer *t);
/* Says how the step in hand is going, before its gradients are sent. Only the first call of a clock
 * counts. */
void ps_trainer_say(ps_trainer *t);
/* Notes an evaluation, which is said with the next step. */
void ps_trainer_said_evaluation(ps_trainer *t, const ps_eval_row *row);
/* Takes the section with what the rank had said. Unless `is_own` it is skipped. */
ps_status ps_trainer_take_said(ps_trainer *t, ps_state_in *in, bool is_own);
/* Puts into the open reports what the rank had said. */
void ps_trainer_restore_said(ps_trainer *t);
void ps_trainer_fini_said(ps_trainer *t);

/* trainer_place.c */

/* Writes a section with the place of the rank; `is_parked`: with what its exchange has sent. */
PS_MUST_USE ps_status ps_trainer_put_place(ps_trainer *t, ps_exchange *exchange, bool is_parked,
                                           ps_state_out *out);
/* Reads it, after the head of the file. */
PS_MUST_USE ps_status ps_trainer_take_place(ps_trainer *t, ps_exchange *exchange, ps_state_in *in);

/* trainer_earlier.c */

/* Returns the reports as they are now as a file of its own; NULL: they cannot be had. */
ps_buf *ps_trainer_copy_reports(ps_trainer *t);
/* Reads such a file in place of the sections of a checkpoint. */
PS_MUST_USE ps_status ps_trainer_take_reports(ps_trainer *t, const uint8_t *bytes, size_t len);
/* Checks that such a file can be read. Fails as ps_trainer_take_reports does. */
PS_MUST_USE ps_status ps_trainer_check_reports(const uint8_t *bytes, size_t len);

/* Returns whether the rank is saved without variables: it has no state of its own, and its weights
 * are those of the model. */
bool ps_trainer_is_lean(const ps_trainer *t);

/* Makes the part of a checkpoint with the reports, as they are now. Changes what the reports hold
 * back and locks the files, so a copy of the process cannot do it. */
void ps_trainer_keep_reports(ps_trainer *t);
/* Writes that part behind the rank's sections. */
void ps_trainer_put_earlier(ps_trainer *t, ps_state_out *out);
/* Forgets that part. */
void ps_trainer_drop_reports(ps_trainer *t);
/* Does what ps_trainer_save does after ps_trainer_keep_reports. */
PS_MUST_USE ps_status ps_trainer_save_kept(ps_trainer *t, ps_exchange *exchange,
                                           ps_state_write_fn *write, void *arg);
/* Returns whether the checkpoint that the job goes on from is one of this very job. */
bool ps_trainer_is_own(const ps_trainer *t);
/* Takes a section of a checkpoint's reports. Unless `is_own` they are skipped. */
ps_status ps_trainer_take_earlier(ps_trainer *t, ps_state_in *in, uint32_t kind, uint32_t index,
                                  bool is_own);
/* Puts what was taken into the open reports, which then go on behind it. */
void ps_trainer_restore_reports(ps_trainer *t);
void ps_trainer_fini_earlier(ps_trainer *t);
/* Returns the exchange's statistics with those of the job before its checkpoint. */
ps_exchange_stats ps_trainer_all_stats(const ps_trainer *t);
PS_MUST_USE ps_status ps_trainer_close_reports(ps_trainer *t); /* closes those that are open */
/* Adds a row to the report and to the curves. Both keep few rows of long jobs (thin.h). */
void ps_trainer_put_train(ps_trainer *t, const ps_train_row *row);
/* Writes what is held back of the rows; the last row is always written. */
void ps_trainer_end_train(ps_trainer *t);
/* Adds a line to the report. Also logs when the evaluation began and ended, in seconds
 * since training began. */
void ps_trainer_put_eval(ps_trainer *t, const ps_eval_row *row, int64_t began_us);
/* Adds a line to the report and the curves, without a word in the log. */
void ps_trainer_write_eval(ps_trainer *t, const ps_eval_row *row);
/* Begins the record of rounds, trainer_record.c. */
void ps_trainer_record_begin(ps_trainer *t);
/* Returns where the time of this attempt went until now, after `steps` steps. */
ps_trainer_times ps_trainer_record_times(const ps_trainer *t, uint64_t steps);
/* Notes a local step with its mean loss. */
void ps_trainer_record_step(ps_trainer *t, double loss);
/* Notes that the first contribution to t->clock goes out now: its weights have arrived. Only the
 * first call of a round counts. */
void ps_trainer_record_sent(ps_trainer *t);
/* Notes the end of the round whose exchange leads to t->clock. */
void ps_trainer_record_round(ps_trainer *t);
/* Writes the line of TR that is held back until it is known whether its step was the last. */
void ps_trainer_put_held_line(ps_trainer *t);
/* Completes and writes the entry of the round that was exchanged last, if it is not written yet. */
void ps_trainer_record_finish(ps_trainer *t);
/* Notes an evaluation of the weights of t->clock that ends now. */
void ps_trainer_record_evaluation(ps_trainer *t, const ps_eval_row *row);
/* Writes the last entries: of the round that is exchanged, and of steps that are part of none. */
void ps_trainer_record_end(ps_trainer *t);
/* Calls `write` with growing pauses until it returns another code than RESOURCE_EXHAUSTED or the
 * gate is stopped. Progress shows what it waits for. Returns the last status of `write`. */
PS_MUST_USE ps_status ps_trainer_write_patiently(ps_trainer *t, ps_status (*write)(ps_trainer *t));

/* Reads or writes a member of a record. */
typedef void trainer_member_fn(void *arg, void *member, size_t bytes);

/* Visits the members of a row of TR, in the order of files. */
void trainer_each_of_row(ps_train_row *row, trainer_member_fn *fn, void *arg);

#endif
