/* SPDX-License-Identifier: Apache-2.0 */
/* library_codec.c - psgd_version and the functions of psgd.h for codecs. */
#include "clients/lib/psgd.h"

#include "clients/lib/last_error.h"
#include "common/base/bytes.h"
#include "common/base/draw.h"
#include "common/codec/codec_spec.h"
#include "common/codec/feedback.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum {
    COUNT_BYTES = 8,  /* length of the number of values, which precedes all slices */
    LENGTH_BYTES = 4, /* length of the number before each slice: the bytes of its head */
    HEAD_MAX = 128    /* most bytes of a slice's head, whatever the codec */
};

struct psgd_codec {
    const ps_codec *codec;
    ps_params params;
};

static int tell_null(const char *function)
{
    ps_status st = ps_fail(PS_INVALID_ARGUMENT, "%s: an argument is NULL", function);

    return library_tell(&st);
}

const char *psgd_version(void)
{
    return PS_VERSION;
}

typedef struct nth {
    size_t left;
    const char *name;
} nth;

static void count_down(const ps_codec *codec, void *arg)
{
    nth *at = arg;

    if (at->left-- == 0) {
        at->name = codec->name;
    }
}

const char *psgd_codec_name(size_t index)
{
    nth at = {.left = index};

    ps_codec_each(count_down, &at);
    return at.name;
}

int psgd_codec_create(const char *spec, psgd_codec **out)
{
    psgd_codec made, *codec;
    ps_status st;

    if (spec == NULL || out == NULL) {
        return tell_null(__func__);
    }
    st = ps_codec_spec_parse(spec, &made.codec, &made.params);
    if (!ps_is_ok(&st)) {
        return library_tell(&st);
    }
    codec = malloc(sizeof *codec);
    if (codec == NULL) {
        st = ps_fail(PS_RESOURCE_EXHAUSTED, "no memory for a codec");
        return library_tell(&st);
    }
    *codec = made;
    *out = codec;
    return PSGD_OK;
}

void psgd_codec_destroy(psgd_codec *codec)
{
    free(codec);
}

/* Returns how many values the slice has that begins at value `at` of n. */
static size_t slice_at(size_t at, size_t n)
{
    return n - at < PS_CODEC_VALUES ? n - at : PS_CODEC_VALUES;
}

/* Returns the sum of of(codec, params, number of values) over the slices of n values. */
static size_t over_slices(const psgd_codec *codec, size_t n,
                          size_t (*of)(const ps_codec *, const ps_params *, size_t))
{
    size_t full = n / PS_CODEC_VALUES, rest = n % PS_CODEC_VALUES;

    return full * (full > 0 ? of(codec->codec, &codec->params, PS_CODEC_VALUES) : 0) +
           (rest > 0 ? of(codec->codec, &codec->params, rest) : 0);
}

static size_t bound_of_slice(const ps_codec *codec, const ps_params *params, size_t n)
{
    return LENGTH_BYTES + HEAD_MAX + codec->size(params, n);
}

size_t psgd_codec_bound(const psgd_codec *codec, size_t n)
{
    return COUNT_BYTES + over_slices(codec, n, bound_of_slice);
}

size_t psgd_codec_state_floats(const psgd_codec *codec, size_t n)
{
    return over_slices(codec, n, ps_feedback_floats);
}

/* Encodes slice number `slice`, with the values x (n), to `out`, which has room for bound_of_slice
 * bytes: the length of the head, the head, the payload. `state` has the slice's residuals; NULL:
 * none are added or kept. Returns the bytes written. */
static size_t encode_slice(const psgd_codec *codec, uint64_t key, uint32_t slice, float *state,
                           const float *x, size_t n, uint8_t *out)
{
    uint8_t payload[PS_CODEC_ROOM];
    float carried[PS_CODEC_VALUES];
    ps_encoding head;
    size_t bytes, head_bytes;

    if (state != NULL) {
        memcpy(carried, x, n * sizeof *x);
        ps_feedback_carry(codec->codec, &codec->params, state, carried, n);
        x = carried;
    }
    bytes =
        ps_feedback_encode(codec->codec, &codec->params, state, key, slice, x, n, payload, &head);
    head_bytes = psgd__v1__encoding__get_packed_size(&head.msg);
    assert(head_bytes <= HEAD_MAX);
    ps_put_u32(out, (uint32_t)head_bytes);
    psgd__v1__encoding__pack(&head.msg, out + LENGTH_BYTES);
    memcpy(out + LENGTH_BYTES + head_bytes, payload, bytes);
    return LENGTH_BYTES + head_bytes + bytes;
}

