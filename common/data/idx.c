/* SPDX-License-Identifier: Apache-2.0 */
/* idx.c - see idx.h. */
#include "common/data/idx.h"

#include "common/data/packed.h"

#include <assert.h>
#include <inttypes.h>

enum { TYPE_U8 = 8, HEADER_BYTES_MAX = 4 + 4 * PS_IDX_RANK_MAX };

static uint32_t read_u32(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

/* Returns the offset of dimension i in the file. */
static unsigned offset_of(uint32_t i)
{
    return 4 + 4 * i;
}

static ps_status read_header(ps_idx *idx)
{
    uint8_t bytes[HEADER_BYTES_MAX];
    uint32_t magic = (uint32_t)TYPE_U8 << 8 | idx->rank, header = offset_of(idx->rank);
    uint64_t values = 1;
    size_t got;
    ps_status st = ps_packed_read(idx->file, bytes, header, &got);

    if (!ps_is_ok(&st)) {
        return st;
    }
    if (got < header) {
        return ps_fail(PS_INVALID_ARGUMENT, "%s: ends at offset %zu, expected a header of %u bytes",
                       idx->name, got, header);
    }
    if (read_u32(bytes) != magic) {
        return ps_fail(PS_INVALID_ARGUMENT, "%s: offset 0: 0x%08x, expected 0x%08x", idx->name,
                       read_u32(bytes), magic);
    }
    for (uint32_t i = 0; i < idx->rank; i++) {
        idx->dim[i] = read_u32(bytes + offset_of(i));
        if (idx->dim[i] == 0) {
            return ps_fail(PS_INVALID_ARGUMENT,
                           "%s: offset %u: dimension %u is 0, expected at least 1", idx->name,
                           offset_of(i), i);
        }
        if (__builtin_mul_overflow(values, (uint64_t)idx->dim[i], &values) || values > INT64_MAX) {
            return ps_fail(PS_INVALID_ARGUMENT,
                           "%s: offset %u: dimension %u is %u, expected less than 2^63 values in "
                           "all",
                           idx->name, offset_of(i), i, idx->dim[i]);
        }
    }
    idx->at = header;
    idx->size = header + values;
    return ps_ok();
}

ps_status ps_idx_open(ps_idx *idx, const char *folder, const char *name, uint32_t rank)
{
    ps_status st;

    assert(rank >= 1 && rank <= PS_IDX_RANK_MAX);
    *idx = (ps_idx){.name = name, .rank = rank};
    st = ps_packed_open(folder, name, &idx->file, NULL);
    if (ps_is_ok(&st)) {
        st = read_header(idx);
    }
    if (!ps_is_ok(&st)) {
        ps_idx_close(idx);
    }
    return st;
}

ps_status ps_idx_expect(const ps_idx *idx, uint32_t i, uint32_t want)
{
    assert(i < idx->rank);
    if (idx->dim[i] != want) {
        return ps_fail(PS_INVALID_ARGUMENT, "%s: offset %u: dimension %u is %u, expected %u",
                       idx->name, offset_of(i), i, idx->dim[i], want);
    }
    return ps_ok();
}

ps_status ps_idx_read(ps_idx *idx, uint8_t *values, size_t n)
{
    size_t got = 0;
    ps_status st;

    assert(n <= idx->size - idx->at);
    st = ps_packed_read(idx->file, values, n, &got);
    idx->at += got;
    if (ps_is_ok(&st) && got < n) {
        st = ps_fail(PS_INVALID_ARGUMENT,
                     "%s: ends at offset %" PRIu64 ", expected %" PRIu64 " bytes", idx->name,
                     idx->at, idx->size);
    }
    return st;
}

ps_status ps_idx_end(ps_idx *idx)
{
    uint8_t more;
    size_t got = 0;
    ps_status st;

    assert(idx->at == idx->size);
    st = ps_packed_read(idx->file, &more, 1, &got);
    if (ps_is_ok(&st) && got > 0) {
        st = ps_fail(PS_INVALID_ARGUMENT,
                     "%s: has more data at offset %" PRIu64 ", expected its end", idx->name,
                     idx->size);
    }
    return st;
}

void ps_idx_close(ps_idx *idx)
{
    ps_packed_close(idx->file);
    *idx = (ps_idx){.file = NULL};
}
