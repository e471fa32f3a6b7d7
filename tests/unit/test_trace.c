/* SPDX-License-Identifier: Apache-2.0 */
#include "common/trace/trace_file.h"

#include "common/base/files.h"

#include <jansson.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include <cmocka.h>

enum { TEXT_MAX = 1 << 20, MANY = 3 * PS_TRACE_RECORDS };

static void add(ps_trace_kind kind, uint32_t number)
{
    ps_trace_end(kind, ps_trace_begin(), number, NULL);
}

static void only_the_steps_of_the_window_are_recorded(void **state)
{
    ps_trace_ring *ring = ps_trace_ring_create(3, 2);
    ps_trace_record out[8];

    (void)state;
    add(PS_TRACE_DATA, 0); /* without a ring: nothing happens */
    for (uint64_t step = 1; step <= 6; step++) {
        ps_trace_enter(ring, step);
        assert_int_equal(ps_trace_begin() != 0, step == 3 || step == 4);
        add(PS_TRACE_DATA, (uint32_t)step);
    }
    assert_null(ps_trace_here);
    assert_int_equal(ps_trace_take(ring, out, 8), 2);
    assert_int_equal(out[0].step, 3);
    assert_int_equal(out[1].step, 4);
    assert_int_equal(out[1].number, 4);
    assert_true(out[0].begin_ns <= out[0].end_ns && out[0].end_ns <= out[1].begin_ns);
    ps_trace_ring_destroy(ring);
}

static void a_slice_that_began_outside_is_left_out(void **state)
{
    ps_trace_ring *ring = ps_trace_ring_create(1, 1);
    int64_t began_ns = ps_trace_begin();
    ps_trace_record out;

    (void)state;
    ps_trace_enter(ring, 1);
    ps_trace_end(PS_TRACE_WAIT, began_ns, 0, NULL);
    assert_int_equal(ps_trace_take(ring, &out, 1), 0);
    ps_trace_enter(NULL, 0);
    ps_trace_ring_destroy(ring);
}

static void a_full_ring_keeps_what_it_has_and_counts_the_rest(void **state)
{
    ps_trace_ring *ring = ps_trace_ring_create(1, 1);
    ps_trace_record out;

    (void)state;
    ps_trace_enter(ring, 1);
    for (uint32_t i = 0; i < PS_TRACE_RECORDS + 5; i++) {
        add(PS_TRACE_ENCODE, i);
    }
    assert_int_equal(ps_trace_lost(ring), 5);
    assert_int_equal(ps_trace_take(ring, &out, 1), 1);
    assert_int_equal(out.number, 0);
    add(PS_TRACE_ENCODE, 7); /* in the place of the one that was taken */
    assert_int_equal(ps_trace_lost(ring), 5);
    ps_trace_enter(NULL, 0);
    ps_trace_ring_destroy(ring);
}

static void steps_are_set_anew_while_a_thread_writes(void **state)
{
    ps_trace_ring *ring = ps_trace_ring_create(0, 0);
    ps_trace_record out[4];

    (void)state;
    assert_false(ps_trace_is_on(ring));
    assert_false(ps_trace_is_on(NULL));
    ps_trace_enter(ring, 1);
    assert_null(ps_trace_here);
    ps_trace_ring_set(ring, 5, 2);
    assert_true(ps_trace_is_on(ring));
    for (uint64_t step = 4; step <= 7; step++) {
        ps_trace_enter(ring, step);
        assert_true((ps_trace_here == ring) == (step == 5 || step == 6));
        if (ps_trace_here != NULL) {
            add(PS_TRACE_ENCODE, (uint32_t)step);
        }
    }
    assert_int_equal(ps_trace_take(ring, out, 1), 1);
    assert_int_equal(out[0].step, 5);
    ps_trace_ring_set(ring, UINT64_C(1000000000000), PS_TRACE_STEPS_MAX); /* forgets step 6 */
    assert_int_equal(ps_trace_take(ring, out, 4), 0);
    ps_trace_enter(ring, UINT64_C(1000000000000) + PS_TRACE_STEPS_MAX - 1);
    add(PS_TRACE_ENCODE, 9);
    assert_int_equal(ps_trace_take(ring, out, 4), 1);
    assert_int_equal(out[0].number, 9);
    ps_trace_enter(ring, UINT64_C(1000000000000) + PS_TRACE_STEPS_MAX);
    assert_null(ps_trace_here);
    ps_trace_ring_set(ring, 0, 0);
    assert_false(ps_trace_is_on(ring));
    ps_trace_enter(NULL, 0);
    ps_trace_ring_destroy(ring);
}

