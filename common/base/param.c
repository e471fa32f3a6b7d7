/* SPDX-License-Identifier: Apache-2.0 */
/* param.c - see param.h. */
#include "common/base/param.h"

#include "common/base/nearest.h"
#include "common/base/strbuf.h"

#include <assert.h>
#include <math.h>
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

static ps_status no_such_number(const ps_param *table, const char *name)
{
    ps_strbuf names = {0};
    const char *all[PS_PARAM_MAX] = {0}, *meant;
    size_t count = 0;
    ps_status st;

    for (; table != NULL && table[count].name != NULL; count++) {
        ps_strbuf_printf(&names, "%s%s", count == 0 ? "" : ", ", table[count].name);
        all[count] = table[count].name;
    }
    meant = ps_nearest(name, all, count);
    st = ps_fail(PS_INVALID_ARGUMENT, "is not one of its numbers%s%s%s; allowed: %s",
                 meant != NULL ? "; did you mean \"" : "", meant != NULL ? meant : "",
                 meant != NULL ? "\"?" : "", count > 0 ? ps_strbuf_text(&names) : "none");
    ps_strbuf_fini(&names);
    return st;
}

ps_status ps_param_set(const ps_param *table, const char *name, double value, ps_params *params)
{
    int at = ps_param_find(table, name);

    if (at < 0) {
        return no_such_number(table, name);
    }
    if (!(value >= table[at].min && value <= table[at].max) ||
        (table[at].is_integer && floor(value) != value)) {
        return ps_fail(PS_INVALID_ARGUMENT, "is %.15g; %s %.15g to %.15g are allowed", value,
                       table[at].is_integer ? "whole numbers" : "numbers", table[at].min,
                       table[at].max);
    }
    params->v[at] = value;
    return ps_ok();
}
