/* SPDX-License-Identifier: Apache-2.0 */
/* codec.h - how float32 values become bytes and bytes become values.
 *
 * A codec is a const table of functions without state. To add one: a message
 * in proto/psgd/v1/codec.proto with its line in Encoding's oneof, the file
 * common/codec/NAME.c which defines `const ps_codec ps_codec_NAME` with a table of
 * parameters that ends with PS_WRAP_PARAMS (wrap.h), a line in
 * common/codec/list.h and one in CMakeLists.txt. Tests, `psgd info` and the
 * fuzzer iterate over the list; its golden bytes are written once, with
 * PSGD_WRITE_GOLDEN=1 test_codec_golden, and its bits stand in test_codec.c as in
 * docs/codecs.md.
 *
 * All functions may be called from any thread; n is at most PS_CODEC_VALUES,
 * so that lengths fit everywhere and one slice never fills a message.
 */
#ifndef PS_COMMON_CODEC_CODEC_H
#define PS_COMMON_CODEC_CODEC_H

#include "common/base/param.h"
#include "common/base/status.h"

#include "psgd/v1/codec.pb-c.h"

#include <stddef.h>
#include <stdint.h>

enum { PS_CODEC_VALUES = 16384 }; /* most values of one slice */

/* What a codec with these numbers keeps of the values. */
typedef struct ps_codec_facts {
    bool is_unbiased; /* the mean over keys of decode(encode(x)) is x */
    bool is_summable; /* under one key and head the bytes' numbers may be added undecoded, or
                       * sum_add adds any */
    bool is_sparse;   /* most of a slice is left out, values that come back as 0 (if it
                       * keeps_zeros) or a part: for increments, not for weights */
    bool keeps_zeros; /* 0 comes back as 0 */

    /* Largest |decoded - x| as a multiple of |x| plus a multiple of max|x| of
     * the slice, for finite x in binary32's normal range (f16: from 2^-14 to
     * 65504). Codecs with a scale take a slice whose max|x| is below 2^-100
     * for zeros (int8: below 127 * 2^-126 it counts as outside). */
    double error_of_value, error_of_max;
} ps_codec_facts;

/* An Encoding with room for what any codec's message holds; no heap. It points
 * into itself: copy one with ps_encoding_copy, never by assignment. */
typedef struct ps_encoding {
    Psgd__V1__Encoding msg;
    union {
        Psgd__V1__F32 f32;
        Psgd__V1__F16 f16;
        Psgd__V1__Int8 int8;
        Psgd__V1__Bf16 bf16;
        Psgd__V1__Intn intn;
        Psgd__V1__Natural natural;
        Psgd__V1__Sign sign;
        Psgd__V1__Onebit onebit;
        Psgd__V1__Ternary ternary;
        Psgd__V1__Qsgd qsgd;
        Psgd__V1__Topk topk;
        Psgd__V1__Randomk randomk;
        Psgd__V1__Threshold threshold;
        Psgd__V1__Threelc threelc;
        Psgd__V1__Cot cot;
        Psgd__V1__Tqn tqn;
        Psgd__V1__Laq laq;
        Psgd__V1__Norm norm;
        Psgd__V1__Vote vote;
        Psgd__V1__Intsum intsum;
        Psgd__V1__Dgc dgc;
        Psgd__V1__Powersgd powersgd;
    } u;
} ps_encoding;

/* What decode does with the values. */
typedef enum ps_into {
    PS_INTO_SET, /* y = x */
    PS_INTO_ADD  /* y = y + x */
} ps_into;

