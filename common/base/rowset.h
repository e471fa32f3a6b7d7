/* SPDX-License-Identifier: Apache-2.0 */
/* rowset.h - the set of rows of a table that were touched; lists them in ascending order without
 * sorting.
 *
 * It has a bit for each row, and a bit for each word of those bits. So adding costs two stores.
 * Listing and clearing cost the touched rows and one test per 4096 rows. All memory is allocated at
 * the start. One thread at a time.
 */
#ifndef PS_COMMON_BASE_ROWSET_H
#define PS_COMMON_BASE_ROWSET_H

#include <stddef.h>
#include <stdint.h>

typedef struct ps_rowset ps_rowset;

/* Returns an empty set for rows 0 to rows - 1, or NULL when memory runs out. It takes about 4.13
 * bytes a row. */
ps_rowset *ps_rowset_create(uint32_t rows);

/* Frees the set. NULL is allowed. */
void ps_rowset_destroy(ps_rowset *set);

/* Adds `row`, which is less than the number of rows. */
void ps_rowset_add(ps_rowset *set, uint32_t row);

/* Removes all rows. */
void ps_rowset_clear(ps_rowset *set);

/* Returns the rows in ascending order, and their number in *count. Valid until the set is
 * changed. */
const uint32_t *ps_rowset_list(ps_rowset *set, size_t *count);

/* Returns the memory in bytes that a set for `rows` rows takes. */
size_t ps_rowset_bytes(uint32_t rows);

#endif
