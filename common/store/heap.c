/* SPDX-License-Identifier: Apache-2.0 */
/* heap.c - see heap.h. */
#include "common/store/heap.h"

#include "common/base/xalloc.h"
#include "common/store/table_keys.h"

#include <assert.h>
#include <stdbool.h>
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

void ps_heap_sort(ps_heap *heap, uint32_t width)
{
    uint32_t *place = ps_xcalloc(heap->count + 1, sizeof *place);
    ps_heap sorted = {0};

    if (heap->count > 0) {
        ps_heap_reserve(&sorted, heap->count, width);
        sorted.count = ps_keys_unique(heap->keys, heap->count, sorted.keys, place);
        assert(sorted.count == heap->count);
        for (size_t i = 0; i < heap->count; i++) {
            memcpy(sorted.grads + (size_t)place[i] * width, heap->grads + i * width,
                   width * sizeof *heap->grads);
            sorted.shows[place[i]] = heap->shows[i];
            sorted.clicks[place[i]] = heap->clicks[i];
        }
        ps_heap_fini(heap);
        *heap = sorted;
    }
    free(place);
}

/* ---- Merging ----
 *
 * The cursors that have rows left form a binary heap (the data structure): no cursor comes before
 * its parent, which is the cursor at (i - 1) / 2. */

static bool is_before(const ps_heap_cursor *a, const ps_heap_cursor *b)
{
    return a->key != b->key ? a->key < b->key : a->order < b->order;
}

/* Moves cursor i down to its place in the binary heap of n cursors. */
static void sift_down(ps_heap_cursor *cursors, size_t n, size_t i)
{
    for (size_t child = 2 * i + 1; child < n; child = 2 * i + 1) {
        ps_heap_cursor held = cursors[i];

        child += child + 1 < n && is_before(&cursors[child + 1], &cursors[child]);
        if (!is_before(&cursors[child], &held)) {
            return;
        }
        cursors[i] = cursors[child];
        cursors[child] = held;
        i = child;
    }
}

/* Adds row `at` of `rows` to the last row of `sum`, which has the same key. */
static void add_row(ps_heap *sum, const ps_heap *rows, size_t at, uint32_t width)
{
    const float *from = rows->grads + at * width;
    float *to = sum->grads + (sum->count - 1) * width;

    for (uint32_t i = 0; i < width; i++) {
        to[i] += from[i];
    }
    sum->shows[sum->count - 1] += rows->shows[at];
    sum->clicks[sum->count - 1] += rows->clicks[at];
}

/* Appends row `at` of `rows` to `sum`. The gradient is added to 0 and not copied, so that a
 * gradient of -0 becomes 0. */
static void open_row(ps_heap *sum, const ps_heap *rows, size_t at, uint32_t width)
{
    const float *from = rows->grads + at * width;
    float *to = sum->grads + sum->count * width;

    for (uint32_t i = 0; i < width; i++) {
        to[i] = 0.0f + from[i];
    }
    sum->shows[sum->count] = rows->shows[at];
    sum->clicks[sum->count] = rows->clicks[at];
    sum->keys[sum->count++] = rows->keys[at];
}

/* Drops the cursors without rows and makes a binary heap of the others. Returns the number of
 * those; *rows becomes the sum of their row counts. */
static size_t begin(ps_heap_cursor *cursors, size_t n, size_t *rows)
{
    size_t left = 0;

    *rows = 0;
    for (size_t i = 0; i < n; i++) {
        if (cursors[i].rows->count > 0) {
            *rows += cursors[i].rows->count;
            cursors[left++] = (ps_heap_cursor){
                .rows = cursors[i].rows, .order = i, .key = cursors[i].rows->keys[0]};
        }
    }
    for (size_t i = left / 2; i-- > 0;) {
        sift_down(cursors, left, i);
    }
    return left;
}

void ps_heap_merge(ps_heap *sum, ps_heap_cursor *cursors, size_t n, uint32_t width, float scale)
{
    size_t rows;

    assert(sum->count == 0);
    n = begin(cursors, n, &rows);
    ps_heap_reserve(sum, rows, width);
    while (n > 0) {
        ps_heap_cursor *first = &cursors[0];

        if (sum->count == 0 || sum->keys[sum->count - 1] != first->key) {
            open_row(sum, first->rows, first->at, width);
        } else {
            add_row(sum, first->rows, first->at, width);
        }
        if (++first->at < first->rows->count) {
            first->key = first->rows->keys[first->at];
        } else {
            *first = cursors[--n];
        }
        if (n > 1) {
            sift_down(cursors, n, 0);
        }
    }
    for (size_t i = 0; i < sum->count * width; i++) {
        sum->grads[i] *= scale;
    }
}
