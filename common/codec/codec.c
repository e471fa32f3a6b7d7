/* SPDX-License-Identifier: Apache-2.0 */
/* codec.c - see codec.h. The registry is a const array made of common/codec/list.h. */
#include "common/codec/codec.h"

#include "common/base/nonfinite.h"
#include "common/codec/sparse.h"
#include "common/codec/stages.h"
#include "common/codec/wrap.h"

#include <assert.h>
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#define PS_CODEC(name) extern const ps_codec ps_codec_##name;
#include "common/codec/list.h"
#undef PS_CODEC

static const ps_codec *const codecs[] = {
#define PS_CODEC(name) &ps_codec_##name,
#include "common/codec/list.h"
#undef PS_CODEC
};

enum { CODEC_COUNT = sizeof codecs / sizeof codecs[0] };

const ps_codec *ps_codec_find(const char *name)
{
    for (size_t i = 0; i < CODEC_COUNT; i++) {
        if (strcmp(codecs[i]->name, name) == 0) {
            return codecs[i];
        }
    }
    return NULL;
}

static _Atomic(const ps_codec *) of_scripts;

void ps_codec_know_scripts(const ps_codec *codec)
{
    atomic_store(&of_scripts, codec);
}

const ps_codec *ps_codec_of_wire(Psgd__V1__Encoding__CodecCase wire)
{
    if (wire == PSGD__V1__ENCODING__CODEC_SCRIPT) {
        return atomic_load(&of_scripts);
    }
    for (size_t i = 0; i < CODEC_COUNT; i++) {
        if (codecs[i]->wire == wire) {
            return codecs[i];
        }
    }
    return NULL;
}

void ps_codec_each(void (*fn)(const ps_codec *codec, void *arg), void *arg)
{
    for (size_t i = 0; i < CODEC_COUNT; i++) {
        fn(codecs[i], arg);
    }
}

void ps_encoding_copy(ps_encoding *dst, const Psgd__V1__Encoding *src)
{
    psgd__v1__encoding__init(&dst->msg);
    dst->msg.slice = src->slice;
    dst->msg.payload_bytes = src->payload_bytes;
    dst->msg.lossless = src->lossless;
    dst->msg.raw_bytes = src->raw_bytes;
    dst->msg.row_width = src->row_width;
    dst->msg.row_count = src->row_count;
    dst->msg.codec_case = src->codec_case;
    if (src->codec_case != PSGD__V1__ENCODING__CODEC__NOT_SET) {
        /* Members of the oneof are pointers to messages, in one union. */
        ProtobufCMessage *member = (ProtobufCMessage *)(void *)&dst->u;
        size_t bytes = src->f32->base.descriptor->sizeof_message;

        assert(bytes <= sizeof dst->u);
        memcpy(&dst->u, src->f32, bytes);
        member->n_unknown_fields = 0;
        member->unknown_fields = NULL;
        dst->msg.f32 = &dst->u.f32;
    }
}

/* Returns whether an encoding is more than the codec's bytes: compressed, or without some rows. */
static bool is_staged(const Psgd__V1__Encoding *head)
{
    return head->lossless != PSGD__V1__LOSSLESS__LOSSLESS_UNSPECIFIED || head->row_width > 0;
}

static bool may_be_staged(const ps_codec *codec, const ps_params *params)
{
    return ps_wrap_of(codec, params, PS_WRAP_LOSSLESS) != 0 ||
           (ps_wrap_of(codec, params, PS_WRAP_ROWS) != 0 && codec->sum_add == NULL);
}

ps_codec_facts ps_codec_facts_of(const ps_codec *codec, const ps_params *params)
{
    ps_codec_facts facts = codec->facts(params);

    facts.is_summable &= codec->sum_add != NULL || !may_be_staged(codec, params);
    return facts;
}

bool ps_codec_depends_on_data(const ps_codec *codec, const ps_params *params)
{
    return codec->depends_on_data || may_be_staged(codec, params);
}

bool ps_codec_is_plain(const ps_codec *codec, const ps_params *params)
{
    return codec->is_identity && !may_be_staged(codec, params) &&
           ps_wrap_of(codec, params, PS_WRAP_DIFFERENCE) == 0;
}

bool ps_encoding_is_plain(const Psgd__V1__Encoding *head)
{
    return head->codec_case == PSGD__V1__ENCODING__CODEC_F32 && !is_staged(head);
}

