/* SPDX-License-Identifier: Apache-2.0 */
/* init.h - initial values of variables.
 *
 * A layer with weights has two numbers, `init` and `init_scale`. They choose one of the usual
 * rules, by fan-in (values that enter an output) and fan-out (outputs that a value enters).
 */
#ifndef PS_COMMON_NN_INIT_H
#define PS_COMMON_NN_INIT_H

#include "common/base/param.h"

#include <stddef.h>
#include <stdint.h>

typedef enum ps_init_kind {
    PS_INIT_CONSTANT, /* all values are `scale` */
    PS_INIT_UNIFORM,  /* in [-scale, scale] */
    PS_INIT_NORMAL    /* mean 0, standard deviation `scale` */
} ps_init_kind;

typedef struct ps_init {
    ps_init_kind kind;
    float scale;
} ps_init;

/* The rules, with their numbers in a job. Never change a number. */
typedef enum ps_init_rule {
    PS_INIT_RULE_GLOROT,   /* weights uniform within sqrt(6 / (in + out)) (Glorot, Bengio 2010) */
    PS_INIT_RULE_HE,       /* weights normal, sqrt(2 / in) (He et al. 2015) */
    PS_INIT_RULE_PYTORCH,  /* weights and biases uniform within 1 / sqrt(in) */
    PS_INIT_RULE_NORMAL,   /* weights normal, standard deviation init_scale */
    PS_INIT_RULE_CONSTANT, /* all weights init_scale */
    PS_INIT_RULE_UNIFORM,  /* weights uniform within init_scale of 0 */
    PS_INIT_RULES
} ps_init_rule;

/* The two lines of `init` and `init_scale` in a layer's table of numbers. */
#define PS_INIT_PARAM_LINES                                                                        \
    {.name = "init",                                                                               \
     .value = PS_INIT_RULE_GLOROT,                                                                 \
     .min = 0,                                                                                     \
     .max = PS_INIT_RULES - 1,                                                                     \
     .is_integer = true,                                                                           \
     .help = "first weights: 0 glorot_uniform, 1 he, 2 pytorch_uniform, 3 normal, 4 constant, 5 "  \
             "uniform"},                                                                           \
    {                                                                                              \
        .name = "init_scale", .value = 0.01, .min = -1000, .max = 1000,                            \
        .help = "deviation of normal, value of constant, bound of uniform; biases are 0 but in "   \
                "pytorch_uniform"                                                                  \
    }

/* Return how weights, and a bias, begin. `rule` and `scale` are the layer's numbers `init` and
 * `init_scale`. */
ps_init ps_init_of_weight(double rule, double scale, double fan_in, double fan_out);
ps_init ps_init_of_bias(double rule, double fan_in);

/* Writes the n initial values of variable number `variable` of a model. Value i is draw i of the
 * key (seed, PS_DRAW_INIT, variable). */
void ps_init_fill(const ps_init *init, uint64_t seed, size_t variable, float *values, size_t n);

#endif
