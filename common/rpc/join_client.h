/* SPDX-License-Identifier: Apache-2.0 */
/* join_client.h - the client's side of join_server.h. */
#ifndef PS_COMMON_RPC_JOIN_CLIENT_H
#define PS_COMMON_RPC_JOIN_CLIENT_H

#include "common/base/strbuf.h"

#include <stdint.h>

/* Connects to host:port, checks that a coordinator answers there whose certificate chain ends with
 * the root of this fingerprint (64 hexadecimal digits), sends `n` bytes and appends the answer to
 * `answer`. Sends nothing before the check. Blocks for at most `timeout_us` microseconds and the
 * time that the look-up of a name takes; any thread.
 *
 * UNAVAILABLE       nobody listens, or it takes too long
 * UNAUTHENTICATED   the check has failed; the text says why
 */
PS_MUST_USE ps_status ps_join_call(const char *address, const char *fingerprint,
                                   const char *request, size_t n, int64_t timeout_us,
                                   ps_strbuf *answer);

/* Writes the address by which this host reaches host:port, without a port. */
enum { PS_LOCAL_HOST_BYTES = 48 };
PS_MUST_USE ps_status ps_join_local_host(const char *address, char out[PS_LOCAL_HOST_BYTES]);

#endif
