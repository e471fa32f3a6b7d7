/* SPDX-License-Identifier: Apache-2.0 */
/* straggler.c - the registry: a const array made of common/straggler/list.h. */
#include "common/straggler/straggler.h"

#include <string.h>

#define PS_STRAGGLER(name) extern const ps_straggler ps_straggler_##name;
#include "common/straggler/list.h"
#undef PS_STRAGGLER

static const ps_straggler *const stragglers[] = {
#define PS_STRAGGLER(name) &ps_straggler_##name,
#include "common/straggler/list.h"
#undef PS_STRAGGLER
};

enum { STRAGGLER_COUNT = sizeof stragglers / sizeof stragglers[0] };

const ps_straggler *ps_straggler_find(const char *name)
{
    for (size_t i = 0; i < STRAGGLER_COUNT; i++) {
        if (strcmp(stragglers[i]->name, name) == 0) {
            return stragglers[i];
        }
    }
    return NULL;
}

void ps_straggler_each(void (*fn)(const ps_straggler *straggler, void *arg), void *arg)
{
    for (size_t i = 0; i < STRAGGLER_COUNT; i++) {
        fn(stragglers[i], arg);
    }
}

ps_status ps_straggler_check_rank(const ps_params *params, uint32_t workers)
{
    if (params->v[0] >= workers) {
        return ps_fail(PS_INVALID_ARGUMENT, "rank is %.0f; -1 (all) to %u are allowed",
                       params->v[0], workers - 1);
    }
    return ps_ok();
}

bool ps_straggler_is_rank(const ps_params *params, uint32_t rank)
{
    return params->v[0] < 0 || params->v[0] == rank;
}
