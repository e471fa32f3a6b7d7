/* SPDX-License-Identifier: Apache-2.0 */
/* rows.c - see rows.h. */
#include "common/optim/rows.h"

ps_row_part ps_row_part_of(const ps_rows *rows, size_t r, size_t n)
{
    size_t row = rows->id[r] * rows->width, end = row + rows->width;
    size_t from = row > rows->first ? row : rows->first;
    size_t to = end < rows->first + n ? end : rows->first + n;

    if (from >= to) {
        return (ps_row_part){0};
    }
    return (ps_row_part){
        .at = from - rows->first, .from = r * rows->width + (from - row), .n = to - from};
}

/* Returns how many of the rows' ids are below `id`. */
static size_t count_below(const ps_rows *rows, size_t id)
{
    size_t lo = 0, hi = rows->count;

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;

        if (rows->id[mid] < id) {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    return lo;
}

ps_rows ps_rows_within(const ps_rows *rows, size_t first, size_t n, size_t *skip)
{
    size_t begin = count_below(rows, first / rows->width);
    size_t end = n == 0 ? begin : count_below(rows, (first + n - 1) / rows->width + 1);

    *skip = begin;
    return (ps_rows){
        .id = rows->id + begin, .count = end - begin, .width = rows->width, .first = first};
}
