/* SPDX-License-Identifier: Apache-2.0 */
/* param.c - see param.h. */
#include "common/base/param.h"

#include <assert.h>
#include <string.h>

ps_params ps_params_default(const ps_param *table)
{
    ps_params out = {{0}};

    for (size_t i = 0; table != NULL && table[i].name != NULL; i++) {
        assert(i < PS_PARAM_MAX);
        out.v[i] = table[i].value;
    }
    return out;
}

int ps_param_find(const ps_param *table, const char *name)
{
    for (int i = 0; table != NULL && table[i].name != NULL; i++) {
        if (strcmp(table[i].name, name) == 0) {
            return i;
        }
    }
    return -1;
}
