/* SPDX-License-Identifier: Apache-2.0 */
/* error_wire.h - a ps_error as google.rpc.Status in a trailer. rpc/ only. */
#ifndef PS_COMMON_RPC_ERROR_WIRE_H
#define PS_COMMON_RPC_ERROR_WIRE_H

#include "common/rpc/error.h"

#include <grpc/slice.h>
#include <stdint.h>

#define PS_ERROR_TRAILER "grpc-status-details-bin"

/* Less than half of what gRPC lets a peer send as metadata (8 KiB), also when
 * a proxy has turned it into base64. Violations that do not fit are dropped
 * and counted in the metadata "violations_dropped". */
enum { PS_ERROR_TRAILER_MAX = 4000 };

/* The trailer's value; the caller unrefs it. Bytes that are not UTF-8 become '?'. */
grpc_slice ps_error_pack(const ps_error *e);

/* Adds to `e` (initialised with a status) what the trailer's value says.
 * Texts that do not fit are cut; bytes that make no sense change nothing. */
void ps_error_unpack(ps_error *e, const uint8_t *bytes, size_t n);

#endif
