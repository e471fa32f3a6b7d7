/* SPDX-License-Identifier: Apache-2.0 */
/* param.h - the numbers a plugin takes, as a const table beside it.
 *
 * A job names a plugin and gives some of its numbers; the table says which
 * there are, what they are when not given, and what is allowed. Validation,
 * `psgd info` and the documents are written from it.
 */
#ifndef PS_COMMON_BASE_PARAM_H
#define PS_COMMON_BASE_PARAM_H

#include <stdbool.h>
#include <stddef.h>

enum { PS_PARAM_MAX = 12 }; /* most parameters of one plugin */

typedef struct ps_param {
    const char *name; /* NULL ends a table */
    double value;     /* when not given */
    double min, max;  /* both allowed */
    bool is_integer;
    const char *help; /* meaning and unit */
} ps_param;

/* A plugin's numbers, in the order of its table. */
typedef struct ps_params {
    double v[PS_PARAM_MAX];
} ps_params;

/* All at their defaults. A NULL table has none. */
ps_params ps_params_default(const ps_param *table);

/* Index in the table, or -1. */
int ps_param_find(const ps_param *table, const char *name);

#endif
