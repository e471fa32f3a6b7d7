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
#include "common/base/snapshot.h"
#include "common/data/dataset.h"
#include "common/job/plan.h"
#include "common/trace/trace.h"
#include "common/train/exchange.h"
#include "common/train/foreign_loop.h"

typedef struct ps_trainer ps_trainer;

enum { PS_EVALUATIONS_KEPT = 32 };

/* The results of an evaluation. */
typedef struct ps_trainer_evaluation {
    uint32_t number;                     /* from 1 */
    uint64_t step;                       /* steps that the evaluated weights are after */
    double loss, values[PS_METRICS_MAX]; /* values: of the plan's metrics */
} ps_trainer_evaluation;

/* How far a trainer is. */
/* Where the time of a rank went. */
typedef struct ps_trainer_times {
    uint64_t steps;     /* that it took */
    double training_s;  /* since its training began */
    double computing_s; /* of these, in which its thread computed, took samples or was held up */
    double reading_s;   /* of these, in which it stood still for samples that lie in a file */
    double disk_s;      /* for which that file was read, also beside computing and waiting */
} ps_trainer_times;

typedef struct ps_trainer_progress {
    uint64_t step;   /* steps finished */
    uint32_t epoch;  /* from 1 */
    double loss;     /* of this worker's blocks in the last step */
    double accuracy; /* likewise; of a program: which it has said last, or NaN */
    /* (spec.program_metrics) of a program: what it has said last of each; NaN: nothing */
    double program_metrics[PS_METRICS_MAX];
    uint64_t samples;                       /* trained on so far */
    uint64_t iterations;                    /* steps that this rank computed */
    ps_trainer_times times;                 /* of this attempt, at the end of its last step */
    char waiting_for[PS_STATUS_TEXT_BYTES]; /* error of the write that a full disk delays; "": none
                                             */
    uint64_t behind;         /* local steps during all of which an exchange was in flight */
    uint32_t evaluations;    /* number of evaluations so far */
    uint64_t evaluated_step; /* steps that the weights of the last one are after */
    double eval_loss, eval_values[PS_METRICS_MAX]; /* of the last evaluation; the plan's metrics */
    bool reached_stop; /* the last evaluation has reached spec.stop_at */
} ps_trainer_progress;

/* A trainer's worker and job. All pointers are kept. */
typedef struct ps_trainer_conf {
    const char *job_id;
    const char *folder; /* of the job; reports and model files go there */
    uint32_t rank;
    const ps_plan *plan;
    const ps_dataset *data;
    float *weights; /* (param_count): initial weights; an exchange writes later ones here */
    /* (optional) Called on the trainer's thread before each clock; it may hold the gates of the
     * job's workers and say where they end (gate.h). */
    void (*beginning)(void *arg);
    /* (optional) Called on the trainer's thread with the rank as ps_trainer_save writes it, for the
     * checkpoint that ps_gate_cut_at or ps_gate_cut_from has asked for by `clock`; takes over the
     * files, which may still be being written. `weights` is a file of the weights as float32 if
     * this is rank 0 of a mesh, whose ranks all have the same; else it has no fd. */
    void (*saved)(void *arg, uint64_t clock, ps_snapshot state, ps_snapshot weights);
    void *arg;
    uint64_t first_clock;        /* of the attempt: a rank that was parked may be further */
    const ps_foreign_loop *loop; /* computes the gradients, if ps_plan_is_program; else NULL */
} ps_trainer_conf;

/* Creates a trainer and allocates all memory that training needs. Returns RESOURCE_EXHAUSTED if
 * there is too little. */
PS_MUST_USE ps_status ps_trainer_create(const ps_trainer_conf *conf, ps_trainer **out);

/* Bytes that training holds for its whole duration, without the data set. */
typedef struct ps_train_memory {
    size_t weights, gradients;
    size_t optimizer;   /* state of the optimizer, if this worker steps the weights */
    size_t activations; /* activations and scratch of the model */
    size_t samples;     /* samples of a batch, and the order of all */
    size_t rounds;      /* under local steps: the replica and the method's state */
} ps_train_memory;

