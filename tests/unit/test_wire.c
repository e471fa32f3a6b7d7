/* SPDX-License-Identifier: Apache-2.0 */
/* test_wire.c - messages to slices and back, cut in every way. */
#include "tests/support/cmocka_all.h"

#include "common/base/xalloc.h"
#include "common/rpc/error_wire.h"
#include "common/rpc/wire.h"
#include "tests/support/echo_world.h"

#include <float.h>
#include <grpc/grpc.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef Psgd__Test__Block block;

/* The bytes as gRPC gives them, cut into slices of `cut` bytes (0: one slice),
 * with empty ones between. */
static grpc_byte_buffer *buffer_of(const uint8_t *bytes, size_t n, size_t cut)
{
    grpc_byte_buffer *buffer = grpc_raw_byte_buffer_create(NULL, 0);
    grpc_slice_buffer *slices = &buffer->data.raw.slice_buffer;

    cut = cut == 0 ? n + 1 : cut;
    grpc_slice_buffer_add(slices, grpc_empty_slice());
    for (size_t at = 0; at < n; at += cut) {
        size_t len = n - at < cut ? n - at : cut;

        /* _indexed: does not merge small ones */
        grpc_slice_buffer_add_indexed(slices,
                                      grpc_slice_from_copied_buffer((const char *)bytes + at, len));
        grpc_slice_buffer_add_indexed(slices, grpc_empty_slice());
    }
    return buffer;
}

static uint8_t *bytes_of(grpc_byte_buffer *buffer, size_t *n)
{
    const grpc_slice_buffer *slices = &buffer->data.raw.slice_buffer;
    uint8_t *bytes = ps_xmalloc(slices->length);

    *n = 0;
    for (size_t i = 0; i < slices->count; i++) {
        memcpy(bytes + *n, GRPC_SLICE_START_PTR(slices->slices[i]),
               GRPC_SLICE_LENGTH(slices->slices[i]));
        *n += GRPC_SLICE_LENGTH(slices->slices[i]);
    }
    return bytes;
}

static uint8_t *pack_block(size_t payload_len, size_t *n)
{
    Psgd__Test__Item item = PSGD__TEST__ITEM__INIT, *items[] = {&item, &item};
    block b = PSGD__TEST__BLOCK__INIT;
    ps_buf *buf = echo_buf(payload_len);
    ps_piece pieces[] = {{buf->data, payload_len / 2, buf},
                         {buf->data + payload_len / 2, payload_len - payload_len / 2, NULL}};
    grpc_byte_buffer *buffer;
    uint8_t *bytes;

    item.name = (char *)"item";
    b.number = 300;
    b.text = (char *)"some text";
    b.items = items;
    b.n_items = 2;
    buffer = ps_wire_pack(&b.base, pieces, 2);
    bytes = bytes_of(buffer, n);
    grpc_byte_buffer_destroy(buffer);
    ps_buf_unref(buf);
    return bytes;
}

static void what_is_packed_is_plain_protobuf(void **state)
{
    static const size_t lens[] = {0, 1, 127, 128, 16383, 16384, PS_PAYLOAD_MAX};

    (void)state;
    for (size_t i = 0; i < sizeof lens / sizeof lens[0]; i++) {
        size_t n;
        uint8_t *bytes = pack_block(lens[i], &n);
        block *b = psgd__test__block__unpack(NULL, n, bytes);

        assert_non_null(b);
        assert_int_equal(b->number, 300);
        assert_int_equal(b->payload.len, lens[i]);
        assert_true(echo_bytes_match(b->payload.data, 0, b->payload.len));
        psgd__test__block__free_unpacked(b, NULL);
        free(bytes);
    }
}

