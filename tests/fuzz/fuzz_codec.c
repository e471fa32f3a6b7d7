/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_codec.c - any head and any bytes into every codec (libFuzzer).
 *
 * Input: a byte with the number of values, a byte that says which codec, a byte
 * with what it went through (1: compressed, 2: rows) and, if it did, four bytes for
 * each number of that, the numbers of the codec's head with four bytes each, the
 * payload. Or, if that second byte
 * is 128 or more: less 128 it is the length of the head, which follows as a
 * packed Encoding, then the payload. With PSGD_FUZZ_CODEC=NAME in the environment it
 * is always that codec, by its numbers: so each can have its time.
 */
#include "common/codec/codec.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Bytes and a place in them. */
typedef struct input {
    const uint8_t *data;
    size_t left;
} input;

static void take(input *in, void *to, size_t len)
{
    size_t n = len < in->left ? len : in->left;

    memset(to, 0, len);
    memcpy(to, in->data, n);
    in->data += n;
    in->left -= n;
}

/* What a receiver that does not decode makes of the bytes. */
static void sum(const Psgd__V1__Encoding *head, const uint8_t *bytes, size_t len, size_t n)
{
    const ps_codec *codec = ps_codec_of_wire(head->codec_case);
    float y[255];
    void *memory;

    if (codec == NULL || codec->sum_add == NULL) {
        return;
    }
    memory = calloc(1, codec->sum_bytes(n));
    assert(memory != NULL);
    for (int twice = 0; twice < 2; twice++) {
        ps_status checked = ps_codec_check(codec, head, bytes, len, n);
        ps_status st = ps_codec_sum_add(codec, head, bytes, len, memory, n);

        assert(st.code == checked.code);
        codec->sum_value(memory, y, n);
    }
    free(memory);
}

/* First without compression, as servers do: the same values or the same refusal. */
static void decompress(const Psgd__V1__Encoding *head, const uint8_t *bytes, size_t len, size_t n)
{
    ps_status whole = ps_codec_check(NULL, head, bytes, len, n), st;
    uint8_t room[PS_CODEC_ROOM];
    ps_encoding plain;
    float y[255] = {0}, same[255] = {0};

    if (ps_is_ok(&whole)) {
        st = ps_codec_decode(NULL, head, bytes, len, PS_INTO_SET, y, n);
        assert(ps_is_ok(&st));
    }
    st = ps_codec_decompress(NULL, &head, &bytes, &len, n, &plain, room);
    if (ps_is_ok(&st)) {
        st = ps_codec_decode(NULL, head, bytes, len, PS_INTO_SET, same, n);
    }
    assert(st.code == whole.code);
    assert(memcmp(y, same, sizeof y) == 0);
}

static void decode(const Psgd__V1__Encoding *head, const uint8_t *bytes, size_t len, size_t n)
{
    float y[255], before[255];

    memset(y, 0, sizeof y);
    decompress(head, bytes, len, n);
    for (int into = PS_INTO_SET; into <= PS_INTO_ADD; into++) {
        ps_status checked = ps_codec_check(NULL, head, bytes, len, n), st;
        ps_encoding copy;

        memcpy(before, y, sizeof y);
        ps_encoding_copy(&copy, head);
        st = ps_codec_decode(NULL, &copy.msg, bytes, len, (ps_into)into, y, n);
        assert(st.code == checked.code);
        assert(ps_is_ok(&st) || memcmp(before, y, sizeof y) == 0);
    }
    sum(head, bytes, len, n);
}

/* Where the walk over the list is, and which codec it is to stop at. */
typedef struct choice {
    size_t at, wanted;
    const ps_codec *codec;
} choice;

static void choose(const ps_codec *codec, void *arg)
{
    choice *c = arg;

    if (c->at++ == c->wanted) {
        c->codec = codec;
    }
}

/* Where PSGD_FUZZ_CODEC is in the list; 128 or more without it. */
static void find(const ps_codec *codec, void *arg)
{
    choice *c = arg;

    if (c->codec == NULL && strcmp(codec->name, getenv("PSGD_FUZZ_CODEC")) == 0) {
        c->codec = codec;
        c->wanted = c->at;
    }
    c->at++;
}

static size_t only_one(void)
{
    static size_t found = SIZE_MAX;

    if (found == SIZE_MAX) {
        choice c = {.wanted = 128};

        if (getenv("PSGD_FUZZ_CODEC") != NULL) {
            ps_codec_each(find, &c);
            assert(c.codec != NULL); /* no codec of that name */
        }
        found = c.wanted;
    }
    return found;
}

/* Small numbers, mostly: others are refused at once. */
static void make_stages(input *in, Psgd__V1__Encoding *head)
{
    uint8_t which;

    take(in, &which, 1);
    if ((which & 1) != 0) {
        head->lossless = (Psgd__V1__Lossless)(1 + (which >> 2) % 3);
        take(in, &head->raw_bytes, 4);
        head->raw_bytes &= 0x3ff;
    }
    if ((which & 2) != 0) {
        take(in, &head->row_width, 4);
        take(in, &head->row_count, 4);
        head->row_width &= 0x1f;
        head->row_count &= 0x1f;
    }
}

/* A head as that codec makes it, its numbers replaced by the input's. */
static bool make_head(input *in, size_t wanted, ps_encoding *head)
{
    choice c = {.wanted = wanted};
    const ProtobufCMessageDescriptor *type;
    ps_params params;
    uint8_t out[16];
    float x[1] = {1};

    ps_codec_each(choose, &c);
    if (c.codec == NULL) {
        return false;
    }
    params = ps_params_default(c.codec->params);
    (void)ps_codec_encode(c.codec, &params, 1, 0, x, 1, out, head);
    make_stages(in, &head->msg);
    type = head->u.f32.base.descriptor;
    for (unsigned i = 0; i < type->n_fields; i++) { /* 32-bit numbers, all of them */
        take(in, (uint8_t *)&head->u + type->fields[i].offset, 4);
    }
    return true;
}

/* Bytes of exactly that length, so that ASan sees one read too many. */
static void decode_rest(const Psgd__V1__Encoding *head, const input *in, size_t n)
{
    uint8_t *bytes = malloc(in->left + (in->left == 0));

    assert(bytes != NULL);
    memcpy(bytes, in->data, in->left);
    decode(head, bytes, in->left, n);
    free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input in = {data, size};
    uint8_t n, which;

    take(&in, &n, 1);
    take(&in, &which, 1);
    which = only_one() < 128 ? (uint8_t)only_one() : which;
    if (which < 128) {
        ps_encoding head;

        if (make_head(&in, which, &head)) {
            head.msg.payload_bytes = (uint32_t)in.left;
            decode_rest(&head.msg, &in, n);
        }
    } else if ((which & 127u) <= in.left) {
        Psgd__V1__Encoding *head = psgd__v1__encoding__unpack(NULL, which & 127u, in.data);

        if (head != NULL) {
            in.data += which & 127u;
            in.left -= which & 127u;
            decode_rest(head, &in, n);
            psgd__v1__encoding__free_unpacked(head, NULL);
        }
    }
    return 0;
}
