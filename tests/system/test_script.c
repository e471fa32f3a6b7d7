/* SPDX-License-Identifier: Apache-2.0 */
/* test_script.c - code of jobs in real sandboxes. */
#include "common/base/clock.h"
#include "common/base/draw.h"
#include "common/codec/codec.h"
#include "common/script/same_cpu.h"
#include "common/script/script.h"
#include "common/script/script_check.h"
#include "common/script/script_impl.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define EXAMPLES PS_SOURCE_DIR "/clients/examples/code/"

/* Reads a file; the caller frees it. */
static char *read_text(const char *path)
{
    FILE *f = fopen(path, "re");
    char *text = calloc(1, PS_SANDBOX_TEXT_MAX + 1);

    assert_non_null(f);
    assert_true(fread(text, 1, PS_SANDBOX_TEXT_MAX, f) > 0);
    fclose(f);
    return text;
}

static ps_script *open_example(const char *name)
{
    char path[256], *text;
    ps_script_about about;
    ps_script *script;
    ps_status st;

    snprintf(path, sizeof path, "%s%s", EXAMPLES, name);
    text = read_text(path);
    st = ps_script_describe(text, strlen(text), &about);
    if (!ps_is_ok(&st)) {
        fail_msg("%s: %s", name, st.text);
    }
    script = ps_script_open(name, text, strlen(text), &about);
    free(text);
    return script;
}

/* Fills x with normal draws, of which some are large. */
static void fill(float *x, size_t n, uint64_t seed)
{
    uint64_t key = ps_draw_key(seed, PS_DRAW_TEST, 0, 0, 0);

    for (size_t i = 0; i < n; i++) {
        x[i] = (float)ps_draw_normal(key, i) * (i % 97 == 0 ? 5.0f : 0.1f);
    }
}

/* An example codec gives the values of the built-in codec that it describes. */
static void check_like(const char *file, const char *builtin)
{
    static const size_t lengths[] = {1, 7, 4095, PS_CODEC_VALUES};
    static float x[PS_CODEC_VALUES], a[PS_CODEC_VALUES], b[PS_CODEC_VALUES];
    static uint8_t bytes[PS_CODEC_ROOM], other[PS_CODEC_ROOM];
    ps_script *script = open_example(file);
    const ps_codec *codec = ps_script_codec(script), *peer = ps_codec_find(builtin);
    ps_params params = ps_params_default(codec->params),
              peer_params = ps_params_default(peer->params);

    for (size_t l = 0; l < sizeof lengths / sizeof lengths[0]; l++) {
        size_t n = lengths[l], k, m;
        ps_encoding head, peer_head;
        ps_status st;

        fill(x, n, l);
        if (l == 1) {
            memset(x, 0, sizeof x);
        }
        k = ps_codec_encode(codec, &params, 77 + l, 3, x, n, bytes, &head);
        m = ps_codec_encode(peer, &peer_params, 77 + l, 3, x, n, other, &peer_head);
        assert_true(m > 0);
        st = ps_script_failure(script);
        if (!ps_is_ok(&st)) {
            fail_msg("%s", st.text);
        }
        st = ps_codec_decode(codec, &head.msg, bytes, k, PS_INTO_SET, a, n);
        if (!ps_is_ok(&st)) {
            fail_msg("%s", st.text);
        }
        st = ps_codec_decode(peer, &peer_head.msg, other, m, PS_INTO_SET, b, n);
        assert_true(ps_is_ok(&st));
        for (size_t i = 0; i < n; i++) {
            if (a[i] != b[i]) {
                fail_msg("%s, %zu values: value %zu is %g, that of %s %g", file, n, i, (double)a[i],
                         builtin, (double)b[i]);
            }
        }
    }
    ps_script_close(script);
}

static void test_example_codecs_give_the_values_of_built_in_ones(void **state)
{
    (void)state;
    check_like("int8_lua.lua", "int8");
    check_like("topk_lua.lua", "topk");
    check_like("sgq.lua", "cot");
}

enum { SOME = 20, OF_EACH = 1000 };

