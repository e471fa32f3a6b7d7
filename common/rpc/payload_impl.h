/* SPDX-License-Identifier: Apache-2.0 */
/* payload_impl.h - a payload as gRPC holds it. For payload.c and wire.h. */
#ifndef PS_COMMON_RPC_PAYLOAD_IMPL_H
#define PS_COMMON_RPC_PAYLOAD_IMPL_H

#include "common/rpc/payload.h"

#include <grpc/slice.h>

/* The part of a received message from the payload on. */
struct ps_payload {
    const grpc_slice *slices; /* all slices of the message */
    size_t slice_count;
    size_t begin; /* offset of the payload in the message */
    size_t len;
    /* Cache of the last view: slice `at` starts at byte `at_begin` of the message. */
    size_t at, at_begin;
};

#endif