static void neighbours_in_one_buffer_become_one_slice(void **state)
{
    block b = PSGD__TEST__BLOCK__INIT;
    ps_buf *buf = echo_buf(1000), *other = echo_buf(1000);
    ps_piece pieces[] = {{buf->data, 100, buf},
                         {buf->data + 100, 200, buf},
                         {buf->data + 400, 100, buf},
                         {other->data, 100, other}};
    grpc_byte_buffer *buffer = ps_wire_pack(&b.base, pieces, 4);

    (void)state;
    assert_int_equal(buffer->data.raw.slice_buffer.count, 4); /* head, 300, 100, 100 */
    assert_int_equal(atomic_load(&buf->refs), 3);
    assert_int_equal(atomic_load(&other->refs), 2);
    grpc_byte_buffer_destroy(buffer);
    assert_int_equal(atomic_load(&buf->refs), 1);
    assert_int_equal(atomic_load(&other->refs), 1);
    ps_buf_unref(buf);
    ps_buf_unref(other);
}

static void head_and_payload_part_wherever_the_slices_are_cut(void **state)
{
    enum { LEN = 300 };
    size_t n;
    uint8_t *bytes = pack_block(LEN, &n), scratch[LEN];
    ps_received in;

    (void)state;
    ps_received_init(&in);
    for (size_t cut = 0; cut <= n; cut++) {
        ps_status st = ps_received_unpack(&in, buffer_of(bytes, n, cut),
                                          &psgd__test__block__descriptor, 0, PS_SPLIT);
        const block *b = (const block *)in.message;

        assert_true(ps_is_ok(&st));
        assert_int_equal(b->number, 300);
        assert_string_equal(b->text, "some text");
        assert_int_equal(b->n_items, 2);
        assert_int_equal(b->payload.len, 0);
        assert_int_equal(ps_payload_len(&in.payload), LEN);
        for (size_t at = 0; at <= LEN; at += 7) {
            size_t len = LEN - at < 50 ? LEN - at : 50;

            assert_true(echo_bytes_match(ps_payload_view(&in.payload, at, len, scratch), at, len));
        }
        /* and backwards */
        assert_true(echo_bytes_match(ps_payload_view(&in.payload, 0, LEN, scratch), 0, LEN));
        assert_true(
            echo_bytes_match(ps_payload_view(&in.payload, LEN - 1, 1, scratch), LEN - 1, 1));
        assert_true(echo_bytes_match(ps_payload_view(&in.payload, 3, 1, scratch), 3, 1));
    }
    ps_received_fini(&in);
    free(bytes);
}

/* Values are finite if they were copied and none of them is infinite, also one that is cut. */
static void floats_are_looked_at_while_they_are_copied(void **state)
{
    enum { N = 9, BEGIN = 3, BYTES = BEGIN + N * sizeof(float) };
    float x[N], scratch[N];
    uint8_t bytes[BYTES] = {0};

    (void)state;
    for (size_t bad = 0; bad <= N; bad++) {
        for (size_t i = 0; i < N; i++) {
            x[i] = i == bad ? -INFINITY : FLT_MAX;
        }
        memcpy(bytes + BEGIN, x, sizeof x);
        for (size_t cut = 0; cut < BYTES; cut++) {
            grpc_byte_buffer *buffer = buffer_of(bytes, BYTES, cut);
            const grpc_slice_buffer *slices = &buffer->data.raw.slice_buffer;
            ps_payload p = {.slices = slices->slices,
                            .slice_count = slices->count,
                            .begin = BEGIN,
                            .len = sizeof x};

            for (size_t i = 0; i < N; i += 4) {
                size_t n = N - i < 4 ? N - i : 4;
                bool are_finite = true;
                const void *view = ps_payload_view_floats(&p, i * sizeof(float), n * sizeof(float),
                                                          scratch, &are_finite);

                assert_memory_equal(view, x + i, n * sizeof(float));
                assert_int_equal(are_finite, view == scratch && (bad < i || bad >= i + n));
            }
            grpc_byte_buffer_destroy(buffer);
        }
    }
}

