/* SPDX-License-Identifier: Apache-2.0 */
/* test_loop.c - timers, posts from other threads, and what can wait. */
#include "tests/support/cmocka_all.h"

#include "common/base/clock.h"
#include "common/base/container_of.h"
#include "common/rpc/loop.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define MS INT64_C(1000) /* microseconds in one */

/* --- posts ----------------------------------------------------------------------- */

enum { POSTERS = 4, POSTS = 2000 };

typedef struct tally {
    ps_loop *loop;
    int fired, failed;
    ps_event events[POSTERS][POSTS];
} tally;

typedef struct poster {
    tally *tally;
    int index;
} poster;

static tally *the_tally; /* events are plain here: no room for a pointer each */

static void on_post(ps_event *self, bool ok)
{
    (void)self;
    the_tally->failed += !ok;
    if (++the_tally->fired == POSTERS * POSTS) {
        ps_loop_stop(the_tally->loop);
    }
}

static void *post_all(void *arg)
{
    poster *p = arg;

    for (int i = 0; i < POSTS; i++) {
        ps_loop_post(p->tally->loop, &p->tally->events[p->index][i]);
    }
    return NULL;
}

static void posts_of_many_threads_all_fire(void **state)
{
    static tally t;
    pthread_t threads[POSTERS];
    poster posters[POSTERS];
    ps_status st = ps_loop_create(&t.loop);

    (void)state;
    assert_true(ps_is_ok(&st));
    the_tally = &t;
    for (int i = 0; i < POSTERS; i++) {
        posters[i] = (poster){&t, i};
        for (int j = 0; j < POSTS; j++) {
            t.events[i][j].fire = on_post;
        }
        pthread_create(&threads[i], NULL, post_all, &posters[i]);
    }
    ps_loop_run(t.loop);
    for (int i = 0; i < POSTERS; i++) {
        pthread_join(threads[i], NULL);
    }
    assert_int_equal(t.fired, POSTERS * POSTS);
    assert_int_equal(t.failed, 0);
    ps_loop_destroy(t.loop);
}

/* Events write their letter into one string. */
typedef struct trace {
    ps_loop *loop;
    ps_event first, second;
    ps_timer timers[4];
    char order[16];
} trace;

static void note(trace *t, char c, bool ok)
{
    size_t n = strlen(t->order);

    t->order[n] = (char)(ok ? c : c - 'a' + 'A');
    t->order[n + 1] = '\0';
}

static void on_first(ps_event *self, bool ok)
{
    trace *t = PS_CONTAINER_OF(self, trace, first);

    note(t, 'a', ok);
    ps_loop_post(t->loop, &t->second); /* fires in a later round */
    note(t, 'b', ok);
}

static void on_second(ps_event *self, bool ok)
{
    trace *t = PS_CONTAINER_OF(self, trace, second);

    note(t, 'c', ok);
    if (ok) {
        ps_loop_post(t->loop, &t->first);
        ps_loop_stop(t->loop); /* drops it */
    }
}

static void on_dropped(ps_event *self, bool ok)
{
    note(PS_CONTAINER_OF(self, trace, first), 'd', ok);
}

static void on_second_then_drop(ps_event *self, bool ok)
{
    trace *t = PS_CONTAINER_OF(self, trace, second);

    t->first.fire = on_dropped;
    on_second(self, ok);
}

static void a_post_from_within_fires_later_and_stop_drops_the_rest(void **state)
{
    trace t = {.first.fire = on_first, .second.fire = on_second_then_drop};
    ps_status st = ps_loop_create(&t.loop);

    (void)state;
    assert_true(ps_is_ok(&st));
    ps_loop_post(t.loop, &t.first);
    ps_loop_run(t.loop);
    assert_string_equal(t.order, "abcD");
    ps_loop_destroy(t.loop);
}

/* --- timers ---------------------------------------------------------------------- */

#define ON_TIMER(index, letter)                                                                    \
    static void on_timer_##index(ps_event *self, bool ok)                                          \
    {                                                                                              \
        note(PS_CONTAINER_OF(self, trace, timers[index].event), (letter), ok);                     \
    }
ON_TIMER(0, 'w')
ON_TIMER(1, 'x')
ON_TIMER(2, 'y')

static void on_last(ps_event *self, bool ok)
{
    trace *t = PS_CONTAINER_OF(self, trace, timers[3].event);

    note(t, 'z', ok);
    ps_loop_stop(t->loop);
}

static void trace_timers(trace *t)
{
    ps_status st = ps_loop_create(&t->loop);

    assert_true(ps_is_ok(&st));
    t->timers[0].event.fire = on_timer_0;
    t->timers[1].event.fire = on_timer_1;
    t->timers[2].event.fire = on_timer_2;
    t->timers[3].event.fire = on_last;
}

static void timers_fire_in_order_and_stop_drops_the_rest(void **state)
{
    trace t = {0};
    int64_t begin = ps_clock_us();

    (void)state;
    trace_timers(&t);
    ps_loop_after(t.loop, &t.timers[3], 1000 * MS);
    ps_loop_after(t.loop, &t.timers[2], 60000 * MS);
    ps_loop_after(t.loop, &t.timers[0], 10 * MS);
    ps_loop_after(t.loop, &t.timers[1], 10 * MS); /* behind its equal */
    ps_loop_run(t.loop);
    assert_string_equal(t.order, "wxzY");
    assert_true(ps_clock_us() - begin >= 1000 * MS);
    ps_loop_destroy(t.loop);
}

