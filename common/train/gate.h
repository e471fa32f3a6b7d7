/* SPDX-License-Identifier: Apache-2.0 */
/* gate.h - where the training thread waits for the loop's thread.
 *
 * The loop reports what has arrived: slices of weights, rows, acknowledgements. The trainer blocks
 * until what it needs has arrived, or until the exchange has failed or was stopped. Every wait has
 * a deadline; a wait that reaches it fails the gate with DEADLINE_EXCEEDED and the servers that
 * owe.
 *
 * Functions are marked by the thread that calls them: trainer, loop, or any.
 */
#ifndef PS_COMMON_TRAIN_GATE_H
#define PS_COMMON_TRAIN_GATE_H

#include "common/base/histogram.h"
#include "common/base/status.h"
#include "common/placement/placement.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* The reason, for machines, of a failure because a loss, gradient or weight is not finite: of a
 * refused push and of a job. */
#define PS_DIVERGED "DIVERGED"

/* What the trainer waits for. */
typedef struct ps_gate_want {
    bool acks;             /* true: all acknowledgements */
    bool rows;             /* true: all rows of sparse tables; if both are false: weights */
    uint32_t first, count; /* weights: variables [first, first + count) */
    uint64_t clock;        /* of the weights or rows */
} ps_gate_want;

/* What the trainer calls during a wait if the exchange has no thread of its own. */
typedef struct ps_gate_hooks {
    /* Delivers the weights of `clock` that are available. Called when a wait begins and after each
     * nudge. Unless `is_thorough` it may pass over what another thread has locked; before the
     * trainer sleeps it is called with is_thorough. Returns the monotonic time in microseconds at
     * which to call it again even without a nudge; INT64_MAX: never. */
    int64_t (*fetch)(void *arg, uint64_t clock, bool is_thorough);
    void (*rest)(void *arg); /* called before the trainer sleeps or pauses */
    void (*wake)(void *arg); /* called after a pause or a wait for acknowledgements; after other
                              * sleeps fetch is called */
    void *arg;
    int64_t spin_us; /* time of busy waiting before the trainer sleeps */
} ps_gate_hooks;

typedef struct ps_gate {
    const ps_placement *placement; /* kept */
    const ps_layout *layout;       /* the placement's */
    uint32_t parts;
    int64_t patience_us; /* deadline of a single wait */
    ps_gate_hooks hooks; /* (optional) */

    pthread_mutex_t mutex; /* guards all below, but for the atomics */
    pthread_cond_t changed;
    bool stopped;
    bool waiting;       /* the trainer is in a wait */
    bool gave_up;       /* a wait has reached its deadline */
    ps_gate_want want;  /* what it waits for, while `waiting`; what it waited for, if it gave up */
    ps_status failure;  /* the first one */
    bool has_diverged;  /* it is that of ps_gate_diverge */
    uint64_t *arrived;  /* (variables): slices that have arrived, summed over all clocks */
    uint64_t *whole;    /* (parts): newest clock of which all weights of the part have arrived */
    bool *owes_ack;     /* (parts): the part has not acknowledged the current contribution */
    uint32_t unacked;   /* number of parts with owes_ack */
    bool *owes_rows;    /* (parts): rows that were requested of the part have not arrived */
    uint64_t overtaken; /* 1 + newest clock that was complete before its weights arrived; 0: none */
    uint64_t told;      /* 1 + the clock that `version` is about; 0: none */
    uint64_t version;   /* smallest version of the weights of that clock that have arrived */
    int64_t waited_ns;  /* sum of all waits so far */
    int64_t whole_us;   /* when weights last became whole; 0: never */
    uint64_t begun;     /* clocks that the trainer has begun */
    uint64_t held_at;   /* it begins no clock from this one on; 0: it is not held */
    uint64_t end_at;    /* where it ends; 0: not known before the end of the job */
    uint64_t cut_at;    /* clock of the next checkpoint; 0: none is asked for */
    uint64_t stay_at;   /* a checkpoint after which no clock begins from this one on; 0: none */
    uint64_t cuts_seen; /* 1 + the last clock for which the trainer has asked about cut_at */
    bool is_parking;    /* ps_gate_park was called */
    bool is_parked;     /* the trainer stands still since */

    atomic_uint_fast64_t nudges; /* number of nudges so far */
    atomic_bool sleeping;        /* a nudge has to wake the trainer */
} ps_gate;

