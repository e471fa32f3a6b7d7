/* SPDX-License-Identifier: Apache-2.0 */
/* gate.h - where the training thread waits for the thread of the loop.
 *
 * The loop reports what has arrived: slices of weights, rows, acknowledgements. The trainer blocks
 * until what it needs has arrived, or until the exchange has failed or was stopped. Every wait for
 * these has a deadline. A wait that reaches it fails the gate with DEADLINE_EXCEEDED and names the
 * servers that have not delivered.
 *
 * Comments of functions begin with who may call them: Trainer (the training thread), Loop (the
 * loop's thread), or Any thread. */
#ifndef PS_COMMON_TRAIN_GATE_H
#define PS_COMMON_TRAIN_GATE_H

#include "common/base/histogram.h"
#include "common/base/status.h"
#include "common/placement/placement.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* The reason, for machines, of a push that was refused or a job that failed because a loss,
 * gradient or weight is not finite. */
#define PS_DIVERGED "DIVERGED"

/* What the trainer waits for. */
typedef struct ps_gate_want {
    bool acks;             /* wait for all acknowledgements */
    bool rows;             /* wait for all rows of sparse tables; if neither is set: for weights */
    uint32_t first, count; /* the weights of the variables [first, first + count) */
    uint64_t clock;        /* clock of the weights or rows */
} ps_gate_want;

/* What the trainer calls during a wait if the exchange has no thread of its own. */
typedef struct ps_gate_hooks {
    /* Delivers what is available of the weights of `clock` and of requested rows. Called when a
     * wait for them begins and after each nudge. Without is_thorough it may skip what another
     * thread has locked; before the trainer sleeps it is called with is_thorough. Returns the
     * monotonic time in microseconds at which to call it again even without a nudge; INT64_MAX:
     * never. */
    int64_t (*fetch)(void *arg, uint64_t clock, bool is_thorough);
    void (*rest)(void *arg); /* called before the trainer sleeps or pauses */
    /* called after a pause, after a wait for acknowledgements, and after the trainer was held
     * before a clock; after other sleeps `fetch` is called instead */
    void (*wake)(void *arg);
    void *arg;
    int64_t spin_us; /* how long the trainer waits busily before it sleeps, in microseconds */
} ps_gate_hooks;

typedef struct ps_gate {
    const ps_placement *placement; /* kept */
    const ps_layout *layout;       /* the placement's */
    uint32_t parts;
    int64_t patience_us; /* deadline of a single wait, in microseconds from its beginning */
    ps_gate_hooks hooks; /* (optional) */

    pthread_mutex_t mutex; /* guards the members that follow, except the atomics */
    pthread_cond_t changed;
    bool stopped;
    bool waiting; /* the trainer is in a wait */
    bool gave_up; /* a wait has reached its deadline */
    /* what the trainer waits for, while `waiting`; what it waited for last, if it gave up */
    ps_gate_want want;
    ps_status failure; /* the first failure; OK: none */
    bool has_diverged; /* `failure` was reported by ps_gate_diverge */
    uint64_t *arrived; /* (variables): number of slices that have arrived, added over all clocks */
    uint64_t *whole;   /* (parts): newest clock for which all weights of the part have arrived */
    bool *owes_ack;    /* (parts): the part has not acknowledged the current contribution yet */
    uint32_t unacked;  /* number of parts whose owes_ack is true */
    bool *owes_rows;   /* (parts): rows that were requested from the part have not arrived yet */
    /* 1 + the newest clock whose step was done on a server before its weights arrived here; 0:
     * none */
    uint64_t overtaken;
    uint64_t told;     /* 1 + the clock that `version` is about; 0: none */
    uint64_t version;  /* smallest version among the weights that have arrived for that clock */
    int64_t waited_ns; /* duration of all waits so far, in nanoseconds */
    /* monotonic time in microseconds at which the last weights of a part arrived; 0: never */
    int64_t whole_us;
    uint64_t begun;   /* number of clocks that the trainer has begun */
    uint64_t held_at; /* the trainer begins no clock from this one on; 0: it is not held */
    uint64_t end_at;  /* clock at which the trainer ends early; 0: no early end was set */
    uint64_t cut_at;  /* clock of the checkpoint that was asked for; 0: none */
    uint64_t stay_at; /* the trainer stays before this clock, after its checkpoint; 0: nowhere */
    /* 1 + the last clock for which the trainer has called ps_gate_take_cut; 0: none */
    uint64_t cuts_seen;
    bool is_parking; /* ps_gate_park was called */
    bool is_parked;  /* the trainer stands still because of ps_gate_park */

    atomic_uint_fast64_t nudges; /* number of nudges so far */
    atomic_bool sleeping;        /* the trainer sleeps, so a nudge has to wake it */
} ps_gate;

