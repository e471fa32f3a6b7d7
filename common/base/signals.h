/* SPDX-License-Identifier: Apache-2.0 */
/* signals.h - SIGTERM and SIGINT as a call on a thread of their own.
 *
 * The signals are blocked in every thread and one thread waits for them, so what
 * they start runs outside of handler functions. The first asks, the second one
 * ends the process at once.
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

/* First thing in main, before any thread (grpc_init starts some); threads that
 * libraries started before main are taken care of. SIGPIPE is ignored.
 * Processes started later inherit the blocked signals. */
void ps_signals_block(void);

/* `fire` is called at the first signal, on the waiting thread; the second one
 * ends the process with 130 (SIGINT) or 143 (SIGTERM). `signals` is kept. */
PS_MUST_USE ps_status ps_signals_start(ps_signals *signals, void (*fire)(void *arg, int signo),
                                       void *arg);

/* Waits for the thread; `fire` is not called afterwards. The signals stay
 * blocked. */
void ps_signals_stop(ps_signals *signals);

#endif
