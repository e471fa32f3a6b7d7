/* SPDX-License-Identifier: Apache-2.0 */
/* trainer_impl.h - state and functions that the files trainer*.c share; for these files only. */
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

/* State of an update with local steps (common/update/local.h). In `slots` and `rule_state` the
 * state of a variable is (its slots, size), beginning at slots * the variable's offset. */
typedef struct trainer_rounds {
    const ps_local *local; /* NULL: the update has no local steps, and no other member is used */
    float *replica;        /* (param_count): the replica; x in local.h */
    /* (param_count): gradients; g in local.h. NULL: they are in the exchange's gradient block */
    float *grad;
    float *slots;      /* state of the update's method: (its slots, param_count) */
    float *rule_state; /* state of the local optimizer: (its slots, param_count) */
    /* (variables): for sparse variables whose touched rows are tracked, `touched` of ps_stretch;
     * else NULL */
    uint64_t **touched;
    bool *is_in;  /* (workers): whether the worker takes part in this round */
    ps_round now; /* the round that is computed */
    /* tables that grow, whose variables were stepped in the current step */
    uint32_t tables_stepped;
    uint64_t own_steps; /* local steps that this worker has taken in the job */
    bool is_within;     /* the round of t->clock has begun and has not ended */
    /* under an overlapped update: steps of this round that were taken while its exchange has not
     * begun; else 0 */
    uint32_t stepped;
    /* of the block in hand: its forward pass adopts the shared weights; it is the last one of its
     * step; that step is the last one of the round */
    bool is_adopting, completes_step, completes_round;
} trainer_rounds;

/* What is needed to write the record of the rank's rounds (common/artifact/round_record.h). The
 * entry of a round is written when its exchange is over. By then the next round is being
 * computed. */
typedef struct trainer_record {
    ps_rounds *file;
    /* entry of the round that is computed; its loss is a sum until the round ends */
    ps_round_entry now;
    /* entry of the round whose exchange is not over; round 0: there is none */
    ps_round_entry before;
    bool is_sent; /* a contribution to the round of `now` was sent */
    /* monotonic time in microseconds at which the exchange of `before`, and that of `now`, began;
     * 0: it did not */
    int64_t sent_us[2];
    /* monotonic time at which `now` began, or at which an evaluation within it ended */
    int64_t began_ns;
    int64_t began_waited_ns; /* the gate's waiting time at began_ns */
    int64_t waited_ns;       /* the gate's waiting time when the round of `before` ended */
    /* computing time of all rounds before `now`, without evaluations and waits */
    int64_t computed_ns;
    int64_t started_ns;       /* monotonic time at which training began in this attempt */
    int64_t evaluation_ns;    /* time at which the running evaluation began (ps_trace_begin) */
    ps_exchange_stats so_far; /* traffic that the entries written so far contain */
} trainer_record;

/* A row of the training report (TR), with its values and time, that may be written. */
typedef struct trainer_curve_row {
    ps_train_row row;
    double values[PS_METRICS_MAX]; /* memory of row.values */
    double wall_s;                 /* row's time in seconds since 1970, for the event file */
} trainer_curve_row;

/* Which rows of steps are written, so that long jobs have short reports
 * (common/artifact/thin.h). */
typedef struct trainer_curve {
    ps_thin thin;
    /* the rows with the least and the greatest loss in the present window, which will be written */
    trainer_curve_row least, greatest;
    trainer_curve_row last; /* the newest row */
    uint64_t written;       /* step of the last row that was written; 0: none */
} trainer_curve;

enum { PS_TRAINER_FILES = 4 };

/* What the job had reported up to the checkpoint from which it goes on. */
typedef struct trainer_earlier {
    double seconds, wait_s;          /* seconds of training, and of its waits */
    uint64_t bytes_up, bytes_down;   /* bytes that the rank's exchange had sent and received */
    ps_buf *files[PS_TRAINER_FILES]; /* the contents of TR, EV, ROUND and TB; NULL: none */
} trainer_earlier;

/* What the rank reports to servers with its contributions, for the process that may continue it
 * (trainer_said.c). */
