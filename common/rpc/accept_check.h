/* SPDX-License-Identifier: Apache-2.0 */
/* accept_check.h - sees to it that a server that listens also accepts. Private to common/rpc.
 *
 * gRPC 1.51 may stop to listen without a word, while the process seems to be alive. So a thread
 * connects to the server when nobody else has done so for a while, and waits until the connection
 * is accepted (accept.h counts them).
 */
#ifndef PS_COMMON_RPC_ACCEPT_CHECK_H
#define PS_COMMON_RPC_ACCEPT_CHECK_H

#include "common/base/status.h"

#include <stdint.h>

enum {
    PS_ACCEPT_CHECK_US = 5000000,          /* between two looks */
    PS_ACCEPT_CHECK_PATIENCE_US = 5000000, /* for one connection */
    PS_ACCEPT_CHECK_FAILURES = 6           /* in a row, until the server counts as deaf */
};

typedef struct ps_accept_check ps_accept_check;

/* Times of a check; tests have shorter ones. */
typedef struct ps_accept_check_times {
    int64_t period_us, patience_us;
    unsigned failures;
} ps_accept_check_times;

/* Starts to check the server at `address` (as it was given to listen) and `port`. Calls `deaf`
 * once, on the thread of the check, when it has not accepted for so long; `why` says what happened
 * last. Returns NULL if that is not possible; a line in the log says why. */
ps_accept_check *ps_accept_check_start(const char *address, int port, ps_accept_check_times times,
                                       void (*deaf)(void *arg, const ps_status *why), void *arg);

/* Ends the check and frees it. Blocks for 100 ms at most. NULL is allowed. */
void ps_accept_check_stop(ps_accept_check *check);

#endif
