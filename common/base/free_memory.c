/* SPDX-License-Identifier: Apache-2.0 */
/* free_memory.c - see free_memory.h. */
#include "common/base/free_memory.h"

#include <malloc.h>

enum {
    KEEP_BYTES = 64 << 20, /* at the end of an arena */
    RETURN_BYTES = 1 << 20,
    MMAP_BYTES = 32 << 20 /* smaller blocks come from arenas; glibc allows no larger bound */
};

static void keep(int bytes)
{
    /* Setting one of them fixes the others at their small defaults, so set all. */
    mallopt(M_TOP_PAD, bytes);
    mallopt(M_TRIM_THRESHOLD, 2 * bytes);
    mallopt(M_MMAP_THRESHOLD, MMAP_BYTES);
}

void ps_free_memory_keep(void)
{
    keep(KEEP_BYTES);
}

void ps_free_memory_return(void)
{
    keep(RETURN_BYTES);
    malloc_trim(0);
}