/* Initialises the gate of a worker. Keeps `placement`, whose parts deliver and whose servers' node
 * ids appear in errors. patience_us is the deadline of a single wait. */
void ps_gate_init(ps_gate *gate, const ps_placement *placement, int64_t patience_us);
void ps_gate_fini(ps_gate *gate);

/* Trainer. Blocks until the weights of `clock` of these variables have arrived. Returns false if
 * the gate was stopped or has failed; the caller then returns. */
bool ps_gate_wait_weights(ps_gate *gate, uint32_t first_variable, uint32_t count, uint64_t clock);
/* Trainer. Blocks until no part owes an acknowledgement. Returns false if stopped or failed. */
bool ps_gate_wait_acks(ps_gate *gate);

/* Trainer. Returns whether all weights of `clock` have arrived. Does not call hooks. */
bool ps_gate_has_weights(ps_gate *gate, uint64_t clock);

/* Trainer. Sleeps for `us` microseconds, or until the gate is stopped or fails; then returns false.
 * Does not count as waiting. */
bool ps_gate_pause(ps_gate *gate, int64_t us);

/* Trainer. Registers that a part of the placement will acknowledge the contribution that begins; it
 * owes nothing yet. */
void ps_gate_owe_ack(ps_gate *gate, uint32_t part);

/* Trainer. Registers that a part of the placement will deliver rows that are asked for; it owes
 * none yet. */
void ps_gate_owe_rows(ps_gate *gate, uint32_t part);
/* Trainer. Blocks until no part owes rows. `clock` is the clock of the rows, for the error. Returns
 * false if stopped or failed. */
bool ps_gate_wait_rows(ps_gate *gate, uint64_t clock);
/* Trainer. Returns whether no part owes rows. Never blocks. */
bool ps_gate_has_rows(ps_gate *gate);

/* Trainer. Call it when the weights of `clock` have arrived. Returns whether some of them already
 * include the step of this clock, so that the others made it without this worker. Gradients on such
 * weights belong to no step and must not be sent. */
bool ps_gate_is_overtaken(ps_gate *gate, uint64_t clock);

/* Trainer. Call it when the weights of `clock` have arrived. Returns the newest clock whose weights
 * all of them can be taken for; at least `clock`. */
uint64_t ps_gate_reached(ps_gate *gate, uint64_t clock);
/* Trainer. Makes the weights of clock `from` count as those of clock `to`, with which the trainer
 * goes on. */
void ps_gate_jump(ps_gate *gate, uint64_t from, uint64_t to);

/* Marks the weights of `clock` as arrived. Call it before the trainer starts; without it, those of
 * clock 0 are. */
void ps_gate_begin_at(ps_gate *gate, uint64_t clock);

/* Says that the trainer has begun the clocks before `clock`, which may be after that of
 * ps_gate_begin_at. Call it before the trainer starts. */
void ps_gate_has_begun(ps_gate *gate, uint64_t clock);

/* ---- An early end ----
 * All workers of a job end at the same clock. Each is held: it begins no further clock. The
 * largest clock at which one of them is held is one that nobody has begun, so all can go on to it
 * and end there. */

/* Any thread. Holds the trainer until ps_gate_end_at. Returns the first clock that it does not
 * begin, at least 1; the same again if it is held already. */
uint64_t ps_gate_hold(ps_gate *gate);
/* Any thread. Returns where the trainer is held, or where it ends; 0: neither. */
uint64_t ps_gate_held_at(ps_gate *gate);
/* Any thread. Lets the trainer go on to `clock` and end there. Only the first call counts. */
void ps_gate_end_at(ps_gate *gate, uint64_t clock);
/* Trainer. Call it before the trainer begins `clock`. Blocks while the gate is held there, or stays
 * there after a checkpoint; that does not count as waiting. Writes whether the job ends here
 * instead. Returns false if the gate was stopped or has failed. */