static atomic_bool is_written;

static void *write_many(void *arg)
{
    ps_trace_enter(arg, 1);
    for (uint32_t i = 0; i < MANY; i++) {
        add(PS_TRACE_ENCODE, i);
    }
    ps_trace_enter(NULL, 0);
    atomic_store(&is_written, true);
    return NULL;
}

static void a_collector_meanwhile_gets_whole_records_in_order(void **state)
{
    ps_trace_ring *ring = ps_trace_ring_create(1, 1);
    ps_trace_record out[64];
    uint64_t taken = 0;
    int64_t last = -1;
    bool is_end = false;
    pthread_t thread;
    size_t n;

    (void)state;
    atomic_store(&is_written, false);
    assert_int_equal(pthread_create(&thread, NULL, write_many, ring), 0);
    do {
        is_end = atomic_load(&is_written);
        while ((n = ps_trace_take(ring, out, 64)) > 0) {
            for (size_t i = 0; i < n; i++) {
                assert_true(out[i].number > last);
                assert_int_equal(out[i].step, 1);
                last = out[i].number;
            }
            taken += n;
        }
    } while (!is_end);
    pthread_join(thread, NULL);
    assert_int_equal(taken + ps_trace_lost(ring), MANY);
    ps_trace_ring_destroy(ring);
}

/* Reads a file. */
static json_t *root_of(const char *path)
{
    char *text = malloc(TEXT_MAX);
    gzFile gz = gzopen(path, "rb");
    json_error_t error;
    json_t *root;
    int n;

    assert_non_null(gz);
    n = gzread(gz, text, TEXT_MAX);
    gzclose(gz);
    assert_true(n > 0 && n < TEXT_MAX);
    root = json_loadb(text, (size_t)n, 0, &error);
    assert_non_null(root);
    assert_true(json_is_array(json_object_get(root, "traceEvents")));
    free(text);
    return root;
}

static const char *text_of(const json_t *event, const char *key)
{
    const char *text = json_string_value(json_object_get(event, key));

    return text != NULL ? text : "";
}

/* Returns the event of this phase and name, the only one. */
static const json_t *find(const json_t *events, const char *phase, const char *name)
{
    const json_t *event, *found = NULL;
    size_t i;

    json_array_foreach(events, i, event)
    {
        if (strcmp(text_of(event, "ph"), phase) == 0 && strcmp(text_of(event, "name"), name) == 0) {
            assert_null(found);
            found = event;
        }
    }
    assert_non_null(found);
    return found;
}

static json_int_t argument(const json_t *event, const char *key)
{
    return json_integer_value(json_object_get(json_object_get(event, "args"), key));
}

static void record_a_step(ps_trace_ring *ring)
{
    int64_t step_ns, send_ns;

    ps_trace_enter(ring, 1);
    step_ns = ps_trace_begin();
    ps_trace_end(PS_TRACE_FORWARD, ps_trace_begin(), 2, "dense");
    send_ns = ps_trace_begin();
    ps_trace_end_of(PS_TRACE_APPLY, ps_trace_begin(), 0, 1);
    ps_trace_end_of(PS_TRACE_SEND, send_ns, 0, 1);
    ps_trace_add(PS_TRACE_WAIT, ps_trace_begin(), 0, NULL, 5);
    ps_trace_end_of(PS_TRACE_TAKE, ps_trace_begin(), 0, 1);
    ps_trace_end(PS_TRACE_STEP, step_ns, 0, NULL);
    ps_trace_enter(NULL, 0);
}