typedef struct trainer_said {
    bool is_on;            /* the rank reports */
    bool is_last_block;    /* the contribution in hand is the rank's last one to the clock */
    uint64_t clock;        /* 1 + the last clock with which it reported; 0: none */
    ps_strbuf evaluations; /* records of the evaluations since the last report */
    /* the reports (TR, EV, ...) up to the clock at which the rank began; NULL: none, or all of it
     * was sent */
    ps_buf *base;
    size_t base_at;       /* bytes of `base` that were sent */
    ps_buf *before;       /* what the rank had reported in earlier attempts; NULL: nothing */
    bool evaluates_first; /* the weights of the first clock may have to be evaluated first */
} trainer_said;

/* Where a rank goes on that was parked in the attempt before (trainer_place.c). */
typedef struct trainer_place {
    /* the rank's file has no weights; the trainer got those of the clock `from` */
    bool lacks_weights;
    /* the trainer's weights of `from` differ from what servers give for it, so they are pulled */
    bool pulls_weights;
    /* first clock to which contributions are sent again; equal to t->clock: none */
    uint64_t from;
    bool owes_evaluation; /* the weights of t->clock are to be evaluated first */
    /* the rank begins no clock before the clock of the job's early end is known */
    bool is_held;
    uint32_t epoch; /* epoch of the evaluation that is owed */
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
    bool has_diverged; /* `result` is a failure because a loss, gradient or weight is not finite */
    /* training ended where the job ends, or at stop_at. If the plan can carry ranks, `reports` then
     * has the reports as they were before the end */
    bool has_ended;

    ps_model *model;
    float *weights;     /* (param_count) */
    ps_buf *grad;       /* (param_count) floats: the gradient block */
    float *optim_state; /* (slots, param_count): state of the optimizer; NULL: servers run it, or it
                         * has none */
    float *x;           /* (batch, features) */
    float *targets;     /* (batch, target_width) */
    ps_feed *feed;
    ps_ahead *ahead; /* reads samples from a file in the background; NULL: samples are in memory */
    /* number, among this worker's blocks of the epoch, of the first that `ahead` was not asked
     * for */
    uint64_t next_wanted;
    uint32_t *order; /* (ps_plan_order_count): indices of the samples in the order of order_epoch */
    size_t batch;    /* number of samples for which x has room */
    ps_evaluation evaluation;
    ps_step_metrics step_metrics;

    ps_report *train_report, *eval_report;
    trainer_curve curve;
    /* Row of the step before. It is held back until it is known whether that step was the last one;
     * then it is written, that of the last step with the totals of the job. Its step is 0 if there
     * is none. */
    ps_train_row last_row;
    ps_events *events; /* the reports as curves for TensorBoard */
    trainer_record record;
    ps_trace_ring *trace;
    int64_t began_us, last_row_us;
    uint64_t metrics_at; /* step of whose samples step_metrics has the values; 0: none yet */
    trainer_said said;
    /* the sections of a checkpoint with the reports (ps_trainer_keep_reports), or with what goes
     * before them (ps_trainer_hold_reports); NULL: none */
    ps_buf *reports;
    uint32_t report_sections;
    /* the files of the reports while ps_trainer_hold_reports holds them, and which of them could be
     * opened */
    bool holds_reports, has_held[PS_TRAINER_FILES];
    ps_outlet_past held[PS_TRAINER_FILES];
    /* copy of what the program keeps (ps_trainer_keep_program); NULL: none */
    ps_buf *program;
    /* what the job had reported before the checkpoint from which it goes on */
    trainer_earlier earlier;
    uint64_t clock;        /* number of exchanges finished */
    uint64_t step;         /* number of steps finished; equal to `clock` without local steps */
    uint64_t evaluated_at; /* 1 + clock of the last evaluation; 0: none */
    /* the thread is within ps_trainer_evaluate, for the epoch evaluated_epoch */
    bool is_evaluating;
    uint32_t evaluated_epoch;
    trainer_place place;  /* where a parked rank goes on; else zeros */
    uint64_t stop_at;     /* clock at which the thread ends; UINT64_MAX: at the end of the job */
    bool sends;           /* the block in hand completes a contribution */
    ps_score score;       /* loss and hits of the blocks of the running step so far */
    bool has_order;       /* `order` is that of order_epoch */
    uint32_t order_epoch; /* epoch of `order` */
    trainer_rounds rounds;
    struct trainer_tables *tables; /* for sparse variables; NULL: the job has none */
    ps_holdup holdup;              /* delays of the job's straggler */

    pthread_mutex_t files_mutex; /* guards the reports and events */
    pthread_mutex_t mutex;       /* guards progress, past and part */
    ps_trainer_progress progress;
    /* ring: an evaluation is at its number modulo PS_EVALUATIONS_KEPT */
    ps_trainer_evaluation past[PS_EVALUATIONS_KEPT];
    /* this worker's part of the last evaluation; NULL: none yet, or evaluations are not split */
    ps_buf *part;
};

