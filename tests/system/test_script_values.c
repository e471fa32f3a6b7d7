/* SPDX-License-Identifier: Apache-2.0 */
/* test_script_values.c - what codecs of jobs hand over to a service, and that nothing of a call
 * stays for the next one. */
#include "common/base/draw.h"
#include "common/codec/codec.h"
#include "common/codec/feedback.h"
#include "common/codec/wrap.h"
#include "common/script/script_impl.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

/* A codec that sends the x:largest(count) values; `count` and the rest of decode are put in. */
#define SENDS_LARGEST(count, decoded)                                                              \
    "return { kind = 'codec', name = 'few', bits = 32, sparse = true, keeps_zeros = true,\n"       \
    "encode = function(x, params, key, out)\n"                                                     \
    "    local at = x:largest(" count ") out:u16(#at) out:positions(at, #x)\n"                     \
    "    out:floats(x:gather(at)) end,\n"                                                          \
    "decode = function(bytes, n) local k = bytes:u16() local at = bytes:positions(k, n)\n"         \
    "    return bytes:floats(k):scatter(at, n)" decoded " end }"

static ps_script *open_text(const char *text)
{
    ps_script_about about;
    ps_status st = ps_script_describe(text, strlen(text), &about);

    assert_string_equal(st.text, "");
    return ps_script_open("a.lua", text, strlen(text), &about);
}

/* Encodes x (n) and checks that receivers which decode later get `wire`, with the values that
 * decode gives. */
static void check_handed_on(const char *text, const float *x, size_t n,
                            Psgd__V1__Encoding__CodecCase wire)
{
    static uint8_t bytes[PS_CODEC_ROOM];
    static _Alignas(float) uint8_t room[PS_CODEC_ROOM];
    static float a[PS_CODEC_VALUES], b[PS_CODEC_VALUES];
    ps_script *script = open_text(text);
    const ps_codec *codec = ps_script_codec(script);
    ps_params params = ps_params_default(codec->params);
    ps_encoding head, plain;
    size_t len = ps_codec_encode(codec, &params, 1, 5, x, n, bytes, &head);
    const Psgd__V1__Encoding *at = &head.msg;
    const uint8_t *in = bytes;
    ps_status st = ps_codec_decode(codec, at, in, len, PS_INTO_SET, a, n);

    assert_string_equal(st.text, "");
    st = ps_codec_decompress(codec, &at, &in, &len, n, &plain, room);
    assert_string_equal(st.text, "");
    assert_int_equal(at->codec_case, wire);
    assert_int_equal(at->slice, 5);
    st = ps_codec_check(codec, at, in, len, n);
    assert_string_equal(st.text, "");
    memset(b, 0xff, sizeof b);
    st = ps_codec_decode(codec, at, in, len, PS_INTO_SET, b, n);
    assert_string_equal(st.text, "");
    assert_memory_equal(a, b, n * sizeof a[0]);
    ps_script_close(script);
}

static void test_few_values_are_handed_on_as_few(void **state)
{
    static float x[PS_CODEC_VALUES];

    (void)state;
    for (size_t i = 0; i < PS_CODEC_VALUES; i++) {
        x[i] = (float)(i * 7919 % PS_CODEC_VALUES) - 8000.5f;
    }
    check_handed_on(SENDS_LARGEST("#x // 100 + 1", ""), x, PS_CODEC_VALUES,
                    PSGD__V1__ENCODING__CODEC_TOPK);
    check_handed_on(SENDS_LARGEST("#x // 2", ""), x, PS_CODEC_VALUES,
                    PSGD__V1__ENCODING__CODEC_TOPK);
    check_handed_on(SENDS_LARGEST("#x // 2", ""), x, 9, PSGD__V1__ENCODING__CODEC_TOPK);
    check_handed_on(SENDS_LARGEST("#x // 2 + 1", ""), x, 9, PSGD__V1__ENCODING__CODEC_F32);
    check_handed_on(SENDS_LARGEST("0", ""), x, 9, PSGD__V1__ENCODING__CODEC_TOPK);
    check_handed_on(SENDS_LARGEST("1", " + 1"), x, 9, PSGD__V1__ENCODING__CODEC_F32);
}

