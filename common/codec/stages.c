/* SPDX-License-Identifier: Apache-2.0 */
/* stages.c - see stages.h. */
#include "common/codec/stages.h"

#include "common/codec/sparse.h"
#include "common/codec/wrap.h"

#include <assert.h>
#include <lz4.h>
#include <string.h>
#include <zstd.h>

enum { ZSTD_LEVEL = 1 };

/* ---- Compression ---- */

/* Compresses to fewer than `len` bytes. Returns their number; 0 if that is not possible. */
static size_t compress(Psgd__V1__Lossless how, const uint8_t *in, size_t len, uint8_t *out)
{
    size_t bytes;

    if (how == PSGD__V1__LOSSLESS__LOSSLESS_LZ4) {
        return (size_t)LZ4_compress_default((const char *)in, (char *)out, (int)len, (int)len - 1);
    }
    bytes = ZSTD_compress(out, len - 1, in, len, ZSTD_LEVEL);
    return ZSTD_isError(bytes) ? 0 : bytes; /* the result did not fit */
}

static size_t shorten(Psgd__V1__Lossless how, uint8_t *bytes, size_t len, ps_encoding *head)
{
    uint8_t room[PS_STAGES_RAW_MAX];
    size_t shorter = len > 1 ? compress(how, bytes, len, room) : 0;

    if (shorter == 0) {
        return len;
    }
    memcpy(bytes, room, shorter);
    head->msg.lossless = how;
    head->msg.raw_bytes = (uint32_t)len;
    return shorter;
}

/* Decompresses exactly raw_bytes bytes, whatever the input claims. Returns false if it cannot. */
static bool decompress(const Psgd__V1__Encoding *head, const uint8_t *in, size_t len, uint8_t *out)
{
    size_t raw = head->raw_bytes;

    switch (head->lossless) {
    case PSGD__V1__LOSSLESS__LOSSLESS_LZ4:
        return LZ4_decompress_safe((const char *)in, (char *)out, (int)len, (int)raw) == (int)raw;
    case PSGD__V1__LOSSLESS__LOSSLESS_ZSTD:
        return ZSTD_decompress(out, raw, in, len) == raw;
    default:
        return false;
    }
}

ps_status ps_stages_raw(const Psgd__V1__Encoding *head, const uint8_t **in, size_t *len, size_t n,
                        uint8_t *room)
{
    size_t most = 4 * n + 8 < PS_STAGES_RAW_MAX ? 4 * n + 8 : PS_STAGES_RAW_MAX;

    if (head->lossless == PSGD__V1__LOSSLESS__LOSSLESS_UNSPECIFIED) {
        return ps_ok();
    }
    if (head->raw_bytes <= *len || head->raw_bytes > most) {
        return ps_fail(PS_DATA_LOSS,
                       "slice %u: has %u bytes compressed to %zu; more than that and at most %zu "
                       "for %zu values, are allowed",
                       head->slice, head->raw_bytes, *len, most, n);
    }
    if (!decompress(head, *in, *len, room)) {
        return ps_fail(PS_DATA_LOSS, "slice %u: compressed (%d) bytes do not become %u",
                       head->slice, (int)head->lossless, head->raw_bytes);
    }
    *in = room;
    *len = head->raw_bytes;
    return ps_ok();
}

/* ---- Rows ---- */

static size_t row_count(size_t n, size_t width)
{
    return (n + width - 1) / width;
}

/* Returns the number of values of row `row`; the last may be shorter. */
static size_t row_length(size_t n, size_t width, size_t row)
{
    return n - row * width < width ? n - row * width : width;
}

/* Returns the number of values of `count` ascending rows. */
static size_t values_of(size_t n, size_t width, const uint16_t *rows, size_t count)
{
    return count == 0 ? 0 : (count - 1) * width + row_length(n, width, rows[count - 1]);
}

static bool is_zero(const float *x, size_t n)
{
    uint32_t any = 0;

    for (size_t i = 0; i < n; i++) {
        any |= x[i] != 0.0f; /* a NaN is not zero */
    }
    return any == 0;
}

/* Lists the rows that have a value other than 0. `rows` has room for all. Returns their number. */
static size_t find_rows(const float *x, size_t n, size_t width, uint16_t *rows)
{
    size_t count = 0;

    for (size_t r = 0; r < row_count(n, width); r++) {
        rows[count] = (uint16_t)r;
        count += !is_zero(x + r * width, row_length(n, width, r));
    }
    return count;
}

static size_t encode_rows(const ps_codec *codec, const ps_params *params, uint64_t key,
                          const float *x, size_t n, size_t width, const uint16_t *rows,
                          size_t count, uint8_t *out, ps_encoding *head)
{
    size_t at = ps_positions_write(rows, row_count(n, width), count, out), values = 0;
    float some[PS_CODEC_VALUES];

    for (size_t j = 0; j < count; j++) {
        size_t length = row_length(n, width, rows[j]);

        memcpy(some + values, x + rows[j] * width, length * sizeof *some);
        values += length;
    }
    head->msg.row_width = (uint32_t)width;
    head->msg.row_count = (uint32_t)count;
    return at + codec->encode(params, key, some, values, out + at, head);
}

/* Encodes the rows that are not zeros. Returns the number of bytes; 0 if all are zeros. Writes
 * nothing and returns SIZE_MAX if no row is zeros, or if these rows could take more bytes than the
 * whole slice. */