/* Initialises the gate of a worker. Keeps `placement`: its parts deliver, and the node ids of its
 * servers appear in errors. patience_us: the deadline of a single wait, in microseconds from its
 * beginning. */
void ps_gate_init(ps_gate *gate, const ps_placement *placement, int64_t patience_us);
void ps_gate_fini(ps_gate *gate);

/* Trainer. Blocks until the weights of `clock` have arrived for the variables [first_variable,
 * first_variable + count). Returns false if the gate was stopped or has failed; the caller then
 * returns. */
bool ps_gate_wait_weights(ps_gate *gate, uint32_t first_variable, uint32_t count, uint64_t clock);
/* Trainer. Blocks until no part owes an acknowledgement. Returns false if the gate was stopped or
 * has failed. */
bool ps_gate_wait_acks(ps_gate *gate);

/* Trainer. Returns whether the weights of all variables have arrived for `clock`. Does not call
 * hooks. */
bool ps_gate_has_weights(ps_gate *gate, uint64_t clock);

/* Trainer. Sleeps for `us` microseconds, or until the gate is stopped or fails; then returns false.
 * The time does not count as waiting. */
bool ps_gate_pause(ps_gate *gate, int64_t us);

/* Trainer. Registers that this part of the placement has to acknowledge the contribution that
 * begins. It must not owe an acknowledgement already. */
void ps_gate_owe_ack(ps_gate *gate, uint32_t part);

/* Trainer. Registers that this part of the placement has to deliver the rows that are being
 * requested. It must not owe rows already. */
void ps_gate_owe_rows(ps_gate *gate, uint32_t part);
/* Trainer. Blocks until no part owes rows. `clock` is the clock of the rows, for the error. Returns
 * false if the gate was stopped or has failed. */
bool ps_gate_wait_rows(ps_gate *gate, uint64_t clock);
/* Trainer. Returns whether no part owes rows. Never blocks. */
bool ps_gate_has_rows(ps_gate *gate);

/* Trainer. Call it when the weights of `clock` have arrived. Returns whether some of them already
 * include the step of this clock, because the other workers made it without this one. Gradients at
 * such weights belong to no step and must not be sent. */
bool ps_gate_is_overtaken(ps_gate *gate, uint64_t clock);

/* Trainer. Call it when the weights of `clock` have arrived. Returns the newest clock for which all
 * of these weights are new enough; that is at least `clock`. */
uint64_t ps_gate_reached(ps_gate *gate, uint64_t clock);
/* Trainer. Makes the weights that arrived for clock `from` count as those of clock `to`, with which
 * the trainer goes on. */
void ps_gate_jump(ps_gate *gate, uint64_t from, uint64_t to);

/* Marks the weights of `clock` as arrived. Call it before the trainer starts. Without this call the
 * weights of clock 0 count as arrived. */
void ps_gate_begin_at(ps_gate *gate, uint64_t clock);

/* Says that the trainer has begun the clocks before `clock`, which may be later than the clock of
 * ps_gate_begin_at. Call it before the trainer starts. */
void ps_gate_has_begun(ps_gate *gate, uint64_t clock);

/* ---- An early end ---- All workers of a job end at the same clock. First the trainer of each
 * worker is held: it begins no further clock. Then the largest clock at which one of them is held
 * is a clock that no worker has begun. So all workers can go on to it and end there. */

/* Any thread. Holds the trainer until ps_gate_end_at. Returns the first clock that the trainer does
 * not begin, at least 1. If it is held already, returns the same clock again. */
uint64_t ps_gate_hold(ps_gate *gate);
/* Any thread. Returns the clock at which the trainer ends, or else the clock at which it is held;
 * 0: neither. */
uint64_t ps_gate_held_at(ps_gate *gate);
/* Any thread. Lets the trainer go on to `clock` and end there. Only the first call has an
 * effect. */
void ps_gate_end_at(ps_gate *gate, uint64_t clock);
/* Trainer. Call it before the trainer begins `clock`. Blocks while the trainer is held at this
 * clock, or has to stay before it after a checkpoint (ps_gate_cut_at); that time does not count as
 * waiting. Sets *is_end to whether the job ends before this clock. Returns false if the gate was
 * stopped or has failed. */
