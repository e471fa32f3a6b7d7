/* SPDX-License-Identifier: Apache-2.0 */
/* local.h - updates whose workers train a replica of their own for a round of local steps, and
 * exchange the result.
 *
 * Letters: w the shared weights at a clock, x the replica, g the mean gradient over a worker's
 * samples of a step, p what is pushed. A local step does x -= increment of g by the local rule.
 * Servers do w -= outer rule(sum of p); for state of layers w -= sum of p. N workers, M of them
 * take part in a round, a_i the share of worker i in a mean (1 / M, or by samples), K steps in
 * a round.
 *
 * A round that is not overlapped:
 *     wait for w of clock t; adopt; K steps; contribute to clock t.
 * An overlapped round, whose steps run during the exchange of clock t - 1:
 *     K steps; wait for w of clock t; contribute to clock t, which also sets x.
 * In both, under bsp, w of clock t contains the contributions of all workers to the clocks
 * before t.
 *
 * All functions are pure, work on one variable, and are elementwise: any split of the variable
 * gives the same bits.
 */
#ifndef PS_COMMON_UPDATE_LOCAL_H
#define PS_COMMON_UPDATE_LOCAL_H

#include "common/base/param.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PS_LOCAL_SLOTS_MAX = 4 };

/* The values that hold for a whole round. */
typedef struct ps_round {
    const ps_params *params;    /* of the update */
    uint32_t workers, taken;    /* N, M */
    uint64_t clock;             /* number of the round, from 0 */
    bool is_last;               /* no round follows */
    double share;               /* a_i of this worker */
    double rate_sum;            /* sum of the local rule's rates over the steps of the round */
    double last_rate_sum;       /* the same of the round before; 0 in the first round */
    const ps_params *outer;     /* numbers of the outer rule */
    double compensation_factor; /* factor of the number `compensation` in this round */
} ps_round;

/* A variable, or a part of one, in a round. Arrays are (n) and do not overlap, except that g may be
 * p. */
typedef struct ps_stretch {
    size_t n;
    bool is_state;  /* state of a layer: g is a decrement, and x -= g has been done */
    const float *w; /* shared weights at the clock of the round */
    float *x;
    float *g;
    float *p;
    float *slots; /* (slots, n): state of the method, zeros at first */

    /* For a sparse variable (embedding) and a method that tracks rows: the values of a row.
     * Else 0, and `touched` is NULL. */
    size_t row;
    /* (n / row): for each row 1 + the last round whose steps touched it; 0: not touched since
     * the method reset it */
    uint64_t *touched;
} ps_stretch;

/* A rule by name, with up to two of its numbers that differ from their defaults. */
typedef struct ps_local_rule {
    const char *name;
    struct {
        const char *key; /* NULL: none */
        double value;
    } number[2];
} ps_local_rule;

/* Outer rules, which servers apply to p, the mean of the workers' changes: w -= p, and Nesterov's
 * with the numbers of DiLoCo. */
/* clang-format off */
#define PS_LOCAL_OUTER_PLAIN {"sgd", {{"lr", 1.0}}}
#define PS_LOCAL_OUTER_NESTEROV {"nesterov", {{"lr", 0.7}, {"momentum", 0.9}}}
/* clang-format on */

typedef void ps_local_fn(const ps_round *round, const ps_stretch *v);

