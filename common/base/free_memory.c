/* SPDX-License-Identifier: Apache-2.0 */
/* free_memory.c - see free_memory.h. */
#include "common/base/free_memory.h"

#include <inttypes.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    KEEP_BYTES = 64 << 20, /* an arena grows by so much more, and keeps up to twice as much free */
    RETURN_BYTES = 1 << 20,
    /* blocks below this size come from arenas, not from mmap; glibc allows no larger bound */
    MMAP_BYTES = 32 << 20,
    /* A block larger than an arena has at first: for it malloc makes the arena grow, and by
     * KEEP_BYTES more. */
    GROW_BYTES = 1 << 20
};

static void keep(int bytes)
{
    /* malloc adapts these values to its use until one of them is set; the others would then keep
     * their small defaults, so all are set. */
    mallopt(M_TOP_PAD, bytes);
    mallopt(M_TRIM_THRESHOLD, 2 * bytes);
    mallopt(M_MMAP_THRESHOLD, MMAP_BYTES);
}

void ps_free_memory_keep(void)
{
    keep(KEEP_BYTES);
}

/* Asks the kernel for huge pages for a mapping (a line of /proc/self/maps) if it contains `address`
 * or belongs to malloc's first arena ("[heap]"), which has a mapping for each part that it grew
 * by. */
static void use_huge_pages(const char *mapping, uintptr_t address)
{
    uintptr_t begin, end;

    if (sscanf(mapping, "%" SCNxPTR "-%" SCNxPTR, &begin, &end) == 2 &&
        ((address >= begin && address < end) || strstr(mapping, "[heap]") != NULL)) {
        (void)madvise((void *)begin, end - begin, MADV_HUGEPAGE);
    }
}

void ps_free_memory_use_huge_pages(void)
{
    void *block = malloc(GROW_BYTES);
    FILE *maps = fopen("/proc/self/maps", "re");
    char mapping[512];

    while (maps != NULL && fgets(mapping, sizeof mapping, maps) != NULL) {
        use_huge_pages(mapping, (uintptr_t)block);
    }
    if (maps != NULL) {
        (void)fclose(maps);
    }
    free(block);
}

void ps_free_memory_return(void)
{
    keep(RETURN_BYTES);
    malloc_trim(0);
}
