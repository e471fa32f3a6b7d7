/* SPDX-License-Identifier: Apache-2.0 */
/* error_wire.h - packs a ps_error as google.rpc.Status into a trailer. Private to common/rpc. */
#ifndef PS_COMMON_RPC_ERROR_WIRE_H
#define PS_COMMON_RPC_ERROR_WIRE_H

#include "common/rpc/error.h"

#include <grpc/slice.h>
#include <stdint.h>

#define PS_ERROR_TRAILER "grpc-status-details-bin"

/* Bound of a packed error in bytes. gRPC accepts 8 KiB of metadata; the bound is less than half
 * of that, so that a proxy may turn the value into base64. Violations that do not fit are
 * dropped and counted in the metadata "violations_dropped". */
enum { PS_ERROR_TRAILER_MAX = 4000 };

/* Returns the value of the trailer; the caller unrefs it. Bytes that are not UTF-8 become '?'. */
grpc_slice ps_error_pack(const ps_error *e);

/* Adds the metadata, reason and violations in a trailer's value to `e`, which ps_error_init must
 * have initialised with the call's status. Texts that are too long are cut. Bytes that cannot be
 * parsed change nothing. */
void ps_error_unpack(ps_error *e, const uint8_t *bytes, size_t n);

#endif
