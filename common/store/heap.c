/* SPDX-License-Identifier: Apache-2.0 */
/* heap.c - see heap.h. */
#include "common/store/heap.h"

#include "common/base/xalloc.h"
#include "common/store/table_keys.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void ps_heap_fini(ps_heap *heap)
{
    free(heap->keys);
    free(heap->grads);
    free(heap->shows);
    free(heap->clicks);
    *heap = (ps_heap){0};
}

void ps_heap_reserve(ps_heap *heap, size_t more, uint32_t width)
{
    if (heap->count + more <= heap->cap) {
        return;
    }
    heap->cap = (heap->count + more) * 3 / 2 + 1;
    heap->keys = ps_xrealloc(heap->keys, heap->cap * sizeof *heap->keys);
    heap->grads = ps_xrealloc(heap->grads, heap->cap * width * sizeof *heap->grads);
    heap->shows = ps_xrealloc(heap->shows, heap->cap * sizeof *heap->shows);
    heap->clicks = ps_xrealloc(heap->clicks, heap->cap * sizeof *heap->clicks);
}

void ps_heap_append(ps_heap *heap, const ps_heap *rows, uint32_t width)
{
    if (rows->count == 0) {
        return;
    }
    ps_heap_reserve(heap, rows->count, width);
    memcpy(heap->keys + heap->count, rows->keys, rows->count * sizeof *rows->keys);
    memcpy(heap->grads + heap->count * width, rows->grads,
           rows->count * width * sizeof *rows->grads);
    memcpy(heap->shows + heap->count, rows->shows, rows->count * sizeof *rows->shows);
    memcpy(heap->clicks + heap->count, rows->clicks, rows->count * sizeof *rows->clicks);
    heap->count += rows->count;
}

void ps_heap_add_up(ps_heap *sum, const ps_heap *rows, uint32_t width, float scale)
{
    uint32_t *place = ps_xcalloc(rows->count + 1, sizeof *place);

    assert(sum->count == 0);
    ps_heap_reserve(sum, rows->count, width);
    if (rows->count > 0) {
        sum->count = ps_keys_unique(rows->keys, rows->count, sum->keys, place);
        ps_rows_merge(rows->grads, place, rows->count, width, sum->count, sum->grads);
        ps_rows_merge(rows->shows, place, rows->count, 1, sum->count, sum->shows);
        ps_rows_merge(rows->clicks, place, rows->count, 1, sum->count, sum->clicks);
    }
    for (size_t i = 0; i < sum->count * width; i++) {
        sum->grads[i] *= scale;
    }
    free(place);
}