typedef struct ps_codec {
    const char *name;                   /* in jobs and documents; never changes */
    const char *summary;                /* one line with the formula */
    const ps_param *params;             /* its own, then wrap.h's */
    size_t own;                         /* of its own */
    Psgd__V1__Encoding__CodecCase wire; /* its member of the oneof */
    bool is_identity; /* bytes are the float32 values in memory order, little-endian */

    ps_codec_facts (*facts)(const ps_params *params);

    /* Most bytes that encode writes for n values, and exactly how many unless
     * ps_codec_depends_on_data. At most 4 n + 8, and 4 * PS_CODEC_VALUES for any n. */
    bool depends_on_data;
    size_t (*size)(const ps_params *params, size_t n);

    /* Writes x[0..n) to out[0..size(n)), returns how many bytes that were, and
     * fills `head` (codec case and member; not slice nor payload_bytes). No
     * bytes stand for all zeros. `key` seeds rounding: the same key and values
     * give the same bytes on every processor. Values that are not finite are
     * encoded as the codec can (those that send floats: as they are; those with
     * a scale: NaN as 0, an infinity as the largest finite magnitude of the
     * slice); decode of the result never fails. */
    size_t (*encode)(const ps_params *params, uint64_t key, const float *x, size_t n, uint8_t *out,
                     ps_encoding *head);

    /* (optional pair) What a sender keeps between two encodings of one slice: so many
     * floats, zeros at first, and encode that uses and moves them. The key of the
     * encoding before means that again: the same bytes, and nothing moves. Without
     * them encode does what it can. */
    size_t (*state)(const ps_params *params, size_t n);
    size_t (*encode_with)(const ps_params *params, uint64_t key, float *state, const float *x,
                          size_t n, uint8_t *out, ps_encoding *head);

    /* (optional, all or none) How a receiver merges contributions without decoding
     * them: memory of sum_bytes (zeros at first, aligned as malloc's); sum_add adds
     * bytes that check took; sum_value is what they stand for together: the sum
     * of what each decodes to, or (sum_is_vote) another thing. */
    size_t (*sum_bytes)(size_t n);
    void (*sum_add)(const Psgd__V1__Encoding *head, const uint8_t *in, size_t len, void *sum,
                    size_t n);
    void (*sum_value)(const void *sum, float *y, size_t n);
    bool sum_is_vote;

    /* Whether decode will take these bytes: OK, or DATA_LOSS with the reason.
     * Reads no more of `in` than it must; for who keeps bytes for later. */
    PS_MUST_USE ps_status (*check)(const Psgd__V1__Encoding *head, const uint8_t *in, size_t len,
                                   size_t n);

    /* Reads exactly n values from in[0..len) into y (set) or onto it (add).
     * `in` and `head` come from the network and may be unaligned: anything at
     * all ends in values or in DATA_LOSS. On failure y is as it was. */
    PS_MUST_USE ps_status (*decode)(const Psgd__V1__Encoding *head, const uint8_t *in, size_t len,
                                    ps_into into, float *y, size_t n);
} ps_codec;

/* NULL if no codec has that name, or that member of the oneof. */
const ps_codec *ps_codec_find(const char *name);
const ps_codec *ps_codec_of_wire(Psgd__V1__Encoding__CodecCase wire);

/* Calls fn once per codec, in the order of common/codec/list.h. */
void ps_codec_each(void (*fn)(const ps_codec *codec, void *arg), void *arg);

/* Its facts; compressed or of some rows only, encodings are not summable. */
ps_codec_facts ps_codec_facts_of(const ps_codec *codec, const ps_params *params);

/* Whether encodings may be shorter than size says: the codec's own, or those that
 * are compressed or leave out rows. */
bool ps_codec_depends_on_data(const ps_codec *codec, const ps_params *params);

/* Whether all encodings are the float32 values as they lie in memory, none of them
 * left out; and whether one is. */
bool ps_codec_is_plain(const ps_codec *codec, const ps_params *params);
bool ps_encoding_is_plain(const Psgd__V1__Encoding *head);

/* Bits a value of a full slice, beside the head; at most that if the size depends
 * on data. */
double ps_codec_bits(const ps_codec *codec, const ps_params *params);

/* encode with the head prepared (init, slice and payload_bytes filled in), rows of
 * zeros left out and bytes compressed as `params` say. Returns payload_bytes, at
 * most size(n). */
size_t ps_codec_encode(const ps_codec *codec, const ps_params *params, uint64_t key, uint32_t slice,
                       const float *x, size_t n, uint8_t *out, ps_encoding *head);