typedef struct ps_local {
    bool is_overlapped;
    bool sends_gradients; /* x is not stepped: a round is one gradient, taken at x */
    bool tracks_rows;     /* needs to know which rows of sparse variables were touched */
    bool needs_bsp;       /* correct under bsp only */
    unsigned slots;       /* floats of state for each value, on each worker */

    ps_local_rule inner, outer;          /* default rules of the workers and of the servers */
    const char *only_inner, *only_outer; /* (optional) the only rule that is allowed */

    /* Returns the number of steps of round `clock`, >= 1. */
    uint32_t (*steps)(const ps_params *params, uint64_t clock);
    /* (optional) Returns the round from which on all rounds have the same number of steps, at
     * most a million. NULL: 0. */
    uint64_t (*settles)(const ps_params *params);
    /* (optional) Returns the share of the workers that a round draws, in (0, 1]. NULL: 1. */
    double (*fraction)(const ps_params *params);
    /* (optional) Returns whether means are weighed by samples, not by workers. NULL: true. */
    bool (*by_samples)(const ps_params *params);

    /* (optional) Sets x from w when a round begins; when overlapped, before the first round
     * only. NULL: x = w. */
    ps_local_fn *adopt;
    /* (optional) Changes g before the local step on it. Not called for state. */
    ps_local_fn *adjust;
    /* Sets p after the steps, and updates the slots; when overlapped, sets x too. */
    ps_local_fn *contribute;
    /* (optional) Sets p of rows of tables that grow, which the worker holds for a round: x began as
     * w, and there are no slots. NULL: such tables are refused. */
    ps_local_fn *contribute_rows;
} ps_local;

/* For the plugins: the number `steps`, which must be the first in the table. */
#define PS_LOCAL_STEPS_PARAM(otherwise)                                                            \
    {                                                                                              \
        .name = "steps", .value = (otherwise), .min = 1, .max = 1000000, .is_integer = true,       \
        .help = "local steps a round"                                                              \
    }
/* Returns the number `steps`, the first in the table. */
uint32_t ps_local_steps(const ps_params *params, uint64_t clock);

/* Calls local->adopt; if that is NULL, sets x = w. */
void ps_local_adopt(const ps_local *local, const ps_round *round, const ps_stretch *v);

/* ---- Functions that methods share ---- */

/* Sets p = a_i (w - x), the contribution to a mean of replicas. */
void ps_local_contribute_mean(const ps_round *round, const ps_stretch *v);

/* Sets p = w - x: the sum of what all workers did. */
ps_local_fn ps_local_contribute_sum;

/* Sets x = w and copies it to the first slot. There this function and the next three keep x as
 * the round began with it. */
ps_local_fn ps_local_adopt_ahead;
/* Sets p = a_i P and x = w - compensation * P, where P are the increments of the round. Keeps x
 * in the first slot. State is always compensated by all of P: a mean that follows with a
 * round's delay oscillates unless its worker goes on from its own value. */
void ps_local_contribute_ahead(const ps_round *round, const ps_stretch *v, float compensation);
/* The number `compensation`, which must be the second in the table. */
#define PS_LOCAL_COMPENSATION_PARAM                                                                \
    {                                                                                              \
        .name = "compensation", .value = 1, .min = 0, .max = 100,                                  \
        .help = "factor of the worker's own increments that it goes on from: gamma / eta"          \
    }
/* The number `at_most`, for methods whose worker may take fewer steps in a round than another. */
#define PS_LOCAL_AT_MOST_PARAM                                                                     \
    {                                                                                              \
        .name = "at_most", .value = 0, .min = 0, .max = 1, .is_integer = true,                     \
        .help = "1: as many steps as fit into the exchange of the round before, at most steps"     \
    }
/* Calls ps_local_contribute_ahead with the number `compensation`, times its factor. */
ps_local_fn ps_local_contribute_compensated;
/* Sets x += w - first slot and p = a_i (w - x). Keeps x in the first slot. */
ps_local_fn ps_local_contribute_forward;

/* Draws who takes part in a round, the same on every worker. Writes is_in (workers). Returns M
 * = max(1, fraction * N rounded up). */
uint32_t ps_local_sample(const ps_local *local, const ps_params *params, uint64_t seed,
                         uint64_t clock, uint32_t workers, bool *is_in);

/* Returns the number of clocks of a job with so many steps. */
uint64_t ps_local_clocks(const ps_local *local, const ps_params *params, uint64_t steps);

#endif