static inline float *ps_trainer_gradients(ps_trainer *t)
{
    return (float *)(void *)t->grad->data;
}

/* Returns the rows (*count), ascending, of an embedding outside of which the variable's gradient is
 * zero. Returns NULL, with *count 1, if any value of the gradient may be nonzero. */
static inline const uint32_t *ps_trainer_touched(ps_trainer *t, uint32_t variable, size_t *count)
{
    *count = 1;
    return t->plan->table_of[variable] != PS_NO_TABLE ? ps_model_rows(t->model, variable, count)
                                                      : NULL;
}

/* All functions below are for the trainer's thread, or for another one while the trainer's does not
 * run or is parked. A function that returns bool returns false if the gate was stopped or has
 * failed, unless its comment says otherwise; the caller then returns. */

/* Returns the targets of the samples that were gathered last. */
ps_targets ps_trainer_targets(const ps_trainer *t);
void ps_trainer_order(ps_trainer *t, uint32_t epoch);
/* Adds the outputs y (n, outputs) of n samples to the metrics of the step; a
 * ps_model_outputs_fn. */
void ps_trainer_see_outputs(void *trainer, const float *y, size_t n);
void ps_trainer_report_step(ps_trainer *t, uint32_t epoch, uint32_t batch);
/* Checks the loss of n gathered samples that the model has computed in `step`, counted from 1. If
 * it is not finite, fails the gate, naming the step and the first layer whose output is not finite,
 * and returns false; so too if samples could not be read. Does not read weights, because the
 * exchange may be writing them. */
bool ps_trainer_is_finite(ps_trainer *t, uint64_t step, double loss, size_t n);
/* Evaluates the test set, or this worker's share of it, with the weights of t->clock, when they
 * have arrived. Evaluates nothing if these weights are overtaken, or if a program evaluates the
 * model. */
bool ps_trainer_evaluate(ps_trainer *t, uint32_t epoch);
/* Returns whether a multiple of the job's eval_every_steps is in (before, now]. */
bool ps_trainer_is_due(const ps_trainer *t, uint64_t before, uint64_t now);
/* Returns whether t->clock is the clock of ps_trainer_stop_at. */
bool ps_trainer_is_at_stop(const ps_trainer *t);
/* Saves the rank at t->clock if a checkpoint that was asked for is due there. Returns false if the
 * gate was stopped or has failed. */
bool ps_trainer_cut_if_due(ps_trainer *t);
/* Call it before t->clock begins. Takes a checkpoint if one is due here. Sets *is_end to whether
 * the workers have agreed that the job ends at t->clock. */
bool ps_trainer_begin_clock(ps_trainer *t, bool *is_end);
/* Evaluates at the end of the job, unless the weights of t->clock were evaluated already. */
bool ps_trainer_evaluate_end(ps_trainer *t, uint32_t epoch);
bool ps_trainer_train_steps(ps_trainer *t);
bool ps_trainer_train_rounds(ps_trainer *t);
void ps_trainer_turn_to_increments(ps_trainer *t, uint32_t first_variable, uint32_t count);