/* Slices that are encoded and decoded together have the bytes and values of each alone, in any
 * order in which they are used; one that was not added, or with another key, is computed alone. */
static void test_calls_that_are_made_together_give_the_same(void **state)
{
    static float x[SOME][OF_EACH], y[OF_EACH], z[OF_EACH], expected[SOME][OF_EACH];
    static uint8_t alone[SOME][PS_CODEC_ROOM], other[PS_CODEC_ROOM];
    ps_script *script = open_example("sgq.lua");
    const ps_codec *codec = ps_script_codec(script);
    ps_params params = ps_params_default(codec->params);
    ps_encoding heads[SOME], head;
    size_t bytes[SOME], added = 0;

    (void)state;
    for (size_t i = 0; i < SOME; i++) {
        fill(x[i], OF_EACH, i);
        bytes[i] = ps_codec_encode(codec, &params, i, 3, x[i], OF_EACH, alone[i], &heads[i]);
    }
    while (ps_codec_encode_ahead(codec, &params, added, x[added], OF_EACH, NULL)) {
        added++;
    }
    assert_int_equal(added, PS_SANDBOX_TOGETHER);
    ps_codec_run_ahead();
    assert_false(ps_codec_encode_ahead(codec, &params, added, x[added], OF_EACH, NULL));
    for (size_t i = SOME; i-- > 0;) {
        assert_int_equal(ps_codec_encode(codec, &params, i, 3, x[i], OF_EACH, other, &head),
                         bytes[i]);
        assert_memory_equal(other, alone[i], bytes[i]);
    }
    (void)ps_codec_encode(codec, &params, 99, 3, x[0], OF_EACH, other, &head);
    assert_memory_not_equal(other, alone[0], bytes[0]);
    ps_codec_end_ahead();

    for (size_t i = 0; i < SOME; i++) {
        ps_status st = ps_codec_decode(codec, &heads[i].msg, alone[i], bytes[i], PS_INTO_SET,
                                       expected[i], OF_EACH);

        assert_true(ps_is_ok(&st));
    }
    for (size_t i = 0; i < PS_SANDBOX_TOGETHER; i++) {
        assert_true(ps_codec_decode_ahead(&heads[i].msg, alone[i], OF_EACH));
    }
    ps_codec_run_ahead();
    for (size_t i = SOME; i-- > 0;) {
        ps_status st =
            ps_codec_decode(codec, &heads[i].msg, alone[i], bytes[i], PS_INTO_SET, y, OF_EACH);

        assert_true(ps_is_ok(&st));
        if (i == PS_SANDBOX_TOGETHER / 2) {
            ps_codec_end_ahead(); /* the other half alone */
        }
        st = ps_codec_decode(codec, &heads[i].msg, alone[i], bytes[i], PS_INTO_SET, z, OF_EACH);
        assert_true(ps_is_ok(&st));
        assert_memory_equal(y, expected[i], sizeof y);
        assert_memory_equal(z, expected[i], sizeof z);
    }
    ps_script_close(script);
}

static ps_script *open_text(const char *file, const char *text)
{
    ps_script_about about;
    ps_status st = ps_script_describe(text, strlen(text), &about);

    assert_string_equal(st.text, "");
    return ps_script_open(file, text, strlen(text), &about);
}

/* What is kept of an encoding has the values that receivers decode, whatever the code would like to
 * hand from encode to decode. All of it, of full slices and with room for other vectors, takes one
 * call. */
