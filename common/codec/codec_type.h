/* SPDX-License-Identifier: Apache-2.0 */
/* codec_type.h - what a codec is: it turns float32 values into bytes and back.
 *
 * A codec is a const table of functions without state. codec.h encodes and decodes slices with
 * any of them. To add one:
 * - add a message to proto/psgd/v1/codec.proto with its line in Encoding's oneof;
 * - write common/codec/NAME.c, which defines `const ps_codec ps_codec_NAME` with a table of numbers
 *   that ends with PS_WRAP_PARAMS (wrap.h);
 * - add a line to common/codec/list.h and one to CMakeLists.txt;
 * - write its golden bytes once, with PSGD_WRITE_GOLDEN=1 test_codec_golden;
 * - state its bits in test_codec.c and in docs/codecs.md.
 *
 * Tests, `psgd info` and the fuzzer iterate over the list.
 *
 * Any thread may call any function. n is at most PS_CODEC_VALUES, so lengths fit everywhere and
 * one slice never fills a message.
 */
#ifndef PS_COMMON_CODEC_CODEC_TYPE_H
#define PS_COMMON_CODEC_CODEC_TYPE_H

#include "common/base/param.h"
#include "common/base/status.h"

#include "psgd/v1/codec.pb-c.h"

#include <stddef.h>
#include <stdint.h>

enum {
    PS_CODEC_VALUES = 16384,            /* limit of the values of one slice */
    PS_CODEC_ROOM = 4 * PS_CODEC_VALUES /* most bytes of an encoding, and of its float32 values */
};

/* The properties of a codec with given numbers. */
typedef struct ps_codec_facts {
    bool is_unbiased; /* the mean over keys of decode(encode(x)) is x */
    /* encodings with the same key and head may be summed without decoding, by adding their
     * numbers; or sum_add sums any encodings */
    bool is_summable;
    /* most values of a slice are not sent; they decode to 0 (if keeps_zeros) or to a part of
     * their value; for increments, not for weights */
    bool is_sparse;
    bool keeps_zeros; /* 0 decodes to 0 */

    /* Bound of |decoded - x|, as a multiple of |x| plus a multiple of max|x| of the slice. It
     * holds for finite x in the normal range of binary32 (f16: from 2^-14 to 65504). Codecs
     * with a scale treat a slice whose max|x| is below 2^-100 as zeros (int8: the bound does
     * not hold below 127 * 2^-126). */
    double error_of_value, error_of_max;
} ps_codec_facts;

/* An Encoding message with room for the message of any codec; it needs no heap. It points into
 * itself: copy it with ps_encoding_copy, never by assignment. */
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
        Psgd__V1__Script script;
    } u;
} ps_encoding;

/* How decode writes the values. */
typedef enum ps_into {
    PS_INTO_SET, /* y = x */
    PS_INTO_ADD  /* y = y + x */
} ps_into;

/* For codecs that are slow to call: encodes or decodes several slices in one call. A thread adds
 * slices, and `run` encodes or decodes them. ps_codec.encode and decode then find the result of a
 * slice that was added with the same key or head and the same memory. `end` forgets slices and
 * results. */
typedef struct ps_codec_ahead {
    /* Add a slice. Its memory must stay and not change until `end`, because the address tells later
     * which slice it was. Return false if the slice cannot be added to those that were added
     * before; the caller then calls run and uses their results first. encode copies the values; or,
     * if `room` is not NULL, sets *room to where the caller writes them (n) before `run`. */
    bool (*encode)(const ps_params *params, uint64_t key, const float *x, size_t n, float **room);
    bool (*decode)(const Psgd__V1__Encoding *head, const uint8_t *in, size_t len, size_t n);
    void (*run)(void);
    void (*end)(void);
} ps_codec_ahead;

