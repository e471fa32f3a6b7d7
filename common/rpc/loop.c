/* SPDX-License-Identifier: Apache-2.0 */
/* loop.c - see loop.h.
 *
 * The public C API of gRPC has no alarms and no way to put an own tag on a queue. Therefore the
 * next timer is the deadline of grpc_completion_queue_next. A post rings a doorbell: it starts an
 * empty batch on a call of a lame channel, which gRPC completes at once (grpc.h,
 * grpc_call_start_batch).
 */
#include "common/rpc/loop.h"

#include "common/base/clock.h"
#include "common/base/container_of.h"

#include <assert.h>
#include <grpc/support/time.h>
#include <pthread.h>
#include <stdlib.h>

struct ps_loop {
    grpc_completion_queue *cq;
    bool stopping;
    struct ps_tls *tls;       /* NULL: plaintext */
    void (*check)(void *arg); /* before each event or posted batch; NULL: none */
    void *check_arg;
    ps_timer timers;             /* ring, earliest first */
    ps_event *idle, **idle_tail; /* events of ps_loop_idle, first come first */
    int64_t idle_until_us;       /* when the first of `idle` fires at the latest */

    grpc_channel *lame;
    pthread_mutex_t mutex; /* guards the members below */
    grpc_call *doorbell;
    ps_event bell;
    bool rung; /* the doorbell's batch is in flight, so a further post starts none */
    ps_event *posted, **posted_tail;
};

static const int64_t idle_us = 20000; /* longest time that an event waits after ps_loop_idle, or
                                       * after the one before it has fired */

static void fire_posted(ps_loop *loop, bool ok)
{
    ps_event *e;

    pthread_mutex_lock(&loop->mutex);
    e = loop->posted;
    loop->posted = NULL;
    loop->posted_tail = &loop->posted;
    loop->rung = false;
    pthread_mutex_unlock(&loop->mutex);

    while (e != NULL) {
        ps_event *next = e->next; /* fire may free the event */

        e->fire(e, ok);
        e = next;
    }
}

static void on_bell(ps_event *self, bool ok)
{
    ps_loop *loop = PS_CONTAINER_OF(self, ps_loop, bell);

    (void)ok;
    fire_posted(loop, !loop->stopping);
}

/* Switches on two experiments of gRPC 1.51. The socket then knows how much of an HTTP/2 frame is
 * missing and reads it into contiguous memory. It wakes its thread when nearly all of the frame has
 * arrived (SO_RCVLOWAT), not for each 64 KiB. With frames of PS_FRAME_BYTES this saves more than
 * any other measure for tensors: tests/bench/README.md. A value that the user has set is kept. */
static void start_grpc(void)
{
    setenv("GRPC_EXPERIMENTS", "tcp_frame_size_tuning,tcp_rcv_lowat", 0);
    grpc_init();
}

ps_status ps_loop_create(ps_loop **out)
{
    static pthread_once_t started = PTHREAD_ONCE_INIT;
    ps_loop *loop = calloc(1, sizeof *loop);

    if (loop == NULL) {
        return ps_fail(PS_RESOURCE_EXHAUSTED, "event loop: out of memory");
    }
    loop->timers.prev = loop->timers.next = &loop->timers;
    loop->posted_tail = &loop->posted;
    loop->idle_tail = &loop->idle;
    loop->bell.fire = on_bell;
    pthread_mutex_init(&loop->mutex, NULL);
    pthread_once(&started, start_grpc);
    loop->cq = grpc_completion_queue_create_for_next(NULL);
    loop->lame = grpc_lame_client_channel_create(NULL, GRPC_STATUS_UNAVAILABLE, "doorbell");
    loop->doorbell = grpc_channel_create_call(loop->lame, NULL, 0, loop->cq,
                                              grpc_slice_from_static_string("/doorbell"), NULL,
                                              gpr_inf_future(GPR_CLOCK_REALTIME), NULL);
    *out = loop;
    return ps_ok();
}

void ps_loop_destroy(ps_loop *loop)
{
    if (loop == NULL) {
        return;
    }
    if (!loop->stopping) {
        ps_loop_stop(loop);
        ps_loop_run(loop);
    }
    grpc_completion_queue_destroy(loop->cq);
    /* gRPC stays up until the process ends. grpc_shutdown may block for 10 s, because a thread
     * of gRPC sleeps in epoll_wait (run_poller in tcp_posix.cc). */
    pthread_mutex_destroy(&loop->mutex);
    free(loop);
}

void ps_loop_use_tls(ps_loop *loop, struct ps_tls *tls)
{
    loop->tls = tls;
}

struct ps_tls *ps_loop_tls(const ps_loop *loop)
{
    return loop->tls;
}

