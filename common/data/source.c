/* SPDX-License-Identifier: Apache-2.0 */
/* source.c - see source.h. The registry is made of list.h. */
#include "common/data/source.h"

#include <string.h>

#define PS_DATA_SOURCE(name) extern const ps_data_source ps_data_source_##name;
#include "common/data/list.h"
#undef PS_DATA_SOURCE

static const ps_data_source *const sources[] = {
#define PS_DATA_SOURCE(name) &ps_data_source_##name,
#include "common/data/list.h"
#undef PS_DATA_SOURCE
};

void ps_data_source_each(void (*fn)(const ps_data_source *source, void *arg), void *arg)
{
    for (size_t i = 0; i < sizeof sources / sizeof sources[0]; i++) {
        fn(sources[i], arg);
    }
}

const ps_data_source *ps_data_source_find(const char *name)
{
    for (size_t i = 0; i < sizeof sources / sizeof sources[0]; i++) {
        if (strcmp(sources[i]->name, name) == 0) {
            return sources[i];
        }
    }
    return NULL;
}
