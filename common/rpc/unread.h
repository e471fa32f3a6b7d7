/* SPDX-License-Identifier: Apache-2.0 */
/* unread.h - bounds the bytes of answers that clients do not read. Private to common/rpc.
 *
 * An answer stays in memory until gRPC has written it, and gRPC writes it when the client reads. So
 * the bytes of answers are counted from when gRPC is given them until it says that they are
 * written: of a connection, of an address, and of all. Any thread.
 */
#ifndef PS_COMMON_RPC_UNREAD_H
#define PS_COMMON_RPC_UNREAD_H

#include <stdbool.h>
#include <stddef.h>

enum {
    PS_UNREAD_LEAST = 1 << 10,           /* shorter answers are not counted */
    PS_UNREAD_CONNECTION = 4 << 20,      /* of a connection; one that has more gets no answers */
    PS_UNREAD_ADDRESS = 64 << 20,        /* of an address, and ... */
    PS_UNREAD_ALL = 192 << 20,           /* ... of all: beyond these nobody gets answers ... */
    PS_UNREAD_CONNECTION_IDLE = 64 << 10 /* ... whose connection has more than this */
};

typedef struct ps_unread ps_unread;

/* Creates a count; free it by ps_unread_destroy. NULL is allowed there. */
ps_unread *ps_unread_create(void);
void ps_unread_destroy(ps_unread *unread);

/* Returns whether a client is to get no further answers. `peer` is what gRPC calls it, such as
 * "ipv4:127.0.0.1:40312". */
bool ps_unread_is_full(ps_unread *unread, const char *peer);

/* Returns whether a look at the count may be saved: nobody has a connection that is full. */
bool ps_unread_is_low(const ps_unread *unread);

/* Counts an answer that gRPC was given. */
void ps_unread_add(ps_unread *unread, const char *peer, size_t bytes);

/* Counts it as written, or dropped; with the same arguments. */
void ps_unread_remove(ps_unread *unread, const char *peer, size_t bytes);

#endif
