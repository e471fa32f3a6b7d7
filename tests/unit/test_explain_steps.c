/* SPDX-License-Identifier: Apache-2.0 */
/* test_explain_steps.c - from a timeline to where the time of an exchange goes. */
#include "common/explain/explain_foretell.h"
#include "common/explain/explain_steps.h"
#include "common/explain/explain_times.h"

#include "common/base/strbuf.h"
#include "tests/support/cmocka_all.h"

#include <math.h>
#include <stdlib.h>

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
        assert_false(ps_explain_is_close(&s));
        s.shares[(cases[i].way + 1) % PS_WAYS] = 0.35;
        assert_true(ps_explain_is_close(&s));
        s.shares[(cases[i].way + 1) % PS_WAYS] = cases[i].shares[(cases[i].way + 1) % PS_WAYS];
        for (int w = 0; w < PS_WAYS; w++) {
            must_be_near(s.shares[w], cases[i].shares[w]);
        }
        json_decref(root);
    }
}

/* The thread that receives, sums and steps works longer than another one that serves weights. */
static void names_the_thread_that_worked_longest(void **state)
{
    const costs c = {10, 50, 400, 50, 20};
    json_t *root = timeline(&c, 5, true), *events = json_object_get(root, "traceEvents");
    ps_explain_steps s;
    ps_status st;

    (void)state;
    for (int step = 1; step <= 5; step++) {
        ps_strbuf text = {0};

        add(&text, "server", "serve", 3, 2, step, 1000.0 * step + 660, c.serve / 4 + 5);
        json_array_append_new(events, json_loads(ps_strbuf_text(&text) + 1, 0, NULL));
        ps_strbuf_fini(&text);
    }
    st = ps_explain_timeline(root, &s);
    assert_string_equal(st.text, "");
    assert_int_equal(s.way, PS_WAY_SERVER);
    assert_string_equal(s.thread, "server 0, serving");
    json_decref(root);
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
    /* an exchange of 0.9 of a step comes once in four */
    must_be_near(ps_forecast_rounds(&job, 4), 9 / (0.1 + 0.9 / 4));
}

static void times_of_ranks_leave_out_waits_within_layers(void **state)
{
    static const char *const events = "{\"traceEvents\": ["
                                      "{\"ph\": \"M\", \"name\": \"process_name\", \"pid\": 7, "
                                      "\"args\": {\"name\": \"worker 1\"}},"
                                      "{\"ph\": \"M\", \"name\": \"process_name\", \"pid\": 8, "
                                      "\"args\": {\"name\": \"worker 9\"}},"
                                      "{\"ph\": \"M\", \"name\": \"process_name\", \"pid\": 9, "
                                      "\"args\": {\"name\": \"server 0\"}}";
    enum { RANKS = 3, STEPS = 2 };
    static const double expected[PS_WORKS] = {0.05, 0.5, 0.1, 0.02, 0.3, 0.03};
    ps_explain_times times[RANKS];
    ps_strbuf text = {0};
    json_t *root;

    (void)state;
    ps_strbuf_puts(&text, events);
    for (int step = 1; step <= STEPS; step++) {
        double at = 1000.0 * step;

        add(&text, "worker", "step", 7, 1, step, at, 1000);
        add(&text, "worker", "data", 7, 1, step, at, 50);
        add(&text, "worker", "wait", 7, 1, step, at + 110, 200); /* within the next one */
        add(&text, "worker", "forward 0 dense", 7, 1, step, at + 100, 400);
        add(&text, "worker", "backward 0 dense", 7, 1, step, at + 500, 300);
        add(&text, "worker", "wait", 7, 1, step, at + 800, 100);
        add(&text, "worker", "encode", 7, 2, step, at + 500, 100);
        add(&text, "worker", "send", 7, 2, step, at + 600, 20);
        add(&text, "worker", "decode", 7, 2, step, at + 700, 30);
        add(&text, "server", "decode", 9, 1, step, at, 900);
        add(&text, "server", "step", 9, 1, step, at, 900);
    }
    ps_strbuf_puts(&text, "]}");
    root = json_loads(ps_strbuf_text(&text), 0, NULL);
    assert_non_null(root);
    ps_explain_times_read(root, times, RANKS);
    assert_int_equal(times[0].steps, 0);
    assert_int_equal(times[2].steps, 0);
    assert_int_equal(times[1].steps, STEPS);
    for (int k = 0; k < PS_WORKS; k++) {
        must_be_near(times[1].ms[k], expected[k]);
    }
    json_decref(root);
    ps_strbuf_fini(&text);
}

static void each_codec_is_measured_once(void **state)
{
    const ps_explain_steps steps = {.step_s = 0.1, .shares = {0.6, 0.2, 0.1, 0}};
    const ps_explain_rank rank = {.steps = 10,
                                  .seconds = 1,
                                  .bytes_up = 4e6,
                                  .bytes_down = 4e6,
                                  .float32_up = 4e6,
                                  .float32_down = 4e6};
    const ps_explain_rank silent = {.steps = 10, .seconds = 1};
    ps_codec_costs *known = calloc(1, sizeof *known);
    Psgd__V1__JobSpec spec = PSGD__V1__JOB_SPEC__INIT;
    ps_foretold rows[PS_FORETOLD_MAX];
    size_t with_rounds = 0, of_servers = 0, n;

    (void)state;
    assert_int_equal(ps_foretell(known, &spec, false, &silent, 1, 10, &steps, rows), 0);
    n = ps_foretell(known, &spec, false, &rank, 1, 10, &steps, rows);
    assert_int_equal(known->count, 4); /* f32 is the job's, too */
    for (size_t i = 0; i < n; i++) {
        with_rounds += rows[i].local_steps > 0;
        of_servers += rows[i].servers > 1;
        assert_true(rows[i].steps_per_s > 0 && isfinite(rows[i].steps_per_s));
    }
    assert_int_equal(with_rounds, 2);
    assert_int_equal(of_servers, 1);
    assert_string_equal(rows[0].up, "f32");
    assert_true(fabs(rows[0].steps_per_s - 10) < 0.1); /* as it is, but for heads of slices */
    assert_int_equal(ps_foretell(known, &spec, true, &rank, 1, 10, &steps, rows), n - 2);
    assert_int_equal(known->count, 4);
    free(known);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_the_largest_part),
        cmocka_unit_test(names_the_thread_that_worked_longest),
        cmocka_unit_test(clocks_that_differ_by_more_make_it_doubtful),
        cmocka_unit_test(what_is_no_timeline_is_refused),
        cmocka_unit_test(half_the_bytes_take_half_the_way),
        cmocka_unit_test(times_of_ranks_leave_out_waits_within_layers),
        cmocka_unit_test(each_codec_is_measured_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