/* Allocates t->rounds. Returns RESOURCE_EXHAUSTED if there is too little memory. */
PS_MUST_USE ps_status ps_trainer_init_rounds(ps_trainer *t);
void ps_trainer_fini_rounds(ps_trainer *t);
size_t ps_trainer_rounds_memory(const ps_trainer *t);

/* trainer_foreign.c: lets the program compute the gradient of the mean loss of the block in hand at
 * weights (param_count), all of which have arrived. Writes scale * the gradient to `to`, and calls
 * `ready` (optional) for variables as their gradients become final. Sets t->score. */
bool ps_trainer_foreign_block(ps_trainer *t, const float *weights, float scale, float *to,
                              ps_model_ready_fn *ready);

/* Copies what the program keeps, for a checkpoint: a copy of this process would share that memory
 * with the program. Does nothing if no program computes the model. Fails if the memory is not a
 * block of named_bytes.h. */
PS_MUST_USE ps_status ps_trainer_keep_program(ps_trainer *t);
/* Frees the copy that ps_trainer_keep_program has made. */
void ps_trainer_drop_program(ps_trainer *t);
/* Reads from a checkpoint what the program kept, into the memory that it shares with the
 * program. */
PS_MUST_USE ps_status ps_trainer_take_program(ps_trainer *t, ps_state_in *in);

/* Sparse tables. Without tables these functions do nothing and return true or OK. With a fixed
 * vocabulary, those that pull do nothing. */
PS_MUST_USE ps_status ps_trainer_init_tables(ps_trainer *t);
void ps_trainer_fini_tables(ps_trainer *t);
/* Pulls the rows of the n gathered samples, and replaces the ids in t->x by the positions of these
 * rows in the model's embeddings. */
bool ps_trainer_pull_rows(ps_trainer *t, size_t n);
/* In rounds of local steps: copies the rows of the n gathered samples into the replica, and their
 * state of the local optimizer into `state` (slots, param_count). Pulls the rows that the round
 * does not hold yet. Replaces ids in t->x by positions. */
bool ps_trainer_take_round_rows(ps_trainer *t, float *state, size_t n);
/* Returns how many local steps of the round have trained the row at this position of the batch. */
uint64_t ps_trainer_row_steps(const ps_trainer *t, uint32_t position);
/* Copies the rows back from the replica after the local step. */
void ps_trainer_keep_round_rows(ps_trainer *t, const float *state);
/* Pushes the changes that the round made to its rows, and drops the rows. Call it before the last
 * table is ready. */
void ps_trainer_push_round_rows(ps_trainer *t);
/* Notes that the gradients of these variables are final. With the last table among them, pushes the
 * rows of the contribution. */
void ps_trainer_push_rows(ps_trainer *t, uint32_t first_variable, uint32_t count);
/* Gathers the block that follows the i-th block of t->clock and requests its rows, so that they
 * arrive while the i-th block is computed. Does nothing if the exchange or the job does not
 * prefetch, if the worker may be overtaken, or if an evaluation or the end of the epoch comes
 * before that block. */
void ps_trainer_go_ahead(ps_trainer *t, uint32_t epoch, uint32_t i);
/* Returns whether ps_trainer_go_ahead has gathered a block that was not taken yet. */
bool ps_trainer_is_ahead(const ps_trainer *t);
/* Makes the block that ps_trainer_go_ahead has gathered, of n samples, the current one. Blocks
 * until its rows have arrived. */
bool ps_trainer_take_ahead(ps_trainer *t, uint32_t block, size_t n);
/* Blocks until the rows have arrived of a block that ps_trainer_go_ahead has gathered and that will
 * not be trained. */
bool ps_trainer_drop_ahead(ps_trainer *t);
/* Logs how many blocks had their rows requested ahead. Call it at the end of training. */
void ps_trainer_log_tables(const ps_trainer *t);
/* Copies the samples of the i-th block that the worker holds of `step` to x and targets. If samples
 * are in a file, also requests the next blocks, which are read in the background. */
