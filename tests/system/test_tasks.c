/* SPDX-License-Identifier: Apache-2.0 */
/* test_tasks.c - what runs on threads, and is answered on a loop. */
#include "tests/support/cmocka_all.h"

#include "common/base/container_of.h"
#include "common/rpc/tasks.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

enum { STRANDS = 4, EACH = 500, LIMIT = 4 };

typedef struct rig rig;

typedef struct errand {
    ps_task task;
    rig *r;
    unsigned strand, number;
    char letter; /* of errands that write into the rig's text */
} errand;

struct rig {
    ps_loop *loop;
    ps_tasks *tasks;
    pthread_t loop_thread;
    size_t left; /* answers to come before the loop stops */

    ps_strand strands[STRANDS];
    atomic_int running[STRANDS]; /* tasks of the strand under way */
    atomic_int overlaps;         /* times that there were two */
    unsigned ran[STRANDS];       /* next number of the strand; its tasks' alone */
    unsigned answered[STRANDS];  /* the loop's */
    atomic_int disorders;

    pthread_mutex_t mutex; /* guards all below */
    pthread_cond_t changed;
    bool may_go;
    size_t held;
    char begun[16], text[16];
};

static void begin(rig *r, unsigned threads, size_t left)
{
    ps_status st;

    memset(r, 0, sizeof *r);
    pthread_mutex_init(&r->mutex, NULL);
    pthread_cond_init(&r->changed, NULL);
    r->left = left;
    r->loop_thread = pthread_self();
    st = ps_loop_create(&r->loop);
    assert_true(ps_is_ok(&st));
    st = ps_tasks_create(r->loop, threads, LIMIT, &r->tasks);
    assert_true(ps_is_ok(&st));
}

static void end(rig *r)
{
    ps_tasks_destroy(r->tasks);
    ps_loop_destroy(r->loop);
    pthread_cond_destroy(&r->changed);
    pthread_mutex_destroy(&r->mutex);
}

static void count_down(rig *r)
{
    r->left--;
    if (r->left == 0) {
        ps_loop_stop(r->loop);
    }
}

/* --- strands ---------------------------------------------------------------------- */

static void run_in_strand(ps_task *task)
{
    errand *e = PS_CONTAINER_OF(task, errand, task);
    rig *r = e->r;

    if (atomic_fetch_add(&r->running[e->strand], 1) != 0) {
        atomic_fetch_add(&r->overlaps, 1);
    }
    sched_yield();
    if (r->ran[e->strand]++ != e->number) {
        atomic_fetch_add(&r->disorders, 1);
    }
    atomic_fetch_sub(&r->running[e->strand], 1);
}

static void done_in_strand(ps_task *task)
{
    errand *e = PS_CONTAINER_OF(task, errand, task);
    rig *r = e->r;

    if (r->answered[e->strand]++ != e->number || !task->was_run ||
        !pthread_equal(pthread_self(), r->loop_thread)) {
        atomic_fetch_add(&r->disorders, 1);
    }
    count_down(r);
}

static void tasks_of_a_strand_run_and_are_answered_in_order(void **state)
{
    static errand errands[STRANDS][EACH];
    static rig r;

    (void)state;
    begin(&r, 3, STRANDS * EACH);
    for (unsigned i = 0; i < EACH; i++) {
        for (unsigned s = 0; s < STRANDS; s++) {
            errands[s][i] = (errand){.task = {.run = run_in_strand, .done = done_in_strand},
                                     .r = &r,
                                     .strand = s,
                                     .number = i};
            ps_tasks_submit(r.tasks, &r.strands[s], &errands[s][i].task);
        }
    }
    ps_loop_run(r.loop);
    assert_int_equal(atomic_load(&r.overlaps), 0);
    assert_int_equal(atomic_load(&r.disorders), 0);
    for (unsigned s = 0; s < STRANDS; s++) {
        assert_int_equal(r.answered[s], EACH);
    }
    end(&r);
}

/* --- holding threads ---------------------------------------------------------------- */

/* Waits until the test lets go, then writes its letter. */
static void run_held(ps_task *task)
{
    errand *e = PS_CONTAINER_OF(task, errand, task);
    rig *r = e->r;

    pthread_mutex_lock(&r->mutex);
    r->begun[r->held++] = e->letter;
    pthread_cond_broadcast(&r->changed);
    while (!r->may_go) {
        pthread_cond_wait(&r->changed, &r->mutex);
    }
    r->text[strlen(r->text)] = e->letter;
    pthread_mutex_unlock(&r->mutex);
}

static void done_held(ps_task *task)
{
    count_down(PS_CONTAINER_OF(task, errand, task)->r);
}

static void await_held(rig *r, size_t count)
{
    pthread_mutex_lock(&r->mutex);
    while (r->held < count) {
        pthread_cond_wait(&r->changed, &r->mutex);
    }
    pthread_mutex_unlock(&r->mutex);
}

static void let_go(rig *r)
{
    pthread_mutex_lock(&r->mutex);
    r->may_go = true;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->mutex);
}

static errand held(rig *r, char letter)
{
    return (errand){.task = {.run = run_held, .done = done_held}, .r = r, .letter = letter};
}

