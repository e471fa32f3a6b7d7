/* SPDX-License-Identifier: Apache-2.0 */
/* param.h - declares the numbers of a plugin in a const table.
 *
 * A job names a plugin and gives some of its numbers. The table has their names, defaults and
 * bounds. Validation, `psgd info` and the documents use it.
 */
#ifndef PS_COMMON_BASE_PARAM_H
#define PS_COMMON_BASE_PARAM_H

#include "common/base/status.h"

#include <stdbool.h>
#include <stddef.h>

enum { PS_PARAM_MAX = 12 }; /* most numbers of one plugin */

typedef struct ps_param {
    const char *name; /* NULL ends a table */
    double value;     /* the default */
    double min, max;  /* inclusive bounds */
    bool is_integer;
    const char *help; /* meaning and unit */
} ps_param;

/* The values of a plugin's numbers, in the order of its table. */
typedef struct ps_params {
    double v[PS_PARAM_MAX];
} ps_params;

/* Returns all defaults. A NULL table has no numbers. */
ps_params ps_params_default(const ps_param *table);

/* Returns the index of the number `name` in the table, or -1. */
int ps_param_find(const ps_param *table, const char *name);

/* Sets the number `name` of `params`. Returns INVALID_ARGUMENT, with what is allowed, if the table
 * has no such number, or the value is out of its bounds or not whole where it must be; `params` is
 * then unchanged. */
PS_MUST_USE ps_status ps_param_set(const ps_param *table, const char *name, double value,
                                   ps_params *params);

#endif
