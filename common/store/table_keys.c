/* SPDX-License-Identifier: Apache-2.0 */
/* table_keys.c - see table_keys.h. */
#include "common/store/table_keys.h"

#include "common/base/xalloc.h"

#include <assert.h>
#include <stdlib.h>

typedef struct occurrence {
    uint64_t key;
    uint32_t at;
} occurrence;

static int by_key(const void *a, const void *b)
{
    const occurrence *x = a, *y = b;

    return (x->key > y->key) - (x->key < y->key);
}

size_t ps_keys_unique(const uint64_t *keys, size_t n, uint64_t *unique, uint32_t *place)
{
    occurrence *list = ps_xmalloc(n * sizeof *list);
    size_t count = 0;

    assert(n < UINT32_MAX);
    for (size_t i = 0; i < n; i++) {
        list[i] = (occurrence){.key = keys[i], .at = (uint32_t)i};
    }
    qsort(list, n, sizeof *list, by_key);
    for (size_t i = 0; i < n; i++) {
        if (count == 0 || unique[count - 1] != list[i].key) {
            unique[count++] = list[i].key;
        }
        place[list[i].at] = (uint32_t)(count - 1);
    }
    free(list);
    return count;
}
