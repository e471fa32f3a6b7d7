/* SPDX-License-Identifier: Apache-2.0 */
/* update.c - the registry: a const array made of common/update/list.h. */
#include "common/update/update.h"

#include <string.h>

#define PS_UPDATE(name) extern const ps_update ps_update_##name;
#include "common/update/list.h"
#undef PS_UPDATE

static const ps_update *const updates[] = {
#define PS_UPDATE(name) &ps_update_##name,
#include "common/update/list.h"
#undef PS_UPDATE
};

enum { UPDATE_COUNT = sizeof updates / sizeof updates[0] };

float ps_update_merge_sum(const ps_update_facts *f)
{
    (void)f;
    return 1.0f;
}

const ps_update *ps_update_find(const char *name)
{
    for (size_t i = 0; i < UPDATE_COUNT; i++) {
        if (strcmp(updates[i]->name, name) == 0) {
            return updates[i];
        }
    }
    return NULL;
}

void ps_update_each(void (*fn)(const ps_update *update, void *arg), void *arg)
{
    for (size_t i = 0; i < UPDATE_COUNT; i++) {
        fn(updates[i], arg);
    }
}
