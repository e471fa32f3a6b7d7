/* SPDX-License-Identifier: Apache-2.0 */
/* unread.h - bounds the memory of answers that clients do not read. Private to common/rpc.
 *
 * An answer stays in memory until gRPC has written it, and gRPC writes it only as the client
 * reads. An answer counts from the time when gRPC gets it until gRPC has written or dropped it.
 * There are sums of bytes for each connection, for each address and for all. Any thread.
 */
#ifndef PS_COMMON_RPC_UNREAD_H
#define PS_COMMON_RPC_UNREAD_H

#include <stdbool.h>
#include <stddef.h>

enum {
    PS_UNREAD_LEAST = 1 << 10,      /* bytes; shorter answers do not count */
    PS_UNREAD_CONNECTION = 4 << 20, /* a connection with so many bytes gets no further answers */
    PS_UNREAD_ADDRESS = 64 << 20,   /* limit of an address */
    PS_UNREAD_ALL = 192 << 20,      /* limit of all clients */
    /* at one of these limits, connections with more bytes than this get no answers */
    PS_UNREAD_CONNECTION_IDLE = 64 << 10
};

typedef struct ps_unread ps_unread;

/* Creates the sums, all 0; free them by ps_unread_destroy, to which NULL may be given. */
ps_unread *ps_unread_create(void);
void ps_unread_destroy(ps_unread *unread);

/* Returns whether a client may get no further answers. `peer` is the remote as gRPC names it, such
 * as "ipv4:127.0.0.1:40312". */
bool ps_unread_is_full(ps_unread *unread, const char *peer);

/* Returns true if no client can be full, because the sum of all is small: ps_unread_is_full is then
 * not needed. */
bool ps_unread_is_low(const ps_unread *unread);

/* Counts an answer that gRPC has got. */
void ps_unread_add(ps_unread *unread, const char *peer, size_t bytes);

/* Ends the count of an answer that was written or dropped. Arguments are those of ps_unread_add. */
void ps_unread_remove(ps_unread *unread, const char *peer, size_t bytes);

#endif