double ps_codec_bits(const ps_codec *codec, const ps_params *params)
{
    return (double)codec->size(params, PS_CODEC_VALUES) * 8 / PS_CODEC_VALUES;
}

size_t ps_codec_state_floats(const ps_codec *codec, const ps_params *params, size_t n)
{
    return codec->state != NULL && ps_wrap_of(codec, params, PS_WRAP_ROWS) == 0
               ? codec->state(params, n)
               : 0;
}

size_t ps_codec_encode(const ps_codec *codec, const ps_params *params, uint64_t key, uint32_t slice,
                       const float *x, size_t n, uint8_t *out, ps_encoding *head)
{
    return ps_codec_encode_with(codec, params, NULL, key, slice, x, n, out, head);
}

static void finish(ps_encoding *head, uint32_t slice, size_t bytes)
{
    head->msg.slice = slice;
    head->msg.payload_bytes = (uint32_t)bytes;
}

size_t ps_codec_encode_with(const ps_codec *codec, const ps_params *params, float *state,
                            uint64_t key, uint32_t slice, const float *x, size_t n, uint8_t *out,
                            ps_encoding *head)
{
    size_t bytes;

    assert(n <= PS_CODEC_VALUES);
    psgd__v1__encoding__init(&head->msg);
    if (may_be_staged(codec, params)) {
        bytes = ps_stages_encode(codec, params, state, key, x, n, out, head);
    } else if (codec->encode_with != NULL && state != NULL) {
        bytes = codec->encode_with(params, key, state, x, n, out, head);
    } else {
        bytes = codec->encode(params, key, x, n, out, head);
    }
    assert(bytes <= codec->size(params, n));
    assert(head->msg.codec_case == codec->wire);
    finish(head, slice, bytes);
    return bytes;
}

bool ps_codec_encode_ahead(const ps_codec *codec, const ps_params *params, uint64_t key,
                           const float *x, size_t n, float **room)
{
    return codec->ahead != NULL && ps_wrap_of(codec, params, PS_WRAP_ROWS) == 0 &&
           codec->ahead->encode(params, key, x, n, room);
}

bool ps_codec_decode_ahead(const Psgd__V1__Encoding *head, const uint8_t *in, size_t n)
{
    const ps_codec *codec = head->payload_bytes > 0 ? ps_codec_of_wire(head->codec_case) : NULL;

    return codec != NULL && codec->ahead != NULL && !is_staged(head) &&
           codec->ahead->decode(head, in, head->payload_bytes, n);
}

/* Encodes or decodes the slices that this thread has added. Only codecs of scripts take any. */
void ps_codec_run_ahead(void)
{
    const ps_codec *codec = atomic_load(&of_scripts);

    if (codec != NULL) {
        codec->ahead->run();
    }
}

void ps_codec_end_ahead(void)
{
    const ps_codec *codec = atomic_load(&of_scripts);

    if (codec != NULL) {
        codec->ahead->end();
    }
}

/* Returns whether an encoding by `codec` is allowed where the job says `expected`: it is that
 * codec, or one of those to which decode_script decodes what a script has encoded. */
static bool may_stand_for(const ps_codec *codec, const ps_codec *expected)
{
    return codec->wire == expected->wire ||
           (expected->wire == PSGD__V1__ENCODING__CODEC_SCRIPT &&
            (codec->is_identity || codec->wire == PSGD__V1__ENCODING__CODEC_TOPK));
}

/* Finds the codec to decode with; *out is NULL if the encoding has no bytes, which means zeros.
 * Fails if the head names a codec that may not stand for `expected` (NULL: any may). */
static ps_status resolve(const ps_codec *expected, const Psgd__V1__Encoding *head, size_t len,
                         const ps_codec **out)
{
    const ps_codec *codec;

    *out = NULL;
    if (len != head->payload_bytes) {
        return ps_fail(PS_DATA_LOSS, "slice %u: has %zu bytes, but its head says %u", head->slice,
                       len, head->payload_bytes);
    }
    if (len == 0) {
        return ps_ok();
    }
    codec = ps_codec_of_wire(head->codec_case);
    if (codec == NULL) {
        return ps_fail(PS_INVALID_ARGUMENT, "slice %u: this build does not know its codec",
                       head->slice);
    }
    if (head->row_width > 0 && codec->sum_add != NULL) {
        return ps_fail(PS_DATA_LOSS, "slice %u: has rows, but codec %s always sends all values",
                       head->slice, codec->name);
    }
    if (expected != NULL && !may_stand_for(codec, expected)) {
        return ps_fail(PS_INVALID_ARGUMENT, "slice %u: has codec %s, but the job says %s",
                       head->slice, codec->name, expected->name);
    }
    *out = codec;
    return ps_ok();
}