/* A sender of contributions with a state (feedback.h). */
typedef struct sender {
    const ps_codec *codec;
    ps_params params;
    bool is_apart;                        /* its codec reads a copy of the values */
    float state[3 * PS_CODEC_VALUES + 2]; /* what momentum and difference together keep */
} sender;

static void open_sender(sender *s, const ps_codec *codec, const double *wraps, bool is_apart)
{
    memset(s, 0, sizeof *s);
    s->is_apart = is_apart;
    s->codec = codec;
    s->params = ps_params_default(codec->params);
    memcpy(s->params.v + codec->own, wraps, PS_WRAP_COUNT * sizeof *wraps);
    assert_true(ps_feedback_floats(codec, &s->params, PS_CODEC_VALUES) <=
                sizeof s->state / sizeof s->state[0]);
}

/* Encodes x, whose copy for a codec apart is filled in as it is for code. */
static size_t encode_apart(sender *s, uint64_t round, float *x, uint8_t *bytes, ps_encoding *head)
{
    float *copy;
    size_t len;

    assert_true(ps_codec_encode_ahead(s->codec, &s->params, round, x, PS_CODEC_VALUES, &copy));
    ps_feedback_carry_apart(s->codec, &s->params, s->state, x, copy, PS_CODEC_VALUES);
    assert_memory_equal(x, copy, PS_CODEC_VALUES * sizeof *x);
    ps_codec_run_ahead();
    for (int i = 0; i < 2; i++) { /* a repetition, which the sandbox is asked for again */
        len = ps_feedback_encode_apart(s->codec, &s->params, s->state, round, 5, x, PS_CODEC_VALUES,
                                       bytes, head);
        ps_codec_end_ahead();
    }
    return len;
}

/* Returns the codec that the receiver decodes with. */
static Psgd__V1__Encoding__CodecCase send_round(sender *s, uint64_t round)
{
    static float x[PS_CODEC_VALUES], sent[PS_CODEC_VALUES], other[PS_CODEC_VALUES];
    static uint8_t bytes[PS_CODEC_ROOM];
    ps_encoding head, other_head;
    ps_status st;
    size_t len;

    for (size_t i = 0; i < PS_CODEC_VALUES; i++) {
        x[i] = i % 5 == round % 5 ? -0.0f : (float)ps_draw_normal(round, i);
    }
    if (s->is_apart) {
        len = encode_apart(s, round, x, bytes, &head);
    } else {
        ps_feedback_carry(s->codec, &s->params, s->state, x, PS_CODEC_VALUES);
        len = ps_feedback_encode(s->codec, &s->params, s->state, round, 5, x, PS_CODEC_VALUES,
                                 bytes, &head);
    }
    assert_int_equal(len, head.msg.payload_bytes);
    assert_int_equal(head.msg.slice, 5);
    st = ps_codec_decode(s->codec, &head.msg, bytes, len, PS_INTO_SET, sent, PS_CODEC_VALUES);
    assert_string_equal(st.text, "");
    ps_codec_encode(s->codec, &s->params, round, 5, x, PS_CODEC_VALUES, bytes, &other_head);
    ps_codec_decode_own(&other_head.msg, bytes, other, PS_CODEC_VALUES);
    assert_memory_equal(sent, other, sizeof sent);
    return head.msg.codec_case;
}

/* What a sender keeps has the same bits with the built-in codec, with code that decodes to few
 * values, and with code that decodes to all values, of the values or of a copy. Few values are sent
 * as topk sends them, if no difference is kept and the code's bytes are not fewer. */