typedef struct ps_codec {
    const char *name;                   /* name in jobs and documents; never changes */
    const char *summary;                /* one line with the formula */
    const ps_param *params;             /* the codec's own numbers, then those of wrap.h */
    size_t own;                         /* how many of params are the codec's own */
    Psgd__V1__Encoding__CodecCase wire; /* the codec's member of the oneof in Encoding */
    bool is_identity; /* bytes are the float32 values in memory order, little-endian */
    /* sends two thin matrices. Its numbers are `rank` and `columns`. Where the job leaves `columns`
     * at 0, common/job sets it by the variable's shape, and has a variable of several slices sent
     * whole to servers if that pays (common/wire/matrix.h) */
    bool is_low_rank;

    /* Returns the properties of the codec with these numbers. */
    ps_codec_facts (*facts)(const ps_params *params);

    bool depends_on_data; /* encodings may be shorter than `size` says */
    /* Returns the maximum of bytes that encode writes for n values; the exact number unless
     * ps_codec_depends_on_data. It is at most 4 n + 8, and at most 4 * PS_CODEC_VALUES for any
     * n. */
    size_t (*size)(const ps_params *params, size_t n);

    /* Encodes x[0..n) into out[0..size(n)), fills `head` (codec case and member; not slice and
     * payload_bytes) and returns the number of bytes. 0 bytes mean zeros. `key` determines
     * random rounding: equal keys and values give equal bytes on every processor. Non-finite
     * values are encoded as far as possible: unchanged by codecs that send floats; by codecs
     * with a scale NaN as 0, an infinity as the largest finite magnitude of the slice. The
     * result can always be decoded. */
    size_t (*encode)(const ps_params *params, uint64_t key, const float *x, size_t n, uint8_t *out,
                     ps_encoding *head);

    /* (optional, with encode_with) Returns the floats of state that a sender keeps between two
     * encodings of a slice of n values. They are zeros at first. */
    size_t (*state)(const ps_params *params, size_t n);
    /* (optional, with state) Does what encode does, with the state of the slice, which it
     * updates. A call with the key of the call before is a repetition: it gives the same bytes
     * and leaves the state unchanged. */
    size_t (*encode_with)(const ps_params *params, uint64_t key, float *state, const float *x,
                          size_t n, uint8_t *out, ps_encoding *head);
    /* (optional, with sum_add and sum_value) Returns the bytes of a sum of contributions of n
     * values, which a receiver forms without decoding them. A new sum is zeros, aligned as by
     * malloc. */
    size_t (*sum_bytes)(size_t n);
    /* Adds an encoding that check has accepted to a sum. */
    void (*sum_add)(const Psgd__V1__Encoding *head, const uint8_t *in, size_t len, void *sum,
                    size_t n);
    /* Writes the result of a sum to y (n): the sum of the decoded contributions, or another value
     * if sum_is_vote. */
    void (*sum_value)(const void *sum, float *y, size_t n);
    bool sum_is_vote;
    /* (optional) Returns whether this sum, which was read from a file, is valid: more can be added
     * to it, and no number in it overflows. Without it any bytes are a valid sum. */
    bool (*sum_check)(const void *sum, size_t n);

    /* Checks that decode will accept these bytes. Returns DATA_LOSS with the reason if not.
     * Reads no more of `in` than necessary. For callers that keep bytes and decode them later. */
    PS_MUST_USE ps_status (*check)(const Psgd__V1__Encoding *head, const uint8_t *in, size_t len,
                                   size_t n);

    /* (optional) Returns a bound of the magnitude of the values that decode gives, for any content
     * that check accepts; infinity if there is none. `in` is NULL if the bytes are compressed. If
     * the bound is finite, all values are finite, and the receiver does not check them. */
    float (*most)(const Psgd__V1__Encoding *head, const uint8_t *in, size_t n);
    /* (optional) Returns the index of the first value that is not finite; n: there is none. Without
     * it the values are decoded and checked. The encoding is one that check has accepted. */
    size_t (*first_nonfinite)(const Psgd__V1__Encoding *head, const uint8_t *in, size_t n);

    /* Decodes exactly n values from in[0..len) and sets y to them or adds them to y. `in` and
     * `head` come from the network and may be unaligned; any content gives either values or
     * DATA_LOSS. y is unchanged on failure. */
    PS_MUST_USE ps_status (*decode)(const Psgd__V1__Encoding *head, const uint8_t *in, size_t len,
                                    ps_into into, float *y, size_t n);
    /* (optional) Decodes an encoding that check has accepted to n values, as decode does. If most
     * of them are 0, may write only the others, *k of them, to y, and their positions, ascending,
     * to `positions`, which has room for PS_CODEC_VALUES / 2. Else sets *k to n. */
    PS_MUST_USE ps_status (*decode_few)(const Psgd__V1__Encoding *head, const uint8_t *in,
                                        size_t len, float *y, uint16_t *positions, size_t n,
                                        size_t *k);

    const ps_codec_ahead *ahead; /* (optional) */
} ps_codec;

#endif