/* Sets *plain to the head of n values in `room`: of k of them as topk encodes them, or of all as
 * float32. The values stand at the beginning of room. Returns the bytes of the encoding there. */
static size_t put_plain(uint32_t slice, const uint16_t *positions, size_t n, size_t k,
                        ps_encoding *plain, uint8_t *room)
{
    size_t bytes = k * sizeof(float);

    psgd__v1__encoding__init(&plain->msg);
    if (k < n) {
        memmove(room + ps_positions_bytes(n, k), room, bytes);
        bytes += ps_positions_write(positions, n, k, room);
        psgd__v1__topk__init(&plain->u.topk);
        plain->u.topk.count = (uint32_t)k;
        plain->msg.topk = &plain->u.topk;
        plain->msg.codec_case = PSGD__V1__ENCODING__CODEC_TOPK;
    } else {
        psgd__v1__f32__init(&plain->u.f32);
        plain->msg.f32 = &plain->u.f32;
        plain->msg.codec_case = PSGD__V1__ENCODING__CODEC_F32;
    }
    finish(plain, slice, bytes);
    return bytes;
}

/* Decodes the encoding of a script to few values with positions, or to float32. No check can tell
 * whether the script's code will fail, so it is run at once. */
static ps_status decode_script(const ps_codec *expected, const Psgd__V1__Encoding **head,
                               const uint8_t **in, size_t *len, size_t n, ps_encoding *plain,
                               uint8_t *room)
{
    float *values = (float *)(void *)room;
    uint16_t positions[PS_CODEC_VALUES / 2];
    const ps_codec *codec;
    ps_status st = resolve(expected, *head, *len, &codec);
    size_t k = n;

    if (!ps_is_ok(&st) || codec == NULL) {
        return st;
    }
    st = is_staged(*head) ? ps_stages_decode(codec, *head, *in, *len, PS_INTO_SET, values, n)
                          : codec->decode_few(*head, *in, *len, values, positions, n, &k);
    if (ps_is_ok(&st)) {
        *len = put_plain((*head)->slice, positions, n, k, plain, room);
        *in = room;
        *head = &plain->msg;
    }
    return st;
}

ps_status ps_codec_decompress(const ps_codec *expected, const Psgd__V1__Encoding **head,
                              const uint8_t **in, size_t *len, size_t n, ps_encoding *plain,
                              uint8_t *room)
{
    const ps_codec *codec;
    ps_status st;

    if ((*head)->codec_case == PSGD__V1__ENCODING__CODEC_SCRIPT) {
        return decode_script(expected, head, in, len, n, plain, room);
    }
    if ((*head)->lossless == PSGD__V1__LOSSLESS__LOSSLESS_UNSPECIFIED) {
        return ps_ok();
    }
    st = resolve(expected, *head, *len, &codec);
    if (ps_is_ok(&st) && codec != NULL) {
        st = ps_stages_raw(*head, in, len, n, room);
    }
    if (!ps_is_ok(&st)) {
        return st;
    }
    plain->msg = **head;
    plain->msg.lossless = PSGD__V1__LOSSLESS__LOSSLESS_UNSPECIFIED;
    plain->msg.payload_bytes = (uint32_t)*len;
    plain->msg.raw_bytes = 0;
    *head = &plain->msg;
    return st;
}

ps_status ps_codec_check(const ps_codec *expected, const Psgd__V1__Encoding *head,
                         const uint8_t *in, size_t len, size_t n)
{
    const ps_codec *codec;
    ps_status st = resolve(expected, head, len, &codec);

    if (!ps_is_ok(&st) || codec == NULL) {
        return st;
    }
    return is_staged(head) ? ps_stages_check(codec, head, in, len, n)
                           : codec->check(head, in, len, n);
}

/* Decodes to room. Sets *first to the index of the first value there that is not finite; n: all
 * are finite. */
