/* SPDX-License-Identifier: Apache-2.0 */
/* trainer.h - the thread that computes a worker's share of a job.
 *
 * For each step it gathers the samples of the blocks that the worker holds, runs forward as weights
 * arrive and backward as gradients become final. After each epoch, and as often in between as the
 * job asks for, it evaluates the test set. Under an update with local steps (common/update/local.h)
 * it trains a replica in rounds, and evaluates the shared weights after each round in which an
 * evaluation was due. With redundancy, other workers may complete a step with the same blocks
 * before its weights arrive here. Such a step is skipped: the reports have no row for it, and none
 * for an evaluation at an epoch that ends with it. The trainer writes the reports and, on rank 0,
 * the model files into the job's folder. */
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

/* Number of evaluations that ps_trainer_get_evaluation can give. */
enum { PS_EVALUATIONS_KEPT = 32 };

/* The results of an evaluation. */
typedef struct ps_trainer_evaluation {
    uint32_t number; /* number of the evaluation, from 1 */
    /* number of steps after which the weights were evaluated */
    uint64_t step;
    /* loss: mean over the test set; values: of the plan's metrics */
    double loss, values[PS_METRICS_MAX];
} ps_trainer_evaluation;

/* Where the time of a rank went, in seconds, since its training began in this attempt. */
typedef struct ps_trainer_times {
    uint64_t steps;    /* steps that the rank took */
    double training_s; /* time since training began */
    /* part of training_s in which its thread computed, took samples or was delayed by a
     * straggler */
    double computing_s;
    /* part of training_s in which its thread stood still for samples that are in a file */
    double reading_s;
    double disk_s; /* time for which the file of samples was read, in the background too */
} ps_trainer_times;

/* How far a trainer is. */
typedef struct ps_trainer_progress {
    uint64_t step;  /* steps finished by the job, counted from its beginning */
    uint32_t epoch; /* number of the epoch, from 1 */
    double loss;    /* mean loss of this worker's blocks in the last step */
    /* fraction of the samples of these blocks that were predicted right; NaN if targets are no
     * classes; if a program computes the model: the accuracy that it reported last, or NaN */
    double accuracy;
    /* (spec.program_metrics): if a program computes the model: the value that it reported last of
     * each metric; NaN: none */
    double program_metrics[PS_METRICS_MAX];
    uint64_t samples; /* samples that this rank has trained on so far */
    /* steps that this rank computed, without those that it skipped */
    uint64_t iterations;
    /* where the time of this attempt went, up to the end of its last step */
    ps_trainer_times times;
    /* error of the write that a full disk delays; "": none */
    char waiting_for[PS_STATUS_TEXT_BYTES];
    /* local steps that ended before the exchange of the previous round was over */
    uint64_t behind;
    uint32_t evaluations; /* number of evaluations so far */
    /* number of steps after which the weights of the last evaluation were */
    uint64_t evaluated_step;
    /* results of the last evaluation; eval_values: of the plan's metrics */
    double eval_loss, eval_values[PS_METRICS_MAX];
    bool reached_stop; /* the last evaluation has reached spec.stop_at; false if the job splits
                        * evaluations */
} ps_trainer_progress;

/* What a trainer needs of its worker and job. All pointers are kept. */
typedef struct ps_trainer_conf {
    const char *job_id;
    const char *folder; /* the job's folder, for reports and model files */
    uint32_t rank;
    const ps_plan *plan;
    const ps_dataset *data;
    float *weights; /* (param_count): initial weights; the exchange writes later ones here */
    /* (optional) Called on the trainer's thread before each clock. It may hold the gates of the
     * job's workers and set the clock at which they end (gate.h). */
    void (*beginning)(void *arg);
    /* (optional) Called on the trainer's thread when it has taken the checkpoint that
     * ps_gate_cut_at or ps_gate_cut_from asked for under the number `clock`. `state` is the rank as
     * ps_trainer_save writes it. Takes both files; they may still be being written. On rank 0 of a
     * mesh, whose ranks all have the same weights, `weights` is a file of them as float32; else its
     * fd is -1. */
    void (*saved)(void *arg, uint64_t clock, ps_snapshot state, ps_snapshot weights);
    void *arg;
    /* first clock of the attempt; a rank that was parked in the attempt before may be further */
    uint64_t first_clock;
    const ps_foreign_loop *loop; /* computes the gradients if ps_plan_is_program; else NULL */
} ps_trainer_conf;

