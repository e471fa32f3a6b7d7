/* SPDX-License-Identifier: Apache-2.0 */
/* guard.h - limits what clients send on the connections that this process has accepted.
 *
 * gRPC 1.51 bounds neither the rate of calls, resets and control frames of a connection, nor the
 * memory that they take, and a program cannot inspect frames through its API. So this room
 * defines recvmsg, as accept.h defines accept4. The bytes that gRPC reads from an accepted
 * connection pass through a state machine that counts frames (flood.h), without a copy. A
 * connection that is too fast is paused: recvmsg fails with EAGAIN until the token buckets of the
 * connection are filled. A connection that floods is closed: recvmsg returns 0, as if the client
 * had closed it, and gRPC does not see the bytes that were read last.
 *
 * Under TLS the bytes of recvmsg are encrypted. Then the frames are counted in what SSL_read
 * returns, which this room defines too (guard_tls.h).
 *
 * This room also defines epoll_ctl, close and shutdown. epoll_ctl shows how gRPC waits for a
 * descriptor, so that it can wait for a paused one again. close shows that a connection has
 * ended. shutdown and close keep a client whose connection was closed waiting for a second. For
 * all other descriptors these functions only call the system's.
 *
 * Any thread, unless a function says otherwise.
 */
#ifndef PS_COMMON_RPC_GUARD_H
#define PS_COMMON_RPC_GUARD_H

#include "common/rpc/flood.h"
#include "common/rpc/remotes.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

enum { PS_GUARD_DESCRIPTORS = 65536 /* accepted connections have descriptors below this */ };

/* Starts to guard; `most`: how many connections one address may have. Call it before the process
 * listens; further calls change nothing. Without this call the functions below do nothing, and
 * every connection is admitted. */
void ps_guard_start(uint32_t most);

/* Returns the client's address of the accepted connection from which this thread has read last, if
 * ps_guard_expect_tls was called (guard_tls.h). Returns "" if the thread has read from another
 * descriptor since, or from none. For the log: gRPC says why a handshake failed, but not with
 * whom. */
const char *ps_guard_reading(void);

/* Decides whether a new connection `fd` of a listener is admitted, given the client's address. An
 * admitted connection is watched until it is closed. The caller closes a connection that is not
 * admitted. */
ps_admission ps_guard_admit(int listener, int fd, const struct sockaddr *from, socklen_t len);

/* Returns the number of admitted connections that are not closed. */
uint32_t ps_guard_open(void);

/* Counts a wasted call of a client: no service has its method, or the client cancels it. `peer` is
 * the remote as gRPC names it, such as "ipv4:127.0.0.1:40312". If its address makes too many wasted
 * calls, the connection and the address's next connections are suspect (remotes.h). */
void ps_guard_waste(const char *peer);

/* Makes gRPC look for new connections of a listener again after `delay_us` microseconds, if there
 * are any then. Returns false if gRPC does not wait for this descriptor. */
bool ps_guard_look_again(int fd, int64_t delay_us);

/* Returns how many connections the guard has closed because of what they sent. */
uint64_t ps_guard_closed(void);

/* Writes an address with its port, such as "127.0.0.1:40312", for the log. */
enum { PS_GUARD_ADDRESS_BYTES = 64 };
void ps_guard_address(const struct sockaddr *address, char out[PS_GUARD_ADDRESS_BYTES]);

/* ---- For guard_tls.c, which sees the decrypted bytes ---- */

/* Names an accepted connection, which may have been closed since. */
typedef struct ps_guard_ref {
    int fd;
    uint64_t id; /* 0: none */
} ps_guard_ref;

/* From now on recvmsg counts no frames, because connections are encrypted. */
void ps_guard_leave_frames_to_tls(void);

/* Returns whether ps_guard_leave_frames_to_tls was called. */
bool ps_guard_has_tls(void);

/* Finds the connection from which these encrypted bytes come: the one from which this thread has
 * just read the same memory. Returns false if they come from elsewhere. */
bool ps_guard_fed(const void *bytes, size_t n, ps_guard_ref *out);

/* Counts the frames in n decrypted bytes of a connection by `flood`, which belongs to the
 * connection. Pauses the connection if it is too fast. Returns false if it floods: then the
 * connection is ended, and gRPC must not get the bytes. */
bool ps_guard_take(const ps_guard_ref *ref, ps_flood *flood, const uint8_t *bytes, size_t n);

#endif