/* Returns the memory of a trainer. */
ps_train_memory ps_trainer_memory(const ps_trainer *t);

/* Returns the gradient block, for the exchange. The trainer keeps it. */
ps_buf *ps_trainer_grad(ps_trainer *t);

/* Returns a new ring for a timeline of the job: with the steps of spec.trace, else without steps.
 */
ps_trace_ring *ps_trainer_ring(const ps_plan *plan);

/* Returns the ring in which the thread records some steps, for common/trace/trace_file.h. */
ps_trace_ring *ps_trainer_trace(ps_trainer *t);

/* Writes the model as it is into the job's folder: as safetensors, and as ONNX if the format has
 * its layers and it has no sparse tables. Rank 0 does so itself at the end. Call it only while the
 * thread does not run. DATA_LOSS: weights are not finite; else the errors of files. */
PS_MUST_USE ps_status ps_trainer_write_model(ps_trainer *t);

/* Writes such a model of weights (param_count) that the caller has copied at `step`, without ONNX.
 * Any thread, also while the trainer's runs. */
PS_MUST_USE ps_status ps_trainer_write_copy(const ps_trainer *t, const float *weights,
                                            uint64_t step);

/* ---- A rank as a file ---- */

/* Ends the thread when `clock` exchanges are finished, before the end of the job: every push is
 * acknowledged then, and the weights of that clock have arrived. The trainer then writes no model.
 * Call it before ps_trainer_start; without it, the thread ends with the job. */
void ps_trainer_stop_at(ps_trainer *t, uint64_t clock);

/* Writes what the rank keeps from one clock to the next. If servers have all of that
 * (ps_plan_ranks_have_state is false), the file has no variables, and whoever loads it has the
 * model's weights. Else it is the copy of the shared weights, the optimizer's state, the replica
 * with the method's state and the local rule's, and what the exchange keeps (residuals, estimates).
 * Draws follow from the clock, so they are not in it. Call it when the thread has ended by
 * ps_trainer_stop_at, or on it between two clocks when nothing is in flight; in a mesh all ranks
 * must have ended at the same clock. Fails as `write` does.
 *
 * The file is one of common/base/state.h, magic "PSGDRNK1", version 1:
 *   kind 1, first        u64 hash of the plan; u32 rank, variables; u64 clock, step, own steps of
 *                        local rounds; f64 sum of the local rule's rates in the last round
 *   kind 2, by variable  f32 size weights; f32 slots * size of the optimizer, if it is here;
 *                        f32 size replica, f32 slots * size of the method, f32 slots * size of the
 *                        local rule, if there are rounds; f32 size of a gradient that is to be
 *                        contributed, after steps of a round that sends one; u64 rows: the last
 *                        round that touched each, if that is tracked; what the exchange keeps
 *                        (coder.h, mesh_worker.h)
 *   kind 6, before 2     where a rank was parked (ps_trainer_save_parked), or a round of it that
 *                        has been stepped; trainer_place.c has the layout
 *   kind 7               what the program that computes the rank keeps, a block of named_bytes.h;
 *                        of jobs with program_state_mib
 *   kind 3               f64 seconds of training and of waits; u64 bytes up, down; the curve with
 *                        its rows that are not written yet; only while reports are open
 *   kind 4, by file      the content of TR, EV, ROUND and TB so far, to its step
 *
 * ps_trainer_save_said writes one without variables, ps_trainer_save_like one with them, and both
 *   kind 5               what the rank has said with its contributions (trainer_said.c)
 */
PS_MUST_USE ps_status ps_trainer_save(ps_trainer *t, ps_exchange *exchange,
                                      ps_state_write_fn *write, void *arg);

/* Writes such a file of a rank whose trainer is parked (ps_gate_park), or has ended
 * (ps_trainer_has_ended): with the contributions that it has made (put_sent in exchange.h), and
 * without weights, as those of some layers may have arrived. It is loaded with the weights of an
 * earlier clock, ps_trainer_conf.first_clock, from which on contributions are sent again. The
 * exchange's thread. */
PS_MUST_USE ps_status ps_trainer_save_parked(ps_trainer *t, ps_exchange *exchange,
                                             ps_state_write_fn *write, void *arg);