static void test_a_round_trip_gives_the_values_that_receivers_decode(void **state)
{
    static const char text[] =
        "local kept = { 0 }\n"
        "return { kind = 'codec', name = 'keeps', bits = 32,\n"
        "    encode = function(x, params, key, out)\n"
        "        kept[1] = kept[1] + 1\n"
        "        for i = 1, 20 do x = x + i; x = x - i end\n"
        "        out:floats(x) end,\n"
        "    decode = function(bytes, n) return bytes:floats(n) + kept[1] end }";
    enum { SOME_LAST = PS_SANDBOX_TOGETHER - 1 };
    static float x[PS_SANDBOX_TOGETHER][PS_CODEC_VALUES], own[PS_SANDBOX_TOGETHER][PS_CODEC_VALUES],
        theirs[PS_CODEC_VALUES];
    static uint8_t bytes[PS_SANDBOX_TOGETHER][PS_CODEC_ROOM];
    ps_encoding heads[PS_SANDBOX_TOGETHER];
    size_t len[PS_SANDBOX_TOGETHER];
    ps_script *scripts[] = {open_text("keeps.lua", text), open_example("topk_lua.lua")};

    (void)state;
    for (size_t s = 0; s < 2; s++) {
        const ps_codec *codec = ps_script_codec(scripts[s]);
        ps_params params = ps_params_default(codec->params);

        params.v[ps_param_find(codec->params, "error_feedback")] = 1;
        for (uint64_t i = 0; i < PS_SANDBOX_TOGETHER; i++) {
            fill(x[i], PS_CODEC_VALUES, i);
            assert_true(ps_codec_encode_ahead(codec, &params, i, x[i], PS_CODEC_VALUES, NULL));
        }
        ps_codec_run_ahead();
        for (uint64_t i = 0; i < PS_SANDBOX_TOGETHER; i++) {
            len[i] =
                ps_codec_encode(codec, &params, i, 0, x[i], PS_CODEC_VALUES, bytes[i], &heads[i]);
            assert_true(len[i] > 0);
            ps_codec_decode_own(&heads[i].msg, bytes[i], own[i], PS_CODEC_VALUES);
        }
        bytes[SOME_LAST][len[SOME_LAST] - 1] ^=
            1; /* other bytes are decoded anew, while the calls are there */
        ps_codec_decode_own(&heads[SOME_LAST].msg, bytes[SOME_LAST], theirs, PS_CODEC_VALUES);
        bytes[SOME_LAST][len[SOME_LAST] - 1] ^= 1;
        assert_memory_not_equal(own[SOME_LAST], theirs, sizeof theirs);
        ps_codec_end_ahead();
        for (uint64_t i = 0; i < PS_SANDBOX_TOGETHER; i++) {
            ps_status st = ps_codec_decode(codec, &heads[i].msg, bytes[i], len[i], PS_INTO_SET,
                                           theirs, PS_CODEC_VALUES);

            assert_string_equal(st.text, "");
            assert_memory_equal(own[i], theirs, sizeof theirs);
        }
        ps_script_close(scripts[s]);
    }
}

/* decode is called with encode, and its failure is named. */
static void test_a_round_trip_fails_with_the_function_that_failed(void **state)
{
    static const char text[] =
        "return { kind = 'codec', name = 'back', bits = 32,\n"
        "    encode = function(x, params, key, out) if key < 9 then out:floats(x) end end,\n"
        "    decode = function(bytes, n) error('no way back') end }";
    static float x[OF_EACH] = {1}, y[OF_EACH] = {1};
    static uint8_t bytes[PS_CODEC_ROOM];
    ps_script *script = open_text("back.lua", text);
    const ps_codec *codec = ps_script_codec(script);
    ps_params params = ps_params_default(codec->params);
    ps_encoding head;
    ps_status st;

    (void)state;
    params.v[ps_param_find(codec->params, "error_feedback")] = 1;
    assert_true(ps_codec_encode_ahead(codec, &params, 9, x, OF_EACH, NULL)); /* no bytes: zeros */
    ps_codec_run_ahead();
    assert_int_equal(ps_codec_encode(codec, &params, 9, 0, x, OF_EACH, bytes, &head), 0);
    ps_codec_decode_own(&head.msg, bytes, y, OF_EACH);
    assert_true(y[0] == 0);
    ps_codec_end_ahead();
    st = ps_script_failure(script);
    assert_string_equal(st.text, "");
    assert_true(ps_codec_encode_ahead(codec, &params, 1, x, OF_EACH, NULL));
    ps_codec_run_ahead();
    st = ps_script_failure(script);
    assert_non_null(strstr(st.text, "back.lua: decode: code:3: no way back"));
    assert_int_equal(ps_codec_encode(codec, &params, 1, 0, x, OF_EACH, bytes, &head), 0);
    ps_codec_end_ahead();
    ps_script_close(script);
}