static void test_senders_keep_the_same_of_few_values_as_of_all(void **state)
{
    static const double wraps[][PS_WRAP_COUNT] = {
        {[PS_WRAP_FEEDBACK] = 1},
        {[PS_WRAP_MOMENTUM] = 0.9},
        {[PS_WRAP_FEEDBACK] = 1, [PS_WRAP_MOMENTUM] = 0.9},
        {[PS_WRAP_DIFFERENCE] = 1, [PS_WRAP_MOMENTUM] = 0.9},
    };
    static sender builtin, few, all, few_apart, all_apart;
    ps_script *scripts[] = {open_text(SENDS_LARGEST("math.ceil(0.01 * #x)", "")),
                            open_text(SENDS_LARGEST("math.ceil(0.01 * #x)", " + 0"))};

    (void)state;
    for (size_t i = 0; i < sizeof wraps / sizeof wraps[0]; i++) {
        open_sender(&builtin, ps_codec_find("topk"), wraps[i], false);
        open_sender(&few, ps_script_codec(scripts[0]), wraps[i], false);
        open_sender(&all, ps_script_codec(scripts[1]), wraps[i], false);
        open_sender(&few_apart, ps_script_codec(scripts[0]), wraps[i], true);
        open_sender(&all_apart, ps_script_codec(scripts[1]), wraps[i], true);
        for (uint64_t round = 0; round < 5; round++) {
            bool keeps_difference = wraps[i][PS_WRAP_DIFFERENCE] != 0;

            send_round(&builtin, round);
            assert_int_equal(send_round(&few, round), keeps_difference
                                                          ? PSGD__V1__ENCODING__CODEC_SCRIPT
                                                          : PSGD__V1__ENCODING__CODEC_TOPK);
            assert_int_equal(send_round(&all, round), PSGD__V1__ENCODING__CODEC_SCRIPT);
            assert_memory_equal(builtin.state, few.state, sizeof few.state);
            assert_int_equal(send_round(&few_apart, round), keeps_difference
                                                                ? PSGD__V1__ENCODING__CODEC_SCRIPT
                                                                : PSGD__V1__ENCODING__CODEC_TOPK);
            assert_int_equal(send_round(&all_apart, round), PSGD__V1__ENCODING__CODEC_SCRIPT);
            assert_memory_equal(builtin.state, all.state, sizeof all.state);
            assert_memory_equal(builtin.state, few_apart.state, sizeof all.state);
            assert_memory_equal(builtin.state, all_apart.state, sizeof all.state);
        }
        assert_true(builtin.state[1] != 0);
    }
    ps_script_close(scripts[0]);
    ps_script_close(scripts[1]);
}

/* Code that makes fewer bytes of few values than topk is not replaced. */
static void test_few_bytes_of_few_values_are_sent(void **state)
{
    static const char text[] =
        "return { kind = 'codec', name = 'few', bits = 32, sparse = true, keeps_zeros = true,\n"
        "encode = function(x, params, key, out)\n"
        "    local at = x:largest(9) out:positions(at, #x) out:f32(x:gather(at):abs():max()) end,\n"
        "decode = function(bytes, n) local at = bytes:positions(9, n)\n"
        "    return vec.fill(9, bytes:f32()):scatter(at, n) end }";
    static const double wraps[PS_WRAP_COUNT] = {[PS_WRAP_FEEDBACK] = 1};
    static sender few;
    ps_script *script = open_text(text);

    (void)state;
    open_sender(&few, ps_script_codec(script), wraps, false);
    assert_int_equal(send_round(&few, 1), PSGD__V1__ENCODING__CODEC_SCRIPT);
    ps_script_close(script);
}

/* Of NaN the first is chosen, whatever their bits are: other processors make other bits. */
static void test_the_first_nan_is_the_largest(void **state)
{
    static const uint32_t bits[] = {0x3f800000u, 0x7fc00000u, 0xffc00123u, 0x7f800000u};
    float x[4], y[4];
    uint8_t bytes[64];
    ps_script *script = open_text(SENDS_LARGEST("1", ""));
    const ps_codec *codec = ps_script_codec(script);
    ps_params params = ps_params_default(codec->params);
    ps_encoding head;
    ps_status st;
    size_t len;

    (void)state;
    memcpy(x, bits, sizeof x);
    len = ps_codec_encode(codec, &params, 1, 0, x, 4, bytes, &head);
    st = ps_codec_decode(codec, &head.msg, bytes, len, PS_INTO_SET, y, 4);
    assert_string_equal(st.text, "");
    assert_true(y[1] != y[1]);
    assert_true(y[0] == 0 && y[2] == 0 && y[3] == 0);
    ps_script_close(script);
}

