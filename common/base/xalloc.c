/* SPDX-License-Identifier: Apache-2.0 */
/* xalloc.c - see xalloc.h. */
#include "common/base/xalloc.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { HUGE_BYTES = 2 << 20, HUGE_LEAST = 4 * HUGE_BYTES };

void *ps_or_abort(void *p, size_t bytes)
{
    if (p == NULL) {
        fprintf(stderr, "out of memory: %zu bytes\n", bytes);
        abort();
    }
    return p;
}

static size_t at_least_one(size_t bytes)
{
    return bytes == 0 ? 1 : bytes;
}

void *ps_xmalloc(size_t bytes)
{
    return ps_or_abort(malloc(at_least_one(bytes)), bytes);
}

void *ps_xcalloc(size_t n, size_t bytes)
{
    return ps_or_abort(calloc(at_least_one(n), at_least_one(bytes)), n * bytes);
}

void *ps_xrealloc(void *old, size_t bytes)
{
    return ps_or_abort(realloc(old, at_least_one(bytes)), bytes);
}

char *ps_xstrndup(const char *text, size_t n)
{
    size_t len = strnlen(text, n);
    char *copy = ps_xmalloc(len + 1);

    memcpy(copy, text, len);
    copy[len] = '\0';
    return copy;
}

char *ps_xstrdup(const char *text)
{
    return ps_xstrndup(text, strlen(text));
}

/* Allocates memory in huge pages, where the system has them; returns NULL if it runs out. Accesses
 * then need fewer entries of the page table, and a fork has fewer of them to copy (snapshot.h). */
static void *alloc_huge(size_t bytes)
{
    size_t size = (bytes + HUGE_BYTES - 1) / HUGE_BYTES * HUGE_BYTES;
    void *block = aligned_alloc(HUGE_BYTES, size);

    if (block != NULL) {
        (void)madvise(block, size, MADV_HUGEPAGE); /* if this fails, the pages are small ones */
    }
    return block;
}

void *ps_aligned_alloc(size_t bytes)
{
    if (bytes > SIZE_MAX / 2) {
        return NULL;
    }
    if (bytes >= HUGE_LEAST) {
        return alloc_huge(bytes);
    }
    /* aligned_alloc needs a multiple of the alignment. */
    return aligned_alloc(PS_ALIGN_BYTES, (at_least_one(bytes) + PS_ALIGN_BYTES - 1) /
                                             PS_ALIGN_BYTES * PS_ALIGN_BYTES);
}

void *ps_xaligned_alloc(size_t bytes)
{
    return ps_or_abort(ps_aligned_alloc(bytes), bytes);
}
