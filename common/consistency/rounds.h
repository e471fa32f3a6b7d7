/* SPDX-License-Identifier: Apache-2.0 */
/* rounds.h - answers that several policies give. For common/consistency alone. */
#ifndef PS_COMMON_CONSISTENCY_ROUNDS_H
#define PS_COMMON_CONSISTENCY_ROUNDS_H

#include "common/consistency/consistency.h"

/* Nobody may be ahead; nobody is ever too far ahead. */
static inline uint64_t no_lead(const ps_params *params)
{
    (void)params;
    return 0;
}

static inline uint64_t any_lead(const ps_params *params)
{
    (void)params;
    return UINT64_MAX;
}

/* Those before `clock` are closed. */
static inline bool is_its_round(const ps_params *params, const ps_clocks *c, uint32_t worker,
                                uint64_t clock)
{
    (void)params;
    (void)worker;
    return clock <= c->clock;
}

static inline bool always(const ps_params *params, const ps_clocks *c, uint32_t worker,
                          uint64_t clock)
{
    (void)params;
    (void)c;
    (void)worker;
    (void)clock;
    return true;
}

/* Pushes and pulls travel on streams of their own: a pull that overtakes its
 * worker's last push waits for it. */
static inline bool has_own_pushes(const ps_params *params, const ps_clocks *c, uint32_t worker,
                                  uint64_t clock)
{
    (void)params;
    return clock <= c->done[worker];
}

/* Everybody who may still bring something to the round has. */
static inline bool all_are_in(const ps_clocks *c)
{
    return c->least > c->clock;
}

/* The mean over those that came, as `contributors` of them would have it. */
static inline float mean_scale(const ps_clocks *c)
{
    return c->in > 0 ? (float)((double)c->contributors / (double)c->in) : 1.0f;
}

static inline int64_t us_of_ms(double ms)
{
    return (int64_t)(ms * 1000.0);
}

#endif
