/* SPDX-License-Identifier: Apache-2.0 */
/* local.h - updates whose workers train on a replica of their own for a round of
 * steps, and exchange what came of it.
 *
 * Letters: w the shared weights as of a clock, x the replica, g the mean gradient
 * over a worker's samples of a step (under a local rule x becomes x - increment
 * of g), p what is pushed; servers do w -= outer rule(sum of p), for state of
 * layers w -= sum of p. N workers, M of them taking part in a round, a_i the share
 * of worker i in a mean (1 / M, or by samples), K steps a round.
 *
 * A round that is not overlapped:
 *     wait for w of clock t; adopt; K steps; contribute to clock t.
 * One that is: the exchange of clock t - 1 is under way while the steps are
 * taken, and
 *     K steps; wait for w of clock t; contribute to clock t, which also says
 *     what becomes of x.
 * So under bsp w of clock t holds what all workers contributed to the clocks
 * before t, in both.
 *
 * All functions are pure, over one variable, and elementwise: any split of it
 * gives the same bits.
 */
#ifndef PS_COMMON_UPDATE_LOCAL_H
#define PS_COMMON_UPDATE_LOCAL_H

#include "common/base/param.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PS_LOCAL_SLOTS_MAX = 4 };

/* What is so for a whole round. */
typedef struct ps_round {
    const ps_params *params; /* of the update */
    uint32_t workers, taken; /* N, M */
    uint64_t clock;          /* number of the round, from 0 */
    bool is_last;            /* no round follows */
    double share;            /* a_i */
    double rate_sum;         /* of the local rule's rates over the steps of the round */
    double last_rate_sum;    /* of the round before; 0 in the first */
    const ps_params *outer;  /* numbers of the outer rule */
} ps_round;

/* A variable in a round. Arrays are (n) and do not overlap, but g may be p. */
typedef struct ps_stretch {
    size_t n;
    bool is_state;  /* of a layer: g is a decrement, x -= g was done */
    const float *w; /* as of the round's clock */
    float *x;
    float *g;
    float *p;
    float *slots; /* (slots, n): the method's own, zeros at first */

    /* Of a sparse variable (embedding), for a method that tracks rows: values a row, and
     * for each row 1 + the last round whose steps touched it; 0: none since the
     * method forgot it. Else 0 and NULL. */
    size_t row;
    uint64_t *touched; /* (n / row) */
} ps_stretch;

/* A rule by name, with a number of it that is not at its default. */
typedef struct ps_local_rule {
    const char *name;
    struct {
        const char *key; /* NULL: none */
        double value;
    } number[2];
} ps_local_rule;

/* Outer rules: w -= p, and Nesterov's as DiLoCo has it. */
/* clang-format off */
#define PS_LOCAL_OUTER_PLAIN {"sgd", {{"lr", 1.0}}}
#define PS_LOCAL_OUTER_NESTEROV {"nesterov", {{"lr", 0.7}, {"momentum", 0.9}}}
/* clang-format on */

typedef void ps_local_fn(const ps_round *round, const ps_stretch *v);

typedef struct ps_local {
    bool is_overlapped;
    bool sends_gradients; /* x is not stepped: the round is one gradient, on x */
    bool tracks_rows;     /* wants to know which rows of sparse variables were touched */
    bool needs_bsp;       /* what it computes is right under bsp alone */
    unsigned slots;       /* floats of state for each value, on each worker */

    ps_local_rule inner, outer;          /* defaults of the local and the servers' rule */
    const char *only_inner, *only_outer; /* (optional) the only rule allowed */

    /* Steps of round t, >= 1. */
    uint32_t (*steps)(const ps_params *params, uint64_t clock);
    /* (optional) The round from which on all have as many, at most a million; NULL: 0. */
    uint64_t (*settles)(const ps_params *params);
    /* (optional) Share of the workers that a round takes, in (0, 1]; NULL: 1. */
    double (*fraction)(const ps_params *params);
    /* (optional) Are means over samples, not over workers? NULL: over samples. */
    bool (*by_samples)(const ps_params *params);

    /* w is there, as the round begins; when overlapped, before the first round
     * only. (optional) NULL: x = w. */
    ps_local_fn *adopt;
    /* (optional) Changes g before a local step on it. Not for state. */
    ps_local_fn *adjust;
    /* After the steps: p, and what becomes of the slots; when overlapped of x too. */
    ps_local_fn *contribute;
} ps_local;

/* For the plugins: the number `steps`, in its place 0 in the table. */
#define PS_LOCAL_STEPS_PARAM(otherwise)                                                            \
    {                                                                                              \
        .name = "steps", .value = (otherwise), .min = 1, .max = 1000000, .is_integer = true,       \
        .help = "local steps a round"                                                              \
    }
uint32_t ps_local_steps(const ps_params *params, uint64_t clock);

/* The rest of the trainer's questions, with what NULL stands for. */
void ps_local_adopt(const ps_local *local, const ps_round *round, const ps_stretch *v);

/* ---- What methods have in common ---- */

/* p = a_i (w - x): the mean of replicas. */
void ps_local_contribute_mean(const ps_round *round, const ps_stretch *v);

/* The next three keep in their first slot where x was when the round began.
 * x = w, which is kept. */
ps_local_fn ps_local_adopt_ahead;
/* p = a_i P, P the increments of the round; x = w - compensation * P, which is
 * kept. State is always compensated by all of P: a mean that is followed with a
 * round's delay, and not from where its worker has come to, would swing. */
void ps_local_contribute_ahead(const ps_round *round, const ps_stretch *v, float compensation);
/* With the number `compensation`, the second in the table. */
#define PS_LOCAL_COMPENSATION_PARAM                                                                \
    {                                                                                              \
        .name = "compensation", .value = 1, .min = 0, .max = 100,                                  \
        .help = "factor of the worker's own increments that it goes on from: gamma / eta"          \
    }
ps_local_fn ps_local_contribute_compensated;
/* x += w - where it was; p = a_i (w - x); x is kept. */
ps_local_fn ps_local_contribute_forward;

/* Who takes part in a round, the same on every worker: is_in (workers) is
 * written; returns M = max(1, fraction * N rounded up). */
uint32_t ps_local_sample(const ps_local *local, const ps_params *params, uint64_t seed,
                         uint64_t clock, uint32_t workers, bool *is_in);

/* Clocks that a job of so many steps has. */
uint64_t ps_local_clocks(const ps_local *local, const ps_params *params, uint64_t steps);

#endif