/* One call that fails fails those that are made together, and the script keeps the reason. */
static void test_calls_that_are_made_together_fail_together(void **state)
{
    static const char text[] =
        "return { kind = 'codec', name = 'late', bits = 32,\n"
        "    encode = function(x, params, key, out) if key == 2 then error('two') end\n"
        "        out:floats(x) end,\n"
        "    decode = function(bytes, n) return bytes:floats(n) end }";
    static float x[OF_EACH];
    static uint8_t bytes[PS_CODEC_ROOM];
    ps_encoding head;
    ps_script *script = open_text("late.lua", text);
    ps_params params;
    ps_status st;

    (void)state;
    params = ps_params_default(ps_script_codec(script)->params);
    for (uint64_t key = 0; key < 4; key++) {
        assert_true(ps_codec_encode_ahead(ps_script_codec(script), &params, key, x, OF_EACH, NULL));
    }
    ps_codec_run_ahead();
    assert_int_equal(
        ps_codec_encode(ps_script_codec(script), &params, 0, 3, x, OF_EACH, bytes, &head), 0);
    ps_codec_end_ahead();
    st = ps_script_failure(script);
    assert_non_null(strstr(st.text, "late.lua: encode: code:2: two"));
    ps_script_close(script);
}

/* ---- Sandboxes that cannot be started ---- */

/* Returns an example with one sandbox; no other sandbox can be started until let_start. */
static ps_script *open_with_one(char *program, size_t room)
{
    static float x[OF_EACH];
    static uint8_t bytes[PS_CODEC_ROOM];
    ps_script *script = open_example("int8_lua.lua");
    ps_params params = ps_params_default(ps_script_codec(script)->params);
    ps_encoding head;

    ps_codec_encode(ps_script_codec(script), &params, 1, 0, x, OF_EACH, bytes, &head);
    snprintf(program, room, "%s", getenv("PSGD_SANDBOX") != NULL ? getenv("PSGD_SANDBOX") : "");
    assert_int_equal(setenv("PSGD_SANDBOX", "/nonexistent/sandbox", 1), 0);
    return script;
}

static void let_start(const char *program)
{
    assert_int_equal(setenv("PSGD_SANDBOX", program, 1), 0);
}

enum { SHARING = 8, CALLS_OF_EACH = 50 };

/* Encodes and decodes, alone and together with others. Returns NULL if all had the same bytes. */
static void *call_often(void *arg)
{
    ps_script *script = arg;
    const ps_codec *codec = ps_script_codec(script);
    ps_params params = ps_params_default(codec->params);
    float x[OF_EACH], y[OF_EACH];
    uint8_t first[PS_CODEC_ROOM], bytes[PS_CODEC_ROOM];
    size_t n = 0;

    fill(x, OF_EACH, 1);
    for (int i = 0; i < CALLS_OF_EACH; i++) {
        ps_encoding head;
        size_t len;
        ps_status st;

        if (i % 3 == 1) {
            ps_codec_encode_ahead(codec, &params, 5, x, OF_EACH, NULL);
            ps_codec_run_ahead();
        }
        len = ps_codec_encode(codec, &params, 5, 0, x, OF_EACH, i == 0 ? first : bytes, &head);
        n = i == 0 ? len : n;
        ps_codec_end_ahead();
        st = ps_codec_decode(codec, &head.msg, first, len, PS_INTO_SET, y, OF_EACH);
        if (!ps_is_ok(&st) || len != n || (i > 0 && memcmp(first, bytes, n) != 0)) {
            return arg;
        }
    }
    return NULL;
}

/* Threads wait for the sandbox that is there, and get the results that it gives. */
static void test_threads_share_a_sandbox_if_no_other_can_be_started(void **state)
{
    char program[512];
    ps_script *script = open_with_one(program, sizeof program);
    pthread_t threads[SHARING];
    ps_status st;

    (void)state;
    for (int i = 0; i < SHARING; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, call_often, script), 0);
    }
    for (int i = 0; i < SHARING; i++) {
        void *failed;

        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    let_start(program);
    st = ps_script_failure(script);
    assert_string_equal(st.text, "");
    ps_script_close(script);
}