static void a_timer_can_be_moved_and_cancelled(void **state)
{
    trace t = {0};

    (void)state;
    trace_timers(&t);
    ps_loop_after(t.loop, &t.timers[0], 1 * MS);
    ps_loop_after(t.loop, &t.timers[1], 2 * MS);
    ps_loop_after(t.loop, &t.timers[0], 5 * MS);
    ps_loop_after(t.loop, &t.timers[2], 1 * MS);
    ps_loop_cancel(t.loop, &t.timers[2]);
    ps_loop_cancel(t.loop, &t.timers[2]); /* as often as one likes */
    ps_loop_after(t.loop, &t.timers[3], 10 * MS);
    ps_loop_run(t.loop);
    assert_string_equal(t.order, "xwz");
    ps_loop_destroy(t.loop);
}

typedef struct again {
    ps_loop *loop;
    ps_timer timer;
    int left;
} again;

static void on_again(ps_event *self, bool ok)
{
    again *a = PS_CONTAINER_OF(self, again, timer.event);

    if (!ok) {
        return;
    }
    if (--a->left == 0) {
        ps_loop_stop(a->loop);
    } else {
        ps_loop_after(a->loop, &a->timer, 0);
    }
}

static void a_timer_may_arm_itself_again(void **state)
{
    again a = {.timer.event.fire = on_again, .left = 1000};
    ps_status st = ps_loop_create(&a.loop);

    (void)state;
    assert_true(ps_is_ok(&st));
    ps_loop_after(a.loop, &a.timer, 0);
    ps_loop_run(a.loop);
    assert_int_equal(a.left, 0);
    ps_loop_destroy(a.loop);
}

/* --- what can wait --------------------------------------------------------------- */

enum { BUSY_TURNS = 200, IDLE_US = 20000 /* of ps_loop_idle */ };

typedef struct busy {
    ps_loop *loop;
    ps_event work, idle[2];
    int turns, idles, at_first; /* turns when the first idle event fired */
    bool is_busy_for_long;
    int64_t began_us, waited_us; /* until the first idle event fired */
} busy;

static void on_work(ps_event *self, bool ok)
{
    busy *b = PS_CONTAINER_OF(self, busy, work);

    assert_true(ok);
    b->turns++;
    if (b->is_busy_for_long ? b->idles == 0 : b->turns < BUSY_TURNS) {
        ps_loop_post(b->loop, &b->work);
    }
}

static void on_idle(ps_event *self, bool ok)
{
    busy *b = PS_CONTAINER_OF(self, busy, idle[0]);

    assert_true(ok);
    b->at_first = b->turns;
    b->waited_us = ps_clock_us() - b->began_us;
    b->idles++;
    ps_loop_idle(b->loop, &b->idle[1]);
}

static void on_second_idle(ps_event *self, bool ok)
{
    busy *b = PS_CONTAINER_OF(self, busy, idle[1]);

    assert_true(ok);
    b->idles++;
    ps_loop_stop(b->loop);
}

static busy run_busy(bool for_long)
{
    busy b = {.work.fire = on_work,
              .idle = {{.fire = on_idle}, {.fire = on_second_idle}},
              .is_busy_for_long = for_long};
    ps_status st = ps_loop_create(&b.loop);

    assert_true(ps_is_ok(&st));
    b.began_us = ps_clock_us();
    ps_loop_post(b.loop, &b.work);
    ps_loop_idle(b.loop, &b.idle[0]);
    ps_loop_run(b.loop);
    ps_loop_destroy(b.loop);
    assert_int_equal(b.idles, 2);
    return b;
}

static void what_can_wait_fires_when_nothing_else_is_due_and_not_too_late(void **state)
{
    busy b = run_busy(false);

    (void)state;
    assert_int_equal(b.turns, BUSY_TURNS);
    assert_true(b.at_first == BUSY_TURNS || b.waited_us >= IDLE_US); /* or the work was slow */
    b = run_busy(true);                                              /* or it would never fire */
    assert_true(b.turns > 0);
}

static void on_dropped_idle(ps_event *self, bool ok)
{
    (void)self;
    assert_false(ok);
    the_tally->failed++;
}

static void stop_drops_what_can_wait(void **state)
{
    static tally t;

    (void)state;
    assert_int_equal(ps_loop_create(&t.loop).code, PS_OK);
    the_tally = &t;
    for (int i = 0; i < 3; i++) {
        t.events[0][i].fire = on_dropped_idle;
        ps_loop_idle(t.loop, &t.events[0][i]);
    }
    ps_loop_destroy(t.loop);
    assert_int_equal(t.failed, 3);
}

static void a_loop_that_never_ran_can_be_destroyed(void **state)
{
    trace t = {0};

    (void)state;
    trace_timers(&t);
    t.first.fire = on_dropped;
    ps_loop_after(t.loop, &t.timers[0], 0);
    ps_loop_post(t.loop, &t.first);
    ps_loop_destroy(t.loop);
    assert_string_equal(t.order, "WD");
    ps_loop_destroy(NULL);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(posts_of_many_threads_all_fire),
        cmocka_unit_test(a_post_from_within_fires_later_and_stop_drops_the_rest),
        cmocka_unit_test(timers_fire_in_order_and_stop_drops_the_rest),
        cmocka_unit_test(a_timer_can_be_moved_and_cancelled),
        cmocka_unit_test(a_timer_may_arm_itself_again),
        cmocka_unit_test(what_can_wait_fires_when_nothing_else_is_due_and_not_too_late),
        cmocka_unit_test(stop_drops_what_can_wait),
        cmocka_unit_test(a_loop_that_never_ran_can_be_destroyed),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
