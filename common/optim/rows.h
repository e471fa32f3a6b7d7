/* SPDX-License-Identifier: Apache-2.0 */
/* rows.h - the touched rows of a sparse variable.
 *
 * The variable has (R, D) values, row-major, and all but a few rows of its gradient are zero
 * (an embedding). Letters: D the width of a row; n = R * D the number of values of the variable.
 */
#ifndef PS_COMMON_OPTIM_ROWS_H
#define PS_COMMON_OPTIM_ROWS_H

#include <stddef.h>
#include <stdint.h>

typedef struct ps_rows {
    const uint32_t *id; /* (count): ascending, each id once */
    size_t count;
    size_t width; /* D, > 0 */
} ps_rows;

#endif
