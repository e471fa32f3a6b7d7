/* SPDX-License-Identifier: Apache-2.0 */
/* straggler.h - who is held up in a job, and for how long: for experiments and tests.
 *
 * A straggler is a const table with one pure question. The trainer asks it once
 * a step, between gradient and push, and waits. To add one:
 * common/straggler/NAME.c, a line in list.h, one in CMakeLists.txt.
 */
#ifndef PS_COMMON_STRAGGLER_STRAGGLER_H
#define PS_COMMON_STRAGGLER_STRAGGLER_H

#include "common/base/param.h"
#include "common/base/status.h"

#include <stdbool.h>
#include <stdint.h>

enum { PS_STRAGGLER_MAX_MS = 3600000 }; /* longest time that one step is held up */

typedef struct ps_straggler {
    const char *name;
    const char *summary;
    const ps_param *params; /* (optional) */

    /* (optional) Do these numbers fit a job with so many workers?
     * INVALID_ARGUMENT with what is allowed. */
    ps_status (*check)(const ps_params *params, uint32_t workers);

    /* Microseconds that worker `rank` is held up in `step`, having computed for
     * busy_us in it. The same arguments give the same answer. */
    int64_t (*delay_us)(const ps_params *params, uint64_t seed, uint32_t rank, uint64_t step,
                        int64_t busy_us);
} ps_straggler;

const ps_straggler *ps_straggler_find(const char *name); /* NULL if there is none */
void ps_straggler_each(void (*fn)(const ps_straggler *straggler, void *arg), void *arg);

/* For the tables: `rank` at params->v[0], -1 for all. */
PS_MUST_USE ps_status ps_straggler_check_rank(const ps_params *params, uint32_t workers);
bool ps_straggler_is_rank(const ps_params *params, uint32_t rank);

#endif
