/* SPDX-License-Identifier: Apache-2.0 */
/* rowset.h - which rows of a table were touched: sorted, each once, without sorting.
 *
 * A bit a row, and a bit for each word of those, so that adding costs two stores,
 * and listing and clearing the touched rows and a look at one bit in 4096. All
 * memory is taken when the set is made. One thread at a time.
 */
#ifndef PS_COMMON_BASE_ROWSET_H
#define PS_COMMON_BASE_ROWSET_H

#include <stddef.h>
#include <stdint.h>

typedef struct ps_rowset ps_rowset;

/* Of rows 0 to rows - 1, empty; NULL when memory runs out. About 4.2 bytes a row. */
ps_rowset *ps_rowset_create(uint32_t rows);
void ps_rowset_destroy(ps_rowset *set); /* NULL is allowed */

void ps_rowset_add(ps_rowset *set, uint32_t row); /* row < rows */
void ps_rowset_clear(ps_rowset *set);

/* Ascending, each once; valid until the set is changed. */
const uint32_t *ps_rowset_list(ps_rowset *set, size_t *count);

size_t ps_rowset_bytes(uint32_t rows); /* of memory */

#endif
