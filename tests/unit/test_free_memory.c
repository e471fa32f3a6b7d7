/* SPDX-License-Identifier: Apache-2.0 */
/* test_free_memory.c - free memory goes back to the system from the arena of every thread, also
 * from huge pages. */
#include "common/base/free_memory.h"
#include "tests/support/cmocka_all.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
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

/* Does what `use` does, in huge pages. */
static void *use_huge(void *arg)
{
    ps_free_memory_use_huge_pages();
    return use(arg);
}

static void check_return(void *(*fn)(void *arg))
{
    sizes s;
    pthread_t thread;

#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
    skip(); /* they have a malloc of their own */
#endif
    ps_free_memory_keep();
    assert_int_equal(pthread_create(&thread, NULL, fn, &s), 0);
    pthread_join(thread, NULL);
    assert_true(s.freed > s.before + 30 * (size_t)MIB); /* malloc keeps it for the next messages */
    assert_true(s.after < s.before + 8 * (size_t)MIB);
    ps_free_memory_keep();
}

static void what_a_thread_freed_goes_back(void **state)
{
    (void)state;
    check_return(use);
}

static void what_a_thread_freed_goes_back_from_huge_pages(void **state)
{
    (void)state;
    check_return(use_huge);
}

/* Returns whether huge pages are asked for where a block lies. */
static bool has_huge_pages(const void *block)
{
    FILE *maps = fopen("/proc/self/smaps", "r");
    char line[512];
    uintptr_t begin, end;
    bool is_here = false, has = false;

    assert_non_null(maps);
    while (fgets(line, sizeof line, maps) != NULL) {
        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR, &begin, &end) == 2) {
            is_here = (uintptr_t)block >= begin && (uintptr_t)block < end;
        } else if (is_here && strncmp(line, "VmFlags:", 8) == 0) {
            has = strstr(line, " hg") != NULL;
        }
    }
    fclose(maps);
    return has;
}

static void *ask(void *arg)
{
    void *small = malloc(1), *large;
    bool *has = arg;

    ps_free_memory_use_huge_pages();
    large = malloc(16 * MIB);
    *has = has_huge_pages(small) && has_huge_pages(large);
    free(small);
    free(large);
    return NULL;
}

static void a_threads_memory_is_in_huge_pages(void **state)
{
    pthread_t thread;
    bool has;

    (void)state;
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
    skip(); /* they have a malloc of their own */
#endif
    if (access("/sys/kernel/mm/transparent_hugepage", F_OK) != 0) {
        skip(); /* this system has none */
    }
    ps_free_memory_keep();
    (void)ask(&has);
    assert_true(has);
    assert_int_equal(pthread_create(&thread, NULL, ask, &has), 0);
    pthread_join(thread, NULL);
    assert_true(has);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_threads_memory_is_in_huge_pages),
        cmocka_unit_test(what_a_thread_freed_goes_back),
        cmocka_unit_test(what_a_thread_freed_goes_back_from_huge_pages),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