int psgd_codec_encode(const psgd_codec *codec, const psgd_draw *draw, float *state, const float *x,
                      size_t n, uint8_t *out, size_t size, size_t *len)
{
    static const psgd_draw zeros;
    uint32_t slice = 0;

    if (codec == NULL || out == NULL || len == NULL || (n > 0 && x == NULL)) {
        return tell_null(__func__);
    }
    if (size < psgd_codec_bound(codec, n)) {
        ps_status st = ps_fail(PS_RESOURCE_EXHAUSTED, "size: is %zu; at least %zu are allowed",
                               size, psgd_codec_bound(codec, n));

        return library_tell(&st);
    }
    draw = draw != NULL ? draw : &zeros;
    ps_put_u64(out, n);
    *len = COUNT_BYTES;
    for (size_t at = 0; at < n; at += PS_CODEC_VALUES, slice++) {
        size_t values = slice_at(at, n);
        uint64_t key = ps_draw_key(draw->seed, PS_DRAW_UP, slice, draw->clock, draw->contributor);

        *len += encode_slice(codec, key, slice, state, x + at, values, out + *len);
        if (state != NULL) {
            state += ps_feedback_floats(codec->codec, &codec->params, values);
        }
    }
    return PSGD_OK;
}

/* Reads the head of slice number `slice` at *in. Moves *in behind the head, to the payload, and
 * sets *left to the bytes from there on, which are at least payload_bytes. The caller frees
 * *head. On failure (DATA_LOSS) *head is NULL, and *in and *left are unchanged. */
static ps_status take_head(const uint8_t **in, size_t *left, uint32_t slice,
                           Psgd__V1__Encoding **head)
{
    uint32_t bytes = *left >= LENGTH_BYTES ? ps_get_u32(*in) : 0;

    *head = NULL;
    if (*left < LENGTH_BYTES || bytes > HEAD_MAX || bytes > *left - LENGTH_BYTES) {
        return ps_fail(PS_DATA_LOSS, "slice %u: its head is not within the %zu bytes left", slice,
                       *left);
    }
    *head = psgd__v1__encoding__unpack(NULL, bytes, *in + LENGTH_BYTES);
    if (*head == NULL || (*head)->slice != slice ||
        (*head)->payload_bytes > *left - LENGTH_BYTES - bytes) {
        psgd__v1__encoding__free_unpacked(*head, NULL);
        *head = NULL;
        return ps_fail(PS_DATA_LOSS, "slice %u: its head is damaged or not its own", slice);
    }
    *in += LENGTH_BYTES + bytes;
    *left -= LENGTH_BYTES + bytes;
    return ps_ok();
}

/* If y is NULL, checks every slice of an encoding of n values. Else decodes the slices into y (n):
 * sets or adds to its values, by `into`. Fails with DATA_LOSS, or with INVALID_ARGUMENT if a slice
 * is of another codec. */
static ps_status each_slice(const ps_codec *codec, const uint8_t *in, size_t left, float *y,
                            size_t n, ps_into into)
{
    ps_status st = ps_ok();
    uint32_t slice = 0;

    if (left < COUNT_BYTES || ps_get_u64(in) != n) {
        return ps_fail(PS_DATA_LOSS, "these %zu bytes do not begin with the number of values, %zu",
                       left, n);
    }
    in += COUNT_BYTES;
    left -= COUNT_BYTES;
    for (size_t at = 0; ps_is_ok(&st) && at < n; at += PS_CODEC_VALUES, slice++) {
        size_t values = slice_at(at, n);
        Psgd__V1__Encoding *head;

        st = take_head(&in, &left, slice, &head);
        if (ps_is_ok(&st)) {
            size_t bytes = head->payload_bytes;

            st = y == NULL ? ps_codec_check(codec, head, in, bytes, values)
                           : ps_codec_decode(codec, head, in, bytes, into, y + at, values);
            in += bytes;
            left -= bytes;
        }
        psgd__v1__encoding__free_unpacked(head, NULL);
    }
    if (ps_is_ok(&st) && left > 0) {
        st =
            ps_fail(PS_DATA_LOSS, "%zu bytes are left after the last slice of %zu values", left, n);
    }
    return st;
}

int psgd_codec_decode(const psgd_codec *codec, const uint8_t *in, size_t len, float *y, size_t n,
                      int add)
{
    ps_status st;

    if (codec == NULL || (len > 0 && in == NULL) || (n > 0 && y == NULL)) {
        return tell_null(__func__);
    }
    /* All slices are checked before the first value changes. */
    st = each_slice(codec->codec, in, len, NULL, n, PS_INTO_SET);
    if (ps_is_ok(&st)) {
        st = each_slice(codec->codec, in, len, y, n, add ? PS_INTO_ADD : PS_INTO_SET);
    }
    return library_tell(&st);
}
