/* SPDX-License-Identifier: Apache-2.0 */
/* unary.c - see client.h. One batch of six operations, so one event. */
#include "common/base/container_of.h"
#include "common/base/xalloc.h"
#include "common/rpc/client_impl.h"

#include <assert.h>
#include <stdlib.h>

struct ps_unary {
    ps_event event;
    ps_channel *channel;
    grpc_call *call;
    const ProtobufCMethodDescriptor *type;
    ps_outcome outcome;
    grpc_byte_buffer *reply;
    ps_reply_fn *on_reply;
    void *arg;
};

static void read_reply(ps_unary *u, ps_received *in, ps_error *error)
{
    ps_status st;

    if (u->reply == NULL) {
        ps_error_init(error, ps_fail(PS_DATA_LOSS, "%s: no reply", u->type->name), NULL);
        return;
    }
    ps_channel_count_in(u->channel, u->reply);
    st = ps_received_unpack(in, u->reply, u->type->output, PS_MESSAGE_MAX, PS_WHOLE);
    u->reply = NULL;
    if (!ps_is_ok(&st)) {
        ps_error_init(error, st, ps_wire_reason(&st));
        /* not PS_INVALID_ARGUMENT: the server's answer is at fault, not the caller's */
        error->status.code = PS_DATA_LOSS;
    }
}

static void on_done(ps_event *self, bool ok)
{
    ps_unary *u = PS_CONTAINER_OF(self, ps_unary, event);
    ps_received in;
    ps_error error;

    assert(ok); /* a batch with RECV_STATUS_ON_CLIENT never fails */
    (void)ok;
    ps_received_init(&in);
    ps_outcome_read(&u->outcome, u->channel, &error);
    if (ps_is_ok(&error.status)) {
        read_reply(u, &in, &error);
    }
    u->on_reply(u->arg, &error, ps_is_ok(&error.status) ? in.message : NULL);

    ps_received_fini(&in);
    grpc_byte_buffer_destroy(u->reply);
    ps_outcome_fini(&u->outcome);
    ps_channel_call_over(u->channel, u->call);
    free(u);
}

ps_unary *ps_unary_start(ps_channel *channel, const ProtobufCServiceDescriptor *type,
                         const char *method, const ProtobufCMessage *request, int64_t timeout_us,
                         ps_reply_fn *on_reply, void *arg)
{
    const ProtobufCMethodDescriptor *m =
        protobuf_c_service_descriptor_get_method_by_name(type, method);
    ps_unary *u = ps_xcalloc(1, sizeof *u);
    grpc_byte_buffer *packed;
    grpc_op ops[6] = {0};
    grpc_call_error err;

    assert(m != NULL && request->descriptor == m->input);
    u->event.fire = on_done;
    u->channel = channel;
    u->type = m;
    u->on_reply = on_reply;
    u->arg = arg;
    ps_outcome_init(&u->outcome);
    u->call = ps_channel_call(channel, type, m, timeout_us);
    packed = ps_wire_pack(request, NULL, 0);
    ps_channel_count_out(channel, packed);

    ops[0].op = GRPC_OP_SEND_INITIAL_METADATA;
    ops[0].flags = ps_channel_call_flags(channel);
    ops[1].op = GRPC_OP_SEND_MESSAGE;
    ops[1].data.send_message.send_message = packed;
    ops[2].op = GRPC_OP_SEND_CLOSE_FROM_CLIENT;
    ops[3].op = GRPC_OP_RECV_MESSAGE;
    ops[3].data.recv_message.recv_message = &u->reply;
    ps_outcome_ops(&u->outcome, &ops[4], &ops[5]);
    err = grpc_call_start_batch(u->call, ops, 6, &u->event, NULL);
    assert(err == GRPC_CALL_OK);
    (void)err;
    grpc_byte_buffer_destroy(packed);
    return u;
}

void ps_unary_cancel(ps_unary *call)
{
    grpc_call_cancel(call->call, NULL);
}
