/* SPDX-License-Identifier: Apache-2.0 */
/* stages.h - what an encoding goes through around its codec: rows of zeros are left
 * out before it, its bytes are compressed after it.
 *
 * Private to common/codec. Each is done only where it makes the encoding shorter,
 * so no encoding is longer than the codec's size says.
 */
#ifndef PS_COMMON_CODEC_STAGES_H
#define PS_COMMON_CODEC_STAGES_H

#include "common/codec/codec.h"

/* As ps_codec's encode, into out[0..codec->size(n)). Rows leave `state` (optional)
 * alone: it is of the values of the whole slice. */
size_t ps_stages_encode(const ps_codec *codec, const ps_params *params, float *state, uint64_t key,
                        const float *x, size_t n, uint8_t *out, ps_encoding *head);

/* As ps_codec_encode_rows, ps_codec_encode_changed and ps_codec_unpack, the heads' slice and
 * payload_bytes left out. */
size_t ps_stages_encode_among(const ps_codec *codec, const ps_params *params, uint64_t key,
                              const float *x, size_t n, uint16_t *rows, size_t count, uint8_t *out,
                              ps_encoding *head);
size_t ps_stages_encode_changed(const ps_codec *codec, const ps_params *params, const float *x,
                                size_t n, size_t width, const uint16_t *rows, size_t count,
                                uint8_t *out, ps_encoding *head);
PS_MUST_USE ps_status ps_stages_unpack(const ps_codec *codec, const Psgd__V1__Encoding *head,
                                       const uint8_t *in, size_t len, size_t n, size_t width,
                                       uint16_t *rows, size_t *count, float *packed);

/* As ps_codec's check and decode. */
PS_MUST_USE ps_status ps_stages_check(const ps_codec *codec, const Psgd__V1__Encoding *head,
                                      const uint8_t *in, size_t len, size_t n);
PS_MUST_USE ps_status ps_stages_decode(const ps_codec *codec, const Psgd__V1__Encoding *head,
                                       const uint8_t *in, size_t len, ps_into into, float *y,
                                       size_t n);

enum { PS_STAGES_RAW_MAX = PS_CODEC_ROOM };

/* The codec's bytes: `in` itself, or decompressed to room (PS_STAGES_RAW_MAX).
 * *len becomes their number. */
PS_MUST_USE ps_status ps_stages_raw(const Psgd__V1__Encoding *head, const uint8_t **in, size_t *len,
                                    size_t n, uint8_t *room);

#endif