/* Encodes x (n) with the codec of `text` to `bytes`, decodes that to y, and returns its length. */
static size_t there_and_back(const char *text, const float *x, size_t n, uint8_t *bytes, float *y)
{
    ps_script *script = open_text(text);
    const ps_codec *codec = ps_script_codec(script);
    ps_params params = ps_params_default(codec->params);
    ps_encoding head;
    size_t len = ps_codec_encode(codec, &params, 1, 0, x, n, bytes, &head);
    ps_status st = ps_codec_decode(codec, &head.msg, bytes, len, PS_INTO_SET, y, n);

    assert_string_equal(st.text, "");
    ps_script_close(script);
    return len;
}

/* out:sparse and bytes:sparse do what number, positions and values one by one do, for few values,
 * for so many that receivers get all, for those of a vector that is sparse itself, and for NaN. */
static void test_sparse_is_number_positions_and_values(void **state)
{
#define SPARSE(count, of)                                                                          \
    "return { kind = 'codec', name = 'few', bits = 32, sparse = true, keeps_zeros = true,\n"       \
    "encode = function(x, params, key, out) local at = x:largest(" count ")\n"                     \
    "    out:sparse(" of ", at) end,\n"                                                            \
    "decode = function(bytes, n) return bytes:sparse(n) end }"
    static const struct {
        const char *one_by_one, *sparse;
    } pairs[] = {
        {SENDS_LARGEST("#x // 100 + 1", ""), SPARSE("#x // 100 + 1", "x")},
        {SENDS_LARGEST("#x // 2", ""), SPARSE("#x // 2", "x:gather(at):scatter(at, #x)")},
        {SENDS_LARGEST("#x // 2 + 1", ""), SPARSE("#x // 2 + 1", "x")},
        {SENDS_LARGEST("#x", ""), SPARSE("#x", "x")},
        {SENDS_LARGEST("0", ""), SPARSE("0", "x")},
    };
    static const uint32_t nan_bits = 0xffc00123u;
    static float x[PS_CODEC_VALUES], y[PS_CODEC_VALUES], z[PS_CODEC_VALUES];
    static uint8_t bytes[PS_CODEC_ROOM], other[PS_CODEC_ROOM];
    static const size_t lengths[] = {1, 9, 16383, PS_CODEC_VALUES};

    (void)state;
    for (size_t i = 0; i < PS_CODEC_VALUES; i++) {
        x[i] = (float)ps_draw_normal(5, i);
    }
    memcpy(&x[0], &nan_bits, sizeof x[0]);
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        for (size_t l = 0; l < sizeof lengths / sizeof lengths[0]; l++) {
            size_t n = lengths[l], len = there_and_back(pairs[i].one_by_one, x, n, bytes, y);

            assert_int_equal(there_and_back(pairs[i].sparse, x, n, other, z), len);
            assert_memory_equal(bytes, other, len);
            assert_memory_equal(y, z, n * sizeof y[0]);
        }
    }
#undef SPARSE
}

/* A function that gives itself other globals has the library again in the next call, and so has the
 * other function; locals of the file are new in each call. */
static void test_nothing_of_a_call_stays(void **state)
{
    static const char *const texts[] = {
        "return { kind = 'codec', name = 'stays', bits = 32,\n"
        "    encode = function(x, params, key, out)\n"
        "        local n = (_ENV.calls or 0) + 1\n"
        "        _ENV = { calls = n } out:u8(n) end,\n"
        "    decode = function(bytes, n) return vec.fill(n, bytes:u8()) end }",
        "local calls = 0\n"
        "return { kind = 'codec', name = 'stays', bits = 32,\n"
        "    encode = function(x, params, key, out) calls = calls + 1 out:u8(calls) end,\n"
        "    decode = function(bytes, n) return vec.fill(n, bytes:u8()) end }",
        "local _ENV = { vec = vec }\n"
        "return { kind = 'codec', name = 'stays', bits = 32,\n"
        "    encode = function(x, params, key, out)\n"
        "        calls = (calls or 0) + 1 out:u8(calls) end,\n"
        "    decode = function(bytes, n) return vec.fill(n, bytes:u8()) end }",
    };

    (void)state;
    for (size_t t = 0; t < sizeof texts / sizeof texts[0]; t++) {
        ps_script *script = open_text(texts[t]);
        const ps_codec *codec = ps_script_codec(script);
        ps_params params = ps_params_default(codec->params);

        for (uint64_t key = 0; key < 3; key++) {
            float x[2] = {1, 2}, y[2] = {0};
            uint8_t bytes[16];
            ps_encoding head;
            size_t len = ps_codec_encode(codec, &params, key, 0, x, 2, bytes, &head);
            ps_status st = ps_script_failure(script);

            assert_string_equal(st.text, "");
            st = ps_codec_decode(codec, &head.msg, bytes, len, PS_INTO_SET, y, 2);
            assert_string_equal(st.text, "");
            assert_true(y[0] == 1 && y[1] == 1);
        }
        ps_script_close(script);
    }
}

