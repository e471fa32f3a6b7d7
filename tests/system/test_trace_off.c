/* SPDX-License-Identifier: Apache-2.0 */
/* test_trace_off.c - a job without a timeline has no ring with memory for records, reads no clock for
 * records and makes none. The linker has psgd call the functions __wrap_... below (tests/cmake/trace.cmake). */
#include "tests/support/cmocka_all.h"

#include "services/pserver/server_thread.h"
#include "tests/support/train_world.h"

#include <stdatomic.h>

static atomic_ulong rings, readings, records;

ps_trace_ring *__real_ps_trace_ring_create(uint64_t from_step, uint64_t steps);
ps_trace_ring *__wrap_ps_trace_ring_create(uint64_t from_step, uint64_t steps);
int64_t __real_ps_trace_now_ns(void);
int64_t __wrap_ps_trace_now_ns(void);
void __real_ps_trace_add(ps_trace_kind kind, int64_t begin_ns, uint32_t number, const char *what,
                         uint64_t detail);
void __wrap_ps_trace_add(ps_trace_kind kind, int64_t begin_ns, uint32_t number, const char *what,
                         uint64_t detail);

ps_trace_ring *__wrap_ps_trace_ring_create(uint64_t from_step, uint64_t steps)
{
    atomic_fetch_add(&rings, steps > 0);
    return __real_ps_trace_ring_create(from_step, steps);
}

int64_t __wrap_ps_trace_now_ns(void)
{
    atomic_fetch_add(&readings, 1);
    return __real_ps_trace_now_ns();
}

void __wrap_ps_trace_add(ps_trace_kind kind, int64_t begin_ns, uint32_t number, const char *what,
                         uint64_t detail)
{
    atomic_fetch_add(&records, 1);
    __real_ps_trace_add(kind, begin_ns, number, what, detail);
}

/* Trains, and opens and closes a thread of a server, which has a ring of its own. */
static void train(const char *choices)
{
    ps_server_thread *thread = NULL;
    ps_session session;
    train_world w;
    ps_status st;

    rings = readings = records = 0;
    tw_begin(&w, 2, 1, choices);
    tw_start(&w);
    tw_join(&w);
    tw_must_be_done(&w);
    st = ps_server_thread_create(&(ps_server_thread_conf){.home = NULL}, &thread);
    assert_string_equal(st.text, "");
    dp_worker_session(&w.job, 0, &session);
    st = ps_server_thread_open(thread, &session, NULL);
    assert_string_equal(st.text, "");
    ps_server_thread_close(thread);
    ps_server_thread_destroy(thread);
    dp_session_fini(&session);
    tw_end(&w);
}

static void without_a_timeline_nothing_is_made_or_recorded(void **state)
{
    (void)state;
    train(", \"epochs\": 1");
    assert_int_equal(rings, 0);
    assert_int_equal(readings, 0);
    assert_int_equal(records, 0);
}

static void with_one_it_is(void **state)
{
    (void)state;
    train(", \"epochs\": 1, \"trace\": {\"steps\": 5}");
    assert_int_equal(rings, 3); /* two trainers, a thread of the server */
    assert_true(records >= 2 * 5);
    assert_true(readings > records / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_timeline_nothing_is_made_or_recorded),
        cmocka_unit_test(with_one_it_is),
    };

    return cmocka_run_group_tests(tests, tw_draw_glyphs, tw_drop_glyphs);
}
