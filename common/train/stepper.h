/* SPDX-License-Identifier: Apache-2.0 */
/* stepper.h - the step of the weights where no server does it: each worker takes it
 * by itself, on the same sum, and so comes to the same bits.
 *
 * What servers do under bsp (common/store/shard_step.c), to the bit where the codec
 * of weights is f32: w -= rule(merge_scale * sum), for state of layers and increments of
 * workers w -= merge_scale * sum. One thread at a time.
 */
#ifndef PS_COMMON_TRAIN_STEPPER_H
#define PS_COMMON_TRAIN_STEPPER_H

#include "common/base/state.h"
#include "common/job/plan.h"

typedef struct ps_stepper {
    const ps_plan *plan; /* kept */
    float *state;        /* (slots, size) of each variable, at slots * its place; NULL: none */
} ps_stepper;

/* RESOURCE_EXHAUSTED: no memory for the rule's state. */
PS_MUST_USE ps_status ps_stepper_init(ps_stepper *stepper, const ps_plan *plan);
void ps_stepper_fini(ps_stepper *stepper); /* a zeroed one is allowed */

size_t ps_stepper_memory(const ps_stepper *stepper); /* bytes of the state */

/* Writes the rule's state of a variable, f32 slots * size. */
void ps_stepper_save(const ps_stepper *stepper, uint32_t variable, ps_state_out *out);
/* Reads the same. */
void ps_stepper_load(ps_stepper *stepper, uint32_t variable, ps_state_in *in);

/* Step `clock` of the weights w (param_count), each clock once and in order. sum
 * (param_count) is what all contributed, and is written over. */
void ps_stepper_step(ps_stepper *stepper, uint64_t clock, float *sum, float *w);

#endif