/* Creates a trainer and allocates all memory that training needs. Returns RESOURCE_EXHAUSTED if
 * there is too little. */
PS_MUST_USE ps_status ps_trainer_create(const ps_trainer_conf *conf, ps_trainer **out);

/* Bytes that training holds for its whole duration, without the data set. */
typedef struct ps_train_memory {
    size_t weights, gradients;
    size_t optimizer;   /* state of the optimizer, if this worker runs it */
    size_t activations; /* outputs of the model's layers, and scratch */
    size_t samples;     /* samples of a batch, and the order of all samples */
    size_t rounds;      /* under local steps: the replica and the method's state */
} ps_train_memory;

/* Returns how much memory a trainer holds. */
ps_train_memory ps_trainer_memory(const ps_trainer *t);

/* Returns the gradient block (param_count floats), for the exchange. The trainer keeps its
 * reference. */
ps_buf *ps_trainer_grad(ps_trainer *t);

/* Creates a ring for records of a timeline (common/trace/trace.h): for the steps of spec.trace if
 * the job asks for a timeline, else for no steps. */
ps_trace_ring *ps_trainer_ring(const ps_plan *plan);

/* Returns the ring into which the trainer's thread records some steps, for
 * common/trace/trace_file.h. */
ps_trace_ring *ps_trainer_trace(ps_trainer *t);

/* Writes the present model into the job's folder: as safetensors, and as ONNX if that format has
 * all its layers, the model has no sparse tables that grow, and psgd computes it. Rank 0 does this
 * itself at the end of the job. Call it only while the trainer's thread does not run. Returns
 * DATA_LOSS if weights are not finite; else fails as writing files does. */
PS_MUST_USE ps_status ps_trainer_write_model(ps_trainer *t);

/* Writes a model file as safetensors only, with `weights` (param_count), which the caller has
 * copied at `step`. Any thread, also while the trainer's runs. Fails as ps_trainer_write_model
 * does. */
PS_MUST_USE ps_status ps_trainer_write_copy(const ps_trainer *t, const float *weights,
                                            uint64_t step);

/* ---- A rank as a file ---- */

/* Makes the thread end when `clock` exchanges are finished, before the end of the job. Then every
 * push is acknowledged, and the weights of that clock have arrived. The trainer writes no model.
 * Call it before ps_trainer_start; without this call the thread ends with the job. */
void ps_trainer_stop_at(ps_trainer *t, uint64_t clock);

/* Writes what the rank keeps from one clock to the next. If servers have all of that
 * (ps_plan_ranks_have_state is false) and give the exact weights, not changes, the file has no
 * variables, and the rank is loaded with the model's weights. Else the file has: the copy of the
 * shared weights, the optimizer's state, the replica with the state of the update's method and of
 * the local optimizer, and what the exchange keeps (residuals, estimates). Draws follow from the
 * clock, so they are not in the file. Call it when the thread has ended because of
 * ps_trainer_stop_at, or on the thread between two clocks when nothing is in flight. In a mesh all
 * ranks must be saved at the same clock. Returns the failure of `write`.
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
 *   kind 6, before 2     where a rank was parked (ps_trainer_save_parked), or that it has taken
 *                        steps of a round, or that the job ends here (stop_at);
 *                        trainer_place.c has the layout
 *   kind 7               what the program that computes the rank keeps, a block of named_bytes.h;
 *                        only of jobs with program_state_mib
 *   kind 3               f64 seconds of training and of waits; u64 bytes up, down; the curve with
 *                        its rows that are not written yet; only while reports are open
 *   kind 4, by file      the content of TR, EV, ROUND and TB up to the step of the file
 *
 * ps_trainer_save_said writes a file without variables, ps_trainer_save_like one with them. Both
 * add
 *   kind 5               what the rank has reported to servers with its contributions
 *                        (trainer_said.c)
 */
PS_MUST_USE ps_status ps_trainer_save(ps_trainer *t, ps_exchange *exchange,
                                      ps_state_write_fn *write, void *arg);

/* Writes a file like ps_trainer_save, of a rank whose trainer is parked (ps_gate_park) or has ended
 * (ps_trainer_has_ended). The file has the contributions that the rank has made last (put_sent in
 * exchange.h). It has no weights, because those of only some layers may have arrived. It is loaded
 * with the weights of an earlier clock, ps_trainer_conf.first_clock; from that clock on
 * contributions are sent again. The exchange's thread. */