static size_t encode_some(const ps_codec *codec, const ps_params *params, uint64_t key,
                          const float *x, size_t n, size_t width, uint8_t *out, ps_encoding *head)
{
    uint16_t rows[PS_CODEC_VALUES];
    size_t all = row_count(n, width), count = find_rows(x, n, width, rows), most;

    most = ps_positions_bytes(all, count) + codec->size(params, values_of(n, width, rows, count));
    if (count == 0) {
        (void)codec->encode(params, key, x, 0, out, head); /* no values; only fills in the head */
        return 0;
    }
    return count < all && most <= codec->size(params, n)
               ? encode_rows(codec, params, key, x, n, width, rows, count, out, head)
               : SIZE_MAX;
}

static size_t shorten_as(const ps_codec *codec, const ps_params *params, uint8_t *out, size_t bytes,
                         ps_encoding *head)
{
    Psgd__V1__Lossless how = (Psgd__V1__Lossless)ps_wrap_of(codec, params, PS_WRAP_LOSSLESS);

    return how != PSGD__V1__LOSSLESS__LOSSLESS_UNSPECIFIED ? shorten(how, out, bytes, head) : bytes;
}

size_t ps_stages_encode(const ps_codec *codec, const ps_params *params, float *state, uint64_t key,
                        const float *x, size_t n, uint8_t *out, ps_encoding *head)
{
    size_t width = codec->sum_add == NULL ? (size_t)ps_wrap_of(codec, params, PS_WRAP_ROWS) : 0;
    size_t bytes = SIZE_MAX;

    if (width > 0 && n > 0) {
        bytes = encode_some(codec, params, key, x, n, width, out, head);
    }
    if (bytes == SIZE_MAX) {
        bytes = width == 0 && state != NULL && codec->encode_with != NULL
                    ? codec->encode_with(params, key, state, x, n, out, head)
                    : codec->encode(params, key, x, n, out, head);
    }
    return shorten_as(codec, params, out, bytes, head);
}

/* What an encoding holds of a slice. */
typedef struct sent {
    const uint8_t *in; /* bytes that the codec wrote, without the positions of rows */
    size_t len, values;
    uint16_t rows[PS_CODEC_VALUES];
} sent;

static ps_status read_rows(const Psgd__V1__Encoding *head, const uint8_t *in, size_t len, size_t n,
                           sent *out)
{
    size_t width = head->row_width, count = head->row_count, all, bytes;

    if (width > PS_CODEC_VALUES || count == 0 || count >= row_count(n, width)) {
        return ps_fail(PS_DATA_LOSS, "slice %u: %u rows of %u values, of %zu values", head->slice,
                       head->row_count, head->row_width, n);
    }
    all = row_count(n, width);
    bytes = ps_positions_bytes(all, count);
    if (bytes > len || !ps_positions_read(in, all, count, out->rows)) {
        return ps_fail(PS_DATA_LOSS, "slice %u: rows are not %zu ascending ones below %zu",
                       head->slice, count, all);
    }
    out->in = in + bytes;
    out->len = len - bytes;
    out->values = values_of(n, width, out->rows, count);
    return ps_ok();
}

static ps_status check_rows(const ps_codec *codec, const Psgd__V1__Encoding *head,
                            const uint8_t *in, size_t len, size_t n, sent *out)
{
    ps_status st = read_rows(head, in, len, n, out);

    return ps_is_ok(&st) ? codec->check(head, out->in, out->len, out->values) : st;
}

static ps_status decode_rows(const ps_codec *codec, const Psgd__V1__Encoding *head,
                             const uint8_t *in, size_t len, ps_into into, float *y, size_t n)
{
    float some[PS_CODEC_VALUES];
    sent s;
    ps_status st = read_rows(head, in, len, n, &s);
    const float *from = some;

    if (ps_is_ok(&st)) {
        st = codec->decode(head, s.in, s.len, PS_INTO_SET, some, s.values);
    }
    if (!ps_is_ok(&st)) {
        return st;
    }
    if (into == PS_INTO_SET) {
        memset(y, 0, n * sizeof *y);
    }
    for (size_t j = 0; j < head->row_count; j++) {
        float *to = y + (size_t)s.rows[j] * head->row_width;
        size_t length = row_length(n, head->row_width, s.rows[j]);

        for (size_t i = 0; i < length; i++) {
            to[i] = into == PS_INTO_SET ? from[i] : to[i] + from[i];
        }
        from += length;
    }
    return st;
}

/* ---- Both ---- */

ps_status ps_stages_check(const ps_codec *codec, const Psgd__V1__Encoding *head, const uint8_t *in,
                          size_t len, size_t n)
{
    uint8_t room[PS_STAGES_RAW_MAX];
    ps_status st = ps_stages_raw(head, &in, &len, n, room);
    sent s;

    if (!ps_is_ok(&st)) {
        return st;
    }
    return head->row_width > 0 ? check_rows(codec, head, in, len, n, &s)
                               : codec->check(head, in, len, n);
}

ps_status ps_stages_decode(const ps_codec *codec, const Psgd__V1__Encoding *head, const uint8_t *in,
                           size_t len, ps_into into, float *y, size_t n)
{
    uint8_t room[PS_STAGES_RAW_MAX];
    ps_status st = ps_stages_raw(head, &in, &len, n, room);

    if (!ps_is_ok(&st)) {
        return st;
    }
    return head->row_width > 0 ? decode_rows(codec, head, in, len, into, y, n)
                               : codec->decode(head, in, len, into, y, n);
}
