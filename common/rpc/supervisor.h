/* SPDX-License-Identifier: Apache-2.0 */
/* supervisor.h - tells the program that supervises this process, such as systemd, that the process
 * serves, that its loop runs, and that it stops. The protocol is that of sd_notify(3): datagrams to
 * the socket in NOTIFY_SOCKET. Without that variable nothing is sent. */
#ifndef PS_COMMON_RPC_SUPERVISOR_H
#define PS_COMMON_RPC_SUPERVISOR_H

#include "common/rpc/loop.h"

/* Zero it before ps_supervisor_ready. Loop thread only. */
typedef struct ps_supervisor {
    ps_loop *loop;
    ps_timer alive;
    int64_t period_us; /* microseconds between two signs of life; 0: none are asked for */
} ps_supervisor;

/* Says that the process serves. If the supervisor asks for signs of life (WATCHDOG_USEC,
 * WATCHDOG_PID), the loop sends two of them within WATCHDOG_USEC, again and again until it
 * stops. */
void ps_supervisor_ready(ps_supervisor *s, ps_loop *loop);

/* Says that the process stops. Signs of life go on, because the process may end a job first. */
void ps_supervisor_stopping(void);

#endif
