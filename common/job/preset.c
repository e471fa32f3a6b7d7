/* SPDX-License-Identifier: Apache-2.0 */
/* preset.c - see preset.h. */
#include "common/job/preset_impl.h"

#include <string.h>

static const ps_presets *const systems[] = {
    &ps_presets_own,
    &ps_presets_parallel_sgd,
    &ps_presets_losp,
    &ps_presets_paddle,
};

const ps_preset *ps_preset_find(const char *name)
{
    for (size_t s = 0; s < sizeof systems / sizeof systems[0]; s++) {
        for (size_t i = 0; i < systems[s]->count; i++) {
            if (strcmp(systems[s]->at[i].name, name) == 0) {
                return &systems[s]->at[i];
            }
        }
    }
    return NULL;
}

void ps_preset_each(void (*fn)(const ps_preset *preset, void *arg), void *arg)
{
    for (size_t s = 0; s < sizeof systems / sizeof systems[0]; s++) {
        for (size_t i = 0; i < systems[s]->count; i++) {
            fn(&systems[s]->at[i], arg);
        }
    }
}
