/* SPDX-License-Identifier: Apache-2.0 */
/* table_numbers.c - see table_numbers.h. */
#include "common/job/table_numbers.h"

#include <stddef.h>

/* clang-format off */
static const ps_param sparse_params[] = {
    {"admit_probability", 1, 0, 1, false, "an id gets a row with this probability, decided once"},
    {"admit_count", 1, 1, 1e9, true, "an id gets a row with its n-th push"},
    {"decay", 0.98, 0, 1, false, "factor of shows and clicks at each tick"},
    {"unclicked", 0.1, 0, 1000, false, "part of a row's score for each show without a click"},
    {"clicked", 1, 0, 1000, false, "part of a row's score for each click"},
    {"least_score", 0, 0, 1e9, false, "rows with a lower score are removed at a tick"},
    {"unseen_max", 65535, 0, 65535, true, "ticks without its id after which a row is removed"},
    {"tick", 0, 0, 1e9, true, "steps between ticks; 0: none"},
    {"rows_max", 1 << 25, 1, 1e9, true, "rows of a table on a server; more fail the job"},
    {"save_changes", 0, 0, 1, true, "1: files hold what changed since those the job started from"},
    {"keep_state", 1, 0, 1, true, "0: rows that the job starts from begin their optimizer anew"},
    {"prefetch", 1, 0, 1, true, "1: rows of a block are asked for while the one before is computed"},
    {0},
};
/* clang-format on */

static const ps_table_choice choices[] = {
    {"none", "tables are variables like others", NULL},
    {"sparse",
     "rows on the servers, created when an id first occurs; a worker has the rows of its batch",
     sparse_params},
};

void ps_table_choice_each(void (*fn)(const ps_table_choice *choice, void *arg), void *arg)
{
    for (size_t i = 0; i < sizeof choices / sizeof choices[0]; i++) {
        fn(&choices[i], arg);
    }
}
