/* SPDX-License-Identifier: Apache-2.0 */
/* thin.h - which rows of a curve are kept, so that a file of rows grows with the logarithm of their
 * number.
 *
 * Rows form windows. Of each window the row with the least value and the row with the greatest
 * value are kept. A window has one row until PS_THIN_ROWS rows are kept, then four; after each
 * further PS_THIN_ROWS kept rows windows have twice as many. Of n rows at most
 * PS_THIN_ROWS * (1 + log2(1 + n / PS_THIN_ROWS)) are kept. Pure: no I/O, no rows.
 */
#ifndef PS_COMMON_ARTIFACT_THIN_H
#define PS_COMMON_ARTIFACT_THIN_H

#include <stdint.h>

enum { PS_THIN_ROWS = 16384, PS_THIN_DOUBLINGS_MAX = 60 };

/* What to do with a row; a set of these. */
enum {
    /* its value is the least of its window so far: keep it in place of the one that was */
    PS_THIN_LEAST = 1,
    /* its value is the greatest of its window so far: keep it in place of the one that was */
    PS_THIN_GREATEST = 2,
    /* the row is the last of its window: write the two kept rows of the window, or the one row that
     * is both */
    PS_THIN_END = 4
};

/* The present window. A zeroed struct has had no rows. */
typedef struct ps_thin {
    unsigned doublings; /* windows have one row if it is 0, else 2^(doublings + 1) rows */
    uint64_t kept;      /* most rows kept from windows of this size: 1 each, 2 if doublings > 0 */
    uint64_t rows;      /* rows of the present window so far */
    double least, greatest;
} ps_thin;

/* Returns what to do with the next row, whose value is `value`: a set of PS_THIN_LEAST,
 * PS_THIN_GREATEST and PS_THIN_END. A value that is NaN counts as neither less nor greater than
 * another. */
unsigned ps_thin_add(ps_thin *thin, double value);

#endif
