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

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_codec_s_bytes_are_as_they_were),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