void ps_loop_check(ps_loop *loop, void (*check)(void *arg), void *arg)
{
    loop->check = check;
    loop->check_arg = arg;
}

static void before_event(const ps_loop *loop)
{
    if (loop->check != NULL) {
        loop->check(loop->check_arg);
    }
}

static void unlink_timer(ps_timer *t)
{
    t->prev->next = t->next;
    t->next->prev = t->prev;
    t->armed = false;
}

/* Fires the timers that are due and returns the time of the next one, which may have passed. The
 * caller waits for the queue until then, at most. */
static gpr_timespec fire_timers(ps_loop *loop)
{
    int64_t now_us = ps_clock_us();
    ps_timer *t;

    while ((t = loop->timers.next) != &loop->timers && t->at_us <= now_us) {
        before_event(loop);
        unlink_timer(t);
        t->event.fire(&t->event, true);
    }
    if (t == &loop->timers) {
        return gpr_inf_future(GPR_CLOCK_MONOTONIC);
    }
    return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                        gpr_time_from_micros(t->at_us - ps_clock_us(), GPR_TIMESPAN));
}

static void fire_idle(ps_loop *loop, bool ok)
{
    ps_event *e = loop->idle;

    loop->idle = e->next;
    if (loop->idle == NULL) {
        loop->idle_tail = &loop->idle;
    }
    loop->idle_until_us = ps_clock_us() + idle_us;
    before_event(loop);
    e->fire(e, ok);
}

void ps_loop_run(ps_loop *loop)
{
    for (;;) {
        gpr_timespec until = fire_timers(loop);
        grpc_event ev;
        ps_event *event;

        if (loop->idle != NULL) {
            until = gpr_inf_past(GPR_CLOCK_MONOTONIC); /* does not block: idle events fire if
                                                        * nothing has completed */
        }
        ev = grpc_completion_queue_next(loop->cq, until, NULL);
        if (loop->idle != NULL &&
            (ev.type == GRPC_QUEUE_TIMEOUT || ps_clock_us() >= loop->idle_until_us)) {
            fire_idle(loop, true);
        }
        switch (ev.type) {
        case GRPC_QUEUE_TIMEOUT:
            break; /* nothing has completed: a timer may be due, which fire_timers fires */
        case GRPC_QUEUE_SHUTDOWN:
            return;
        case GRPC_OP_COMPLETE:
            before_event(loop);
            event = ev.tag; /* every tag is a ps_event: loop.h */
            event->fire(event, ev.success != 0);
            break;
        }
    }
}

void ps_loop_stop(ps_loop *loop)
{
    assert(!loop->stopping);
    loop->stopping = true;
    while (loop->timers.next != &loop->timers) {
        ps_timer *t = loop->timers.next;

        unlink_timer(t);
        t->event.fire(&t->event, false);
    }
    while (loop->idle != NULL) {
        fire_idle(loop, false);
    }
    pthread_mutex_lock(&loop->mutex);
    grpc_call_unref(loop->doorbell);
    loop->doorbell = NULL;
    pthread_mutex_unlock(&loop->mutex);
    grpc_channel_destroy(loop->lame);
    fire_posted(loop, false);
    grpc_completion_queue_shutdown(loop->cq);
}

void ps_loop_post(ps_loop *loop, ps_event *event)
{
    pthread_mutex_lock(&loop->mutex);
    event->next = NULL;
    *loop->posted_tail = event;
    loop->posted_tail = &event->next;
    if (!loop->rung && loop->doorbell != NULL) {
        grpc_call_error err = grpc_call_start_batch(loop->doorbell, NULL, 0, &loop->bell, NULL);

        assert(err == GRPC_CALL_OK);
        (void)err;
        loop->rung = true;
    }
    pthread_mutex_unlock(&loop->mutex);
}

void ps_loop_idle(ps_loop *loop, ps_event *event)
{
    if (loop->idle == NULL) {
        loop->idle_until_us = ps_clock_us() + idle_us;
    }
    event->next = NULL;
    *loop->idle_tail = event;
    loop->idle_tail = &event->next;
}

void ps_loop_after(ps_loop *loop, ps_timer *timer, int64_t delay_us)
{
    ps_timer *at;

    ps_loop_cancel(loop, timer);
    timer->at_us = ps_clock_us() + delay_us;
    at = loop->timers.prev;
    while (at != &loop->timers && at->at_us > timer->at_us) {
        at = at->prev;
    }
    timer->prev = at;
    timer->next = at->next;
    at->next->prev = timer;
    at->next = timer;
    timer->armed = true;
}

void ps_loop_cancel(ps_loop *loop, ps_timer *timer)
{
    (void)loop;
    if (timer->armed) {
        unlink_timer(timer);
    }
}

grpc_completion_queue *ps_loop_cq(ps_loop *loop)
{
    return loop->cq;
}
