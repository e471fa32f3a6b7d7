/* SPDX-License-Identifier: Apache-2.0 */
/* test_codec_golden.c - the bytes of every codec are what tests/golden/codec keeps.
 *
 * A file a codec: a line with its own parameters, the head and the payload in hex,
 * for the defaults and for each of them at its least and its most. Bytes on the
 * wire do not change; a new codec's file is written once:
 * PSGD_WRITE_GOLDEN=1 test_codec_golden.
 */
#include "tests/support/cmocka_all.h"

#include "common/base/draw.h"
#include "common/codec/codec.h"
#include "common/codec/wrap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 203, LINES = 2 * PS_PARAM_MAX + 1, LINE_BYTES = 4096 };

static size_t hex(char *to, size_t at, const uint8_t *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        at += (size_t)snprintf(to + at, LINE_BYTES - at, "%02x", bytes[i]);
    }
    return at;
}

/* "bits=4 stochastic=1: <head> <payload>\n" */
static void describe(const ps_codec *c, const ps_params *params, char *line)
{
    uint8_t bytes[4 * N + 8], head_bytes[64];
    ps_encoding head;
    float x[N];
    size_t at = 0, len;

    for (size_t i = 0; i < N; i++) { /* sums and products only: the same on any host */
        x[i] = (float)(ps_draw_normal(31, i) * 0.01);
    }
    for (size_t i = 0; i < c->own; i++) {
        at +=
            (size_t)snprintf(line + at, LINE_BYTES - at, "%s=%g ", c->params[i].name, params->v[i]);
    }
    len = ps_codec_encode(c, params, UINT64_C(0x0123456789abcdef), 7, x, N, bytes, &head);
    at += (size_t)snprintf(line + at, LINE_BYTES - at, ": ");
    at = hex(line, at, head_bytes, psgd__v1__encoding__pack(&head.msg, head_bytes));
    at += (size_t)snprintf(line + at, LINE_BYTES - at, " ");
    at = hex(line, at, bytes, len);
    snprintf(line + at, LINE_BYTES - at, "\n");
}

static size_t describe_all(const ps_codec *c, char lines[LINES][LINE_BYTES])
{
    ps_params params = ps_params_default(c->params);
    size_t count = 0;

    describe(c, &params, lines[count++]);
    for (size_t i = 0; i < c->own; i++) {
        params = ps_params_default(c->params);
        params.v[i] = c->params[i].min;
        describe(c, &params, lines[count++]);
        params.v[i] = c->params[i].max;
        describe(c, &params, lines[count++]);
    }
    return count;
}

static void check(const ps_codec *c, void *arg)
{
    static char lines[LINES][LINE_BYTES], kept[LINE_BYTES];
    bool writes = getenv("PSGD_WRITE_GOLDEN") != NULL;
    size_t count = describe_all(c, lines);
    char path[512];
    FILE *file;

    (void)arg;
    snprintf(path, sizeof path, "%s/codec/%s.txt", PS_GOLDEN_DIR, c->name);
    file = fopen(path, writes ? "wx" : "r");
    if (file == NULL && writes) {
        return; /* it is there */
    }
    if (file == NULL) {
        fail_msg("%s is missing", path);
    }
    for (size_t i = 0; i < count; i++) {
        if (writes) {
            assert_true(fputs(lines[i], file) >= 0);
        } else {
            assert_non_null(fgets(kept, sizeof kept, file));
            assert_string_equal(kept, lines[i]);
        }
    }
    assert_int_equal(fclose(file), 0);
}

static void every_codec_s_bytes_are_as_they_were(void **state)
{
    (void)state;
    ps_codec_each(check, NULL);
}

/* ---- Rows and compression ---- */

static const struct {
    const char *codec;
    double lossless, rows;
} staged[] = {{"f32", 0, 7}, {"intn", 0, 7}, {"f32", 1, 0}, {"f32", 2, 0}, {"f32", 1, 7}};

