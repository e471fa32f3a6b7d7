/* SPDX-License-Identifier: Apache-2.0 */
/* foreign_loop.h - the trainer's interface to a program that computes the model in its place. */
#ifndef PS_COMMON_TRAIN_FOREIGN_LOOP_H
#define PS_COMMON_TRAIN_FOREIGN_LOOP_H

#include "common/base/status.h"

#include <stddef.h>
#include <stdint.h>

typedef enum ps_foreign_kind {
    PS_FOREIGN_NOTHING, /* the program has said nothing since the last call */
    /* the mean loss of the program's samples; once a clock, before the first READY */
    PS_FOREIGN_LOSS,
    /* value of spec.program_metrics[first] for the step; before the first READY */
    PS_FOREIGN_METRIC,
    PS_FOREIGN_READY /* the gradients of the variables [first, first + count) are final */
} ps_foreign_kind;

/* What a program says: `first` and `count` are those of ps_foreign_kind. */
typedef struct ps_foreign_said {
    ps_foreign_kind kind;
    uint32_t first, count;
    double number; /* the loss, or the metric's value */
} ps_foreign_said;

/* How the trainer talks to the program. All functions are for the trainer's thread. */
typedef struct ps_foreign_loop {
    /* Asks the program for the gradient of the mean loss at `weights` (param_count), which are
     * those of `clock`. The program copies the weights. */
    PS_MUST_USE ps_status (*begin)(void *arg, uint64_t clock, const float *weights);
    /* Waits at most wait_ms milliseconds for what the program says next. Returns INVALID_ARGUMENT,
     * naming it, if the program said something that is not allowed. */
    PS_MUST_USE ps_status (*next)(void *arg, int wait_ms, ps_foreign_said *said);
    /* Gives the program the weights after the last step; it copies them. */
    void (*end)(void *arg, uint64_t clock, const float *weights);
    /* Ends this process because the program does not answer; the job goes on without this
     * worker. */
    void (*give_up)(void *arg, const ps_status *why);
    /* (param_count): gradient of the mean loss, of the clock that `begin` named; the program writes
     * it */
    const float *gradients;
    /* (state_bytes): what the program wants to keep in checkpoints, in the format of named_bytes.h,
     * zeros at first. The program changes it only between `begin` and its last READY */
    uint8_t *state;
    size_t state_bytes; /* 0: the program keeps nothing */
    void *arg;
} ps_foreign_loop;

#endif