/* A thread that has the only sandbox, for calls that it makes together, does not wait for itself.
 */
static void test_a_thread_does_not_wait_for_its_own_sandbox(void **state)
{
    static float x[OF_EACH], y[OF_EACH];
    static uint8_t before[PS_CODEC_ROOM], bytes[PS_CODEC_ROOM];
    char program[512];
    ps_script *script = open_with_one(program, sizeof program);
    const ps_codec *codec = ps_script_codec(script);
    ps_params params = ps_params_default(codec->params);
    ps_encoding head;
    ps_status st;
    size_t n;

    (void)state;
    fill(x, OF_EACH, 2);
    n = ps_codec_encode(codec, &params, 7, 0, x, OF_EACH, before, &head);
    assert_true(ps_codec_encode_ahead(codec, &params, 7, x, OF_EACH, NULL));
    ps_codec_run_ahead();
    st = ps_codec_decode(codec, &head.msg, before, n, PS_INTO_SET, y, OF_EACH);
    assert_string_equal(st.text, "");
    assert_int_equal(ps_codec_encode(codec, &params, 7, 0, x, OF_EACH, bytes, &head), n);
    assert_memory_equal(bytes, before, n);
    ps_codec_end_ahead();
    let_start(program);
    ps_script_close(script);
}

/* The failure has the cause, and a code by which the job goes on elsewhere. */
static void test_a_script_without_any_sandbox_names_the_cause(void **state)
{
    static float x[OF_EACH];
    static uint8_t bytes[PS_CODEC_ROOM];
    ps_script *script = open_example("sgq.lua");
    ps_params params = ps_params_default(ps_script_codec(script)->params);
    char program[512];
    ps_encoding head;
    ps_status st;

    (void)state;
    ps_script_close(open_with_one(program, sizeof program));
    ps_codec_encode(ps_script_codec(script), &params, 7, 0, x, OF_EACH, bytes, &head);
    let_start(program);
    st = ps_script_failure(script);
    assert_int_equal(st.code, PS_RESOURCE_EXHAUSTED);
    assert_string_equal(st.text, "sgq.lua: /nonexistent/sandbox cannot be started: No such file or "
                                 "directory");
    ps_script_close(script);
}

#if defined __SANITIZE_THREAD__
#define UNLIMITED_RECURSION "" /* it is so slow that time or memory may end first */
#else
#define UNLIMITED_RECURSION "memory"
#endif

/* Programs that must fail, with a part of the text that says why. */
static const struct {
    const char *text, *why;
} refused[] = {
    {"return 1", "has to return a table"},
    {"return {", "near <eof>"},
    {"\x1bLua", "attempt to load a binary chunk"},
    {"while true do end", "more instructions"},
    {"local t = {} for i = 1, 1e9 do t[i] = i end", "not enough memory"},
    {"return ('x'):rep(1e9)", "not enough memory"},
    {"x = 1", "only local variables"},
    {"math.pi = 3", "only local variables"},
    {"return os.time()", "attempt to index a nil value (global 'os')"},
    {"return io", "has to return a table"},
    {"load('return 1')()", "attempt to call a nil value (global 'load')"},
    {"pcall(error)", "attempt to call a nil value (global 'pcall')"},
    {"setmetatable({}, {})", "attempt to call a nil value (global 'setmetatable')"},
    {"string.format('%p', 'x')", "%p"},
    {"return tostring({})", "has no text"},
    {"local function f() return f() + 1 end f()", UNLIMITED_RECURSION},
    {"local s = ('a'):rep(64) s:match(('a?'):rep(64) .. s) s:match(('.-'):rep(60) .. 'b')",
     "budget"},
    {"return {kind = 'codec', name = 'a b'}", "a-z 0-9 _ are allowed"},
    {"return {kind = 'codec', name = 'a'}", "needs a function encode"},
    {"return {kind = 'worm', name = 'a'}", "kind is \"worm\""},
};

