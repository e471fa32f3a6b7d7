/* SPDX-License-Identifier: Apache-2.0 */
/* rows.h - the touched rows of a sparse variable, or of a stretch of it.
 *
 * The variable has (R, D) values, row-major, and all but a few rows of its gradient are zero
 * (an embedding). Letters: D the width of a row; n the number of values of the stretch that the
 * caller has. The stretch is the whole variable, R * D values, or a slice, which may begin and
 * end within a row.
 */
#ifndef PS_COMMON_OPTIM_ROWS_H
#define PS_COMMON_OPTIM_ROWS_H

#include <stddef.h>
#include <stdint.h>

typedef struct ps_rows {
    const uint32_t *id; /* (count): ascending, each id once */
    size_t count;
    size_t width; /* D, > 0 */
    size_t first; /* index in the variable of the first value of the stretch */
} ps_rows;

/* The part of one row that lies in the stretch; n is 0 if none does. */
typedef struct ps_row_part {
    size_t at;   /* index of its first value in the stretch */
    size_t from; /* index of the same value in packed rows (count, width) */
    size_t n;
} ps_row_part;

/* Returns the part of row id[r] that lies in a stretch of n values. */
ps_row_part ps_row_part_of(const ps_rows *rows, size_t r, size_t n);

/* Returns those of the rows that have a part in the stretch of n values that begins with value
 * `first` of the variable. The result borrows the ids of `rows`. Sets *skip to the number of
 * rows of `rows` before them, which is also their offset in packed rows. */
ps_rows ps_rows_within(const ps_rows *rows, size_t first, size_t n, size_t *skip);

#endif
