/* SPDX-License-Identifier: Apache-2.0 */
/* stages.h - what an encoding goes through around its codec: rows of zeros are left out before
 * it, the bytes are compressed after it.
 *
 * Rows are left out only if the others can take no more bytes than the whole slice can. Bytes are
 * compressed only if that makes them fewer. So no encoding is longer than the codec's size. Private
 * to common/codec.
 */
#ifndef PS_COMMON_CODEC_STAGES_H
#define PS_COMMON_CODEC_STAGES_H

#include "common/codec/codec_type.h"

/* Encodes like ps_codec.encode, into out[0..codec->size(n)). `state` (optional) is not used with
 * the number rows, because it belongs to the values of the whole slice. */
size_t ps_stages_encode(const ps_codec *codec, const ps_params *params, float *state, uint64_t key,
                        const float *x, size_t n, uint8_t *out, ps_encoding *head);

/* Checks like ps_codec.check. */
PS_MUST_USE ps_status ps_stages_check(const ps_codec *codec, const Psgd__V1__Encoding *head,
                                      const uint8_t *in, size_t len, size_t n);
/* Decodes like ps_codec.decode. */
PS_MUST_USE ps_status ps_stages_decode(const ps_codec *codec, const Psgd__V1__Encoding *head,
                                       const uint8_t *in, size_t len, ps_into into, float *y,
                                       size_t n);

enum { PS_STAGES_RAW_MAX = PS_CODEC_ROOM };

/* Sets *in and *len to the codec's bytes: `in` itself, or decompressed to room
 * (PS_STAGES_RAW_MAX). Returns DATA_LOSS if the bytes cannot be decompressed. */
PS_MUST_USE ps_status ps_stages_raw(const Psgd__V1__Encoding *head, const uint8_t **in, size_t *len,
                                    size_t n, uint8_t *room);

#endif