/* The same with the slice's state, at least ps_codec_state_floats, or NULL. Of
 * encodings that may leave out rows no state is kept. */
size_t ps_codec_state_floats(const ps_codec *codec, const ps_params *params, size_t n);
size_t ps_codec_encode_with(const ps_codec *codec, const ps_params *params, float *state,
                            uint64_t key, uint32_t slice, const float *x, size_t n, uint8_t *out,
                            ps_encoding *head);

/* A slice of rows of `width` values (n is a multiple), most of which nobody has touched.
 * What these do goes by the rows that are named, not by n.
 *
 * encode_rows: as ps_codec_encode where `params` say rows of that width, of a slice that is
 * zeros but perhaps in rows[0..count), ascending; and where they are too many to be sent so,
 * all of x is read. `rows` is scratch afterwards. Of a codec without sum_add. */
size_t ps_codec_encode_rows(const ps_codec *codec, const ps_params *params, uint64_t key,
                            uint32_t slice, const float *x, size_t n, uint16_t *rows, size_t count,
                            uint8_t *out, ps_encoding *head);
/* encode_changed: these rows as they are, zeros too; the others stay. Of an identity. */
size_t ps_codec_encode_changed(const ps_codec *codec, const ps_params *params, uint32_t slice,
                               const float *x, size_t n, size_t width, const uint16_t *rows,
                               size_t count, uint8_t *out, ps_encoding *head);
/* unpack: decodes to the rows that are not zeros, ascending, into rows (n / width), and their
 * values one after the other into packed (n). Fails as ps_codec_check does. */
PS_MUST_USE ps_status ps_codec_unpack(const ps_codec *expected, const Psgd__V1__Encoding *head,
                                      const uint8_t *in, size_t len, size_t n, size_t width,
                                      uint16_t *rows, size_t *count, float *packed);

/* Copies a head with what its codec needs, from a received message or another
 * ps_encoding. Keeps no pointer into src; unknown fields are left behind. */
void ps_encoding_copy(ps_encoding *dst, const Psgd__V1__Encoding *src);

/* What ps_codec_decode would answer, without decoding:
 *
 * INVALID_ARGUMENT  no codec, one this build does not know, or another than
 *                   `expected` (NULL: any)
 * DATA_LOSS         len is not payload_bytes, bytes that cannot be decompressed or
 *                   are more than n values can take, rows that are none, or the
 *                   codec's check fails */
PS_MUST_USE ps_status ps_codec_check(const ps_codec *expected, const Psgd__V1__Encoding *head,
                                     const uint8_t *in, size_t len, size_t n);

/* For who checks what comes and decodes it later: *head, *in and *len become an encoding of
 * the same values without compression, in `plain` and `room`; they stay what they are
 * where there is none. *head has to outlive it. Fails as ps_codec_check does, but for what the
 * codec says of its bytes, which is still to be asked. */
enum { PS_CODEC_ROOM = 4 * PS_CODEC_VALUES };
PS_MUST_USE ps_status ps_codec_decompress(const ps_codec *expected, const Psgd__V1__Encoding **head,
                                          const uint8_t **in, size_t *len, size_t n,
                                          Psgd__V1__Encoding *plain, uint8_t *room);

/* Decodes by the head's codec; payload_bytes 0 means zeros, of any codec or of
 * none. Set with a head whose others_stay: rows that are not sent stay as y has them. Fails as
 * ps_codec_check does; y is then as it was. */
PS_MUST_USE ps_status ps_codec_decode(const ps_codec *expected, const Psgd__V1__Encoding *head,
                                      const uint8_t *in, size_t len, ps_into into, float *y,
                                      size_t n);

/* sum_add of an encoding of `codec`, which has one, by its head: payload_bytes 0 adds
 * nothing. Fails as ps_codec_decode does; the sum is then as it was. */
PS_MUST_USE ps_status ps_codec_sum_add(const ps_codec *codec, const Psgd__V1__Encoding *head,
                                       const uint8_t *in, size_t len, void *sum, size_t n);

#endif
