/* SPDX-License-Identifier: Apache-2.0 */
/* test_library.c - the codecs of libpsgd.so, beside those of a worker in the same process. */
#include "clients/lib/psgd.h"

#include "common/base/bytes.h"
#include "common/base/draw.h"
#include "common/base/xalloc.h"
#include "common/wire/coder.h"
#include "tests/support/codec_cases.h"
#include "tests/support/plan_rig.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* The model's first variable has these values, which are three slices and a short one. */
#define JOB                                                                                        \
    "{\"workers\":2,\"pservers\":1,\"seed\":7,\"model\":{\"preset\":\"mlp\",\"widths\":[64]},"     \
    "\"codec\":{\"up\":{\"name\":\"%s\",\"params\":{%s}}}}"
enum { VALUES = 50176, SLICES = 4, STEPS = 3, RANK = 1 /* and the number of its block */ };

static psgd_codec *create(const char *spec)
{
    psgd_codec *codec = NULL;

    if (psgd_codec_create(spec, &codec) != PSGD_OK) {
        fail_msg("%s: %s", spec, psgd_last_error());
    }
    return codec;
}

/* Writes "NUMBER=VALUE,NUMBER=VALUE" of a table. */
static char *numbers_of(const ps_param *table, const ps_params *params, char out[1024])
{
    size_t at = 0;

    out[0] = '\0';
    for (size_t i = 0; table[i].name != NULL; i++) {
        at += (size_t)snprintf(out + at, 1024 - at, "%s%s=%.17g", i > 0 ? "," : "", table[i].name,
                               params->v[i]);
    }
    return out;
}

/* ---- The same bytes as a worker ---- */

/* Checks that `in` begins with what the worker pushes as `slice`. Returns the bytes of it. */
static size_t assert_slice(ps_coder *coder, uint32_t slice, uint64_t clock, float *x,
                           const uint8_t *in)
{
    static uint8_t payload[PS_CODEC_ROOM], head_bytes[256];
    ps_encoding head;
    size_t bytes, n;

    bytes = ps_coder_encode(coder, coder->placement->part_of[slice], slice, clock, RANK, x, payload,
                            &head);
    n = psgd__v1__encoding__pack(&head.msg, head_bytes);
    assert_int_equal(ps_get_u32(in), n);
    assert_memory_equal(in + 4, head_bytes, n);
    assert_memory_equal(in + 4 + n, payload, bytes);
    return 4 + n + bytes;
}

/* Pushes a few steps by the worker's own code, and encodes the same values by the library. */
static void assert_same_bytes(const char *name, const char *numbers, const char *json)
{
    char job[1024], spec[256];
    float *x = ps_xcalloc(VALUES, sizeof *x), *state = NULL;
    ps_placement placement;
    psgd_codec *codec;
    ps_coder coder;
    ps_plan *plan;
    uint8_t *out;
    size_t size, len, at;

    snprintf(job, sizeof job, JOB, name, json);
    snprintf(spec, sizeof spec, "%s%s%s", name, numbers[0] != '\0' ? ":" : "", numbers);
    plan = plan_of(job);
    ps_placement_init(&placement, &plan->layout, 1, 0);
    ps_coder_init(&coder, plan, &placement, RANK);
    assert_int_equal(plan->layout.variables[0].size, VALUES);
    codec = create(spec);
    state = ps_xcalloc(psgd_codec_state_floats(codec, VALUES) + 1, sizeof *state);
    size = psgd_codec_bound(codec, VALUES);
    out = ps_xmalloc(size);
    for (uint64_t clock = 1; clock <= STEPS; clock++) {
        psgd_draw draw = {.seed = 7, .clock = clock, .contributor = RANK};

        for (size_t i = 0; i < VALUES; i++) {
            x[i] = (float)ps_draw_normal(ps_draw_key(3, PS_DRAW_TEST, clock, 0, 0), i);
        }
        assert_int_equal(psgd_codec_encode(codec, &draw, state, x, VALUES, out, size, &len),
                         PSGD_OK);
        ps_coder_begin(&coder);
        assert_int_equal(ps_get_u64(out), VALUES);
        at = 8;
        for (uint32_t s = 0; s < SLICES; s++) {
            at += assert_slice(&coder, s, clock, x + plan->layout.slices[s].at, out + at);
        }
        assert_int_equal(at, len);
    }
    psgd_codec_destroy(codec);
    ps_coder_fini(&coder);
    ps_placement_fini(&placement);
    ps_plan_destroy(plan);
    free(state);
    free(out);
    free(x);
}