bool ps_gate_begin_clock(ps_gate *gate, uint64_t clock, bool *is_end);

/* ---- Checkpoints ---- */

/* Any thread. Asks for a checkpoint at the beginning of `clock`, in place of one that was asked for
 * and has not been taken; 0: of none. If it `stays`, the trainer does not begin that clock until
 * the next call of this function. Returns false, and asks for none, if that is over. */
bool ps_gate_cut_at(ps_gate *gate, uint64_t clock, bool stays);
/* Any thread. Does the same for a trainer that need not be at `clock`: asks for a checkpoint that
 * is called `clock`, at the first clock from there on that the trainer has not begun. */
void ps_gate_cut_from(ps_gate *gate, uint64_t clock);
/* Trainer. Call it before the trainer begins `clock`. Returns the clock by which the checkpoint was
 * asked for that is to be taken there, and which is then asked for no more; 0: none. */
uint64_t ps_gate_take_cut(ps_gate *gate, uint64_t clock);

/* Any thread. Has the trainer stand still for good at the next wait that is not over at once, or
 * where it is held, until ps_gate_stop. Returns whether it stands still; then it can be saved as it
 * is there. */
bool ps_gate_park(ps_gate *gate);

/* Sets the hooks; optional, before the trainer starts. They are called on the trainer's thread,
 * without the gate's mutex. */
void ps_gate_set_hooks(ps_gate *gate, const ps_gate_hooks *hooks);
/* Any thread. Tells the trainer that hooks.fetch may have more to deliver. */
void ps_gate_nudge(ps_gate *gate);

/* Loop. Reports the acknowledgement of a part. Does nothing if it owes none. */
void ps_gate_acked(ps_gate *gate, uint32_t part);
/* Loop. Reports that all rows that the part owed have arrived. */
void ps_gate_rows_came(ps_gate *gate, uint32_t part);
/* Loop. Reports slices (count) of the weights of `clock` that have arrived from `part`. `whole`:
 * all slices of the part have arrived for this clock. */
void ps_gate_delivered(ps_gate *gate, uint32_t part, const uint32_t *slices, uint32_t count,
                       uint64_t clock, bool whole);
/* Loop. Reports the version of weights that were requested for `clock`, before ps_gate_delivered of
 * them. A version above `clock` means that their server went on without this worker. */
void ps_gate_overtake(ps_gate *gate, uint64_t clock, uint64_t version);

/* Returns the waits of all gates of this process by their lengths. Any thread. */
const ps_histogram *ps_gate_waits(void);

/* Any thread. Fails the gate and ends the wait. Later failures are ignored. */
void ps_gate_fail(ps_gate *gate, const ps_status *why);
/* Any thread. Does the same because a loss, gradient or weight is not finite. */
void ps_gate_diverge(ps_gate *gate, const ps_status *why);
/* Any thread. Returns whether the first failure is a divergence. */
bool ps_gate_has_diverged(ps_gate *gate);
/* Any thread. Stops the gate and ends the wait. */
void ps_gate_stop(ps_gate *gate);
/* Any thread. Returns whether the gate was neither stopped nor has failed. */
bool ps_gate_is_open(ps_gate *gate);
/* Any thread. Returns the first failure; OK if there was none. */
ps_status ps_gate_failure(ps_gate *gate);

/* Any thread. Writes into servers (server_count) which ones owe what the trainer waits for, or
 * waited for when it gave up. Returns how many there are. */
uint32_t ps_gate_find_debtors(ps_gate *gate, bool *servers);

/* Any thread. Returns when the last of the weights that have arrived did so, in microseconds of the
 * monotonic clock; 0 if none have. */
int64_t ps_gate_whole_us(ps_gate *gate);

/* Any thread. Returns how long the trainer has waited so far, in microseconds. */
int64_t ps_gate_waited_ns(ps_gate *gate);

/* Any thread. Returns the same in seconds. Writes the servers for which the trainer waits now, such
 * as "ps-0, ps-1", into whom (cap); "" if it does not wait. */
double ps_gate_waited_s(ps_gate *gate, char *whom, size_t cap);

#endif
