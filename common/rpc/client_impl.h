/* SPDX-License-Identifier: Apache-2.0 */
/* client_impl.h - the inside of a client's channel, and how its calls end. Private to the files of
 * client.h: channel.c, unary.c, stream.c. */
#ifndef PS_COMMON_RPC_CLIENT_IMPL_H
#define PS_COMMON_RPC_CLIENT_IMPL_H

#include "common/rpc/client.h"
#include "common/rpc/tls_impl.h"
#include "common/rpc/wire.h"

struct ps_channel {
    ps_loop *loop;
    grpc_channel *grpc;
    char *target;
    /* NULL: the channel calls the services themselves and not an instance */
    char *instance;
    ps_tls_expected *expected;     /* says whose certificate is accepted; NULL: plaintext */
    grpc_call_credentials *brings; /* the token that calls carry; NULL: none */
    bool fails_fast;               /* calls do not wait for a second attempt to connect */
    size_t calls;                  /* number of calls that have not ended */
    bool destroyed;
    ps_traffic traffic;
};

/* The outcome of a call as gRPC reports it. */
typedef struct ps_outcome {
    grpc_metadata_array initial, trailing;
    grpc_status_code code;
    grpc_slice text;
} ps_outcome;

/* Creates a gRPC call and counts it as running. `timeout_us` is in microseconds from now;
 * PS_NO_TIMEOUT means no deadline. The caller gives it back by ps_channel_call_over. */
grpc_call *ps_channel_call(ps_channel *channel, const ProtobufCServiceDescriptor *type,
                           const ProtobufCMethodDescriptor *method, int64_t timeout_us);

/* Returns the flags of a call's initial metadata: a call waits until the connection is ready,
 * unless the channel fails fast. */
uint32_t ps_channel_call_flags(const ps_channel *channel);

/* Releases `call` and counts it as over. Frees the channel if it was destroyed and this was its
 * last call. */
void ps_channel_call_over(ps_channel *channel, grpc_call *call);

/* Adds a sent message to the channel's traffic. */
void ps_channel_count_out(ps_channel *channel, grpc_byte_buffer *message);

/* Adds a received message to the channel's traffic. */
void ps_channel_count_in(ps_channel *channel, grpc_byte_buffer *message);

/* Makes an outcome that ps_outcome_ops can use. Release it by ps_outcome_fini. */
void ps_outcome_init(ps_outcome *o);
void ps_outcome_fini(ps_outcome *o);

/* Fills two operations that write initial metadata and status into `o`. `o` must live until both
 * are complete. */
void ps_outcome_ops(ps_outcome *o, grpc_op *initial, grpc_op *status);

/* Writes what `o` says into `error`, in the cases that the head of client.h describes. */
void ps_outcome_read(const ps_outcome *o, const ps_channel *channel, ps_error *error);

#endif