void ps_trainer_gather(ps_trainer *t, uint32_t epoch, uint64_t step, uint32_t i, float *x,
                       float *targets);

/* Clips the gradients of these variables in g (param_count). `share`: which part of a mean gradient
 * g is. Does nothing if the job clips all variables together. */
void ps_trainer_clip(ps_trainer *t, float *g, uint32_t first_variable, uint32_t count,
                     double share);
/* Clips all variables together, after backward. Then calls `ready` for each layer, the last layer
 * first. */
void ps_trainer_clip_all(ps_trainer *t, float *g, double share, ps_model_ready_fn *ready);

/* Opens the worker's report files in the job's folder. */
PS_MUST_USE ps_status ps_trainer_open_reports(ps_trainer *t);

/* Returns the report's row for `step`, whose samples were added to the metrics. */
ps_train_row ps_trainer_row(ps_trainer *t, uint32_t epoch, uint32_t batch, uint64_t step);

/* trainer_said.c. In jobs that cannot be rescued (plan.h), a rank reports nothing to servers. */

/* Prepares reporting to servers, before the first clock. First evaluates the weights, if that may
 * be missing from what was reported earlier. */
bool ps_trainer_begin_said(ps_trainer *t);
/* Reports the step in hand to servers, before its gradients are sent. Only the first call for the
 * rank's last block of a clock does something. */
void ps_trainer_say(ps_trainer *t);
/* Notes an evaluation, which is reported to servers with the next step. */
void ps_trainer_said_evaluation(ps_trainer *t, const ps_eval_row *row);
/* Reads the section of a rank's file with what the rank had reported to servers. Unless is_own,
 * skips it. */
ps_status ps_trainer_take_said(ps_trainer *t, ps_state_in *in, bool is_own);
/* Writes what the rank had reported to servers into its open report files. */
void ps_trainer_restore_said(ps_trainer *t);
void ps_trainer_fini_said(ps_trainer *t);

/* trainer_place.c */

/* Writes a section with the place where the rank is. is_parked: also the contributions that its
 * exchange has sent. */
PS_MUST_USE ps_status ps_trainer_put_place(ps_trainer *t, ps_exchange *exchange, bool is_parked,
                                           ps_state_out *out);
/* Reads the section of ps_trainer_put_place, after the head of the file. has_variables: the file
 * has sections of variables, as that of every parked rank. */
PS_MUST_USE ps_status ps_trainer_take_place(ps_trainer *t, ps_exchange *exchange,
                                            bool has_variables, ps_state_in *in);
/* Returns whether the weights of t->clock were evaluated and have reached stop_at, so that the job
 * ends at t->clock. */
bool ps_trainer_is_at_goal(const ps_trainer *t);

/* trainer_earlier.c */

/* Returns the present reports as one block of bytes, for ps_trainer_take_reports; NULL: that
 * failed. */
ps_buf *ps_trainer_copy_reports(ps_trainer *t);
/* Reads what ps_trainer_copy_reports has returned, as if it were sections of a checkpoint. */
PS_MUST_USE ps_status ps_trainer_take_reports(ps_trainer *t, const uint8_t *bytes, size_t len);
/* Checks that ps_trainer_take_reports could read these bytes. Fails as it does. */
PS_MUST_USE ps_status ps_trainer_check_reports(const uint8_t *bytes, size_t len);

/* Returns whether the rank's file has no variables: the rank has no state of its own, and its
 * weights are those of the model. */
bool ps_trainer_is_lean(const ps_trainer *t);

/* Makes the sections of a checkpoint with the reports as they are now. */
void ps_trainer_keep_reports(ps_trainer *t);
/* Frees what ps_trainer_keep_reports has made. */
void ps_trainer_drop_reports(ps_trainer *t);
/* Locks the reports as they are now, so that a copy of the process that is made before
 * ps_trainer_release_reports can read and write them. Returns the bytes of their files. */
uint64_t ps_trainer_hold_reports(ps_trainer *t);
/* Unlocks the reports. */
void ps_trainer_release_reports(ps_trainer *t);
/* Writes the sections with the reports that are kept or held behind the other sections of the
 * rank's file. Fails if a report cannot be read. */