static void parts_become_one_file(void **state)
{
    char dir[] = "/tmp/test_trace.XXXXXX", part[64], strange[64], path[64], absent[64];
    char *parts[] = {part, absent, strange, NULL};
    ps_trace_ring *ring = ps_trace_ring_create(1, 1);
    ps_trace_track track = ps_trace_worker(ring, 3, 4);
    ps_trace_alignment alignment = {.offset_ns = -1500, .error_ns = 250500};
    static const char junk[] = "{\"ph\":\"X\"}\n]}\n[1]\n{\"ph\":\"Q\",\"name\":\"a\",\"pid\":1}\n"
                               "{\"ph\":\"i\",\"name\":\"mark\",\"pid\":1}\n{\"ph\":\"i\",\"name\"";
    bool is_any = false;
    int64_t first_ns;
    json_t *root, *events;

    (void)state;
    assert_non_null(mkdtemp(dir));
    snprintf(part, sizeof part, "%s/a.part", dir);
    snprintf(absent, sizeof absent, "%s/b.part", dir);
    snprintf(strange, sizeof strange, "%s/c.part", dir);
    snprintf(path, sizeof path, "%s/t.json.gz", dir);
    {
        ps_status st = ps_trace_merge(&parts[1], 1, path, &is_any);

        assert_true(ps_is_ok(&st) && !is_any); /* no part, no file */
        record_a_step(ring);
        snprintf(track.process_name, sizeof track.process_name, "worker \"3\"");
        first_ns = ps_trace_first_ns(ring);
        st = ps_trace_write_part(part, &track, 1, &alignment);
        assert_true(ps_is_ok(&st));
        assert_int_equal(ps_trace_first_ns(ring), 0);
        st = ps_file_write(strange, junk, sizeof junk - 1);
        assert_true(ps_is_ok(&st));
        st = ps_trace_merge(parts, 4, path, &is_any);
        assert_true(ps_is_ok(&st) && is_any);
    }
    root = root_of(path);
    events = json_object_get(root, "traceEvents");
    /* 6 slices, 2 names, the clock, arrows: 1 from the worker, 4 at the server, 1 back; the mark */
    assert_int_equal(json_array_size(events), 16);
    assert_true(json_number_value(json_object_get(json_object_get(root, "otherData"),
                                                  "clock_error_us")) == 250.5);
    assert_true(llround(1000 * json_number_value(
                                   json_object_get(find(events, "X", "forward 2 dense"), "ts"))) ==
                first_ns - 1500);
    (void)find(events, "i", "mark");
    assert_int_equal(argument(find(events, "X", "forward 2 dense"), "layer"), 2);
    assert_string_equal(
        json_string_value(json_array_get(
            json_object_get(json_object_get(find(events, "X", "wait"), "args"), "waits_for"), 1)),
        "server 2");
    assert_string_equal(text_of(find(events, "s", "push, step, pull"), "id"), "3.1.0");
    assert_string_equal(text_of(find(events, "f", "push, step, pull"), "id"), "3.1.0");
    json_decref(root);
    ps_trace_ring_destroy(ring);
    {
        ps_status st = ps_dir_remove(dir);

        assert_true(ps_is_ok(&st));
    }
}

static void the_file_says_what_was_lost(void **state)
{
    char dir[] = "/tmp/test_trace.XXXXXX", part[64], *text = NULL;
    ps_trace_ring *ring = ps_trace_ring_create(1, 1);
    ps_trace_track track = {.ring = ring, .process_name = "p", .thread_name = "t"};
    ps_status st;
    size_t n;

    (void)state;
    assert_non_null(mkdtemp(dir));
    snprintf(part, sizeof part, "%s/a.part", dir);
    ps_trace_enter(ring, 1);
    for (uint32_t i = 0; i < PS_TRACE_RECORDS + 3; i++) {
        add(PS_TRACE_ENCODE, i);
    }
    ps_trace_enter(NULL, 0);
    st = ps_trace_write_part(part, &track, 1, NULL);
    assert_true(ps_is_ok(&st));
    st = ps_file_read(part, 64 << 20, &text, &n);
    assert_true(ps_is_ok(&st));
    assert_non_null(strstr(text, "\"3 records lost\""));
    free(text);
    ps_trace_ring_destroy(ring);
    st = ps_dir_remove(dir);
    assert_true(ps_is_ok(&st));
}