PS_MUST_USE ps_status ps_trainer_save_parked(ps_trainer *t, ps_exchange *exchange,
                                             ps_state_write_fn *write, void *arg);

/* Writes a file like ps_trainer_save, at `clock`, for a rank that has no state of its own
 * (ps_plan_can_rescue). Its weights are those of the model. `said` (len) is what the rank has
 * reported to servers with its contributions to the clocks before. Returns the failure of
 * `write`. */
PS_MUST_USE ps_status ps_trainer_save_said(const ps_plan *plan, uint32_t rank, uint64_t clock,
                                           const void *said, size_t len, ps_state_write_fn *write,
                                           void *arg);

/* Checks the report of a rank without state of its own that comes with its contribution to `clock`.
 * `before` is all that the rank has reported with earlier contributions. Returns INVALID_ARGUMENT
 * if ps_trainer_save_said and ps_trainer_save_like could not use the report after it. Any
 * thread. */
PS_MUST_USE ps_status ps_said_check(const ps_plan *plan, const ps_said *before, uint64_t clock,
                                    const ps_said *said);

/* The file of a rank of a mesh whose ranks are alike (ps_plan_ranks_are_alike) has the state of
 * this trainer and its exchange, which is that of every rank at `clock`. These bytes are written
 * once: ps_trainer_save_alike writes what all such files have in common, and ps_trainer_save_like
 * the file of a rank without that, which belongs at the offset ps_trainer_alike_at. The exchange
 * must finish no step meanwhile. Any thread. */
PS_MUST_USE ps_status ps_trainer_save_alike(const ps_trainer *t, const ps_exchange *exchange,
                                            ps_state_write_fn *write, void *arg);
PS_MUST_USE ps_status ps_trainer_save_like(const ps_trainer *t, uint32_t rank, uint64_t clock,
                                           const ps_said *said, ps_state_write_fn *write,
                                           void *arg);
size_t ps_trainer_alike_at(const ps_trainer *t);

/* Reads a file (len bytes) that one of the functions above has written, into a trainer and an
 * exchange that have not begun; ps_trainer_start then goes on from the file's clock. After a
 * failure both can only be destroyed.
 *
 * DATA_LOSS            the bytes are no such file, cut, or damaged; names the offset
 * FAILED_PRECONDITION  the file is of another job or rank
 */
PS_MUST_USE ps_status ps_trainer_load(ps_trainer *t, ps_exchange *exchange, const uint8_t *bytes,
                                      size_t len);

/* Starts the trainer's thread. The thread calls done(arg) as its last act, when training has ended
 * or the exchange's gate was stopped or has failed. */
PS_MUST_USE ps_status ps_trainer_start(ps_trainer *t, ps_exchange *exchange,
                                       void (*done)(void *arg), void *arg);

/* Returns how training ended; CANCELLED if it was stopped. Call it after `done`. */
ps_status ps_trainer_result(ps_trainer *t);

/* Returns whether training ended where the job ends, or at ps_trainer_stop_at, so that
 * ps_trainer_save_parked can save the rank there. Call it after `done`. */
bool ps_trainer_has_ended(const ps_trainer *t);

/* Returns whether training failed because a loss, gradient or weight is not finite. Call it after
 * `done`. */
bool ps_trainer_has_diverged(const ps_trainer *t);

/* Writes the lines of the reports that are still in memory to their files, so that a reader finds
 * all steps. Returns RESOURCE_EXHAUSTED if the disk is full. Any thread; may wait for the disk. */
PS_MUST_USE ps_status ps_trainer_flush(ps_trainer *t);

/* Joins the thread and frees the trainer. If the thread was started, it must have called `done`.
 * NULL is allowed. */
void ps_trainer_destroy(ps_trainer *t);

/* Returns a copy of the progress. Any thread. */
ps_trainer_progress ps_trainer_get_progress(ps_trainer *t);

/* Copies the evaluation with this number to *out. Returns false if there is none with the number,
 * or if it is not among the last PS_EVALUATIONS_KEPT. Any thread. */
bool ps_trainer_get_evaluation(ps_trainer *t, uint32_t number, ps_trainer_evaluation *out);

/* If the job splits evaluations, returns this worker's part of the last one, as ps_evaluation_write
 * writes it, and sets *evaluation to its number, from 1. The caller owns a reference to it. Returns
 * NULL before the first evaluation, and if the job does not split evaluations. Any thread. */
ps_buf *ps_trainer_get_part(ps_trainer *t, uint32_t *evaluation);

#endif
