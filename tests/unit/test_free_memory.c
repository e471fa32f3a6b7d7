/* SPDX-License-Identifier: Apache-2.0 */
/* test_free_memory.c - free memory goes back to the system from the arena of every thread. */
#include "common/base/free_memory.h"
#include "tests/support/cmocka_all.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCKS = 2500, BLOCK_BYTES = 16 << 10, MIB = 1 << 20 };

static size_t resident(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    unsigned long all, pages;

    assert_non_null(file);
    assert_int_equal(fscanf(file, "%lu %lu", &all, &pages), 2);
    fclose(file);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* What the process has after a thread has freed 39 MiB in small blocks: at once, after the return,
 * and after the thread has freed one more block. */
typedef struct sizes {
    size_t before, freed, after;
} sizes;

/* Takes a block and frees it, which the compiler must not leave out. */
static void take(size_t bytes)
{
    void *volatile block = malloc(bytes);

    assert_non_null(block);
    free(block);
}

static void *use(void *arg)
{
    static char *blocks[BLOCKS];
    sizes *s = arg;

    take(1); /* the thread has its arena now */
    s->before = resident();
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(BLOCK_BYTES);
        assert_non_null(blocks[i]);
        memset(blocks[i], 1, BLOCK_BYTES);
    }
    for (size_t i = 0; i < BLOCKS; i++) {
        free(blocks[i]);
    }
    s->freed = resident();
    ps_free_memory_return();
    take(BLOCK_BYTES);
    s->after = resident();
    return NULL;
}

static void what_a_thread_freed_goes_back(void **state)
{
    sizes s;
    pthread_t thread;

    (void)state;
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
    skip(); /* they have a malloc of their own */
#endif
    ps_free_memory_keep();
    assert_int_equal(pthread_create(&thread, NULL, use, &s), 0);
    pthread_join(thread, NULL);
    assert_true(s.freed > s.before + 30 * (size_t)MIB); /* malloc keeps it for the next messages */
    assert_true(s.after < s.before + 8 * (size_t)MIB);
    ps_free_memory_keep();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_thread_freed_goes_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
