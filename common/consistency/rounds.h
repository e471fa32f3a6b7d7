/* SPDX-License-Identifier: Apache-2.0 */
/* rounds.h - functions that several policies share. Private to common/consistency. */
#ifndef PS_COMMON_CONSISTENCY_ROUNDS_H
#define PS_COMMON_CONSISTENCY_ROUNDS_H

#include "common/consistency/consistency.h"

/* Returns 0: a worker may not be ahead. */
static inline uint64_t no_lead(const ps_params *params)
{
    (void)params;
    return 0;
}

/* Returns UINT64_MAX: a worker may be ahead by any number of clocks. */
static inline uint64_t any_lead(const ps_params *params)
{
    (void)params;
    return UINT64_MAX;
}

/* Returns whether every clock before `clock` is closed. */
static inline bool is_its_round(const ps_params *params, const ps_clocks *c, uint32_t worker,
                                uint64_t clock)
{
    (void)params;
    (void)worker;
    return clock <= c->clock;
}

/* Returns true: nobody waits. */
static inline bool always(const ps_params *params, const ps_clocks *c, uint32_t worker,
                          uint64_t clock)
{
    (void)params;
    (void)c;
    (void)worker;
    (void)clock;
    return true;
}

/* Returns whether the server has the worker's own contributions to the clocks before `clock`.
 * Pushes and pulls use separate streams, so a pull may overtake its worker's last push; it
 * waits for it then. */
static inline bool has_own_pushes(const ps_params *params, const ps_clocks *c, uint32_t worker,
                                  uint64_t clock)
{
    (void)params;
    return clock <= c->done[worker];
}

/* Returns whether every worker that is not lost has finished the open clock. */
static inline bool all_are_in(const ps_clocks *c)
{
    return c->least > c->clock;
}

/* Returns the factor that makes a sum of `in` contributions as large as their mean times
 * `contributors`. */
static inline float mean_scale(const ps_clocks *c)
{
    return c->in > 0 ? (float)((double)c->contributors / (double)c->in) : 1.0f;
}

/* Returns `ms` milliseconds as microseconds. */
static inline int64_t us_of_ms(double ms)
{
    return (int64_t)(ms * 1000.0);
}

#endif
