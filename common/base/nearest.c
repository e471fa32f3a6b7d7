/* SPDX-License-Identifier: Apache-2.0 */
/* nearest.c - see nearest.h. */
#include "common/base/nearest.h"

#include <string.h>

enum { LONGEST = 63 };

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Returns how many letters of `a` have to be inserted, deleted, changed or swapped with their
 * neighbour to get `b`, where no part of the text is edited twice. Both texts have at most LONGEST
 * bytes. */
static size_t distance(const char *a, const char *b)
{
    size_t rows[3][LONGEST + 1]; /* [i % 3][j]: distance of a's first i and b's first j letters */
    size_t m = strlen(a), n = strlen(b);

    for (size_t j = 0; j <= n; j++) {
        rows[0][j] = j;
    }
    for (size_t i = 1; i <= m; i++) {
        size_t *row = rows[i % 3], *before = rows[(i - 1) % 3];

        row[0] = i;
        for (size_t j = 1; j <= n; j++) {
            row[j] =
                least(before[j - 1] + (a[i - 1] != b[j - 1]), least(before[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
                row[j] = least(row[j], rows[(i - 2) % 3][j - 2] + 1);
            }
        }
    }
    return rows[m % 3][n];
}

const char *ps_nearest(const char *text, const char *const *names, size_t n)
{
    const char *best = NULL;
    size_t best_distance = LONGEST;

    if (strlen(text) > LONGEST) {
        return NULL;
    }
    for (size_t i = 0; i < n; i++) {
        size_t len = strlen(names[i]), d;

        if (len > LONGEST) {
            continue;
        }
        d = distance(text, names[i]);
        if (d * 3 <= len && d < best_distance) {
            best = names[i];
            best_distance = d;
        }
    }
    return best;
}
