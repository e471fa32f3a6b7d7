/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_idx.c - any bytes as an IDX file (libFuzzer). The first bytes choose what
 * is expected, the rest are the file. */
#include "common/data/idx.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint32_t dim[PS_IDX_RANK_MAX], rank;
    size_t n = ps_idx_header_bytes(0);
    ps_status st;

    if (size < 1 + PS_IDX_RANK_MAX) {
        return 0;
    }
    rank = 1 + data[0] % PS_IDX_RANK_MAX;
    for (uint32_t i = 0; i < PS_IDX_RANK_MAX; i++) {
        dim[i] = data[1 + i] % 8;
    }
    data += 1 + PS_IDX_RANK_MAX;
    size -= 1 + PS_IDX_RANK_MAX;
    st = ps_idx_check("file", data, size, rank, dim);
    if (ps_is_ok(&st)) {
        n = ps_idx_header_bytes(rank);
        for (uint32_t i = 0, values = 1; i < rank; i++) {
            values *= dim[i];
            if (i == rank - 1) {
                n += values;
            }
        }
        if (n != size) {
            abort(); /* accepted with another length than it must have */
        }
    }
    return 0;
}
