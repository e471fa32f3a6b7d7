/* SPDX-License-Identifier: Apache-2.0 */
/* accept.h - accepts connections for gRPC, and refuses what the process has no room for.
 *
 * gRPC 1.51 stops listening for good when accept4 fails once, for instance because the process is
 * out of descriptors. It offers no listener of the caller's own that could carry credentials. So
 * this room defines accept4, which takes the place of libc's for all that is linked to the program:
 * for a reason that passes it fails with EAGAIN only, and gRPC goes on listening. Connections
 * beyond the bound are accepted and closed at once. Some descriptors stay free for files and for
 * calls to others.
 */
#ifndef PS_COMMON_RPC_ACCEPT_H
#define PS_COMMON_RPC_ACCEPT_H

#include <stdbool.h>
#include <stdint.h>

enum {
    /* descriptors that connections leave free for files and calls; at most a quarter of all
     * descriptors */
    PS_ACCEPT_RESERVE = 64,
    /* most listeners at a time whose owners bound their connections themselves (ps_accept_leave) */
    PS_ACCEPT_LEFT_MAX = 2
};

/* Raises the process's limit of open descriptors as far as the system allows, computes from it how
 * many connections the process may have, and starts the guard (guard.h). Call it before the process
 * listens. */
void ps_accept_init(void);

/* Leaves the connections of one listener to its owner, who bounds them itself: they are accepted as
 * by libc, and are not counted here. At most PS_ACCEPT_LEFT_MAX listeners at a time. Any thread. */
void ps_accept_leave(int listener);

/* Ends ps_accept_leave. Call it when the owner has closed the listener: until then a new listener
 * with the same descriptor is taken for the old one. Any thread. */
void ps_accept_resume(int listener);

/* Returns the number of connections that were accepted so far. Refused ones count too, unless they
 * were refused because descriptors were missing although the process is not crowded
 * (ps_accept_is_crowded). Any thread. */
uint64_t ps_accept_count(void);

/* Returns whether connections use at least half of the descriptors that are meant for them. If a
 * process that is not crowded has no descriptor left, something else uses them, or the limit was
 * lowered; then it does not help to wait for clients to leave. Any thread. */
bool ps_accept_is_crowded(void);

/* Returns the number of connections that were refused so far. Any thread. */
uint64_t ps_accept_refused(void);

#endif
