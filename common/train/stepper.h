/* SPDX-License-Identifier: Apache-2.0 */
/* stepper.h - the step of the weights in a mesh, which has no server to make it. Each worker steps
 * its own copy of the weights with the same sum, so all copies have the same bits.
 *
 * The step is the same as that of servers under bsp (common/store/shard_step.c), with the same bits
 * if the codec of weights is f32: w -= rule(merge_scale * sum). For the state of layers, and if
 * workers send increments: w -= merge_scale * sum. One thread at a time. */
#ifndef PS_COMMON_TRAIN_STEPPER_H
#define PS_COMMON_TRAIN_STEPPER_H

#include "common/base/state.h"
#include "common/job/plan.h"

typedef struct ps_stepper {
    const ps_plan *plan; /* kept */
    /* the rule's state: (slots, size) of each variable, beginning at slots * the variable's offset;
     * NULL: none */
    float *state;
} ps_stepper;

/* Initialises a stepper; keeps `plan`. Returns RESOURCE_EXHAUSTED if there is no memory for the
 * rule's state. */
PS_MUST_USE ps_status ps_stepper_init(ps_stepper *stepper, const ps_plan *plan);
/* Frees the state. A zeroed stepper is allowed. */
void ps_stepper_fini(ps_stepper *stepper);

/* Returns the number of bytes of the state. */
size_t ps_stepper_memory(const ps_stepper *stepper);

/* Writes the rule's state of a variable, f32 slots * size. */
void ps_stepper_save(const ps_stepper *stepper, uint32_t variable, ps_state_out *out);
/* Reads what ps_stepper_save has written. */
void ps_stepper_load(ps_stepper *stepper, uint32_t variable, ps_state_in *in);

/* Makes step `clock` of the weights w (param_count). Call it once for each clock, in order. sum
 * (param_count) is the sum of all contributions; it is overwritten. */
void ps_stepper_step(ps_stepper *stepper, uint64_t clock, float *sum, float *w);

#endif