static void test_hostile_files_are_refused_with_the_reason(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        ps_script_about about;
        ps_status st = ps_script_describe(refused[i].text, strlen(refused[i].text), &about);

        if (ps_is_ok(&st) || strstr(st.text, refused[i].why) == NULL) {
            fail_msg("%s: \"%s\", not \"%s\"", refused[i].text, st.text, refused[i].why);
        }
    }
}

/* Codecs that load, and what is found when they are tried. */
static const struct {
    const char *text, *why;
} untrue[] = {
    {"return {kind = 'codec', name = 'a', bits = 32, unbiased = true,"
     " encode = function(x, p, k, out) out:floats((x * 4):floor()) end,"
     " decode = function(b, n) return b:floats(n) / 4 end}",
     "unbiased is true"},
    {"return {kind = 'codec', name = 'a', bits = 32, keeps_zeros = true,"
     " encode = function(x, p, k, out) out:floats(x + 1) end,"
     " decode = function(b, n) return b:floats(n) end}",
     "keeps_zeros is true"},
    {"return {kind = 'codec', name = 'a', bits = 32,"
     " encode = function(x, p, k, out) out:floats(x:part(1, #x - 1)) end,"
     " decode = function(b, n) return b:floats(n - 1) end}",
     "it has to return"},
    {"return {kind = 'codec', name = 'a', bits = 32,"
     " encode = function(x, p, k, out) out:floats(x) end,"
     " decode = function(b, n) return b:floats(n) / 0 end}",
     "is not finite"},
    {"return {kind = 'codec', name = 'a', bits = 8,"
     " encode = function(x, p, k, out) out:floats(x) end,"
     " decode = function(b, n) return b:floats(n) end}",
     "bytes are written"},
    {"return {kind = 'schedule', name = 'a', factor = function(s, t) return -1 end}", "0 and more"},
    {"return {kind = 'consistency', name = 'a', admit = function() return true end,"
     " scale = function() return 1e9 end}",
     "1e6 are allowed"},
};

static void test_what_a_plugin_promises_is_tried(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof untrue / sizeof untrue[0]; i++) {
        const char *text = untrue[i].text;
        ps_script_about about;
        ps_status st = ps_script_describe(text, strlen(text), &about);
        ps_script *script;

        assert_true(ps_is_ok(&st));
        script = ps_script_open("a.lua", text, strlen(text), &about);
        st = ps_script_check(script, NULL);
        ps_script_close(script);
        if (ps_is_ok(&st) || strstr(st.text, untrue[i].why) == NULL) {
            fail_msg("%s: \"%s\", not \"%s\"", text, st.text, untrue[i].why);
        }
    }
}

/* Returns the nice value of the process's session among sessions; 19 if the kernel does not order
 * processes by sessions. */
static int nice_of_session(pid_t pid)
{
    char path[64];
    int value = 19;
    FILE *f;

    snprintf(path, sizeof path, "/proc/%d/autogroup", pid);
    f = fopen(path, "re");
    if (f != NULL) {
        assert_int_equal(fscanf(f, "%*s nice %d", &value), 1);
        assert_int_equal(getsid(pid), pid);
        fclose(f);
    }
    return value;
}

static void test_what_is_tried_runs_below_all_others(void **state)
{
    ps_script *script = open_example("topk_lua.lua");
    ps_sandbox *tried, *used;
    ps_status st;

    (void)state;
    ps_script_trial_begin(script);
    st = ps_script_take(script, &tried);
    assert_true(ps_is_ok(&st));
    assert_int_equal(getpriority(PRIO_PROCESS, (id_t)ps_sandbox_pid(tried)), 19);
    assert_int_equal(nice_of_session(ps_sandbox_pid(tried)), 19);
    ps_script_give_back(script, tried, &st);
    ps_script_trial_end(script);

    st = ps_script_take(script, &used);
    assert_true(ps_is_ok(&st));
    assert_int_equal(getpriority(PRIO_PROCESS, (id_t)ps_sandbox_pid(used)),
                     getpriority(PRIO_PROCESS, 0));
    ps_script_give_back(script, used, &st);
    ps_script_close(script);
}