static void every_cut_off_message_is_refused(void **state)
{
    size_t n;
    uint8_t *bytes = pack_block(20, &n);
    ps_received in;
    size_t whole = 0;

    (void)state;
    ps_received_init(&in);
    for (size_t len = 0; len < n; len++) {
        ps_status st = ps_received_unpack(&in, buffer_of(bytes, len, 3),
                                          &psgd__test__block__descriptor, 0, PS_SPLIT);

        /* Between two fields a message may end; never within one. */
        whole += ps_is_ok(&st);
        if (!ps_is_ok(&st)) {
            assert_int_equal(st.code, PS_INVALID_ARGUMENT);
            assert_null(in.message);
            assert_int_equal(ps_payload_len(&in.payload), 0);
        }
    }
    assert_int_equal(whole, 5); /* empty; after number, text, item, item */
    ps_received_fini(&in);
    free(bytes);
}

static void unpacks_to(const void *bytes, size_t n, const ProtobufCMessageDescriptor *type,
                       ps_code code, const char *text)
{
    for (size_t cut = 0; cut < 4; cut++) {
        ps_received in;
        ps_status st;

        ps_received_init(&in);
        st = ps_received_unpack(&in, buffer_of(bytes, n, cut), type, 0, PS_SPLIT);
        assert_int_equal(st.code, code);
        assert_string_equal(st.text, text);
        ps_received_fini(&in);
    }
}