static void a_part_is_bounded_and_says_what_it_leaves_out(void **state)
{
    enum { WORKERS = 64, STEPS = 8000 }; /* arrows of each step to each of them: 48 MB or more */
    char dir[] = "/tmp/test_trace.XXXXXX", part[64], *text = NULL;
    ps_trace_ring *ring = ps_trace_ring_create(1, 1);
    ps_trace_track track = {
        .ring = ring, .process_name = "p", .thread_name = "t", .workers = WORKERS};
    ps_status st;
    size_t n;

    (void)state;
    assert_non_null(mkdtemp(dir));
    snprintf(part, sizeof part, "%s/a.part", dir);
    ps_trace_enter(ring, 1);
    for (uint64_t step = 1; step <= STEPS; step++) {
        ps_trace_end_of(PS_TRACE_APPLY, ps_trace_begin(), 0, step);
    }
    ps_trace_enter(NULL, 0);
    st = ps_trace_write_part(part, &track, 1, NULL);
    assert_true(ps_is_ok(&st));
    st = ps_file_read(part, 64 << 20, &text, &n);
    assert_true(ps_is_ok(&st));
    assert_in_range(n, PS_TRACE_TRACK_BYTES / 2, PS_TRACE_TRACK_BYTES);
    assert_non_null(strstr(text, " records lost\""));
    free(text);
    ps_trace_ring_destroy(ring);
    st = ps_dir_remove(dir);
    assert_true(ps_is_ok(&st));
}

static void the_shortest_round_trip_near_in_time_aligns(void **state)
{
    const int64_t ms = 1000000, second = 1000 * ms;
    ps_trace_clock clock = {0};
    ps_trace_alignment a = ps_trace_clock_at(&clock, 0);

    (void)state;
    assert_true(a.error_ns < 0); /* nothing is known */
    ps_trace_clock_add(&clock, 100, 0, 99);
    a = ps_trace_clock_at(&clock, 0);
    assert_true(a.error_ns < 0); /* that was no trip */
    /* the other clock is ahead by 7 s, and was read late */
    ps_trace_clock_add(&clock, second, 8 * second + 3 * ms, second + 4 * ms);
    ps_trace_clock_add(&clock, 2 * second, 9 * second + ms, 2 * second + 2 * ms);
    a = ps_trace_clock_at(&clock, second);
    assert_int_equal(a.offset_ns, 7 * second);
    assert_int_equal(a.error_ns, ms + second / 50000);
    a = ps_trace_clock_at(&clock, 400 * second); /* it has drifted since */
    assert_int_equal(a.error_ns, ms + 398 * second / 50000);
    ps_trace_clock_add(&clock, 400 * second, 407 * second, 400 * second + 4 * ms);
    a = ps_trace_clock_at(&clock, 400 * second); /* so a longer trip now is better */
    assert_int_equal(a.offset_ns, 7 * second - 2 * ms);
    assert_int_equal(a.error_ns, 2 * ms);
}

static void round_trips_without_end_keep_good_ones_of_all_times(void **state)
{
    const int64_t ms = 1000000, second = 1000 * ms, trips = 20000;
    ps_trace_clock clock = {0};

    (void)state;
    for (int64_t i = 0; i < trips; i++) { /* one in 100 is short */
        int64_t trip_ns = i % 100 == 0 ? ms : 40 * ms, sent_ns = i * second;

        ps_trace_clock_add(&clock, sent_ns, sent_ns + i + trip_ns / 2, sent_ns + trip_ns);
    }
    assert_in_range(clock.count, PS_TRACE_CLOCK_SAMPLES / 2, PS_TRACE_CLOCK_SAMPLES);
    for (int64_t i = 0; i < trips; i += 997) {
        ps_trace_alignment a = ps_trace_clock_at(&clock, i * second);
        int64_t wrong_ns = a.offset_ns - i; /* the other clock drifts by 1 ns in a second */

        assert_true(a.error_ns < 20 * ms);
        assert_true(wrong_ns <= a.error_ns && -wrong_ns <= a.error_ns);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_the_steps_of_the_window_are_recorded),
        cmocka_unit_test(a_slice_that_began_outside_is_left_out),
        cmocka_unit_test(a_full_ring_keeps_what_it_has_and_counts_the_rest),
        cmocka_unit_test(steps_are_set_anew_while_a_thread_writes),
        cmocka_unit_test(a_collector_meanwhile_gets_whole_records_in_order),
        cmocka_unit_test(parts_become_one_file),
        cmocka_unit_test(the_file_says_what_was_lost),
        cmocka_unit_test(a_part_is_bounded_and_says_what_it_leaves_out),
        cmocka_unit_test(the_shortest_round_trip_near_in_time_aligns),
        cmocka_unit_test(round_trips_without_end_keep_good_ones_of_all_times),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