static void test_what_is_tried_has_a_budget_of_processor_time_and_pauses(void **state)
{
    static const char text[] = "string.find(string.rep('a', 30000), string.rep('a*', 100) .. 'b')";
    ps_sandbox_budget budget = ps_sandbox_budget_default();
    int64_t began_us = ps_clock_us();
    ps_sandbox *sandbox;
    ps_status st;

    (void)state;
    budget.is_background = true;
    budget.time_us = 30 * 1000;
    st = ps_script_load(text, strlen(text), &budget, &sandbox);
    assert_null(sandbox);
    assert_non_null(strstr(st.text, "takes longer than the 0.03 s"));
#if !defined __SANITIZE_THREAD__ /* which has a signal wait until the process calls the system */
    assert_true(ps_clock_us() - began_us > 150 * 1000); /* two pauses */
#else
    (void)began_us;
#endif
}

/* One that calls a function at a time, with much time for each, is not replaced before each. */
static void test_a_sandbox_is_old_when_its_next_call_may_take_too_long(void **state)
{
    ps_sandbox_budget budget = ps_sandbox_budget_default();
    ps_sandbox *sandbox;
    ps_status st;

    (void)state;
    budget.time_us = 60 * 1000 * 1000;
    st = ps_sandbox_start(&budget, &sandbox);
    assert_string_equal(st.text, "");
    assert_false(ps_sandbox_is_old(sandbox, 1));
    assert_false(ps_sandbox_is_old(sandbox, 9));
    assert_true(ps_sandbox_is_old(sandbox, 10)); /* of 600 s, 50 are spared */
    ps_sandbox_end(sandbox);
}

/* Returns whether the process, or the calling thread for 0, may run on these processors alone. */
static bool runs_on(pid_t pid, const cpu_set_t *wanted)
{
    cpu_set_t has;

    assert_int_equal(sched_getaffinity(pid, sizeof has, &has), 0);
    return CPU_EQUAL(&has, wanted);
}

/* Waits as a thread does that the kernel wakes on another processor, if there is one. */
static void wake_elsewhere(ps_same_cpu *both)
{
    cpu_set_t others;

    assert_int_equal(sched_getaffinity(0, sizeof others, &others), 0);
    ps_same_cpu_begin(both);
    CPU_CLR((size_t)both->cpu, &others);
    if (CPU_COUNT(&others) > 0) {
        assert_int_equal(sched_setaffinity(0, sizeof others, &others), 0);
    }
    ps_same_cpu_end(both);
}

static void test_whoever_waits_shares_a_processor_until_it_takes_long(void **state)
{
    pid_t pid = fork();
    ps_same_cpu both = {.pid = pid};
    cpu_set_t all, here;

    (void)state;
    assert_true(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;) {
            pause();
        }
    }
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    if (CPU_COUNT(&all) > 1) {
        wake_elsewhere(&both);
        assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
    }
    for (uint32_t i = 0; i < PS_SAME_CPU_WAITS && CPU_COUNT(&all) > 1; i++) {
        ps_same_cpu_begin(&both);
        CPU_ZERO(&here);
        CPU_SET((size_t)both.cpu, &here);
        assert_true(runs_on(0, &here) && runs_on(pid, &here));
        ps_same_cpu_end(&both);
        assert_true(runs_on(0, &all) && runs_on(pid, &here));
    }
    ps_same_cpu_begin(
        &both); /* from now on the thread may be woken anywhere, but not the process */
    CPU_ZERO(&here);
    CPU_SET((size_t)both.cpu, &here);
    assert_true(runs_on(0, &all) && runs_on(pid, &here));
    ps_same_cpu_end(&both);
    assert_true(runs_on(0, &all) && runs_on(pid, &here));
    for (uint32_t waits = 0; waits < 2; waits++) {
        both.waits = waits;
        ps_same_cpu_begin(&both);
        ps_same_cpu_loosen(&both);
        assert_true(runs_on(0, &all) && runs_on(pid, &all));
        ps_same_cpu_end(&both);
        assert_true(runs_on(0, &all) && runs_on(pid, &all));
    }
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* Writes `text` to a file of the group at `folder`. Returns false if the kernel refuses it. */
static bool tell_group(const char *folder, const char *file, const char *text)
{
    char path[128];
    int fd;
    bool is_told;

    snprintf(path, sizeof path, "%s/%s", folder, file);
    fd = open(path, O_WRONLY | O_CLOEXEC);
    is_told = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    if (fd >= 0) {
        close(fd);
    }
    return is_told;
}