static void a_task_waits_for_that_before_it_in_its_strand_alone(void **state)
{
    static rig r;
    errand a, b, c;

    (void)state;
    begin(&r, 2, 3);
    a = held(&r, 'a');
    b = held(&r, 'b');
    c = held(&r, 'c');
    ps_tasks_submit(r.tasks, &r.strands[0], &a.task);
    await_held(&r, 1);
    ps_tasks_submit(r.tasks, &r.strands[0], &b.task);
    ps_tasks_submit(r.tasks, &r.strands[1], &c.task);
    await_held(&r, 2);
    assert_string_equal(r.begun, "ac");
    let_go(&r);
    ps_loop_run(r.loop);
    assert_int_equal(r.begun[2], 'b');
    end(&r);
}

static void as_many_tasks_run_at_a_time_as_there_are_threads(void **state)
{
    static rig r;
    errand a, b;

    (void)state;
    begin(&r, 2, 2);
    a = held(&r, 'a');
    b = held(&r, 'b');
    ps_tasks_submit(r.tasks, NULL, &a.task);
    ps_tasks_submit(r.tasks, NULL, &b.task);
    await_held(&r, 2); /* or the test's time-out */
    let_go(&r);
    ps_loop_run(r.loop);
    end(&r);
}

static void there_is_no_room_when_as_many_wait_as_may(void **state)
{
    static rig r;
    errand all[1 + LIMIT];

    (void)state;
    begin(&r, 1, 1 + LIMIT);
    for (unsigned i = 0; i < 1 + LIMIT; i++) {
        assert_true(ps_tasks_has_room(r.tasks));
        all[i] = held(&r, (char)('a' + i));
        ps_tasks_submit(r.tasks, i % 2 ? &r.strands[0] : NULL, &all[i].task);
        if (i == 0) {
            await_held(&r, 1);
        }
    }
    assert_false(ps_tasks_has_room(r.tasks));
    let_go(&r);
    ps_loop_run(r.loop);
    assert_string_equal(r.text, "abced");
    end(&r);
}

static atomic_uint ended;

static void run_to_end(ps_task *task)
{
    (void)task;
    atomic_fetch_add(&ended, 1);
}

static void take_result(ps_task *task)
{
    count_down(PS_CONTAINER_OF(task, errand, task)->r);
}

static void no_task_begins_while_many_results_wait_for_the_loop(void **state)
{
    static rig r;
    errand all[PS_TASKS_UNANSWERED + LIMIT];

    (void)state;
    begin(&r, 1, PS_TASKS_UNANSWERED + LIMIT);
    for (unsigned i = 0; i < PS_TASKS_UNANSWERED + LIMIT; i++) {
        all[i] = (errand){.task = {.run = run_to_end, .done = take_result}, .r = &r};
        ps_tasks_submit(r.tasks, NULL, &all[i].task);
    }
    while (atomic_load(&ended) < PS_TASKS_UNANSWERED) {
        sched_yield();
    }
    for (unsigned i = 0; i < 10000; i++) {
        sched_yield();
        assert_false(ps_tasks_has_room(r.tasks));
    }
    assert_int_equal(atomic_load(&ended), PS_TASKS_UNANSWERED);
    ps_loop_run(r.loop);
    assert_int_equal(atomic_load(&ended), PS_TASKS_UNANSWERED + LIMIT);
    end(&r);
}

/* --- the end ------------------------------------------------------------------------- */

/* Lets go when the queue is being destroyed: then it has no room. */
static void *let_go_later(void *arg)
{
    rig *r = arg;

    while (ps_tasks_has_room(r->tasks)) {
        sched_yield();
    }
    let_go(r);
    return NULL;
}

static void at_the_end_only_what_must_run_is_run_and_all_is_answered(void **state)
{
    static rig r;
    errand a, b, c, d;
    pthread_t thread;

    (void)state;
    begin(&r, 1, 4);
    a = held(&r, 'a');
    b = held(&r, 'b');
    c = held(&r, 'c');
    d = held(&r, 'd');
    c.task.runs_at_end = true;
    ps_tasks_submit(r.tasks, &r.strands[0], &a.task);
    await_held(&r, 1);
    ps_tasks_submit(r.tasks, &r.strands[0], &b.task);
    ps_tasks_submit(r.tasks, &r.strands[0], &c.task);
    ps_tasks_submit(r.tasks, NULL, &d.task);
    pthread_create(&thread, NULL, let_go_later, &r);
    ps_tasks_destroy(r.tasks);
    pthread_join(thread, NULL);
    ps_loop_run(r.loop);
    assert_string_equal(r.text, "ac");
    assert_true(a.task.was_run && c.task.was_run);
    assert_false(b.task.was_run || d.task.was_run);
    r.tasks = NULL;
    end(&r);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tasks_of_a_strand_run_and_are_answered_in_order),
        cmocka_unit_test(a_task_waits_for_that_before_it_in_its_strand_alone),
        cmocka_unit_test(as_many_tasks_run_at_a_time_as_there_are_threads),
        cmocka_unit_test(there_is_no_room_when_as_many_wait_as_may),
        cmocka_unit_test(no_task_begins_while_many_results_wait_for_the_loop),
        cmocka_unit_test(at_the_end_only_what_must_run_is_run_and_all_is_answered),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
