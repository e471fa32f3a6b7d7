/* SPDX-License-Identifier: Apache-2.0 */
/* descent.c - see descent.h. */
#include "common/optim/descent.h"

#include "common/base/clones.h"

#include <math.h>

static const unsigned rate_at = 0; /* index of `lr`, the first number of every rule */

static double factor_of(const ps_descent *descent, uint64_t step)
{
    return descent->schedule == NULL
               ? 1.0
               : ps_schedule_factor(descent->schedule, &descent->schedule_params, step,
                                    descent->total_steps);
}

double ps_descent_rate(const ps_descent *descent, uint64_t step)
{
    return ldexp(descent->params.v[rate_at] * factor_of(descent, step), -(int)descent->halvings);
}

ps_params ps_descent_params(const ps_descent *descent, uint64_t step)
{
    ps_params params = descent->params;

    params.v[rate_at] = ps_descent_rate(descent, step);
    return params;
}

static bool has_penalty(const ps_descent *descent)
{
    return descent->l1 != 0.0 || descent->l2 != 0.0;
}

/* Sets out = g + l2 w + l1 sign(w). out may be g. */
PS_CLONES(penalise, (l1, l2, g, w, out, n), float l1, float l2, const float *g,
          const float *restrict w, float *out, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float sign = w[i] > 0.0f ? 1.0f : w[i] < 0.0f ? -1.0f : 0.0f;

        out[i] = g[i] + (l2 * w[i] + l1 * sign);
    }
}

const float *ps_descent_penalised(const ps_descent *descent, double share, const float *g,
                                  const float *w, float *out, size_t n)
{
    if (!has_penalty(descent)) {
        return g;
    }
    penalise((float)(descent->l1 * share), (float)(descent->l2 * share), g, w, out, n);
    return out;
}

/* Does what ps_descent_penalised does, for rows: g and out have the rows one after the other, w has
 * each at the place of its id. Returns out; g if there is no penalty. */
static const float *penalised_rows(const ps_descent *descent, double share, const ps_rows *rows,
                                   const float *g, const float *w, float *out)
{
    for (size_t r = 0; has_penalty(descent) && r < rows->count; r++) {
        size_t from = r * rows->width;

        (void)ps_descent_penalised(descent, share, g + from, w + rows->id[r] * rows->width,
                                   out + from, rows->width);
    }
    return has_penalty(descent) ? out : g;
}

void ps_descent_increment(const ps_descent *descent, ps_moment at, const float *g, const float *w,
                          float *state, float *d, size_t n)
{
    ps_params params = ps_descent_params(descent, at.step);

    g = ps_descent_penalised(descent, at.share, g, w, d, n);
    descent->optim->increment(&params, at.t, g, w, state, d, n);
}

void ps_descent_step(const ps_descent *descent, ps_moment at, const float *g, float *scratch,
                     const float *w, float *state, float *to, size_t n)
{
    ps_params params = ps_descent_params(descent, at.step);

    g = ps_descent_penalised(descent, at.share, g, w, scratch, n);
    descent->optim->step(&params, at.t, g, w, state, to, n);
}

void ps_descent_increment_rows(const ps_descent *descent, ps_moment at, const ps_rows *rows,
                               const float *g, const float *w, float *state, float *d, size_t n)
{
    ps_params params = ps_descent_params(descent, at.step);

    g = penalised_rows(descent, at.share, rows, g, w, d);
    descent->optim->increment_rows(&params, at.t, rows, g, w, state, d, n);
}

void ps_descent_step_rows(const ps_descent *descent, ps_moment at, const ps_rows *rows,
                          const float *g, float *scratch, float *state, float *w, size_t n)
{
    ps_params params = ps_descent_params(descent, at.step);

    g = penalised_rows(descent, at.share, rows, g, w, scratch);
    descent->optim->step_rows(&params, at.t, rows, g, state, w, n);
}