static ps_status decode_to_look(const ps_codec *codec, const Psgd__V1__Encoding *head,
                                const uint8_t *in, size_t len, size_t n, float *room, size_t *first)
{
    ps_status st = is_staged(head) ? ps_stages_decode(codec, head, in, len, PS_INTO_SET, room, n)
                                   : codec->decode(head, in, len, PS_INTO_SET, room, n);

    *first = ps_is_ok(&st) ? ps_first_nonfinite(room, n) : 0;
    return st;
}

ps_status ps_codec_check_finite(const ps_codec *expected, const Psgd__V1__Encoding *head,
                                const uint8_t *in, size_t len, size_t n, float *room)
{
    const ps_codec *codec;
    ps_status st = resolve(expected, head, len, &codec);
    size_t first = n;

    if (!ps_is_ok(&st) || codec == NULL) {
        return st;
    }
    if (codec->most != NULL && isfinite(codec->most(head, is_staged(head) ? NULL : in, n))) {
        return st;
    }
    if (codec->first_nonfinite != NULL && !is_staged(head)) {
        first = codec->first_nonfinite(head, in, n);
    } else {
        st = decode_to_look(codec, head, in, len, n, room, &first);
    }
    if (ps_is_ok(&st) && first < n) {
        st = ps_fail(PS_INVALID_ARGUMENT,
                     "slice %u: value %zu is not finite; finite numbers are allowed", head->slice,
                     first);
    }
    return st;
}

ps_status ps_codec_decode(const ps_codec *expected, const Psgd__V1__Encoding *head,
                          const uint8_t *in, size_t len, ps_into into, float *y, size_t n)
{
    const ps_codec *codec;
    ps_status st = resolve(expected, head, len, &codec);

    if (!ps_is_ok(&st)) {
        return st;
    }
    if (codec == NULL) {
        if (into == PS_INTO_SET) {
            memset(y, 0, n * sizeof *y);
        }
        return st;
    }
    return is_staged(head) ? ps_stages_decode(codec, head, in, len, into, y, n)
                           : codec->decode(head, in, len, into, y, n);
}

void ps_codec_decode_own(const Psgd__V1__Encoding *head, const uint8_t *in, float *y, size_t n)
{
    ps_status st = ps_codec_decode(NULL, head, in, head->payload_bytes, PS_INTO_SET, y, n);

    if (!ps_is_ok(&st)) {
        assert(head->codec_case == PSGD__V1__ENCODING__CODEC_SCRIPT);
        memset(y, 0, n * sizeof *y);
    }
}

size_t ps_codec_decode_own_few(const Psgd__V1__Encoding *head, const uint8_t *in, float *y,
                               uint16_t *positions, size_t n)
{
    const ps_codec *codec = ps_codec_of_wire(head->codec_case);
    size_t k = n;

    if (head->payload_bytes == 0) {
        return 0;
    }
    if (codec == NULL || codec->decode_few == NULL || is_staged(head)) {
        ps_codec_decode_own(head, in, y, n);
    } else {
        ps_status st = codec->decode_few(head, in, head->payload_bytes, y, positions, n, &k);

        k = ps_is_ok(&st) ? k : 0; /* zeros, as in ps_codec_decode_own */
    }
    return k;
}

size_t ps_codec_replace_few(ps_encoding *head, const float *values, const uint16_t *positions,
                            size_t n, size_t k, uint8_t *out)
{
    size_t bytes = head->msg.payload_bytes;

    if (head->msg.codec_case != PSGD__V1__ENCODING__CODEC_SCRIPT || k == 0 || k >= n ||
        ps_sparse_bytes(n, k) > bytes) {
        return bytes;
    }
    memcpy(out, values, k * sizeof *values);
    return put_plain(head->msg.slice, positions, n, k, head, out);
}

ps_status ps_codec_sum_add(const ps_codec *codec, const Psgd__V1__Encoding *head, const uint8_t *in,
                           size_t len, void *sum, size_t n)
{
    uint8_t room[PS_STAGES_RAW_MAX];
    ps_status st = ps_codec_check(codec, head, in, len, n);

    if (!ps_is_ok(&st) || len == 0) {
        return st;
    }
    st = ps_stages_raw(head, &in, &len, n, room);
    if (ps_is_ok(&st)) {
        codec->sum_add(head, in, len, sum, n);
    }
    return st;
}
