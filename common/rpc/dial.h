/* SPDX-License-Identifier: Apache-2.0 */
/* dial.h - opens connections without gRPC, to find out why gRPC cannot connect: gRPC only says that
 * it failed. */
#ifndef PS_COMMON_RPC_DIAL_H
#define PS_COMMON_RPC_DIAL_H

#include "common/base/status.h"

#include <netdb.h>
#include <stdbool.h>
#include <stdint.h>

/* Looks up host:port for sockets of `type`, such as SOCK_STREAM. The caller frees *list by
 * freeaddrinfo. Returns INVALID_ARGUMENT if `address` is not host:port, UNAVAILABLE if the name is
 * not found. Any thread that may wait. */
PS_MUST_USE ps_status ps_dial_look_up(const char *address, int type, struct addrinfo **list);

/* Connects to host:port within timeout_us; a name is looked up first, which may take longer. Writes
 * the socket, which does not block. Any thread that may wait.
 *
 * INVALID_ARGUMENT   the address has no such form
 * NOT_FOUND          nothing listens there: the connection is refused
 * UNAVAILABLE        it fails otherwise, or takes too long */
PS_MUST_USE ps_status ps_dial(const char *address, int64_t timeout_us, int *fd);

/* Returns whether nothing listens at the address. False also if that is not known. */
bool ps_dial_is_refused(const char *address, int64_t timeout_us);

#endif
