/* SPDX-License-Identifier: Apache-2.0 */
/* gate.h - where the training thread waits for the loop's thread.
 *
 * The loop tells what has come in (slices of weights, acknowledgements), the
 * trainer waits until what it needs is there, or the session has failed or was
 * stopped. Every wait has a deadline and says whom it waits for.
 */
#ifndef PS_COMMON_TRAIN_GATE_H
#define PS_COMMON_TRAIN_GATE_H

#include "common/base/status.h"
#include "common/placement/placement.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* What the trainer waits for. */
typedef struct ps_gate_want {
    bool acks;             /* all acknowledgements; */
    bool rows;             /* or the rows of sparse tables asked for; else weights */
    uint32_t first, count; /* variables */
    uint64_t clock;
} ps_gate_want;

/* Of an exchange without a thread of its own: what the trainer does in a wait. */
typedef struct ps_gate_hooks {
    /* Brings what there is of the weights of `clock`: at the beginning of a wait,
     * and when it was nudged. Not thorough: what is locked just now may be left
     * for later; it is asked thoroughly before the trainer sleeps. Gives the time
     * when it is to be asked again whatever happens; INT64_MAX: never. */
    int64_t (*fetch)(void *arg, uint64_t clock, bool is_thorough);
    void (*rest)(void *arg); /* there is no more: the trainer will sleep, or pause */
    void (*wake)(void *arg); /* after a pause; a sleep ends with fetch */
    void *arg;
    int64_t spin_us; /* so long it waits awake before that */
} ps_gate_hooks;

typedef struct ps_gate {
    const ps_placement *placement; /* kept */
    const ps_layout *layout;       /* the placement's */
    uint32_t parts;
    int64_t patience_us; /* longest single wait */
    ps_gate_hooks hooks; /* (optional) */

    pthread_mutex_t mutex; /* guards all below */
    pthread_cond_t changed;
    bool stopped;
    bool waiting;       /* the trainer is in a wait, */
    ps_gate_want want;  /* for this */
    ps_status failure;  /* first one */
    uint64_t *arrived;  /* (variables): slices come in since the start, over all clocks */
    uint64_t *whole;    /* (parts): newest clock whose weights have all come */
    bool *owes_ack;     /* (parts): the contribution in hand is not acknowledged */
    uint32_t unacked;   /* parts that owe one */
    bool *owes_rows;    /* (parts): rows that were asked for have not come */
    uint64_t overtaken; /* 1 + newest clock that was over before its weights came; 0: none */
    uint64_t told;      /* 1 + clock that `version` is about; 0: none */
    uint64_t version;   /* least of the weights of that clock that came so far */
    int64_t waited_us;  /* so far */

    atomic_uint_fast64_t nudges; /* so far */
    atomic_bool sleeping;        /* the trainer has to be woken by a nudge */
} ps_gate;

/* The placement is kept: its parts are waited for, by the node ids of their servers. */
void ps_gate_init(ps_gate *gate, const ps_placement *placement, int64_t patience_us);
void ps_gate_fini(ps_gate *gate);

/* Trainer. Wait for the weights of `clock` of these variables / for all
 * acknowledgements. False: stopped or failed; go home. */
bool ps_gate_wait_weights(ps_gate *gate, uint32_t first_variable, uint32_t count, uint64_t clock);
bool ps_gate_wait_acks(ps_gate *gate);

/* Trainer: have all weights of `clock` come? With hooks: of what they have brought. */
bool ps_gate_has_weights(ps_gate *gate, uint64_t clock);

/* Trainer: waits so long, whatever comes in. False: stopped or failed. Not
 * counted as waited. */
bool ps_gate_pause(ps_gate *gate, int64_t us);

/* Trainer. Registers that a part of the placement will acknowledge the contribution that begins; it
 * owes nothing yet. */
void ps_gate_owe_ack(ps_gate *gate, uint32_t part);

/* Trainer. Registers that a part of the placement will deliver rows that are asked for; it owes
 * none yet. */
void ps_gate_owe_rows(ps_gate *gate, uint32_t part);
/* Trainer. Blocks until all rows registered, of step `clock`, have come. Returns false if stopped
 * or failed. */
bool ps_gate_wait_rows(ps_gate *gate, uint64_t clock);
/* Trainer. Returns whether all rows registered have come. */
bool ps_gate_has_rows(ps_gate *gate);

/* Trainer, when the weights of `clock` are there: some of them have seen this
 * clock already, so it went on without this worker. Gradients on such weights
 * are of no step and must not be sent. */
bool ps_gate_is_overtaken(ps_gate *gate, uint64_t clock);

/* Trainer, then: the newest clock that all of them are good for, at least `clock`. */
uint64_t ps_gate_reached(ps_gate *gate, uint64_t clock);
/* Trainer, then: it goes on with clock `to`; these weights count as that one's. */
void ps_gate_jump(ps_gate *gate, uint64_t from, uint64_t to);

/* Before the trainer starts. The weights of `clock` are there, as those of clock 0 are otherwise.
 */
void ps_gate_begin_at(ps_gate *gate, uint64_t clock);

/* (optional) Before the trainer starts. The hooks are called on its thread,
 * without the gate's mutex. */
void ps_gate_set_hooks(ps_gate *gate, const ps_gate_hooks *hooks);
/* Any thread: fetch may have more to bring. */
void ps_gate_nudge(ps_gate *gate);

/* Loop. */
void ps_gate_acked(ps_gate *gate, uint32_t part);
void ps_gate_rows_came(ps_gate *gate, uint32_t part); /* all of that part's */
/* `slices` of the weights of `clock` came in from `part`; `whole`: all of them have. */
void ps_gate_delivered(ps_gate *gate, uint32_t part, const uint32_t *slices, uint32_t count,
                       uint64_t clock, bool whole);
/* Before they are brought: the weights asked for at `clock` have seen `version`
 * clocks, more than `clock` or not. */
void ps_gate_overtake(ps_gate *gate, uint64_t clock, uint64_t version);

/* Any thread. The first failure counts; a stop is none. */
void ps_gate_fail(ps_gate *gate, const ps_status *why);
void ps_gate_stop(ps_gate *gate);
bool ps_gate_is_open(ps_gate *gate); /* neither stopped nor failed */
ps_status ps_gate_failure(ps_gate *gate);

/* Any thread: how long the trainer has waited for others so far. */
int64_t ps_gate_waited_us(ps_gate *gate);

/* Any thread: the same in seconds, and whom the trainer waits for now ("" if it does not). */
double ps_gate_waited_s(ps_gate *gate, char *whom, size_t cap);

#endif
