/* SPDX-License-Identifier: Apache-2.0 */
/* codec.h - encodes and decodes slices with the codecs of this build.
 *
 * codec_type.h says what a codec is. Functions here also apply the steps around a codec that the
 * job turns on by numbers: stages.h, wrap.h.
 *
 * Any thread may call any function. n is at most PS_CODEC_VALUES.
 */
#ifndef PS_COMMON_CODEC_CODEC_H
#define PS_COMMON_CODEC_CODEC_H

#include "common/codec/codec_type.h"

/* Returns the codec with this name, or NULL if there is none. */
const ps_codec *ps_codec_find(const char *name);
/* Makes the codec known that decodes encodings of scripts (common/script). It may be called again,
 * with the same table. */
void ps_codec_know_scripts(const ps_codec *codec);

/* Returns the codec whose member of the oneof in Encoding this is, or NULL if there is none. For
 * scripts it is the one of ps_codec_know_scripts, which can check and decode only. */
const ps_codec *ps_codec_of_wire(Psgd__V1__Encoding__CodecCase wire);

/* Calls fn once per codec, in the order of common/codec/list.h. */
void ps_codec_each(void (*fn)(const ps_codec *codec, void *arg), void *arg);

/* Returns the codec's properties with these numbers. Encodings that are compressed, or that may
 * leave out rows, are not summable unless the codec has sum_add. */
ps_codec_facts ps_codec_facts_of(const ps_codec *codec, const ps_params *params);

/* Returns whether encodings may be shorter than `size`: because the number of the codec's own bytes
 * depends on the values, or because encodings are compressed or leave out rows. */
bool ps_codec_depends_on_data(const ps_codec *codec, const ps_params *params);

/* Returns whether every encoding is the float32 values in memory order, with none left out and
 * without the number difference, by which changes are sent and not the values. */
bool ps_codec_is_plain(const ps_codec *codec, const ps_params *params);
/* Returns whether this encoding is the float32 values in memory order, with none left out. */
bool ps_encoding_is_plain(const Psgd__V1__Encoding *head);

/* Returns the bits per value of a full slice, without the head; the maximum if the size depends
 * on the data. */
double ps_codec_bits(const ps_codec *codec, const ps_params *params);

/* Encodes a slice: initialises the head, fills in slice and payload_bytes, leaves out rows of zeros
 * and compresses the bytes if `params` say so and it pays (stages.h). Returns payload_bytes, at
 * most codec->size(params, n). */
size_t ps_codec_encode(const ps_codec *codec, const ps_params *params, uint64_t key, uint32_t slice,
                       const float *x, size_t n, uint8_t *out, ps_encoding *head);

/* Returns the floats of state for a slice of n values. It is 0 for encodings that may leave out
 * rows, because state belongs to the values of a whole slice. */
size_t ps_codec_state_floats(const ps_codec *codec, const ps_params *params, size_t n);
/* Encodes a slice as ps_codec_encode does, with the slice's state of ps_codec_state_floats floats,
 * which is read and updated. `state` NULL: there is none. */
size_t ps_codec_encode_with(const ps_codec *codec, const ps_params *params, float *state,
                            uint64_t key, uint32_t slice, const float *x, size_t n, uint8_t *out,
                            ps_encoding *head);

/* Add a slice to those that this thread encodes or decodes together at the next ps_codec_run_ahead.
 * The arguments are those of the later call of ps_codec_encode or ps_codec_decode, which then finds
 * its result ready. Return false for most codecs, which gain nothing from it, and if the slice
 * cannot be encoded or decoded together with those that were added before. `room`, which may be
 * NULL, is that of ps_codec_ahead. With it the caller writes the values there and to x before
 * ps_codec_run_ahead. */
bool ps_codec_encode_ahead(const ps_codec *codec, const ps_params *params, uint64_t key,
                           const float *x, size_t n, float **room);