/* Writes such a file for a rank that has no state of its own (ps_plan_can_rescue) at `clock`: its
 * weights are those of the model, and `said` (len) is what it has said with its contributions to
 * the clocks before. Fails as `write` does. */
PS_MUST_USE ps_status ps_trainer_save_said(const ps_plan *plan, uint32_t rank, uint64_t clock,
                                           const void *said, size_t len, ps_state_write_fn *write,
                                           void *arg);

/* Checks what a rank without state of its own says with its contribution to `clock`: only such
 * bytes, behind `before`, all that it has said with earlier ones, are of use for
 * ps_trainer_save_said and ps_trainer_save_like. Fails with INVALID_ARGUMENT. Any thread. */
PS_MUST_USE ps_status ps_said_check(const ps_plan *plan, const ps_said *before, uint64_t clock,
                                    const ps_said *said);

/* The file of a rank of a mesh whose ranks are alike (ps_plan_ranks_are_alike) has the state of
 * this trainer and its exchange, which is that of every rank at `clock`. These bytes are written
 * once: ps_trainer_save_alike writes what all such files have in common, and ps_trainer_save_like
 * the file of a rank without that, which belongs at the offset ps_trainer_alike_at. Meanwhile the
 * exchange must finish no step. Any thread. */
PS_MUST_USE ps_status ps_trainer_save_alike(const ps_trainer *t, const ps_exchange *exchange,
                                            ps_state_write_fn *write, void *arg);
PS_MUST_USE ps_status ps_trainer_save_like(const ps_trainer *t, uint32_t rank, uint64_t clock,
                                           const ps_said *said, ps_state_write_fn *write,
                                           void *arg);
size_t ps_trainer_alike_at(const ps_trainer *t);

/* Reads such a file, (len) bytes, into a trainer and an exchange that have not begun;
 * ps_trainer_start then goes on from its clock. After a failure both can only be destroyed.
 *
 * DATA_LOSS            the bytes are no such file, cut, or damaged; names the offset
 * FAILED_PRECONDITION  the file is of another job or rank
 */
PS_MUST_USE ps_status ps_trainer_load(ps_trainer *t, ps_exchange *exchange, const uint8_t *bytes,
                                      size_t len);

/* Starts the thread. It calls done(arg) as its last act, when training has ended or the exchange's
 * gate was stopped or has failed. */
PS_MUST_USE ps_status ps_trainer_start(ps_trainer *t, ps_exchange *exchange,
                                       void (*done)(void *arg), void *arg);

/* Returns how training ended; CANCELLED if it was stopped. Call it after `done`. */
ps_status ps_trainer_result(ps_trainer *t);

/* Returns whether it ended as the job does there, so that ps_trainer_save_parked saves it where it
 * ended. Call it after `done`. */
bool ps_trainer_has_ended(const ps_trainer *t);

/* Returns whether it failed because a loss, gradient or weight is not finite. Call it after `done`.
 */
bool ps_trainer_has_diverged(const ps_trainer *t);

/* Writes the lines of the reports that are still in memory, so that a reader of the files has all
 * steps. Returns RESOURCE_EXHAUSTED if the disk is full. Any thread; may wait for the disk. */
PS_MUST_USE ps_status ps_trainer_flush(ps_trainer *t);

/* Joins the thread, which must have called `done` if it was started, and frees the trainer. NULL is
 * allowed. */
void ps_trainer_destroy(ps_trainer *t);

/* Returns a copy of the progress. Any thread. */
ps_trainer_progress ps_trainer_get_progress(ps_trainer *t);

/* Gives an evaluation by its number. Returns false if there is none of that number, or if it is
 * not among the last PS_EVALUATIONS_KEPT. Any thread. */
bool ps_trainer_get_evaluation(ps_trainer *t, uint32_t number, ps_trainer_evaluation *out);

/* If the job splits evaluations: returns this worker's part of the last one, in the format of
 * ps_evaluation_write, and writes its number, from 1, to *evaluation. The caller owns the
 * reference. NULL before the first evaluation. Any thread. */
ps_buf *ps_trainer_get_part(ps_trainer *t, uint32_t *evaluation);

#endif
