/* SPDX-License-Identifier: Apache-2.0 */
/* accept_check.h - checks that a listening server accepts connections. Private to common/rpc.
 *
 * gRPC 1.51 may stop accepting connections without an error, while the process runs on. So when
 * no client has connected for some time, a thread connects to the server itself and waits until
 * the connection is accepted (accept.h counts accepted connections).
 */
#ifndef PS_COMMON_RPC_ACCEPT_CHECK_H
#define PS_COMMON_RPC_ACCEPT_CHECK_H

#include "common/base/status.h"

#include <stdint.h>

enum {
    PS_ACCEPT_CHECK_US = 5000000,          /* microseconds between two checks */
    PS_ACCEPT_CHECK_PATIENCE_US = 5000000, /* microseconds to wait for one connection */
    PS_ACCEPT_CHECK_FAILURES = 6           /* failed checks in a row after which `deaf` is called */
};

typedef struct ps_accept_check ps_accept_check;

/* Times of the checks; tests set shorter ones. */
typedef struct ps_accept_check_times {
    int64_t period_us, patience_us;
    unsigned failures;
} ps_accept_check_times;

/* Starts to check the server at `address` (as it was given to listen) and `port`. After `failures`
 * failed checks in a row, calls `deaf` once, on the thread of the check; `why` describes the last
 * failure. Returns NULL, and logs the reason, if the check cannot be started. */
ps_accept_check *ps_accept_check_start(const char *address, int port, ps_accept_check_times times,
                                       void (*deaf)(void *arg, const ps_status *why), void *arg);

/* Ends the check and frees it. Blocks for 100 ms at most. NULL is allowed. */
void ps_accept_check_stop(ps_accept_check *check);

#endif