bool ps_codec_decode_ahead(const Psgd__V1__Encoding *head, const uint8_t *in, size_t n);
/* Encodes or decodes the slices that this thread has added. */
void ps_codec_run_ahead(void);
/* Forgets the slices that this thread has added, and their results. To be called before their
 * values or heads are freed or change. */
void ps_codec_end_ahead(void);

/* Copies a head and the message of its codec from a received message or another ps_encoding.
 * Keeps no pointer into src and drops unknown fields. */
void ps_encoding_copy(ps_encoding *dst, const Psgd__V1__Encoding *src);

/* Returns the status that ps_codec_decode would return, without decoding. Decoding what a script
 * has encoded may still fail. payload_bytes 0 is accepted with any codec or none.
 *
 *   INVALID_ARGUMENT  no codec, an unknown codec, or another codec than `expected` (NULL: any; a
 *                     script's: also f32)
 *   DATA_LOSS         len is not payload_bytes; the bytes cannot be decompressed, or to more than n
 *                     values can take; the rows are invalid; or the codec's check fails */
PS_MUST_USE ps_status ps_codec_check(const ps_codec *expected, const Psgd__V1__Encoding *head,
                                     const uint8_t *in, size_t len, size_t n);

/* Checks that all values of an encoding that ps_codec_check has accepted decode to finite numbers.
 * `room` (n) is scratch. Returns INVALID_ARGUMENT with the first one that does not, or the failure
 * of a script to decode them. */
PS_MUST_USE ps_status ps_codec_check_finite(const ps_codec *expected,
                                            const Psgd__V1__Encoding *head, const uint8_t *in,
                                            size_t len, size_t n, float *room);

/* Removes the compression, and decodes what a script encoded, for callers that check an encoding on
 * arrival and decode it later. *head, *in and *len become an encoding of the same values in `plain`
 * and `room` (PS_CODEC_ROOM, aligned for floats): few values of a script one of topk, others of a
 * script one of f32. The old *head must outlive the new one. An encoding that is neither compressed
 * nor a script's stays as it is, unchecked. Fails as ps_codec_check does, but does not run the
 * codec's own check; for a script as ps_codec_decode. */
PS_MUST_USE ps_status ps_codec_decompress(const ps_codec *expected, const Psgd__V1__Encoding **head,
                                          const uint8_t **in, size_t *len, size_t n,
                                          ps_encoding *plain, uint8_t *room);

/* Decodes by the codec of the head. payload_bytes 0 means zeros, with any codec or none. Fails as
 * ps_codec_check does; y is then unchanged. */
PS_MUST_USE ps_status ps_codec_decode(const ps_codec *expected, const Psgd__V1__Encoding *head,
                                      const uint8_t *in, size_t len, ps_into into, float *y,
                                      size_t n);

/* Sets y to what receivers decode from an encoding that this process made. If the codec is a
 * script's and fails, y becomes zeros; the script keeps the failure, which ends the job. */
void ps_codec_decode_own(const Psgd__V1__Encoding *head, const uint8_t *in, float *y, size_t n);

/* Does the same, but may write only those values that are not 0 to y, and their positions,
 * ascending, to `positions` (PS_CODEC_VALUES / 2). Returns their number; n: y has all n values. */
size_t ps_codec_decode_own_few(const Psgd__V1__Encoding *head, const uint8_t *in, float *y,
                               uint16_t *positions, size_t n);

/* Replaces an encoding of a script in out[0..), which decodes to k of n values at `positions`, by
 * one of topk with the same values, if that takes no more bytes: receivers decode it without the
 * script. Returns the bytes of the encoding. */
size_t ps_codec_replace_few(ps_encoding *head, const float *values, const uint16_t *positions,
                            size_t n, size_t k, uint8_t *out);

/* Adds an encoding of `codec`, which must have sum_add, to a sum. payload_bytes 0 adds nothing.
 * Fails as ps_codec_check does; the sum is then unchanged. */
PS_MUST_USE ps_status ps_codec_sum_add(const ps_codec *codec, const Psgd__V1__Encoding *head,
                                       const uint8_t *in, size_t len, void *sum, size_t n);

#endif
