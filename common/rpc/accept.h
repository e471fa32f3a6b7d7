/* SPDX-License-Identifier: Apache-2.0 */
/* accept.h - accepts connections for gRPC, and refuses what the process has no room for.
 *
 * gRPC 1.51 stops listening for good when accept4 fails once, for instance because the process is
 * out of descriptors. It offers no listener of the caller's own that could carry credentials. So
 * this room defines accept4, which takes the place of libc's for all that is linked to the program:
 * it never fails for a reason that passes. Connections beyond the bound are accepted and closed at
 * once. Some descriptors stay free for files and for calls to others.
 */
#ifndef PS_COMMON_RPC_ACCEPT_H
#define PS_COMMON_RPC_ACCEPT_H

#include <stdbool.h>
#include <stdint.h>

enum {
    /* descriptors that connections leave free; a quarter of a lower limit */
    PS_ACCEPT_RESERVE = 64,
    PS_ACCEPT_LEFT_MAX = 2 /* listeners that their owners bound */
};

/* Raises the process's bound of descriptors to what it may be, and sets the bound for connections.
 * Call it before the process listens. */
void ps_accept_init(void);

/* Leaves the connections of one listener to its owner, who bounds them: they are accepted as libc
 * does, and are not counted. At most PS_ACCEPT_LEFT_MAX at a time. Any thread. */
void ps_accept_leave(int listener);

/* Ends ps_accept_leave, before the owner closes the listener. Any thread. */
void ps_accept_resume(int listener);

/* Returns the connections that were accepted so far. Refused ones count too, unless they were
 * refused for want of descriptors that connections do not have (ps_accept_is_crowded). Any thread.
 */
uint64_t ps_accept_count(void);

/* Returns whether connections have at least half of the descriptors that are for them. If a process
 * that is not crowded has no descriptor left, something else has taken them, or the limit was
 * lowered: then waiting for clients to go does not help. Any thread. */
bool ps_accept_is_crowded(void);

/* Returns the connections that were refused so far. Any thread. */
uint64_t ps_accept_refused(void);

#endif