/* Three rows of seven with something in them, and a run of one value. */
static void fill_rows(float *x)
{
    for (size_t i = 0; i < N; i++) {
        x[i] = i / 7 == 3 || i / 7 == 20 ? (float)(ps_draw_normal(32, i) * 0.01) : 0.0f;
        x[i] = i / 7 == 28 ? 0.5f : x[i];
    }
}

static size_t encode_staged(size_t which, uint8_t *bytes, ps_encoding *head)
{
    const ps_codec *c = ps_codec_find(staged[which].codec);
    ps_params params = ps_params_default(c->params);
    float x[N];

    fill_rows(x);
    params.v[c->own + PS_WRAP_LOSSLESS] = staged[which].lossless;
    params.v[c->own + PS_WRAP_ROWS] = staged[which].rows;
    return ps_codec_encode(c, &params, 5, 7, x, N, bytes, head);
}

static size_t bytes_of_hex(const char *text, uint8_t *bytes)
{
    size_t n = strspn(text, "0123456789abcdef") / 2;

    for (size_t i = 0; i < n; i++) {
        const char pair[3] = {text[2 * i], text[2 * i + 1], '\0'};

        bytes[i] = (uint8_t)strtoul(pair, NULL, 16);
    }
    return n;
}

/* What was kept becomes the values that are encoded now. Its bytes are those of now
 * unless another version of a library compressed them. */
static void check_staged(size_t which, const char *kept)
{
    uint8_t now[4 * N + 8], then[4 * N + 8], packed[64];
    const char *head_at = strstr(kept, ": ") + 2, *bytes_at = strchr(head_at, ' ') + 1;
    size_t len_now, len_then, head_len = bytes_of_hex(head_at, packed);
    Psgd__V1__Encoding *head = psgd__v1__encoding__unpack(NULL, head_len, packed);
    ps_encoding head_now;
    float x[N], y[N];
    ps_status st;

    assert_non_null(head);
    len_now = encode_staged(which, now, &head_now);
    len_then = bytes_of_hex(bytes_at, then);
    st = ps_codec_decode(NULL, &head_now.msg, now, len_now, PS_INTO_SET, x, N);
    assert_int_equal(st.code, PS_OK);
    st = ps_codec_decode(NULL, head, then, len_then, PS_INTO_SET, y, N);
    assert_int_equal(st.code, PS_OK);
    assert_memory_equal(x, y, sizeof x);
    assert_int_equal(head->lossless, (int)staged[which].lossless);
    assert_true(staged[which].rows == 0 || head->row_count == 3);
    if (staged[which].lossless == 0) {
        assert_int_equal(len_now, len_then);
        assert_memory_equal(now, then, len_now);
    }
    psgd__v1__encoding__free_unpacked(head, NULL);
}

static void what_went_through_stages_is_still_read(void **state)
{
    static char line[LINE_BYTES];
    bool writes = getenv("PSGD_WRITE_GOLDEN") != NULL;
    FILE *file = fopen(PS_GOLDEN_DIR "/codec/stages.txt", writes ? "wx" : "r");

    (void)state;
    if (file == NULL && writes) {
        return; /* it is there */
    }
    assert_non_null(file);
    for (size_t i = 0; i < sizeof staged / sizeof staged[0]; i++) {
        uint8_t bytes[4 * N + 8], packed[64];
        ps_encoding head;
        size_t at, len;

        if (!writes) {
            assert_non_null(fgets(line, sizeof line, file));
            check_staged(i, line);
            continue;
        }
        len = encode_staged(i, bytes, &head);
        at = (size_t)snprintf(line, sizeof line, "%s lossless=%g rows=%g : ", staged[i].codec,
                              staged[i].lossless, staged[i].rows);
        at = hex(line, at, packed, psgd__v1__encoding__pack(&head.msg, packed));
        at += (size_t)snprintf(line + at, sizeof line - at, " ");
        at = hex(line, at, bytes, len);
        snprintf(line + at, sizeof line - at, "\n");
        assert_true(fputs(line, file) >= 0);
    }
    assert_int_equal(fclose(file), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_codec_s_bytes_are_as_they_were),
        cmocka_unit_test(what_went_through_stages_is_still_read),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
