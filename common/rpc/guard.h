/* SPDX-License-Identifier: Apache-2.0 */
/* guard.h - watches what arrives on the connections that this process has accepted.
 *
 * gRPC 1.51 bounds neither the rate of calls, resets and control frames of a connection, nor the
 * memory that they take. It has no place where a program could look at frames. So this room defines
 * recvmsg, as accept.h does accept4: the bytes that gRPC reads from an accepted connection go by a
 * machine that counts frames (flood.h), without a copy. A connection that is too fast is paused:
 * recvmsg fails with EAGAIN until its buckets have filled. One that floods is closed: recvmsg
 * returns 0, as if the client had gone, and gRPC does not see what was read last.
 *
 * epoll_ctl is defined to learn how gRPC waits for a descriptor, so that a paused one can be waited
 * for again; close, to learn that a connection has ended; shutdown and close, to keep a client that
 * was closed waiting for a second. All of them pass on what they are not about.
 *
 * Any thread, unless a function says otherwise.
 */
#ifndef PS_COMMON_RPC_GUARD_H
#define PS_COMMON_RPC_GUARD_H

#include "common/rpc/remotes.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

enum { PS_GUARD_DESCRIPTORS = 65536 /* accepted connections have descriptors below this */ };

/* Starts to guard; `most` is how many connections one address may have. Call it before the process
 * listens; further calls change nothing. Without it the functions below do nothing and admit
 * everybody. */
void ps_guard_start(uint32_t most);

/* Admits a new connection `fd` of a listener from an address, and watches it until it is closed.
 * Otherwise the caller closes it. */
ps_admission ps_guard_admit(int listener, int fd, const struct sockaddr *from, socklen_t len);

/* Returns the connections that are admitted and not closed. */
uint32_t ps_guard_open(void);

/* Counts a call in vain: nobody took it, or its client gave it up. `peer` is what gRPC calls the
 * client, such as "ipv4:127.0.0.1:40312". A client with too many is suspect. */
void ps_guard_waste(const char *peer);

/* Has gRPC look at a listener again after `delay_us` microseconds, if it has connections then.
 * Returns false if nobody waits for this descriptor. */
bool ps_guard_look_again(int fd, int64_t delay_us);

/* Returns the connections that were closed because of what they sent. */
uint64_t ps_guard_closed(void);

/* Writes an address, such as "127.0.0.1:40312", for the log. */
enum { PS_GUARD_ADDRESS_BYTES = 64 };
void ps_guard_address(const struct sockaddr *address, char out[PS_GUARD_ADDRESS_BYTES]);

#endif