/* Reads a sparse result of `values` values, k of which stand in the shared memory at byte `at`,
 * with these positions. Returns whether it is taken. */
static bool is_taken(ps_sandbox_memory *shared, uint32_t values, int64_t k, uint32_t at,
                     const uint16_t *positions, bool as_few)
{
    static float y[PS_CODEC_VALUES];
    static uint16_t room[PS_SANDBOX_SPARSE_MAX];
    ps_script_value r = {
        .kind = PS_SANDBOX_VECTOR, .count = values, .out = y, .positions = as_few ? room : NULL};
    const float two[] = {4, 5};
    ps_status st;

    memset(y, 0, sizeof y);
    shared->result_count = 1;
    shared->results[0] =
        (ps_sandbox_value){.kind = PS_SANDBOX_SPARSE, .at = at, .count = values, .as.integer = k};
    if (positions != NULL) {
        memcpy(shared->out + at, two, sizeof two);
        memcpy(shared->out + at + sizeof two, positions, 2 * sizeof *positions);
    }
    st = ps_script_take_results(shared, 0, &r, 1);
    if (ps_is_ok(&st) && as_few) {
        assert_int_equal(r.kind, PS_SANDBOX_SPARSE);
        assert_int_equal(r.integer, k);
        assert_memory_equal(room, positions, 2 * sizeof *positions);
        assert_true(y[0] == 4 && y[1] == 5);
    } else if (ps_is_ok(&st)) {
        assert_int_equal(r.kind, PS_SANDBOX_VECTOR);
        assert_true(y[positions[0]] == 4 && y[positions[1]] == 5);
    }
    return ps_is_ok(&st);
}

/* Whatever a sandbox writes, the positions that a service reads ascend and are of the slice. */
static void test_positions_ascend_and_are_of_the_slice(void **state)
{
    ps_sandbox_memory *shared = calloc(1, sizeof *shared);

    (void)state;
    assert_non_null(shared);
    for (int as_few = 0; as_few < 2; as_few++) {
        assert_true(is_taken(shared, 8, 2, 64, (const uint16_t[]){1, 7}, as_few));
        assert_false(is_taken(shared, 8, 2, 64, (const uint16_t[]){1, 8}, as_few));
        assert_false(is_taken(shared, 8, 2, 64, (const uint16_t[]){3, 3}, as_few));
        assert_false(is_taken(shared, 8, 2, 64, (const uint16_t[]){3, 1}, as_few));
        assert_false(is_taken(shared, 8, -1, 64, NULL, as_few));
        assert_false(
            is_taken(shared, PS_CODEC_VALUES, PS_SANDBOX_SPARSE_MAX + 1, 64, NULL, as_few));
        assert_false(is_taken(shared, 8, 2, PS_SANDBOX_ROOM - 11, NULL, as_few));
        assert_false(is_taken(shared, 8, 2, UINT32_MAX, NULL, as_few));
    }
    free(shared);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_few_values_are_handed_on_as_few),
        cmocka_unit_test(test_senders_keep_the_same_of_few_values_as_of_all),
        cmocka_unit_test(test_few_bytes_of_few_values_are_sent),
        cmocka_unit_test(test_the_first_nan_is_the_largest),
        cmocka_unit_test(test_sparse_is_number_positions_and_values),
        cmocka_unit_test(test_nothing_of_a_call_stays),
        cmocka_unit_test(test_positions_ascend_and_are_of_the_slice),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
