/* SPDX-License-Identifier: Apache-2.0 */
/* consistency.h - when an answer may be given.
 *
 * A policy is a const table of pure questions over the clocks of one slice. It
 * sits in the parameter server; bulk-synchronous, stale, asynchronous and
 * backup-worker training differ in nothing else. docs/consistency.md has every
 * formula with its source. To add one: common/consistency/NAME.c, a line in
 * list.h, one in CMakeLists.txt.
 *
 * Two ways to use a contribution. A policy without `closes` *applies*: each one
 * is a step of its own, on arrival, and those of a contributor come in the order
 * of their clocks. A policy with `closes` *buffers*: contributions are added to
 * an open sum, and when it closes the slice steps once on the sum.
 *
 * Rounds. Where has_rounds, the sum is of one clock: nobody may bring clock
 * c + 1 before c is closed, and what comes for a clock that is closed is late;
 * on_push decides what becomes of it. A contributor may leave clocks out.
 *
 * Time and memory are the caller's: a policy is told what time it is, and keeps
 * what it must remember of a slice in `words` words, all zero at first, which
 * on_push alone may change.
 */
#ifndef PS_COMMON_CONSISTENCY_CONSISTENCY_H
#define PS_COMMON_CONSISTENCY_CONSISTENCY_H

#include "common/base/param.h"
#include "common/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a policy may look at. done is UINT64_MAX for a worker that nobody waits
 * for: it is lost, or holds no blocks. */
typedef struct ps_clocks {
    uint32_t workers;
    uint32_t contributors;
    uint32_t live;        /* contributors of workers that are not lost */
    const uint64_t *done; /* (workers): clocks to which nothing more will come from it */
    uint64_t least;       /* smallest of done */
    uint64_t clock;       /* with rounds: those that are closed; else least */
    uint64_t version;     /* updates applied to this slice */
    uint32_t in;          /* contributions in the open sum, */
    uint32_t due;         /* and those of them that are not late */
    int64_t now_us;       /* monotonic */
    int64_t first_us;     /* when the first that was not late came */
    uint64_t *state;      /* (words): this slice's; NULL without words */
} ps_clocks;

/* A contribution to the slice, the first time that it comes. */
typedef struct ps_arrival {
    uint32_t worker, contributor;
    uint64_t clock;
    uint64_t staleness; /* updates of the slice since it was given to the worker */
} ps_arrival;

typedef enum ps_verdict {
    PS_APPLY,  /* step on this contribution alone, at once; the step times *scale */
    PS_BUFFER, /* add it to the open sum */
    PS_DROP    /* forget it; it is counted as dropped, and as in */
} ps_verdict;

typedef struct ps_consistency {
    const char *name;
    const char *summary;
    const ps_param *params; /* (optional) */
    bool is_deterministic;  /* same seed, same bits: sums are formed in the order of contributors */
    bool survives_loss;     /* goes on when a worker is lost */
    bool asks_early;    /* workers may ask for the next clock before they have pushed this one */
    bool has_rounds;    /* see above; only with closes */
    bool uses_whole;    /* each contribution is in a step as it came: none is dropped, none is
                         * weighed by when it came or by what else did */
    bool leaves_behind; /* a round may close before all have come. Then a worker that asks for
                         * clock c brings nothing more to those before c, and contributors
                         * belong to one worker each */

    /* (optional) May a job with so many contributors use these numbers? INVALID_ARGUMENT
     * with what is wrong and what is allowed. */
    ps_status (*check)(const ps_params *params, uint32_t contributors);
    /* (optional) Words of state for a slice; 0. */
    size_t (*words)(uint32_t workers, uint32_t contributors);
    /* How many clocks ahead of `clock` a worker may be when it begins one;
     * UINT64_MAX: no bound. Bounds what a server may have to park. */
    uint64_t (*lead)(const ps_params *params);
    /* May `worker` begin `clock`? Asked when it pulls for it. */
    bool (*admit)(const ps_params *params, const ps_clocks *c, uint32_t worker, uint64_t clock);
    /* What becomes of a contribution? Asked once for each, before it counts as
     * in. *scale is 1 when it is asked. A policy either applies or buffers,
     * always the same; either may drop. */
    ps_verdict (*on_push)(const ps_params *params, const ps_clocks *c, const ps_arrival *a,
                          float *scale);
    /* May `worker`, admitted to `clock`, be given the slice as it is? */
    bool (*on_pull)(const ps_params *params, const ps_clocks *c, uint32_t worker, uint64_t clock);
    /* (optional) Is the open sum whole? Asked after arrivals, losses and when
     * closes_at has come, where something is in the sum or, with rounds, nothing
     * can come any more: then the round closes without a step. The sum is
     * multiplied by *scale, 1 when it is asked. */
    bool (*closes)(const ps_params *params, const ps_clocks *c, float *scale);
    /* (optional) When closes may become true with nothing else happening;
     * INT64_MAX: never. */
    int64_t (*closes_at)(const ps_params *params, const ps_clocks *c);
} ps_consistency;

const ps_consistency *ps_consistency_find(const char *name);
void ps_consistency_each(void (*fn)(const ps_consistency *policy, void *arg), void *arg);

#endif
