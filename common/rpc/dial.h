/* SPDX-License-Identifier: Apache-2.0 */
/* dial.h - plain connections beside gRPC's own, which tell a caller only that they failed. */
#ifndef PS_COMMON_RPC_DIAL_H
#define PS_COMMON_RPC_DIAL_H

#include "common/base/status.h"

#include <netdb.h>
#include <stdbool.h>
#include <stdint.h>

/* Looks host:port up for sockets of a type, such as SOCK_STREAM. *list is freed by freeaddrinfo.
 * Fails with INVALID_ARGUMENT if the address has no such form, and with UNAVAILABLE. Any thread that
 * may wait. */
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
