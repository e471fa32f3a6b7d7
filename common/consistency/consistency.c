/* SPDX-License-Identifier: Apache-2.0 */
/* consistency.c - the registry: a const array made of common/consistency/list.h. */
#include "common/consistency/consistency.h"

#include <string.h>

#define PS_CONSISTENCY(name) extern const ps_consistency ps_consistency_##name;
#include "common/consistency/list.h"
#undef PS_CONSISTENCY

static const ps_consistency *const policies[] = {
#define PS_CONSISTENCY(name) &ps_consistency_##name,
#include "common/consistency/list.h"
#undef PS_CONSISTENCY
};

enum { POLICY_COUNT = sizeof policies / sizeof policies[0] };

const ps_consistency *ps_consistency_find(const char *name)
{
    for (size_t i = 0; i < POLICY_COUNT; i++) {
        if (strcmp(policies[i]->name, name) == 0) {
            return policies[i];
        }
    }
    return NULL;
}

void ps_consistency_each(void (*fn)(const ps_consistency *policy, void *arg), void *arg)
{
    for (size_t i = 0; i < POLICY_COUNT; i++) {
        fn(policies[i], arg);
    }
}