static void what_is_wrong_with_a_message_is_said(void **state)
{
    const ProtobufCMessageDescriptor *type = &psgd__test__block__descriptor;
    static const struct {
        const char *bytes;
        size_t n;
        const char *text;
    } cases[] = {
        {"\x7a\x05"
         "abc",
         5, "psgd.test.Block: the payload is cut short"},
        {"\x7a\x80", 2, "psgd.test.Block: the payload is cut short"},
        {"\x7a\x02"
         "ab"
         "\x08\x01",
         6, "psgd.test.Block: the payload (field 15) must come last"},
        {"\x7a\x02"
         "ab"
         "\x7a\x01"
         "c",
         7, "psgd.test.Block: the payload (field 15) must come last"},
        {"\x78\x01", 2, "psgd.test.Block: malformed message"}, /* payload as a number */
        {"\x03", 1, "psgd.test.Block: malformed message"},     /* field 0, a group */
        {"\x0b\x0c", 2, "psgd.test.Block: malformed message"}, /* a group */
        {"\x00\x01", 2, "psgd.test.Block: malformed message"}, /* field 0 */
        {"\x12\x7f"
         "a",
         3, "psgd.test.Block: malformed message"}, /* longer than there is */
        {"\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11, "psgd.test.Block: malformed message"},
        {"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11, "psgd.test.Block: malformed message"},
        {"\x12\x02"
         "a\xff",
         4, "psgd.test.Block: the string 'text' is not UTF-8 or contains a NUL"},
        {"\x1a\x03\x0a\x01\x00", 5,
         "psgd.test.Block: the string 'name' is not UTF-8 or contains a NUL"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        unpacks_to(cases[i].bytes, cases[i].n, type, PS_INVALID_ARGUMENT, cases[i].text);
    }
    unpacks_to("\xa2\x06\x01x", 4, type, PS_OK, ""); /* a field of a newer peer */
}

static void a_message_of_too_many_parts_is_refused(void **state)
{
    enum { N = 60000 };
    uint8_t *bytes = ps_xmalloc(N);
    ps_received in;
    ps_status st;

    (void)state;
    for (size_t i = 0; i < N; i += 2) { /* an empty item costs 2 bytes here, 100 there */
        bytes[i] = 0x1a;
        bytes[i + 1] = 0;
    }
    ps_received_init(&in);
    st = ps_received_unpack(&in, buffer_of(bytes, N, 0), &psgd__test__block__descriptor, 0,
                            PS_SPLIT);
    assert_int_equal(st.code, PS_RESOURCE_EXHAUSTED);
    assert_null(in.message);
    /* The arena is good for the next. */
    st = ps_received_unpack(&in, buffer_of(bytes, 100, 0), &psgd__test__block__descriptor, 0,
                            PS_SPLIT);
    assert_true(ps_is_ok(&st));
    assert_int_equal(((const block *)in.message)->n_items, 50);
    ps_received_fini(&in);
    free(bytes);
}

static void whole_leaves_the_payload_in_the_message(void **state)
{
    size_t n;
    uint8_t *bytes = pack_block(100, &n);
    ps_received in;
    ps_status st;

    (void)state;
    ps_received_init(&in);
    st = ps_received_unpack(&in, buffer_of(bytes, n, 0), &psgd__test__block__descriptor, 0,
                            PS_WHOLE);
    assert_true(ps_is_ok(&st));
    assert_int_equal(((const block *)in.message)->payload.len, 100);
    assert_null(ps_received_payload(&in));
    ps_received_fini(&in);
    free(bytes);
}

static void the_trailer_of_the_longest_error_stays_small(void **state)
{
    ps_error *e = ps_xmalloc(sizeof *e), *back = ps_xmalloc(sizeof *back);
    char text[200];
    grpc_slice packed;

    (void)state;
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    ps_error_init(e, ps_fail(PS_INVALID_ARGUMENT, "%s", text), text);
    for (size_t i = 0; i < PS_ERROR_META_MAX + 1; i++) {
        ps_error_meta(e, text, "%s", text);
    }
    for (size_t i = 0; i < PS_ERROR_VIOLATIONS_MAX + 3; i++) {
        ps_error_violate(e, text, "%s", text);
    }
    packed = ps_error_pack(e);
    assert_in_range(GRPC_SLICE_LENGTH(packed), 3000, PS_ERROR_TRAILER_MAX);
    ps_error_init(back, e->status, NULL);
    ps_error_unpack(back, GRPC_SLICE_START_PTR(packed), GRPC_SLICE_LENGTH(packed));
    assert_string_equal(back->reason, e->reason);
    assert_int_equal(back->meta_count, PS_ERROR_META_MAX);
    assert_string_equal(back->meta[0].value, e->meta[0].value);
    assert_string_equal(back->violations[0].field, e->violations[0].field);
    assert_true(back->violation_count > 5);
    assert_int_equal(back->violation_count + back->violations_dropped, PS_ERROR_VIOLATIONS_MAX + 3);
    grpc_slice_unref(packed);
    free(e);
    free(back);
}

/* As long as the names of all plugins of a kind. */
static void a_long_violation_arrives_whole(void **state)
{
    ps_error *e = ps_xmalloc(sizeof *e), *back = ps_xmalloc(sizeof *back);
    grpc_slice packed;

    (void)state;
    ps_error_init(e, ps_fail(PS_INVALID_ARGUMENT, "wrong"), NULL);
    ps_error_violate(e, "spec.update.name", "%0400d", 7);
    packed = ps_error_pack(e);
    ps_error_init(back, e->status, NULL);
    ps_error_unpack(back, GRPC_SLICE_START_PTR(packed), GRPC_SLICE_LENGTH(packed));
    assert_int_equal(back->violation_count, 1);
    assert_int_equal(strlen(back->violations[0].text), 400);
    assert_string_equal(back->violations[0].text, e->violations[0].text);
    assert_int_equal(back->violations_dropped, 0);
    grpc_slice_unref(packed);
    free(e);
    free(back);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_packed_is_plain_protobuf),
        cmocka_unit_test(neighbours_in_one_buffer_become_one_slice),
        cmocka_unit_test(head_and_payload_part_wherever_the_slices_are_cut),
        cmocka_unit_test(floats_are_looked_at_while_they_are_copied),
        cmocka_unit_test(every_cut_off_message_is_refused),
        cmocka_unit_test(what_is_wrong_with_a_message_is_said),
        cmocka_unit_test(a_message_of_too_many_parts_is_refused),
        cmocka_unit_test(whole_leaves_the_payload_in_the_message),
        cmocka_unit_test(the_trailer_of_the_longest_error_stays_small),
        cmocka_unit_test(a_long_violation_arrives_whole),
    };

    grpc_init(); /* slices need it */
    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
