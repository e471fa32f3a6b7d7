/* SPDX-License-Identifier: Apache-2.0 */
/* test_explain_steps.c - from a timeline to where the time of an exchange goes. */
#include "clients/psgd/explain_forecast.h"
#include "clients/psgd/explain_steps.h"

#include "common/base/strbuf.h"
#include "tests/support/cmocka_all.h"

#include <math.h>

/* What a step of two workers and a server takes, in microseconds; a step is 1000 long. */
typedef struct costs {
    double encode, up, serve, down, take;
} costs;

static void add(ps_strbuf *to, const char *category, const char *name, int pid, int tid, int step,
                double ts, double dur)
{
    ps_strbuf_printf(to,
                     ",{\"ph\":\"X\",\"cat\":\"%s\",\"name\":\"%s\",\"pid\":%d,\"tid\":%d,"
                     "\"ts\":%.3f,\"dur\":%.3f,\"args\":{\"step\":%d}}",
                     category, name, pid, tid, ts, dur, step);
}

/* Writes the slices of a step. Worker 1 ends its backward pass last, at 300. */
static void add_step(ps_strbuf *to, int step, const costs *c)
{
    double begin = 1000.0 * step, computed = begin + 300, at = computed + c->encode + c->up;

    add(to, "worker", "forward 0 dense", 1, 1, step, begin, 100);
    add(to, "worker", "backward 0 dense", 1, 1, step, begin + 100, 80);
    add(to, "worker", "backward 0 dense", 2, 1, step, begin + 100, 200);
    add(to, "worker", "encode", 2, 2, step, computed, c->encode);
    add(to, "server", "wait", 3, 1, step, begin + 200, at - begin - 200);
    add(to, "server", "decode", 3, 1, step, at, c->serve / 2);
    add(to, "server", "sum", 3, 1, step, at + c->serve / 8, c->serve / 8); /* within decode */
    add(to, "server", "step", 3, 1, step, at + c->serve / 2, c->serve / 4);
    add(to, "server", "serve", 3, 1, step, at + c->serve * 3 / 4, c->serve / 4);
    add(to, "worker", "decode", 2, 2, step, at + c->serve + c->down, c->take);
}

static json_t *timeline(const costs *c, int steps, bool is_whole)
{
    ps_strbuf text = {0};
    json_t *root;

    ps_strbuf_puts(&text, "{\"otherData\":{\"clock_error_us\":20},\"traceEvents\":["
                          "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":3,\"tid\":0,\"args\":{"
                          "\"name\":\"server 0\"}},"
                          "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":3,\"tid\":1,\"args\":{"
                          "\"name\":\"serving\"}}");
    for (int step = 1; step <= steps; step++) {
        add_step(&text, step, c);
    }
    if (!is_whole) { /* the last step of which a node has recorded nothing but this */
        add(&text, "worker", "backward 0 dense", 1, 1, steps + 1, 1000.0 * (steps + 1), 10);
    }
    ps_strbuf_puts(&text, "]}");
    root = json_loads(ps_strbuf_text(&text), 0, NULL);
    assert_non_null(root);
    ps_strbuf_fini(&text);
    return root;
}

static void must_be_near(double value, double expected)
{
    assert_true(fabs(value - expected) < 1e-6);
}