static void every_codec_gives_the_bytes_that_a_worker_pushes(void **state)
{
    (void)state;
    for (size_t i = 0; psgd_codec_name(i) != NULL; i++) {
        if (strcmp(psgd_codec_name(i), "powersgd") != 0) { /* sends whole variables by itself */
            assert_same_bytes(psgd_codec_name(i), "", "");
        }
    }
    assert_same_bytes("powersgd", "columns=64", "\"columns\":64");
    assert_same_bytes("topk", "fraction=0.02,error_feedback=1,momentum=0.5",
                      "\"fraction\":0.02,\"error_feedback\":1,\"momentum\":0.5");
    assert_same_bytes("intn", "bits=5,difference=1,lazy=0.9",
                      "\"bits\":5,\"difference\":1,\"lazy\":0.9");
    assert_same_bytes("int8", "lossless=2,rows=64", "\"lossless\":2,\"rows\":64");
}

/* ---- Every codec with many numbers ---- */

static void goes_through(const ps_codec *c, const ps_params *params)
{
    enum { MANY = PS_CODEC_VALUES + N };
    static float x[MANY], y[MANY], once[MANY];
    char numbers[1024], spec[1100];
    psgd_codec *codec = NULL;
    uint8_t *out;
    size_t size, len;

    snprintf(spec, sizeof spec, "%s:%s", c->name, numbers_of(c->params, params, numbers));
    if (psgd_codec_create(spec, &codec) != PSGD_OK) {
        assert_string_not_equal(psgd_last_error(), ""); /* numbers that do not go together */
        return;
    }
    codec_fill(x, MANY);
    size = psgd_codec_bound(codec, MANY);
    out = ps_xmalloc(size); /* of exactly this size, for AddressSanitizer */
    assert_int_equal(psgd_codec_encode(codec, NULL, NULL, x, MANY, out, size, &len), PSGD_OK);
    assert_int_equal(psgd_codec_decode(codec, out, len, once, MANY, 0), PSGD_OK);
    memcpy(y, x, sizeof y);
    assert_int_equal(psgd_codec_decode(codec, out, len, y, MANY, 1), PSGD_OK);
    for (size_t i = 0; i < MANY; i++) {
        assert_true(y[i] == x[i] + once[i] || (isnan(y[i]) && isnan(x[i] + once[i])));
    }
    free(out);
    psgd_codec_destroy(codec);
}

static void codecs_take_all_their_numbers_and_add(void **state)
{
    (void)state;
    codec_each_case(goes_through);
}

/* ---- What comes from outside ---- */

static void a_wrong_spec_is_refused_with_what_is_allowed(void **state)
{
    static const struct {
        const char *spec, *words;
    } wrong[] = {
        {"topq", "codec: is \"topq\"; did you mean \"topk\"?; allowed: f32, f16, "},
        {"", "codec: is \"\""},
        {"topk:fraction=3", "topk.fraction: is 3; numbers "},
        {"topk:fraction=nan", "topk.fraction: is \"nan\"; a finite number is allowed"},
        {"topk:fraction=", "topk.fraction: is \"\"; a finite number is allowed"},
        {"topk:fraction", "topk: is \"fraction\"; NUMBER=VALUE is allowed"},
        {"topk:", "topk: is \"\"; NUMBER=VALUE is allowed"},
        {"topk:fracton=0.1", "topk.fracton: is not one of its numbers; did you mean \"fraction\"?"},
        {"intn:bits=4.5", "intn.bits: is 4.5; whole numbers 2 to 16 are allowed"},
        {"topk:rows=1", "topk.rows: is 1; the shape is not known here"},
        {"vote:rows=8", "vote.rows: is 8; the codec always sends all values"},
        {"intn:difference=1,error_feedback=1", "intn.difference: is 1 as error_feedback is"},
        {"vote:difference=1", "vote.difference: is 1; for votes only 0 is allowed"},
        {"intn:lazy=0.5", "intn.lazy: is 0.5; without difference only 0 is allowed"},
    };
    char many[600];
    psgd_codec *codec = NULL;

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(psgd_codec_create(wrong[i].spec, &codec), PSGD_INVALID_ARGUMENT);
        if (strncmp(psgd_last_error(), wrong[i].words, strlen(wrong[i].words)) != 0) {
            fail_msg("%s: %s", wrong[i].spec, psgd_last_error());
        }
        assert_null(codec);
    }
    memset(many, 'x', sizeof many);
    many[sizeof many - 1] = '\0';
    assert_int_equal(psgd_codec_create(many, &codec), PSGD_INVALID_ARGUMENT);
    assert_string_equal(psgd_last_error(), "codec: has 599 bytes; at most 511 are allowed");
    assert_int_equal(psgd_codec_create(NULL, &codec), PSGD_INVALID_ARGUMENT);
}

