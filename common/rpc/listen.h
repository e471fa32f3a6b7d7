/* SPDX-License-Identifier: Apache-2.0 */
/* listen.h - why a server could not listen. rpc/ only. */
#ifndef PS_COMMON_RPC_LISTEN_H
#define PS_COMMON_RPC_LISTEN_H

#include "common/base/status.h"

/* gRPC says that it cannot listen on `address` and keeps the reason to itself:
 * tries the same and says what happens. Always a failure, UNAVAILABLE. */
PS_MUST_USE ps_status ps_listen_failure(const char *address);

#endif
