/* SPDX-License-Identifier: Apache-2.0 */
/* test_arena.c - arenas, counted buffers, plugin parameters. */
#include "common/base/arena.h"

#include "common/base/buf.h"
#include "common/base/param.h"
#include "common/base/xalloc.h"
#include "tests/support/cmocka_all.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static void pieces_are_aligned_and_apart(void **state)
{
    ps_arena arena;
    unsigned char *pieces[300];

    (void)state;
    ps_arena_init(&arena, 1 << 20);
    for (size_t i = 0; i < 300; i++) {
        pieces[i] = ps_arena_alloc(&arena, i);
        assert_non_null(pieces[i]);
        assert_int_equal((uintptr_t)pieces[i] % PS_ARENA_ALIGN_BYTES, 0);
        memset(pieces[i], (int)(i & 0xff), i);
    }
    for (size_t i = 0; i < 300; i++) {
        for (size_t b = 0; b < i; b++) {
            assert_int_equal(pieces[i][b], i & 0xff);
        }
    }
    ps_arena_fini(&arena);
}

static void nothing_beyond_the_cap_is_given(void **state)
{
    ps_arena arena;

    (void)state;
    ps_arena_init(&arena, 10000);
    assert_null(ps_arena_alloc(&arena, 10001));
    assert_null(ps_arena_alloc(&arena, SIZE_MAX));
    assert_null(ps_arena_alloc(&arena, SIZE_MAX - 7));
    assert_non_null(ps_arena_alloc(&arena, 9984));
    assert_null(ps_arena_alloc(&arena, 17));
    assert_non_null(ps_arena_alloc(&arena, 16));
    assert_null(ps_arena_alloc(&arena, 0));
    ps_arena_reset(&arena);
    assert_non_null(ps_arena_alloc(&arena, 9000));
    ps_arena_fini(&arena);
}

static void an_arena_of_no_bytes_gives_none(void **state)
{
    ps_arena arena;

    (void)state;
    ps_arena_init(&arena, 0);
    assert_null(ps_arena_alloc(&arena, 0));
    assert_null(ps_arena_alloc(&arena, 1));
    ps_arena_reset(&arena);
    ps_arena_fini(&arena);
}

static void reset_keeps_the_first_block(void **state)
{
    ps_arena arena;
    void *first;

    (void)state;
    ps_arena_init(&arena, 1 << 20);
    first = ps_arena_alloc(&arena, 100);
    for (int i = 0; i < 100; i++) {
        assert_non_null(ps_arena_alloc(&arena, 5000));
    }
    ps_arena_reset(&arena);
    assert_int_equal(arena.used_bytes, 0);
    assert_ptr_equal(ps_arena_alloc(&arena, 100), first);
    ps_arena_fini(&arena);
    assert_non_null(ps_arena_alloc(&arena, 100)); /* usable again */
    ps_arena_fini(&arena);
}

static void *let_go(void *arg)
{
    ps_buf_unref(arg);
    return NULL;
}

static void a_buffer_lives_until_its_last_holder(void **state)
{
    ps_buf *buf = ps_buf_create(1000);
    pthread_t threads[4];

    (void)state;
    assert_int_equal((uintptr_t)buf->data % 64, 0);
    assert_int_equal(buf->len, 0);
    assert_int_equal(buf->cap, 1000);
    memset(buf->data, 7, buf->cap);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, let_go, ps_buf_ref(buf)), 0);
    }
    for (size_t i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
    }
    assert_int_equal(atomic_load(&buf->refs), 1);
    assert_int_equal(buf->data[999], 7);
    ps_buf_unref(buf);
    ps_buf_unref(NULL);
}

static void aligned_memory_is_aligned(void **state)
{
    (void)state;
    for (size_t bytes = 0; bytes < 300; bytes += 37) {
        void *p = ps_xaligned_alloc(bytes);

        assert_int_equal((uintptr_t)p % PS_ALIGN_BYTES, 0);
        memset(p, 1, bytes);
        free(p);
    }
    assert_null(ps_aligned_alloc(SIZE_MAX));
}

static void parameters_come_from_their_table(void **state)
{
    static const ps_param table[] = {
        {.name = "rate", .value = 0.001, .min = 0, .max = 1, .help = "step"},
        {.name = "bits", .value = 8, .min = 1, .max = 16, .is_integer = true, .help = "width"},
        {.name = NULL},
    };
    ps_params params = ps_params_default(table);

    (void)state;
    assert_true(params.v[0] == 0.001 && params.v[1] == 8.0);
    assert_int_equal(ps_param_find(table, "bits"), 1);
    assert_int_equal(ps_param_find(table, "bit"), -1);
    assert_int_equal(ps_param_find(NULL, "bits"), -1);
    assert_true(ps_params_default(NULL).v[0] == 0.0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_are_aligned_and_apart),
        cmocka_unit_test(nothing_beyond_the_cap_is_given),
        cmocka_unit_test(an_arena_of_no_bytes_gives_none),
        cmocka_unit_test(reset_keeps_the_first_block),
        cmocka_unit_test(a_buffer_lives_until_its_last_holder),
        cmocka_unit_test(aligned_memory_is_aligned),
        cmocka_unit_test(parameters_come_from_their_table),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL); /* e.g. 'test_arena a_*' */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
