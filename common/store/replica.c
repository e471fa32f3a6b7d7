/* SPDX-License-Identifier: Apache-2.0 */
/* replica.c - see replica.h. Servers and workers run this one function. It has differences and no
 * products, so no compiler can fuse operations and change the bits. */
#include "common/store/replica.h"

#include <xxhash.h>

void ps_replica_step(float *w, const float *change, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        w[i] -= change[i];
    }
}

uint64_t ps_replica_checksum(const float *w, size_t n)
{
    return XXH3_64bits(w, n * sizeof *w);
}