static void names_the_largest_part(void **state)
{
    static const struct {
        costs c;
        ps_explain_way way;
        double shares[PS_WAYS];
    } cases[] = {
        {{10, 400, 40, 50, 20}, PS_WAY_UP, {0.4, 0.04, 0.05, 0.03}},
        {{10, 50, 40, 400, 20}, PS_WAY_DOWN, {0.05, 0.04, 0.4, 0.03}},
        {{10, 50, 400, 50, 20}, PS_WAY_SERVER, {0.05, 0.4, 0.05, 0.03}},
        {{200, 50, 40, 50, 200}, PS_WAY_CODEC, {0.05, 0.04, 0.05, 0.4}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        json_t *root = timeline(&cases[i].c, 5, false);
        ps_explain_steps s;
        ps_status st = ps_explain_timeline(root, &s);

        assert_string_equal(st.text, "");
        assert_int_equal(s.count, 5);
        assert_int_equal(s.way, cases[i].way);
        must_be_near(s.step_s, 1e-3);
        must_be_near(s.error_s, 40e-6);
        assert_string_equal(s.thread, "server 0, serving");
        assert_false(ps_explain_is_doubtful(&s));
        for (int w = 0; w < PS_WAYS; w++) {
            must_be_near(s.shares[w], cases[i].shares[w]);
        }
        json_decref(root);
    }
}

static void clocks_that_differ_by_more_make_it_doubtful(void **state)
{
    json_t *root = timeline(&(costs){5, 30, 5, 5, 5}, 4, true);
    ps_explain_steps s;
    ps_status st = ps_explain_timeline(root, &s);

    (void)state;
    assert_string_equal(st.text, "");
    assert_int_equal(s.way, PS_WAY_UP);
    assert_true(ps_explain_is_doubtful(&s)); /* 30 us, and clocks within 40 */
    json_decref(root);
}

static void what_is_no_timeline_is_refused(void **state)
{
    static const char *const texts[] = {
        "{}",
        "[]",
        "{\"traceEvents\": 5}",
        "{\"traceEvents\": [null, 1, \"x\", [], {}, {\"ph\": 7, \"pid\": -1}]}",
        "{\"traceEvents\": [{\"ph\": \"X\", \"cat\": \"server\", \"name\": \"step\", \"ts\": "
        "1e308, "
        "\"dur\": 1e308, \"args\": {\"step\": 1}}]}",
    };
    json_t *root = timeline(&(costs){10, 400, 40, 50, 20}, 2, true);
    ps_explain_steps s;
    ps_status st = ps_explain_timeline(root, &s);

    (void)state;
    assert_int_equal(st.code, PS_NOT_FOUND);
    assert_string_equal(st.text, "the timeline has fewer than 3 steps with servers");
    json_decref(root);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        root = json_loads(texts[i], 0, NULL);
        assert_non_null(root);
        st = ps_explain_timeline(root, &s);
        assert_int_equal(st.code, PS_NOT_FOUND);
        json_decref(root);
    }
}

static void half_the_bytes_take_half_the_way(void **state)
{
    const ps_explain_steps steps = {.step_s = 0.1, .shares = {0.6, 0.2, 0.1, 0}};
    const ps_codec_cost plain = {.bytes = 4, .encode_ns = 1, .decode_ns = 1};
    const ps_codec_cost half = {.bytes = 2, .encode_ns = 1, .decode_ns = 1};
    const ps_codec_cost slow = {.bytes = 4, .encode_ns = 11, .decode_ns = 6};
    const ps_forecast_job job = {.steps = &steps,
                                 .steps_per_s = 9, /* some time lies between the steps */
                                 .values = 1e6,
                                 .workers = 2,
                                 .up_bytes = 4,
                                 .down_bytes = 4,
                                 .up = plain,
                                 .down = plain};

    (void)state;
    must_be_near(ps_forecast_codecs(&job, &plain, &plain), 9);
    must_be_near(ps_forecast_codecs(&job, &half, &plain), 9 / 0.6); /* 0.8 become 0.4 */
    must_be_near(ps_forecast_codecs(&job, &plain, &half), 9 / 0.95);
    /* 10 ms more on the worker, and 5 ms more for each of two workers on the server */
    must_be_near(ps_forecast_codecs(&job, &slow, &plain), 9 / 1.2);
    must_be_near(ps_forecast_servers(&job, 2), 9 / 0.9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_the_largest_part),
        cmocka_unit_test(clocks_that_differ_by_more_make_it_doubtful),
        cmocka_unit_test(what_is_no_timeline_is_refused),
        cmocka_unit_test(half_the_bytes_take_half_the_way),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
