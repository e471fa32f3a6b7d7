/* SPDX-License-Identifier: Apache-2.0 */
/* rows.h - touched rows of a variable, whole or of a stretch of it.
 *
 * A variable of (R, D) values, row-major, of whose gradient all rows but a few
 * are zero (an embedding). Letters: D the width of a row, n the values of the
 * stretch that the caller has: all R * D, or a slice, which may begin and end
 * within a row.
 */
#ifndef PS_COMMON_OPTIM_ROWS_H
#define PS_COMMON_OPTIM_ROWS_H

#include <stddef.h>
#include <stdint.h>

typedef struct ps_rows {
    const uint32_t *id; /* (count): ascending, each once */
    size_t count;
    size_t width; /* D, > 0 */
    size_t first; /* value of the variable that the stretch begins with */
} ps_rows;

/* What the stretch has of one row; n is 0 when it has nothing. */
typedef struct ps_row_part {
    size_t at;   /* first value, in the stretch */
    size_t from; /* the same value in packed rows (count, width) */
    size_t n;
} ps_row_part;

/* Of row id[r] in a stretch of n values. */
ps_row_part ps_row_part_of(const ps_rows *rows, size_t r, size_t n);

/* Of all rows those that have a part in a stretch of n values that begins with
 * value `first` of the variable, found by bisection; the ids are rows', and the
 * packed values of the first of them begin *skip rows after rows'. */
ps_rows ps_rows_within(const ps_rows *rows, size_t first, size_t n, size_t *skip);

#endif
