/* SPDX-License-Identifier: Apache-2.0 */
/* signals.h - turns SIGTERM and SIGINT into a call on a thread of its own.
 *
 * All threads block the signals and one thread waits for them, so the call does not run inside a
 * signal handler. The first signal calls `fire`. The second one ends the process at once.
 */
#ifndef PS_COMMON_BASE_SIGNALS_H
#define PS_COMMON_BASE_SIGNALS_H

#include <pthread.h>
#include <stdatomic.h>

#include "common/base/status.h"

typedef struct ps_signals {
    pthread_t thread;
    atomic_bool is_stopping;
    void (*fire)(void *arg, int signo);
    void *arg;
} ps_signals;

/* Blocks the signals. Call it first in main, before any thread (grpc_init starts some). Threads
 * that libraries have started before main pass the signals on. SIGPIPE is ignored. Child
 * processes inherit the blocked signals. */
void ps_signals_block(void);

/* Starts the waiting thread. It calls `fire` at the first signal; the second one ends the
 * process with 130 (SIGINT) or 143 (SIGTERM). `signals` must live until ps_signals_stop. */
PS_MUST_USE ps_status ps_signals_start(ps_signals *signals, void (*fire)(void *arg, int signo),
                                       void *arg);

/* Ends the waiting thread; `fire` is not called afterwards. The signals stay blocked. */
void ps_signals_stop(ps_signals *signals);

#endif
