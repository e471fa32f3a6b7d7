/* SPDX-License-Identifier: Apache-2.0 */
/* straggler.h - artificial delays of workers, for experiments and tests.
 *
 * A straggler is a const table with one pure function. The trainer calls it once a step, between
 * the first gradient of the step and its push or local step, and waits for the returned time. To
 * add one: write common/straggler/NAME.c, add a line to list.h and one to CMakeLists.txt.
 */
#ifndef PS_COMMON_STRAGGLER_STRAGGLER_H
#define PS_COMMON_STRAGGLER_STRAGGLER_H

#include "common/base/param.h"
#include "common/base/status.h"

#include <stdbool.h>
#include <stdint.h>

enum { PS_STRAGGLER_MAX_MS = 3600000 }; /* longest delay of one step */

typedef struct ps_straggler {
    const char *name;
    const char *summary;
    const ps_param *params; /* (optional) */

    /* (optional) Checks the numbers against a job with `workers` workers. Returns
     * INVALID_ARGUMENT with what is allowed if they do not fit. */
    ps_status (*check)(const ps_params *params, uint32_t workers);

    /* Returns the delay in microseconds of worker `rank` in `step`. `busy_us`: how long, in
     * microseconds, the worker has computed since its previous delay, without waits for others. The
     * same arguments give the same result. */
    int64_t (*delay_us)(const ps_params *params, uint64_t seed, uint32_t rank, uint64_t step,
                        int64_t busy_us);
} ps_straggler;

/* Returns the straggler with this name, or NULL if there is none. */
const ps_straggler *ps_straggler_find(const char *name);
/* Calls `fn` for every straggler, in the order of list.h. */
void ps_straggler_each(void (*fn)(const ps_straggler *straggler, void *arg), void *arg);

/* Checks the number `rank`, which must be the first in the table: -1 for all workers, else at least
 * 0 and below `workers`. Returns INVALID_ARGUMENT with what is allowed if it does not fit. */
PS_MUST_USE ps_status ps_straggler_check_rank(const ps_params *params, uint32_t workers);
/* Returns whether the number `rank`, the first in the table, is -1 or this rank. */
bool ps_straggler_is_rank(const ps_params *params, uint32_t rank);

#endif
