/* SPDX-License-Identifier: Apache-2.0 */
/* consistency.h - when an answer may be given.
 *
 * A policy is a const table of three pure questions over the clocks of one
 * slice. It sits in the parameter server; BSP, SSP and ASP differ in nothing
 * else. To add one: common/consistency/NAME.c, a line in list.h, one in
 * CMakeLists.txt. Sources: Valiant 1990 (BSP), Ho et al. 2013 (SSP), Recht et
 * al. 2011 (ASP).
 */
#ifndef PS_COMMON_CONSISTENCY_CONSISTENCY_H
#define PS_COMMON_CONSISTENCY_CONSISTENCY_H

#include "common/base/param.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a policy may look at. done is UINT64_MAX for a worker that nobody waits
 * for: it is lost, or holds no blocks. */
typedef struct ps_clocks {
    uint32_t workers;
    const uint64_t *done; /* (workers): clocks whose contributions to this slice are all in */
    uint64_t least;       /* smallest of done */
    uint64_t version;     /* updates applied to this slice */
} ps_clocks;

typedef enum ps_verdict {
    PS_APPLY,  /* step on this contribution alone, at once, times *scale */
    PS_BUFFER, /* add to the sum of its clock; step when all are in */
    PS_DROP    /* forget it; it counts as done */
} ps_verdict;

typedef struct ps_consistency {
    const char *name;
    const char *summary;
    const ps_param *params; /* (optional) */
    bool is_deterministic;  /* same seed, same bits */
    bool survives_loss;     /* goes on when a worker is lost */
    bool asks_early; /* workers may ask for the next clock before they have pushed this one */

    /* How many clocks ahead of the slowest a worker may be when it begins one;
     * UINT64_MAX: no bound. Bounds what a server may have to park. */
    uint64_t (*lead)(const ps_params *params);
    /* May `worker` begin `clock`? Asked when it pulls for it. */
    bool (*admit)(const ps_params *params, const ps_clocks *c, uint32_t worker, uint64_t clock);
    /* What becomes of a contribution of `worker` to `clock`? A policy either
     * applies or buffers, always the same; either may drop. */
    ps_verdict (*on_push)(const ps_params *params, const ps_clocks *c, uint32_t worker,
                          uint64_t clock, float *scale);
    /* May `worker`, admitted to `clock`, be given the slice as it is? */
    bool (*on_pull)(const ps_params *params, const ps_clocks *c, uint32_t worker, uint64_t clock);
} ps_consistency;

const ps_consistency *ps_consistency_find(const char *name);
void ps_consistency_each(void (*fn)(const ps_consistency *policy, void *arg), void *arg);

#endif