/* Waits for a process as ps_sandbox_call does, in the group, whose cpuset gains a processor then.
 * Returns what the thread may do: 0, all; 1, less; 2, no cpusets here. */
static int gain_a_processor(const char *folder, bool is_limited)
{
    ps_same_cpu both = {.pid = getpid()};
    cpu_set_t first, two;

    CPU_ZERO(&first);
    CPU_SET(0, &first);
    two = first;
    CPU_SET(1, &two);
    if (!tell_group(folder, "cgroup.procs", "0") || !runs_on(0, &first) ||
        (is_limited && (!tell_group(folder, "cpuset.cpus", "0-1") ||
                        sched_setaffinity(0, sizeof first, &first) != 0))) {
        return 2;
    }
    for (int i = 0; i < 2; i++) {
        both.waits = 1;
        ps_same_cpu_begin(&both);
        ps_same_cpu_end(&both);
    }
    if (!tell_group(folder, "cpuset.cpus", "0-1")) {
        return 2;
    }
    return runs_on(0, is_limited ? &first : &two) ? 0 : 1;
}

static void test_a_thread_that_waited_uses_what_its_cpuset_gains(void **state)
{
    bool is_v1 = access("/sys/fs/cgroup/cpuset", W_OK) == 0, is_skipped = false;

    (void)state;
    for (int is_limited = 0; is_limited < 2 && !is_skipped; is_limited++) {
        char folder[64];
        int status = 0;
        pid_t pid;

        snprintf(folder, sizeof folder, "/sys/fs/cgroup/%spsgd-test-%d", is_v1 ? "cpuset/" : "",
                 (int)getpid());
        is_skipped = mkdir(folder, 0700) != 0 ||
                     (is_v1 && !tell_group(folder, "cpuset.mems", "0")) ||
                     !tell_group(folder, "cpuset.cpus", "0");
        pid = is_skipped ? -1 : fork();
        if (pid == 0) {
            _exit(gain_a_processor(folder, is_limited));
        }
        assert_true(is_skipped || pid > 0);
        if (pid > 0) {
            assert_int_equal(waitpid(pid, &status, 0), pid);
            assert_true(WIFEXITED(status));
        }
        (void)rmdir(folder);
        is_skipped = is_skipped || WEXITSTATUS(status) == 2;
        assert_true(is_skipped || WEXITSTATUS(status) == 0);
    }
    if (is_skipped) {
        skip(); /* no right to make a cpuset of two processors */
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        /* first, because the others make calls, which would leave the thread on one processor */
        cmocka_unit_test(test_whoever_waits_shares_a_processor_until_it_takes_long),
        cmocka_unit_test(test_a_thread_that_waited_uses_what_its_cpuset_gains),
        cmocka_unit_test(test_example_codecs_give_the_values_of_built_in_ones),
        cmocka_unit_test(test_calls_that_are_made_together_give_the_same),
        cmocka_unit_test(test_a_round_trip_gives_the_values_that_receivers_decode),
        cmocka_unit_test(test_a_round_trip_fails_with_the_function_that_failed),
        cmocka_unit_test(test_calls_that_are_made_together_fail_together),
        cmocka_unit_test(test_threads_share_a_sandbox_if_no_other_can_be_started),
        cmocka_unit_test(test_a_thread_does_not_wait_for_its_own_sandbox),
        cmocka_unit_test(test_a_script_without_any_sandbox_names_the_cause),
        cmocka_unit_test(test_what_a_plugin_promises_is_tried),
        cmocka_unit_test(test_what_is_tried_runs_below_all_others),
        cmocka_unit_test(test_what_is_tried_has_a_budget_of_processor_time_and_pauses),
        cmocka_unit_test(test_a_sandbox_is_old_when_its_next_call_may_take_too_long),
        cmocka_unit_test(test_hostile_files_are_refused_with_the_reason),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
