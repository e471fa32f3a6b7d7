/* SPDX-License-Identifier: Apache-2.0 */
/* unread.h - bounds the memory of answers that clients do not read. Private to common/rpc.
 *
 * An answer stays in memory until gRPC has written it, and gRPC writes it only as fast as the
 * client reads. An answer counts from when gRPC gets it until gRPC has written or dropped it. Bytes
 * are summed for each connection, for each address, and for all clients. Any thread. */
#ifndef PS_COMMON_RPC_UNREAD_H
#define PS_COMMON_RPC_UNREAD_H

#include <stdbool.h>
#include <stddef.h>

enum {
    PS_UNREAD_LEAST = 1 << 10, /* bytes; shorter answers do not count */
    /* most bytes of a connection; a client beyond it gets no further answers */
    PS_UNREAD_CONNECTION = 4 << 20,
    PS_UNREAD_ADDRESS = 64 << 20, /* most bytes of an address */
    PS_UNREAD_ALL = 192 << 20,    /* most bytes of all clients */
    /* if an address or all clients are at their limit, connections with more bytes than this get no
     * further answers */
    PS_UNREAD_CONNECTION_IDLE = 64 << 10
};

typedef struct ps_unread ps_unread;

/* Creates the sums, all 0; free them by ps_unread_destroy, to which NULL may be given. */
ps_unread *ps_unread_create(void);
void ps_unread_destroy(ps_unread *unread);

/* Returns whether a client may get no further answers. `peer` is the remote as gRPC names it, such
 * as "ipv4:127.0.0.1:40312". */
bool ps_unread_is_full(ps_unread *unread, const char *peer);

/* Returns true if the sum of all clients is so small that no client can be full; then
 * ps_unread_is_full need not be called. */
bool ps_unread_is_low(const ps_unread *unread);

/* Counts an answer of `bytes` bytes that gRPC has got for the client `peer`. */
void ps_unread_add(ps_unread *unread, const char *peer, size_t bytes);

/* Ends the counting of an answer that gRPC has written or dropped. Arguments are those of
 * ps_unread_add. */
void ps_unread_remove(ps_unread *unread, const char *peer, size_t bytes);

#endif
