/* SPDX-License-Identifier: Apache-2.0 */
/* loop_thread.h - a loop with a thread of its own.
 *
 * Another thread passes functions to the loop's thread and waits until they have returned. So
 * objects that are bound to the loop need no lock.
 */
#ifndef PS_COMMON_RPC_LOOP_THREAD_H
#define PS_COMMON_RPC_LOOP_THREAD_H

#include "common/rpc/loop.h"

typedef struct ps_loop_thread ps_loop_thread;

/* Creates a loop and starts its thread; release both by ps_loop_thread_stop. `name` is what tools
 * show, at most 15 bytes. Fails with RESOURCE_EXHAUSTED if there is no memory or no thread. */
PS_MUST_USE ps_status ps_loop_thread_start(const char *name, ps_loop_thread **out);

/* Returns the loop. */
ps_loop *ps_loop_thread_loop(ps_loop_thread *thread);

/* Calls fn(arg) on the loop's thread, after what the loop is doing now, and blocks until it has
 * returned. fn sees everything that happened before the call, and the caller sees everything that
 * fn did. Not on the loop's own thread. */
void ps_loop_thread_run(ps_loop_thread *thread, void (*fn)(void *arg), void *arg);

/* Stops the loop, waits until no event is in flight, joins the thread and frees both. NULL is
 * allowed. */
void ps_loop_thread_stop(ps_loop_thread *thread);

#endif
