/* SPDX-License-Identifier: Apache-2.0 */
/* nearest.c - see nearest.h. */
#include "common/base/nearest.h"

#include <string.h>

enum { LONGEST = 63 };

/* Returns Levenshtein's distance, computed row by row. Both texts have at most LONGEST bytes. */
static size_t distance(const char *a, const char *b)
{
    size_t row[LONGEST + 1];
    size_t n = strlen(b);

    for (size_t j = 0; j <= n; j++) {
        row[j] = j;
    }
    for (size_t i = 1; a[i - 1] != '\0'; i++) {
        size_t diagonal = row[0];

        row[0] = i;
        for (size_t j = 1; j <= n; j++) {
            size_t changed = diagonal + (a[i - 1] != b[j - 1]);
            size_t shorter = row[j] < row[j - 1] ? row[j] + 1 : row[j - 1] + 1;

            diagonal = row[j];
            row[j] = changed < shorter ? changed : shorter;
        }
    }
    return row[n];
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
