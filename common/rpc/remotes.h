/* SPDX-License-Identifier: Apache-2.0 */
/* remotes.h - counts connections by the address of the client. Private to common/rpc.
 *
 * An address is an IPv4 address or the first 64 bits of an IPv6 address. The table has a fixed
 * size; an address of which no connection is left makes room for others. Pure: no I/O, no clock.
 */
#ifndef PS_COMMON_RPC_REMOTES_H
#define PS_COMMON_RPC_REMOTES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

enum {
    PS_REMOTES_MAX = 1024,           /* addresses that are known */
    PS_REMOTE_BURST = 1000,          /* connections of an address at once, */
    PS_REMOTE_PER_SECOND = 500,      /* and then a second; more are refused */
    PS_REMOTE_CALM_BURST = 64,       /* at once, */
    PS_REMOTE_CALM_PER_SECOND = 50,  /* and then a second; more are suspect */
    PS_REMOTE_OFFENDED_US = 60000000 /* for which new ones are so after one was closed by a bound */
};

typedef struct ps_remote {
    uint8_t key[8];
    atomic_uint connections; /* open; any thread may read it */
    int64_t level;           /* millionths of a connection that may come at once; */
    int64_t calm;            /* and of one that is not suspect then */
    int64_t filled_us;       /* 0: the entry is empty */
    int64_t offended_us;     /* when a connection of it was closed by a bound; 0: never */
} ps_remote;

/* Zeroed memory is an empty table. */
typedef struct ps_remotes {
    ps_remote slots[PS_REMOTES_MAX];
} ps_remotes;

typedef enum ps_admission { PS_ADMITTED, PS_TOO_MANY, PS_TOO_FAST } ps_admission;

/* Admits a connection from `address`, or says why not. At most `most` may be open. *out is NULL if
 * the connection was not admitted; or if connections are not counted, as there is no IP address
 * or no room in the table. */
ps_admission ps_remotes_enter(ps_remotes *remotes, const struct sockaddr *address, uint32_t most,
                              int64_t now_us, ps_remote **out);

/* Ends a connection. NULL is allowed. */
void ps_remote_leave(ps_remote *remote);

/* Returns whether the connection that was just admitted is suspect: its address has flooded, or
 * opens connections fast. */
bool ps_remote_is_suspect(const ps_remote *remote, int64_t now_us);

#endif
