/* SPDX-License-Identifier: Apache-2.0 */
/* parts.c - see parts.h. */
#include "common/codec/parts.h"

static size_t values_of(size_t n, size_t part)
{
    size_t left = n - part * PS_CODEC_VALUES;

    return left < PS_CODEC_VALUES ? left : PS_CODEC_VALUES;
}

size_t ps_parts_count(size_t n)
{
    return (n + PS_CODEC_VALUES - 1) / PS_CODEC_VALUES;
}

size_t ps_parts_bytes(const ps_codec *codec, const ps_params *params, size_t n)
{
    size_t bytes = 0;

    for (size_t i = 0; i < ps_parts_count(n); i++) {
        bytes += codec->size(params, values_of(n, i));
    }
    return bytes;
}

size_t ps_parts_encode(const ps_codec *codec, const ps_params *params, uint64_t key, const float *x,
                       size_t n, uint8_t *out, ps_encoding *heads)
{
    size_t bytes = 0;

    for (size_t i = 0; i < ps_parts_count(n); i++) {
        bytes += ps_codec_encode(codec, params, key + i, (uint32_t)i, x + i * PS_CODEC_VALUES,
                                 values_of(n, i), out + bytes, &heads[i]);
    }
    return bytes;
}

void ps_parts_heads(const ps_codec *codec, const ps_params *params, size_t n, ps_encoding *heads)
{
    uint8_t none[1];

    for (size_t i = 0; i < ps_parts_count(n); i++) {
        ps_codec_encode(codec, params, 0, (uint32_t)i, NULL, 0, none, &heads[i]);
        heads[i].msg.payload_bytes = (uint32_t)(values_of(n, i) * sizeof(float));
    }
}

ps_status ps_parts_read(ps_parts_reader *r, const ps_codec *codec, float *y, size_t n)
{
    uint8_t scratch[PS_CODEC_VALUES * sizeof(float) + 8];

    for (size_t i = 0; i < ps_parts_count(n); i++) {
        const Psgd__V1__Encoding *head;
        ps_status st;

        if (r->at == r->count) {
            return ps_fail(PS_DATA_LOSS, "rows: has %zu encodings, more are needed", r->count);
        }
        head = r->heads[r->at++];
        if (head->slice != i || head->payload_bytes > sizeof scratch ||
            head->payload_bytes > r->bytes - r->from) {
            return ps_fail(
                PS_DATA_LOSS,
                "rows[%zu]: is number %u of %u bytes; number %zu is next and %zu bytes are left",
                r->at - 1, head->slice, head->payload_bytes, i, r->bytes - r->from);
        }
        st = ps_codec_decode(
            codec, head,
            head->payload_bytes > 0 ? r->view(r->arg, r->from, head->payload_bytes, scratch)
                                    : scratch,
            head->payload_bytes, PS_INTO_SET, y + i * PS_CODEC_VALUES, values_of(n, i));
        if (!ps_is_ok(&st)) {
            return st;
        }
        r->from += head->payload_bytes;
    }
    return ps_ok();
}

ps_status ps_parts_end(const ps_parts_reader *r)
{
    if (r->at != r->count || r->from != r->bytes) {
        return ps_fail(PS_DATA_LOSS, "rows: %zu encodings and %zu bytes that belong to no row",
                       r->count - r->at, r->bytes - r->from);
    }
    return ps_ok();
}
