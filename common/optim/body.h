/* SPDX-License-Identifier: Apache-2.0 */
/* body.h - makes all functions of a rule's table from the rule's step of one value. Include it at
 * the end of the rule's file. No include guard: one rule per file.
 *
 * Before that the rule's file defines: PS_RULE_SLOTS, the floats of state per value (0 to 2); the
 * type `factors` for what is the same for all values of a step; factors_of(params, t); and
 * increment_of(factors, point), which returns the increment of one value and updates its state.
 * Letters as in optim.h. */
#include "common/optim/loops.h"
#include "common/optim/optim.h"
#include "common/optim/rows.h"

/* Returns the address of value i in slot k, or NULL if the rule has no slot k. */
static inline float *slot_at(float *slot, int k, size_t i)
{
    return k < PS_RULE_SLOTS ? slot + i : NULL;
}

static inline ps_point point_of(const float *g, const float *w, float *a, float *b, size_t i)
{
    return (ps_point){.g = g[i], .w = w[i], .a = slot_at(a, 0, i), .b = slot_at(b, 1, i)};
}

PS_CLONES(increments, (f, g, w, a, b, d, n), factors f, const float *g, const float *w,
          float *restrict a, float *restrict b, float *d, size_t n)
{
    PS_INDEPENDENT
    for (size_t i = 0; i < n; i++) {
        d[i] = increment_of(f, point_of(g, w, a, b, i));
    }
}

PS_CLONES(steps, (f, g, w, a, b, to, n), factors f, const float *g, const float *w,
          float *restrict a, float *restrict b, float *to, size_t n)
{
    PS_INDEPENDENT
    for (size_t i = 0; i < n; i++) {
        to[i] = w[i] - increment_of(f, point_of(g, w, a, b, i));
    }
}

static void increment(const ps_params *params, uint64_t t, const float *g, const float *w,
                      float *state, float *d, size_t n)
{
    increments(factors_of(params, t), g, w, slot_at(state, 0, 0), slot_at(state, 1, n), d, n);
}

static void step(const ps_params *params, uint64_t t, const float *g, const float *w, float *state,
                 float *to, size_t n)
{
    steps(factors_of(params, t), g, w, slot_at(state, 0, 0), slot_at(state, 1, n), to, n);
}

static void increment_rows(const ps_params *params, uint64_t t, const ps_rows *rows, const float *g,
                           const float *w, float *state, float *d, size_t n)
{
    factors f = factors_of(params, t);

    for (size_t r = 0; r < rows->count; r++) {
        size_t at = rows->id[r] * rows->width, from = r * rows->width;

        increments(f, g + from, w + at, slot_at(state, 0, at), slot_at(state, 1, n + at), d + from,
                   rows->width);
    }
}

static void step_rows(const ps_params *params, uint64_t t, const ps_rows *rows, const float *g,
                      float *state, float *w, size_t n)
{
    factors f = factors_of(params, t);

    for (size_t r = 0; r < rows->count; r++) {
        size_t at = rows->id[r] * rows->width;

        steps(f, g + r * rows->width, w + at, slot_at(state, 0, at), slot_at(state, 1, n + at),
              w + at, rows->width);
    }
}

/* The members of the rule's table. */
#define PS_RULE_FORMS                                                                              \
    .slots = PS_RULE_SLOTS, .increment = increment, .step = step,                                  \
    .increment_rows = increment_rows, .step_rows = step_rows