bool ps_gate_begin_clock(ps_gate *gate, uint64_t clock, bool *is_end);

/* ---- Checkpoints ---- */

/* Any thread. Asks for a checkpoint at the beginning of `clock`, instead of an earlier request that
 * was not met yet. 0: withdraws that request. `stays`: after the checkpoint the trainer does not
 * begin the clock until the next call of this function. Returns false, with no request left, if the
 * trainer is beyond the beginning of `clock`. */
bool ps_gate_cut_at(ps_gate *gate, uint64_t clock, bool stays);
/* Any thread. Asks for a checkpoint under the number `clock` from a trainer that need not be at
 * that clock: it is taken at the first clock, not before `clock`, that the trainer has not
 * begun. */
void ps_gate_cut_from(ps_gate *gate, uint64_t clock);
/* Trainer. Call it before the trainer begins `clock`. If a checkpoint is to be taken here, returns
 * the clock that the request named, and ends the request; else returns 0. */
uint64_t ps_gate_take_cut(ps_gate *gate, uint64_t clock);

/* Any thread. Makes the trainer stand still for good, at its next wait that is not over at once or
 * where it is held, until ps_gate_stop. Returns whether it stands still now; then the rank can be
 * saved. */
bool ps_gate_park(ps_gate *gate);

/* Sets the hooks. Optional; call it before the trainer starts. The hooks are called on the
 * trainer's thread, without the gate's mutex. */
void ps_gate_set_hooks(ps_gate *gate, const ps_gate_hooks *hooks);
/* Any thread. Tells the trainer that hooks.fetch may have more to deliver. */
void ps_gate_nudge(ps_gate *gate);

/* Loop. Reports the acknowledgement of a part. Does nothing if it owes none. */
void ps_gate_acked(ps_gate *gate, uint32_t part);
/* Loop. Reports that all rows that were requested from the part have arrived. */
void ps_gate_rows_came(ps_gate *gate, uint32_t part);
/* Loop. Reports that slices (count) of the weights for `clock` have arrived from `part`. `whole`:
 * all slices of the part have now arrived for this clock. */
void ps_gate_delivered(ps_gate *gate, uint32_t part, const uint32_t *slices, uint32_t count,
                       uint64_t clock, bool whole);
/* Loop. Reports the version of weights that were requested for `clock`. Call it before
 * ps_gate_delivered reports these weights. A version above `clock` means that the server has
 * stepped on this clock without this worker. */
void ps_gate_overtake(ps_gate *gate, uint64_t clock, uint64_t version);

/* Returns a histogram of the durations of waits at all gates of this process. Any thread. */
const ps_histogram *ps_gate_waits(void);

/* Any thread. Fails the gate, which ends a wait. Later failures are ignored. */
void ps_gate_fail(ps_gate *gate, const ps_status *why);
/* Any thread. Fails the gate like ps_gate_fail, because a loss, gradient or weight is not
 * finite. */
void ps_gate_diverge(ps_gate *gate, const ps_status *why);
/* Any thread. Returns whether the first failure is a divergence. */
bool ps_gate_has_diverged(ps_gate *gate);
/* Any thread. Stops the gate, which ends a wait. */
void ps_gate_stop(ps_gate *gate);
/* Any thread. Returns whether the gate was neither stopped nor failed. */
bool ps_gate_is_open(ps_gate *gate);
/* Any thread. Returns the first failure; OK if there was none. */
ps_status ps_gate_failure(ps_gate *gate);

/* Any thread. Sets servers[i] (server_count) to whether server i has not delivered what the trainer
 * waits for, or waited for when it gave up. Returns how many there are. */
uint32_t ps_gate_find_debtors(ps_gate *gate, bool *servers);

/* Any thread. Returns the monotonic time in microseconds at which all weights of a part had last
 * arrived; 0 if that never happened. */
int64_t ps_gate_whole_us(ps_gate *gate);

/* Any thread. Returns how long the trainer has waited so far, in nanoseconds; a wait that is going
 * on is not included. */
int64_t ps_gate_waited_ns(ps_gate *gate);

/* Any thread. Returns how long the trainer has waited so far, in seconds. Writes the servers for
 * which the trainer waits now, such as "ps-0, ps-1", to whom (cap); "" if it does not wait. */
double ps_gate_waited_s(ps_gate *gate, char *whom, size_t cap);

#endif
