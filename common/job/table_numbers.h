/* SPDX-License-Identifier: Apache-2.0 */
/* table_numbers.h - the numbers of spec.model.table: embeddings whose tables are on the servers.
 *
 * docs/tables.md and common/store/table.h say what they mean.
 */
#ifndef PS_COMMON_JOB_TABLE_NUMBERS_H
#define PS_COMMON_JOB_TABLE_NUMBERS_H

#include "common/base/param.h"

#include <stdint.h>

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

enum { PS_TABLE_WIDTH = 4096, PS_TABLE_KEYS = 2048 }; /* widest row; most keys of a message */

typedef struct ps_table_choice {
    const char *name;
    const char *summary;
    const ps_param *params;
} ps_table_choice;

struct ps_plan;

enum { PS_TABLE_INITS = 64 }; /* most entries of JobSpec.init_tables */

/* Returns the number of files and jobs that the tables of a job start from, and lends the list, in
 * order, each entry as in init_tables. 0: all rows begin anew. */
size_t ps_table_inits(const struct ps_plan *plan, char *const **out);

/* Returns the most keys that a message may have: their rows of the widest table, or of all tables
 * that grow, are within a MiB. */
size_t ps_table_keys_of_message(const struct ps_plan *plan);

#define PS_TABLE_FILE_ENDING ".psgdtab"

/* Writes the name of the file in which server `rank` leaves its rows of a table. */
void ps_table_file_name(const struct ps_plan *plan, uint32_t table, uint32_t rank, char *name,
                        size_t cap);

void ps_table_choice_each(void (*fn)(const ps_table_choice *choice, void *arg), void *arg);

/* Writes the name of a file that was saved at `clock`, while the job trained. It ends otherwise, so
 * that nobody takes it for one of the files at the end. */
void ps_table_saved_name(const struct ps_plan *plan, uint32_t table, uint32_t rank, uint64_t clock,
                         char *name, size_t cap);
/* Returns whether `name` is such a name, of any clock. */
bool ps_table_is_saved_name(const struct ps_plan *plan, uint32_t table, uint32_t rank,
                            const char *name);

#endif
