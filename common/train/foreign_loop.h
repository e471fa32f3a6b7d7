/* SPDX-License-Identifier: Apache-2.0 */
/* foreign_loop.h - the trainer's interface to a program that computes the model in its place. */
#ifndef PS_COMMON_TRAIN_FOREIGN_LOOP_H
#define PS_COMMON_TRAIN_FOREIGN_LOOP_H

#include "common/base/status.h"

#include <stddef.h>
#include <stdint.h>

typedef enum ps_foreign_kind {
    PS_FOREIGN_NOTHING, /* it has said nothing yet */
    PS_FOREIGN_LOSS,    /* the mean loss of its samples; once a clock, before the first READY */
    PS_FOREIGN_METRIC,  /* spec.program_metrics[first] of the step, before the first READY */
    PS_FOREIGN_READY    /* gradients of variables [first, first + count) are final */
} ps_foreign_kind;

typedef struct ps_foreign_said {
    ps_foreign_kind kind;
    uint32_t first, count;
    double number; /* the loss, or the metric's value */
} ps_foreign_said;

/* All functions are for the trainer's thread. */
typedef struct ps_foreign_loop {
    /* Asks for the gradient of the mean loss at weights (param_count), those of `clock`, which it
     * copies. */
    PS_MUST_USE ps_status (*begin)(void *arg, uint64_t clock, const float *weights);
    /* Waits at most wait_ms for what the program says next. INVALID_ARGUMENT: it said
     * something that is not allowed; names it. */
    PS_MUST_USE ps_status (*next)(void *arg, int wait_ms, ps_foreign_said *said);
    /* Gives it the weights after the last step, which it copies. */
    void (*end)(void *arg, uint64_t clock, const float *weights);
    /* Ends this process because the program does not answer: the job goes on without it. */
    void (*give_up)(void *arg, const ps_status *why);
    const float *gradients; /* (param_count) of the mean loss, as of the clock in hand */
    uint8_t *state;         /* (state_bytes) what the program keeps: a block of named_bytes.h, zeros
                             * at first. The program changes it while a clock is in hand */
    size_t state_bytes;     /* 0: it keeps nothing */
    void *arg;
} ps_foreign_loop;

#endif
