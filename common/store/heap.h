/* SPDX-License-Identifier: Apache-2.0 */
/* heap.h - rows of one table that wait to be stepped: keys with gradients, shows and clicks. A
 * zeroed heap is empty. Private to common/store. Letter: D the width of a row. */
#ifndef PS_COMMON_STORE_HEAP_H
#define PS_COMMON_STORE_HEAP_H

#include <stddef.h>
#include <stdint.h>

typedef struct ps_heap {
    uint64_t *keys; /* (count) */
    float *grads;   /* (count, D) */
    float *shows, *clicks;
    size_t count, cap;
} ps_heap;

void ps_heap_fini(ps_heap *heap);

/* Makes room for `more` rows after the last one; does not change `count`. */
void ps_heap_reserve(ps_heap *heap, size_t more, uint32_t width);

/* Appends a copy of `rows`. */
void ps_heap_append(ps_heap *heap, const ps_heap *rows, uint32_t width);

/* Puts the rows in ascending order of their keys, which differ. */
void ps_heap_sort(ps_heap *heap, uint32_t width);

/* A place in a heap whose keys ascend, each once, during a merge: row `at` comes next. */
typedef struct ps_heap_cursor {
    const ps_heap *rows;
    size_t at, order;
    uint64_t key; /* key of row `at` */
} ps_heap_cursor;

/* Appends to the empty heap `sum` each key of the cursors' heaps (n cursors) once, in ascending
 * order. Gradients, shows and clicks of equal keys are added in the order of the cursors; gradients
 * are multiplied by `scale`. The caller sets only `rows` of each cursor. */
void ps_heap_merge(ps_heap *sum, ps_heap_cursor *cursors, size_t n, uint32_t width, float scale);

#endif
