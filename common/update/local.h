/* SPDX-License-Identifier: Apache-2.0 */
/* local.h - updates whose workers train a replica of their own for a round of local steps, and
 * exchange the result.
 *
 * Letters: w the shared weights at a clock, x the replica, g the mean gradient over a worker's
 * samples of a step, p what is pushed. A local step does x -= increment of g by the local rule.
 * Servers do w -= outer rule(sum of p); for state of layers w -= sum of p. N workers, of which M
 * take part in a round; a_i the share of worker i in a mean (1 / M, or by samples); K steps in a
 * round.
 *
 * A round that is not overlapped:
 *   wait for w of clock t; adopt; K steps; contribute to clock t.
 * An overlapped round, whose steps run during the exchange of clock t - 1:
 *   K steps; wait for w of clock t; contribute to clock t, which also sets x.
 * In both, under bsp, w of clock t contains the contributions of all workers to the clocks before
 * t.
 *
 * All functions are pure, work on one variable, and are elementwise: any split of the variable
 * gives the same bits. */
#ifndef PS_COMMON_UPDATE_LOCAL_H
#define PS_COMMON_UPDATE_LOCAL_H

#include "common/base/param.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PS_LOCAL_SLOTS_MAX = 4 };

/* The values that hold for a whole round. */
typedef struct ps_round {
    const ps_params *params; /* numbers of the update */
    uint32_t workers, taken; /* N, M */
    /* number of the round, from 0; also the clock to which it contributes */
    uint64_t clock;
    bool is_last;           /* no round follows */
    double share;           /* a_i of this worker */
    double rate_sum;        /* sum of the local rule's rates over the steps of the round */
    double last_rate_sum;   /* rate_sum of the round before; 0 in the first round */
    const ps_params *outer; /* numbers of the outer rule */
    /* factor by which the number `compensation` is multiplied in this round */
    double compensation_factor;
} ps_round;

/* A variable, or a part of one, in a round. Arrays are (n) and do not overlap, except that g may be
 * p. */
typedef struct ps_stretch {
    size_t n;
    /* the variable is state of a layer: g is a decrement, and x -= g was done already */
    bool is_state;
    const float *w; /* shared weights at the clock of the round */
    float *x;
    float *g;
    float *p;
    float *slots; /* (slots, n): state of the method, zeros at first */

    /* For a sparse variable (embedding), if the method tracks rows: the number of values of a row.
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

/* Default rules of servers for p, the mean of the workers' changes: w -= p; and Nesterov's rule
 * with the numbers of DiLoCo. */
/* clang-format off */
#define PS_LOCAL_OUTER_PLAIN {"sgd", {{"lr", 1.0}}}
#define PS_LOCAL_OUTER_NESTEROV {"nesterov", {{"lr", 0.7}, {"momentum", 0.9}}}
/* clang-format on */

/* A function of a method: it reads the round and changes the arrays of one variable. */
typedef void ps_local_fn(const ps_round *round, const ps_stretch *v);

typedef struct ps_local {
    bool is_overlapped;
    /* a round sends gradients and not changes: x is not stepped, and p is the gradient at x */
    bool sends_gradients;
    bool tracks_rows; /* the method needs ps_stretch.touched */
    bool needs_bsp;   /* the method is correct under bsp only */
    unsigned slots;   /* floats of state for each value, on each worker */

    ps_local_rule inner, outer;          /* default rules of the workers and of the servers */
    const char *only_inner, *only_outer; /* (optional) the only rule that is allowed */

    /* Returns the number of steps of round `clock`, >= 1. */
    uint32_t (*steps)(const ps_params *params, uint64_t clock);
    /* (optional) Returns the first round from which on all rounds have the same number of steps, at
     * most a million. NULL: 0. */
    uint64_t (*settles)(const ps_params *params);
    /* (optional) Returns the fraction of the workers that take part in a round, in (0, 1]. NULL:
     * 1. */
    double (*fraction)(const ps_params *params);
    /* (optional) Returns whether a mean weighs workers by their samples (true) or equally. NULL:
     * true. */
    bool (*by_samples)(const ps_params *params);

    /* (optional) Sets x from w when a round begins; of an overlapped method, only before the first
     * round. NULL: x = w. */
    ps_local_fn *adopt;
    /* (optional) Changes g before each local step. Not called for state of layers. */
    ps_local_fn *adjust;
    /* Sets p after the steps of a round, and updates the slots; of an overlapped method, sets x
     * too. */
    ps_local_fn *contribute;
    /* (optional) Sets p for rows of tables that grow, which the worker holds for one round: x began
     * as w, and there are no slots. NULL: jobs with such tables are refused. */
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

/* Sets p = w - x, so that the servers' sum is the sum of all workers' changes. */
ps_local_fn ps_local_contribute_sum;

/* Sets x = w and copies x to the first slot. In this function and the next three, the first slot
 * keeps the x with which the round began. */
ps_local_fn ps_local_adopt_ahead;
/* Sets p = a_i P and x = w - compensation * P, where P is the sum of the increments of the round.
 * Keeps x in the first slot. For state of layers compensation is 1: a mean that comes a round late
 * oscillates unless the worker goes on from its own value. */
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
/* Does what ps_local_contribute_ahead does, with the number `compensation` times
 * compensation_factor. */
ps_local_fn ps_local_contribute_compensated;
/* Moves x by the change of the shared weights since the last round, x += w - first slot, then sets
 * p = a_i (w - x). Keeps x in the first slot. */
ps_local_fn ps_local_contribute_forward;

/* Draws which workers take part in a round; the result is the same on every worker. Writes is_in
 * (workers). Returns M = max(1, fraction * N rounded up). */
uint32_t ps_local_sample(const ps_local *local, const ps_params *params, uint64_t seed,
                         uint64_t clock, uint32_t workers, bool *is_in);

/* Returns the number of clocks of a job with `steps` steps. */
uint64_t ps_local_clocks(const ps_local *local, const ps_params *params, uint64_t steps);

#endif