static void damaged_bytes_are_refused_and_leave_the_values(void **state)
{
    enum { MANY = 2 * PS_CODEC_VALUES + 5 };
    static float x[MANY], y[MANY], before[MANY];
    psgd_codec *codec = create("topk"), *other = create("int8");
    size_t size = psgd_codec_bound(codec, MANY), len;
    uint8_t *out = ps_xmalloc(size), *cut;

    (void)state;
    codec_fill(x, MANY);
    codec_fill_few(y, MANY);
    memcpy(before, y, sizeof y);
    assert_int_equal(psgd_codec_encode(codec, NULL, NULL, x, MANY, out, size, &len), PSGD_OK);
    for (size_t n = 0; n < len; n += n < 200 || n > len - 200 ? 1 : 97) {
        cut = ps_xmalloc(n + 1);
        memcpy(cut + 1, out, n); /* of exactly n bytes, and not aligned */
        assert_int_equal(psgd_codec_decode(codec, cut + 1, n, y, MANY, 0), PSGD_DATA_LOSS);
        free(cut);
    }
    assert_int_equal(psgd_codec_decode(codec, out, len, y, MANY - 1, 0), PSGD_DATA_LOSS);
    assert_int_equal(psgd_codec_decode(codec, out, len, y, MANY + 1, 0), PSGD_DATA_LOSS);
    assert_int_equal(psgd_codec_decode(other, out, len, y, MANY, 0), PSGD_INVALID_ARGUMENT);
    assert_int_equal(psgd_codec_decode(codec, NULL, 1, y, MANY, 0), PSGD_INVALID_ARGUMENT);
    /* Whatever byte is wrong, in whichever slice: nothing is decoded in part. */
    for (size_t at = 0; at < len; at++) {
        uint8_t old = out[at];

        out[at] = (uint8_t)~old;
        if (psgd_codec_decode(codec, out, len, y, MANY, 0) == PSGD_OK) {
            memcpy(y, before, sizeof y);
        }
        assert_memory_equal(y, before, sizeof y);
        out[at] = old;
    }
    psgd_codec_destroy(codec);
    psgd_codec_destroy(other);
    psgd_codec_destroy(NULL);
    free(out);
}

static void too_little_room_is_refused(void **state)
{
    float x[100] = {0};
    uint8_t out[4], out8[8];
    size_t len = 77;
    psgd_codec *codec = create("f32");

    (void)state;
    assert_int_equal(psgd_codec_encode(codec, NULL, NULL, x, 100, out, sizeof out, &len),
                     PSGD_RESOURCE_EXHAUSTED);
    assert_int_equal(len, 77);
    assert_non_null(strstr(psgd_last_error(), "size: is 4; at least "));
    assert_int_equal(psgd_codec_encode(codec, NULL, NULL, NULL, 100, out, sizeof out, &len),
                     PSGD_INVALID_ARGUMENT);
    assert_int_equal(psgd_codec_encode(codec, NULL, NULL, NULL, 0, out8, 8, &len), PSGD_OK);
    assert_int_equal(len, 8);
    psgd_codec_destroy(codec);
}

/* ---- Threads ---- */

static void *fail_elsewhere(void *arg)
{
    psgd_codec *codec;

    (void)arg;
    return psgd_last_error()[0] == '\0' && psgd_codec_create("elsewhere", &codec) != PSGD_OK &&
                   strstr(psgd_last_error(), "elsewhere") != NULL
               ? NULL
               : arg;
}

static void an_error_belongs_to_its_thread(void **state)
{
    char told[600];
    psgd_codec *codec;
    pthread_t thread;
    void *wrong = told;

    (void)state;
    assert_int_equal(psgd_codec_create("here", &codec), PSGD_INVALID_ARGUMENT);
    snprintf(told, sizeof told, "%s", psgd_last_error());
    assert_int_equal(pthread_create(&thread, NULL, fail_elsewhere, told), 0);
    pthread_join(thread, &wrong);
    assert_null(wrong);
    assert_string_equal(psgd_last_error(), told);
    assert_string_equal(psgd_version(), PS_VERSION);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_codec_gives_the_bytes_that_a_worker_pushes),
        cmocka_unit_test(codecs_take_all_their_numbers_and_add),
        cmocka_unit_test(a_wrong_spec_is_refused_with_what_is_allowed),
        cmocka_unit_test(damaged_bytes_are_refused_and_leave_the_values),
        cmocka_unit_test(too_little_room_is_refused),
        cmocka_unit_test(an_error_belongs_to_its_thread),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
