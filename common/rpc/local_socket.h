/* SPDX-License-Identifier: Apache-2.0 */
/* local_socket.h - Unix sockets beside the ports of this host's loopback interface. Private to
 * common/rpc.
 *
 * Bytes through a Unix socket cost both ends about half of what they cost through TCP. So a server
 * that listens in plaintext on an address of 127.0.0.0/8 also listens on an abstract Unix socket,
 * whose name is made of address and port. Abstract names belong to a network namespace, as the
 * loopback interface does: both reach the same processes. A process of any user may take a name
 * before the server does, so both ends check the user of the other one.
 */
#ifndef PS_COMMON_RPC_LOCAL_SOCKET_H
#define PS_COMMON_RPC_LOCAL_SOCKET_H

#include <stdbool.h>

enum { PS_LOCAL_TARGET_BYTES = 64 };

/* Writes the address, as gRPC names it, of the Unix socket beside `address` (host:port). Returns
 * false if there cannot be one: the host is not a number of 127.0.0.0/8. */
bool ps_local_target(const char *address, char out[PS_LOCAL_TARGET_BYTES]);

/* Returns whether a process of this process's user listens on that socket. Never blocks. */
bool ps_local_is_served(const char *target);

/* Returns whether the other end of a connected Unix socket is a process of this process's user. */
bool ps_local_is_of_user(int fd);

#endif
