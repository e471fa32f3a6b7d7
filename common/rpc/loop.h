/* SPDX-License-Identifier: Apache-2.0 */
/* loop.h - one thread, one completion queue, one kind of tag.
 *
 * Every tag this program gives to gRPC is a ps_event*, a member of the struct
 * that the event is about. The loop calls event->fire; fire finds its struct
 * with PS_CONTAINER_OF. There is no enum of tag kinds and nothing to switch
 * on, so the loop does not change when a kind of call is added.
 *
 * Threads: a loop and all that is bound to it belong to the thread in
 * ps_loop_run. Only ps_loop_post may be called from another one.
 */
#ifndef PS_COMMON_RPC_LOOP_H
#define PS_COMMON_RPC_LOOP_H

#include "common/base/status.h"

#include <grpc/grpc.h>
#include <stdint.h>

typedef struct ps_event ps_event;
struct ps_event {
    /* Called on the loop's thread, once for each time the event was armed.
     * ok is false if gRPC dropped the operation. May free the struct that
     * holds the event. */
    void (*fire)(ps_event *self, bool ok);

    ps_event *next; /* the loop's, while posted */
};

/* Zero it, set fire, arm it with ps_loop_after. */
typedef struct ps_timer ps_timer;
struct ps_timer {
    ps_event event;
    int64_t at_us; /* monotonic; the loop's, while armed */
    ps_timer *prev, *next;
    bool armed;
};

typedef struct ps_loop ps_loop;

/* As long as this an event may take, or a timer be late; beyond it the loop was away. */
enum { PS_LOOP_AWAY_US = 50000 };

PS_MUST_USE ps_status ps_loop_create(ps_loop **out);

/* Only after ps_loop_run has returned, or instead of it. NULL is allowed. */
void ps_loop_destroy(ps_loop *loop);

/* Fires events until ps_loop_stop was called and nothing is in flight. */
void ps_loop_run(ps_loop *loop);

/* Loop thread. Nothing may be armed or started on the loop afterwards; armed
 * timers and posted events fire with ok = false. */
void ps_loop_stop(ps_loop *loop);

/* Any thread, while the loop runs. Fires `event` soon on the loop's thread.
 * The event must not be posted again before it fires. */
void ps_loop_post(ps_loop *loop, ps_event *event);

/* Loop thread. Fires timer->event after `delay_us` microseconds; arming an
 * armed timer moves it. */
void ps_loop_after(ps_loop *loop, ps_timer *timer, int64_t delay_us);
void ps_loop_cancel(ps_loop *loop, ps_timer *timer);

/* Loop thread. The loop's own time in microseconds, for what is due by others: that of when it
 * last looked at its queue, less what it was away until then, held up in an event (by a disk, say)
 * or not run at all, for which it needs a timer to be late. What came meanwhile it has yet to hear.
 * Never runs backwards, and never stands still for good. */
int64_t ps_loop_now_us(const ps_loop *loop);

grpc_completion_queue *ps_loop_cq(ps_loop *loop);

#endif
