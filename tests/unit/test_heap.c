/* SPDX-License-Identifier: Apache-2.0 */
/* test_heap.c - rows that wait to be stepped: merged by key, and sorted. */
#include "tests/support/cmocka_all.h"

#include "common/base/draw.h"
#include "common/store/heap.h"

#include <stdbool.h>
#include <string.h>

enum { WIDTH = 3, KEYS = 50, HEAPS = 9 };

static void add(ps_heap *heap, uint64_t key, uint64_t draws)
{
    ps_heap_reserve(heap, 1, WIDTH);
    heap->keys[heap->count] = key;
    for (uint32_t i = 0; i < WIDTH; i++) {
        heap->grads[heap->count * WIDTH + i] =
            (float)ps_draw_unit(draws, key * WIDTH + i) * 1e6f - 0.3f;
    }
    heap->shows[heap->count] = (float)(key + 1);
    heap->clicks[heap->count++] = (float)(key % 3);
}

/* Heaps of which each has some of the keys; one has none, one all. */
static void fill(ps_heap *heaps, size_t n, uint64_t seed)
{
    for (size_t h = 0; h < n; h++) {
        uint64_t draws = ps_draw_key(seed, PS_DRAW_TEST, h, 0, 0);

        for (uint64_t key = 0; key < KEYS; key++) {
            if (ps_draw_unit(draws, 1000 + key) < (double)h / (double)(n - 1)) {
                add(&heaps[h], key << 40, draws);
            }
        }
    }
}

static size_t find(const ps_heap *heap, uint64_t key)
{
    size_t i = 0;

    while (i < heap->count && heap->keys[i] != key) {
        i++;
    }
    return i;
}

/* The row of a key, summed in the order of heaps; returns whether any heap has it. */
static bool sum_of(const ps_heap *heaps, size_t n, uint64_t key, float scale, float *row)
{
    bool has = false;

    memset(row, 0, (WIDTH + 2) * sizeof *row);
    for (size_t h = 0; h < n; h++) {
        size_t at = find(&heaps[h], key);

        if (at == heaps[h].count) {
            continue;
        }
        has = true;
        for (uint32_t i = 0; i < WIDTH; i++) {
            row[i] += heaps[h].grads[at * WIDTH + i];
        }
        row[WIDTH] += heaps[h].shows[at];
        row[WIDTH + 1] += heaps[h].clicks[at];
    }
    for (uint32_t i = 0; i < WIDTH; i++) {
        row[i] *= scale;
    }
    return has;
}

static void rows_of_one_key_are_added_in_the_order_of_heaps(void **state)
{
    (void)state;
    for (size_t n = 2; n <= HEAPS; n++) {
        ps_heap heaps[HEAPS] = {{0}}, sum = {0};
        ps_heap_cursor cursors[HEAPS];
        size_t at = 0;

        fill(heaps, n, n);
        for (size_t h = 0; h < n; h++) {
            cursors[h].rows = &heaps[h];
        }
        ps_heap_merge(&sum, cursors, n, WIDTH, 0.7f);
        for (uint64_t key = 0; key < KEYS; key++) {
            float row[WIDTH + 2];

            if (sum_of(heaps, n, key << 40, 0.7f, row)) {
                assert_true(at < sum.count);
                assert_int_equal(sum.keys[at], key << 40);
                assert_memory_equal(&sum.grads[at * WIDTH], row, WIDTH * sizeof *row);
                assert_true(sum.shows[at] == row[WIDTH] && sum.clicks[at] == row[WIDTH + 1]);
                at++;
            }
        }
        assert_int_equal(at, sum.count);
        ps_heap_fini(&sum);
        for (size_t h = 0; h < n; h++) {
            ps_heap_fini(&heaps[h]);
        }
    }
}

static void nothing_merges_to_nothing(void **state)
{
    ps_heap none = {0}, sum = {0};
    ps_heap_cursor cursor = {.rows = &none};

    (void)state;
    ps_heap_merge(&sum, &cursor, 1, WIDTH, 1.0f);
    assert_int_equal(sum.count, 0);
    ps_heap_merge(&sum, NULL, 0, WIDTH, 1.0f);
    assert_int_equal(sum.count, 0);
    ps_heap_sort(&none, WIDTH);
    assert_int_equal(none.count, 0);
    ps_heap_fini(&sum);
    ps_heap_fini(&none);
}

static void sorted_rows_stay_with_their_keys(void **state)
{
    ps_heap heap = {0}, want = {0};

    (void)state;
    for (uint64_t i = 0; i < KEYS; i++) {
        add(&heap, i * 7 % KEYS, 5);
        add(&want, i, 5);
    }
    ps_heap_sort(&heap, WIDTH);
    assert_int_equal(heap.count, KEYS);
    assert_memory_equal(heap.keys, want.keys, KEYS * sizeof *heap.keys);
    assert_memory_equal(heap.grads, want.grads, KEYS * WIDTH * sizeof *heap.grads);
    assert_memory_equal(heap.shows, want.shows, KEYS * sizeof *heap.shows);
    assert_memory_equal(heap.clicks, want.clicks, KEYS * sizeof *heap.clicks);
    ps_heap_fini(&heap);
    ps_heap_fini(&want);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_of_one_key_are_added_in_the_order_of_heaps),
        cmocka_unit_test(nothing_merges_to_nothing),
        cmocka_unit_test(sorted_rows_stay_with_their_keys),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
