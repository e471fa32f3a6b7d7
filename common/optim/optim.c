/* SPDX-License-Identifier: Apache-2.0 */
/* optim.c - the registry: a const array made of common/optim/list.h. */
#include "common/optim/optim.h"

#include <string.h>

#define PS_OPTIM(name) extern const ps_optim ps_optim_##name;
#include "common/optim/list.h"
#undef PS_OPTIM

static const ps_optim *const optims[] = {
#define PS_OPTIM(name) &ps_optim_##name,
#include "common/optim/list.h"
#undef PS_OPTIM
};

enum { OPTIM_COUNT = sizeof optims / sizeof optims[0] };

const ps_optim *ps_optim_find(const char *name)
{
    for (size_t i = 0; i < OPTIM_COUNT; i++) {
        if (strcmp(optims[i]->name, name) == 0) {
            return optims[i];
        }
    }
    return NULL;
}

void ps_optim_each(void (*fn)(const ps_optim *optim, void *arg), void *arg)
{
    for (size_t i = 0; i < OPTIM_COUNT; i++) {
        fn(optims[i], arg);
    }
}
