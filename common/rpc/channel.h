/* SPDX-License-Identifier: Apache-2.0 */
/* channel.h - a client's channel and what its calls share. rpc/ only. */
#ifndef PS_COMMON_RPC_CHANNEL_H
#define PS_COMMON_RPC_CHANNEL_H

#include "common/rpc/client.h"
#include "common/rpc/wire.h"

/* A peer that is still starting is waited for. */
#define PS_WAIT_FOR_READY                                                                          \
    (GRPC_INITIAL_METADATA_WAIT_FOR_READY | GRPC_INITIAL_METADATA_WAIT_FOR_READY_EXPLICITLY_SET)

struct ps_channel {
    ps_loop *loop;
    grpc_channel *grpc;
    char *target;
    size_t calls; /* that run */
    bool destroyed;
    ps_traffic traffic;
};

/* How a call ended, as gRPC tells it. */
typedef struct ps_outcome {
    grpc_metadata_array initial, trailing;
    grpc_status_code code;
    grpc_slice text;
} ps_outcome;

/* Counts a call in. `timeout_us` PS_NO_TIMEOUT: none. */
grpc_call *ps_channel_call(ps_channel *channel, const ProtobufCServiceDescriptor *type,
                           const ProtobufCMethodDescriptor *method, int64_t timeout_us);

/* Counts it out; may free the channel. */
void ps_channel_call_over(ps_channel *channel, grpc_call *call);

void ps_channel_count_out(ps_channel *channel, grpc_byte_buffer *message);
void ps_channel_count_in(ps_channel *channel, grpc_byte_buffer *message);

void ps_outcome_init(ps_outcome *o);
void ps_outcome_fini(ps_outcome *o);

/* Fills the two operations that wait for it. */
void ps_outcome_ops(ps_outcome *o, grpc_op *initial, grpc_op *status);

/* What client.h promises of errors. */
void ps_outcome_read(const ps_outcome *o, const ps_channel *channel, ps_error *error);

#endif
