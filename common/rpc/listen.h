/* SPDX-License-Identifier: Apache-2.0 */
/* listen.h - finds out why a server could not listen. Private to common/rpc. */
#ifndef PS_COMMON_RPC_LISTEN_H
#define PS_COMMON_RPC_LISTEN_H

#include "common/base/status.h"

/* Returns UNAVAILABLE with the reason why a server cannot listen on `address`. gRPC does not report
 * the reason, so this tries the same system calls. The result is a failure even if the calls
 * succeed now. */
PS_MUST_USE ps_status ps_listen_failure(const char *address);

#endif
