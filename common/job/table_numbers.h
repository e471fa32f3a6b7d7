/* SPDX-License-Identifier: Apache-2.0 */
/* table_numbers.h - the numbers of spec.model.table: embeddings whose tables are on the servers.
 *
 * docs/tables.md and common/store/table.h say what they mean.
 */
#ifndef PS_COMMON_JOB_TABLE_NUMBERS_H
#define PS_COMMON_JOB_TABLE_NUMBERS_H

#include "common/base/param.h"

/* The numbers of `sparse`, in the order of their table. */
enum {
    PS_TABLE_ADMIT_PROBABILITY,
    PS_TABLE_ADMIT_COUNT,
    PS_TABLE_DECAY,
    PS_TABLE_UNCLICKED,
    PS_TABLE_CLICKED,
    PS_TABLE_LEAST_SCORE,
    PS_TABLE_UNSEEN,
    PS_TABLE_TICK,
    PS_TABLE_ROWS,
    PS_TABLE_SAVES_CHANGES,
    PS_TABLE_KEEPS_STATE,
    PS_TABLE_PREFETCH
};

/* A choice of spec.model.table: "none" or "sparse". */
typedef struct ps_table_choice {
    const char *name;
    const char *summary;
    const ps_param *params;
} ps_table_choice;

/* Calls `fn` for each of these choices. */
void ps_table_choice_each(void (*fn)(const ps_table_choice *choice, void *arg), void *arg);

#endif
