/* SPDX-License-Identifier: Apache-2.0 */
/* consistency.h - the policies that decide when workers may go on and what becomes of
 * contributions.
 *
 * A policy is a const table of pure functions over the clocks of one slice. It runs in the
 * parameter server. Bulk-synchronous, stale, asynchronous and backup-worker training differ
 * only in their policy. docs/consistency.md has every formula with its source. To add a policy:
 * write common/consistency/NAME.c, add a line to list.h and one to CMakeLists.txt.
 *
 * There are two ways to use a contribution that is not dropped. A policy without `closes`
 * *applies*: each contribution is a step of its own on arrival, and the contributions of one
 * contributor arrive in the order of their clocks. A policy with `closes` *buffers*:
 * contributions are added to an open sum, and the slice makes one step on the sum when it closes.
 *
 * Rounds: with `has_rounds` the sum belongs to one clock. No worker may contribute to clock c +
 * 1 before c is closed. A contribution to a closed clock is late; on_push decides what becomes
 * of it. With `leaves_behind` a contributor may skip clocks.
 *
 * The caller owns time and memory. It tells a policy the time. A policy remembers what it needs
 * of a slice in `words` words of state, which are zero at first and which only on_push changes.
 */
#ifndef PS_COMMON_CONSISTENCY_CONSISTENCY_H
#define PS_COMMON_CONSISTENCY_CONSISTENCY_H

#include "common/base/param.h"
#include "common/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The state of a slice that a policy may read. `done` is UINT64_MAX for a worker that nobody
 * waits for: it is lost, or it holds no blocks. */
typedef struct ps_clocks {
    uint32_t workers;
    uint32_t contributors;
    uint32_t live; /* how many contributors belong to workers that are not lost */
    /* (workers): each worker has finished its contributions to the clocks below this */
    const uint64_t *done;
    uint64_t least;   /* minimum of done */
    uint64_t clock;   /* with rounds: number of closed clocks; else `least` */
    uint64_t version; /* updates applied to this slice */
    uint32_t in;      /* contributions in the open sum */
    uint32_t due;     /* contributions in the open sum that are not late */
    int64_t now_us;   /* monotonic time */
    int64_t first_us; /* time of the first contribution in the open sum that was not late */
    uint64_t *state;  /* (words): state of this slice; NULL without words */
} ps_clocks;

/* A contribution to the slice on its first arrival; duplicates never reach a policy. */
typedef struct ps_arrival {
    uint32_t worker, contributor;
    uint64_t clock;
    uint64_t staleness; /* updates of the slice between giving it to the worker and this arrival */
} ps_arrival;

typedef enum ps_verdict {
    PS_APPLY,  /* make a step on this contribution alone, at once; *scale multiplies the step */
    PS_BUFFER, /* add it to the open sum */
    PS_DROP    /* drop it; it counts as dropped, and in `done` like any other */
} ps_verdict;

typedef struct ps_consistency {
    const char *name;
    const char *summary;
    const ps_param *params; /* (optional) */
    /* the same seed gives the same bits: sums are formed in the order of contributors */
    bool is_deterministic;
    bool survives_loss; /* the policy lets the other workers go on when one is lost */
    bool asks_early;    /* workers may ask for the next clock before they have pushed this one */
    /* contributions are of rounds, as the head of this file says; requires closes */
    bool has_rounds;
    /* a round may close before all contributions have arrived; a worker that asks for clock c
     * then contributes nothing more to the clocks before c, and each contributor belongs to one
     * worker */
    bool leaves_behind;

    /* (optional) Checks the numbers against a job with so many contributors. Returns
     * INVALID_ARGUMENT with what is wrong and what is allowed. */
    ps_status (*check)(const ps_params *params, uint32_t contributors);
    /* (optional) Returns how many words of state (ps_clocks.state) a slice needs. NULL: 0. */
    size_t (*words)(uint32_t workers, uint32_t contributors);
    /* Returns how many clocks a worker that begins a clock may be ahead of ps_clocks.clock;
     * UINT64_MAX: no limit. It limits what a server may have to park. */
    uint64_t (*lead)(const ps_params *params);
    /* Returns whether `worker` may begin `clock`. Called when the worker pulls for that clock. */
    bool (*admit)(const ps_params *params, const ps_clocks *c, uint32_t worker, uint64_t clock);
    /* Decides what becomes of a contribution. Called once for each, before it counts in `done`.
     * *scale is 1 on entry. A policy always applies or always buffers; either kind may drop. */
    ps_verdict (*on_push)(const ps_params *params, const ps_clocks *c, const ps_arrival *a,
                          float *scale);
    /* Returns whether the slice as it is may be sent to `worker`, which is admitted to `clock`. */
    bool (*on_pull)(const ps_params *params, const ps_clocks *c, uint32_t worker, uint64_t clock);
    /* (optional) Returns whether the open sum is complete, and may set the factor *scale of the
     * sum, 1 on entry. Called after arrivals, after losses and at closes_at, if the sum has
     * contributions. With rounds it is also called for an empty sum to which no contribution can
     * arrive any more; if it returns true, that round closes without a step. */
    bool (*closes)(const ps_params *params, const ps_clocks *c, float *scale);
    /* (optional) Returns the monotonic time in microseconds at which `closes` becomes true
     * without another event; INT64_MAX: never. */
    int64_t (*closes_at)(const ps_params *params, const ps_clocks *c);
} ps_consistency;

/* Returns the policy with this name, or NULL if there is none. */
const ps_consistency *ps_consistency_find(const char *name);
/* Calls `fn` for every policy, in the order of list.h. */
void ps_consistency_each(void (*fn)(const ps_consistency *policy, void *arg), void *arg);

#endif