PS_MUST_USE ps_status ps_trainer_put_earlier(ps_trainer *t, ps_state_out *out);
/* Writes the rank's file (ps_trainer_save). The caller keeps or holds the reports. */
PS_MUST_USE ps_status ps_trainer_save_kept(ps_trainer *t, ps_exchange *exchange,
                                           ps_state_write_fn *write, void *arg);
/* Returns whether the checkpoint from which the job goes on was taken by this very job. */
bool ps_trainer_is_own(const ps_trainer *t);
/* Reads a section of a checkpoint with reports. Unless is_own, skips it. */
ps_status ps_trainer_take_earlier(ps_trainer *t, ps_state_in *in, uint32_t kind, uint32_t index,
                                  bool is_own);
/* Writes the reports that were read from a checkpoint into the open report files; later rows follow
 * them. */
void ps_trainer_restore_reports(ps_trainer *t);
void ps_trainer_fini_earlier(ps_trainer *t);
/* Returns the traffic of the exchange. bytes_up and bytes_down include those of the job before the
 * checkpoint from which it goes on. */
ps_exchange_stats ps_trainer_all_stats(const ps_trainer *t);
/* Closes those report files that are open. Returns the first failure. */
PS_MUST_USE ps_status ps_trainer_close_reports(ps_trainer *t);
/* Adds a row to the training report and to the curves. Of a long job both keep only some rows
 * (thin.h). */
void ps_trainer_put_train(ps_trainer *t, const ps_train_row *row);
/* Writes the rows that are held back; the last row is always written. */
void ps_trainer_end_train(ps_trainer *t);
/* Adds a line to the evaluation report and to the curves. Logs it, and when the evaluation began
 * and ended, in seconds since training began. */
void ps_trainer_put_eval(ps_trainer *t, const ps_eval_row *row, int64_t began_us);
/* Adds a line to the evaluation report and to the curves, without logging it. */
void ps_trainer_write_eval(ps_trainer *t, const ps_eval_row *row);
/* Begins the record of rounds (trainer_record.c). */
void ps_trainer_record_begin(ps_trainer *t);
/* Returns where the time of this attempt went up to now; `steps` becomes the number of steps in the
 * result. */
ps_trainer_times ps_trainer_record_times(const ps_trainer *t, uint64_t steps);
/* Adds a local step, with its mean loss, to the entry of the round. */
void ps_trainer_record_step(ps_trainer *t, double loss);
/* Notes that a contribution to t->clock is sent now, so that all weights of t->clock have arrived.
 * Only the first call of a round does something. */
void ps_trainer_record_sent(ps_trainer *t);
/* Notes the end of the round whose exchange leads to t->clock. */
void ps_trainer_record_round(ps_trainer *t);
/* Writes the row of the step before (last_row), which was held back until it is known whether its
 * step was the last one. */
void ps_trainer_put_held_line(ps_trainer *t);
/* Completes and writes the entry of the last round that ended, unless it is written. */
void ps_trainer_record_finish(ps_trainer *t);
/* Adds an evaluation of the weights of t->clock, which ends now, to the record. */
void ps_trainer_record_evaluation(ps_trainer *t, const ps_eval_row *row);
/* Writes the last entries of the record: that of the last round that ended, and that of steps after
 * it. */
void ps_trainer_record_end(ps_trainer *t);
/* Calls `write` again and again, with growing pauses, until it returns another code than
 * RESOURCE_EXHAUSTED or the gate is stopped. Progress shows what it waits for. Returns the last
 * status of `write`. */
PS_MUST_USE ps_status ps_trainer_write_patiently(ps_trainer *t, ps_status (*write)(ps_trainer *t));

/* Reads or writes one member of a struct that goes into a file. */
typedef void trainer_member_fn(void *arg, void *member, size_t bytes);

/* Calls fn for each member of a row of the training report, in the order of the file. */
void trainer_each_of_row(ps_train_row *row, trainer_member_fn *fn, void *arg);

#endif
