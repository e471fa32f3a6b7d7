/* SPDX-License-Identifier: Apache-2.0 */
/* idx.c - see idx.h. The dimensions are known before the file is read, so that
 * nothing a file says sizes anything. */
#include "common/data/idx.h"

#include "common/base/xalloc.h"
#include "common/data/packed.h"

#include <assert.h>
#include <stdlib.h>

enum { TYPE_U8 = 8 };

size_t ps_idx_header_bytes(uint32_t rank)
{
    return 4 + 4 * (size_t)rank;
}

static size_t file_bytes(uint32_t rank, const uint32_t *dim)
{
    size_t n = 1;

    assert(rank >= 1 && rank <= PS_IDX_RANK_MAX);
    for (uint32_t i = 0; i < rank; i++) {
        bool overflows = __builtin_mul_overflow(n, (size_t)dim[i], &n);

        assert(!overflows);
    }
    return ps_idx_header_bytes(rank) + n;
}

static uint32_t read_u32(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

ps_status ps_idx_check(const char *name, const uint8_t *bytes, size_t len, uint32_t rank,
                       const uint32_t *dim)
{
    size_t want = file_bytes(rank, dim), header = ps_idx_header_bytes(rank);
    uint32_t magic = (uint32_t)TYPE_U8 << 8 | rank;

    if (len < header) {
        return ps_fail(PS_INVALID_ARGUMENT,
                       "%s: ends at offset %zu, expected a header of %zu bytes", name, len, header);
    }
    if (read_u32(bytes) != magic) {
        return ps_fail(PS_INVALID_ARGUMENT, "%s: offset 0: 0x%08x, expected 0x%08x", name,
                       read_u32(bytes), magic);
    }
    for (uint32_t i = 0; i < rank; i++) {
        size_t at = 4 + 4 * (size_t)i;

        if (read_u32(bytes + at) != dim[i]) {
            return ps_fail(PS_INVALID_ARGUMENT, "%s: offset %zu: dimension %u is %u, expected %u",
                           name, at, i, read_u32(bytes + at), dim[i]);
        }
    }
    if (len < want) {
        return ps_fail(PS_INVALID_ARGUMENT, "%s: ends at offset %zu, expected %zu bytes", name, len,
                       want);
    }
    if (len > want) {
        return ps_fail(PS_INVALID_ARGUMENT, "%s: goes on at offset %zu, expected its end", name,
                       want);
    }
    return ps_ok();
}

ps_status ps_idx_read(const char *folder, const char *name, uint32_t rank, const uint32_t *dim,
                      uint8_t **bytes)
{
    size_t cap = file_bytes(rank, dim) + 1; /* one more, to see that there is no more */
    size_t len = 0;
    uint8_t *all = NULL;
    ps_packed *file = NULL;
    ps_status st = ps_packed_open(folder, name, &file, NULL);

    if (!ps_is_ok(&st)) {
        return st;
    }
    all = ps_xmalloc(cap);
    st = ps_packed_read(file, all, cap, &len);
    if (ps_is_ok(&st)) {
        st = ps_idx_check(name, all, len, rank, dim);
    }
    if (ps_is_ok(&st)) {
        *bytes = all;
        all = NULL;
    }
    free(all);
    ps_packed_close(file);
    return st;
}
