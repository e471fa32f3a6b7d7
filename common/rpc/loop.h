/* SPDX-License-Identifier: Apache-2.0 */
/* loop.h - runs events of one thread from one completion queue.
 *
 * Every tag that psgd gives to gRPC is a ps_event *, a member of the struct that the event is
 * about. The loop calls event->fire, which finds its struct by PS_CONTAINER_OF. There is no enum of
 * tag kinds, so a new kind of call does not change the loop.
 *
 * Threads: a loop and all that is bound to it belong to the thread that calls ps_loop_run. Other
 * threads may call ps_loop_post only.
 */
#ifndef PS_COMMON_RPC_LOOP_H
#define PS_COMMON_RPC_LOOP_H

#include "common/base/status.h"

#include <grpc/grpc.h>
#include <stdint.h>

typedef struct ps_event ps_event;
struct ps_event {
    /* Called on the loop's thread, once each time that the event was armed. `ok` is false if
     * gRPC dropped the operation or the loop stops. May free the struct that holds the event. */
    void (*fire)(ps_event *self, bool ok);

    ps_event *next; /* used by the loop while the event is posted or idle */
};

/* A timer. Zero it, set event.fire, then arm it by ps_loop_after. */
typedef struct ps_timer ps_timer;
struct ps_timer {
    ps_event event;
    int64_t at_us; /* monotonic microseconds; used by the loop while armed */
    ps_timer *prev, *next;
    bool armed;
};

typedef struct ps_loop ps_loop;

/* Creates a loop in *out; release it by ps_loop_destroy. Fails with RESOURCE_EXHAUSTED if memory
 * runs out. */
PS_MUST_USE ps_status ps_loop_create(ps_loop **out);

/* Frees the loop. Call it after ps_loop_run has returned, or if that was never called. NULL is
 * allowed. */
void ps_loop_destroy(ps_loop *loop);

/* Fires events until ps_loop_stop was called and no event is in flight. The calling thread
 * becomes the loop's thread. */
void ps_loop_run(ps_loop *loop);

/* Ends ps_loop_run. Armed timers, posted and idle events fire with ok = false. Nothing may be armed
 * or started on the loop afterwards. Loop thread only. */
void ps_loop_stop(ps_loop *loop);

/* Fires `event` soon on the loop's thread. Any thread may call it while the loop runs. The event
 * must not be posted again before it has fired. */
void ps_loop_post(ps_loop *loop, ps_event *event);

/* Fires `event` when the loop has nothing else to fire, at the latest 20 ms after this call or
 * after the idle event before it: for work that can wait. As with ps_loop_post, the event must not
 * be given again before it has fired. Loop thread only. */
void ps_loop_idle(ps_loop *loop, ps_event *event);

/* Fires timer->event after `delay_us` microseconds. Arming an armed timer moves it. Loop thread
 * only. */
void ps_loop_after(ps_loop *loop, ps_timer *timer, int64_t delay_us);

/* Disarms a timer; it does not fire. A timer that is not armed is left as it is. Loop thread
 * only. */
void ps_loop_cancel(ps_loop *loop, ps_timer *timer);

/* Makes the loop call check(arg) before each event that it fires (events that were posted together
 * get one call before the first), so that a process that was frozen for some time notices it before
 * it acts on old knowledge. NULL: nothing is called. Loop thread, or before the loop runs. */
void ps_loop_check(ps_loop *loop, void (*check)(void *arg), void *arg);

/* Makes every server and channel that is created on this loop from now on speak mutual TLS (tls.h);
 * without this call they speak plaintext. `tls` is borrowed: it must outlive them. */
struct ps_tls;
void ps_loop_use_tls(ps_loop *loop, struct ps_tls *tls);

/* Returns what ps_loop_use_tls has set, or NULL. */
struct ps_tls *ps_loop_tls(const ps_loop *loop);

/* Returns the queue for operations of gRPC whose tags are events of this loop. */
grpc_completion_queue *ps_loop_cq(ps_loop *loop);

#endif
