/* SPDX-License-Identifier: Apache-2.0 */
/* process.c - see process.h. */
#include "common/rpc/process.h"

#include <malloc.h>

enum {
    KEEP_BYTES = 64 << 20, /* free memory at the top of the heap that is not given back */
    MMAP_BYTES = 32 << 20  /* smaller blocks come from the heap; the most that glibc allows */
};

void ps_rpc_init_process(void)
{
    /* Setting one of them fixes the others at their small defaults: set all. */
    mallopt(M_TOP_PAD, KEEP_BYTES);
    mallopt(M_TRIM_THRESHOLD, 2 * KEEP_BYTES);
    mallopt(M_MMAP_THRESHOLD, MMAP_BYTES);
}
