/* SPDX-License-Identifier: Apache-2.0 */
/* server_stream.c - moves the messages of a call; see server_impl.h. */
#include "common/rpc/server_impl.h"

#include "common/base/container_of.h"

#include <assert.h>
#include <stdlib.h>

/* --- in ---------------------------------------------------------------------- */

void ps_call_receive(ps_call *call)
{
    grpc_op op = {.op = GRPC_OP_RECV_MESSAGE};

    assert(!call->reading);
    call->reading = true;
    op.data.recv_message.recv_message = &call->incoming;
    ps_call_batch(call, &op, 1, &call->received);
}

static void hand_over(ps_call *call)
{
    ps_payload *payload = ps_received_payload(&call->in);

    if (!call->handed) {
        call->handed = true;
        if (call->route->admit == NULL || call->route->admit(call->route->state, call)) {
            call->route->method->handle(call->route->state, call->in.message, payload, call);
        }
    } else {
        call->on_message(call->message_arg, call->in.message, payload, call);
    }
    ps_received_drop_payload(&call->in);
}

/* Handles a read that brought no message: the client has sent its last one or has hung up. A call
 * without a first message is ended. Otherwise gRPC reports both alike (ok is true), but after a
 * hang-up it fires `closed` next. So a second read is started, which completes after `closed`. Only
 * if that one brings nothing, too, the handler is told that there are no more messages. */
static void on_nothing(ps_call *call)
{
    if (!call->handed) {
        ps_status why = ps_fail(PS_INVALID_ARGUMENT, "%s: no request message", call->route->path);

        ps_call_hang_up(call, &why);
    } else if (!call->drained) {
        call->drained = true;
        ps_call_receive(call);
    } else {
        call->on_message(call->message_arg, NULL, NULL, call);
    }
}

void ps_call_on_received(ps_event *self, bool ok)
{
    ps_call *call = PS_CONTAINER_OF(self, ps_call, received);
    grpc_byte_buffer *buffer = call->incoming;
    ps_error unread;

    (void)ok;
    call->incoming = NULL;
    call->reading = false;
    if (call->is_one_batch) {
        call->is_one_batch = call->sending = false;
        ps_call_count_read(call);
    }
    if (call->answered) {
        grpc_byte_buffer_destroy(buffer);
    } else if (buffer == NULL) {
        on_nothing(call);
    } else if (ps_call_has_unread(call, &unread)) {
        grpc_byte_buffer_destroy(buffer);
        ps_call_refuse(call, &unread);
    } else {
        ps_status st;

        call->traffic->messages_in++;
        call->traffic->bytes_in += ps_wire_bytes(buffer);
        st = ps_received_unpack(&call->in, buffer, call->route->type->input,
                                call->route->method->max_bytes, PS_SPLIT);
        if (ps_is_ok(&st)) {
            hand_over(call);
        } else {
            ps_call_hang_up(call, &st);
        }
    }
    ps_call_unpend(call);
}

void ps_call_read(ps_call *call, ps_call_message_fn *on_message, void *arg)
{
    assert(call->route->method->streams_in && !call->answered);
    call->on_message = on_message;
    call->message_arg = arg;
    ps_call_receive(call);
}

/* --- out --------------------------------------------------------------------- */

/* Writes the operations that send the message in `buffer` to `ops`, and counts the message as sent
 * and in flight. Returns how many operations there are: 2 for the first message, else 1. */
static size_t send_ops(ps_call *call, grpc_byte_buffer *buffer, grpc_op *ops)
{
    size_t n = 0;

    assert(call->route->method->streams_out && ps_call_can_send(call));
    if (!call->headers_sent) {
        call->headers_sent = true;
        ops[n++].op = GRPC_OP_SEND_INITIAL_METADATA;
    }
    ops[n].op = GRPC_OP_SEND_MESSAGE;
    ops[n++].data.send_message.send_message = buffer;
    call->sending = true;
    call->traffic->messages_out++;
    call->traffic->bytes_out += ps_wire_bytes(buffer);
    ps_call_count_unread(call, buffer);
    return n;
}

void ps_call_send(ps_call *call, const ProtobufCMessage *head, const ps_piece *pieces,
                  size_t piece_count, void (*on_sent)(void *arg, ps_call *call), void *arg)
{
    grpc_byte_buffer *buffer = ps_wire_pack(head, pieces, piece_count);
    grpc_op ops[2] = {0};

    assert(head->descriptor == call->route->type->output);
    call->on_sent = on_sent;
    call->sent_arg = arg;
    ps_call_batch(call, ops, send_ops(call, buffer, ops), &call->sent);
    grpc_byte_buffer_destroy(buffer);
}

void ps_call_send_and_read(ps_call *call, const ProtobufCMessage *head, const ps_piece *pieces,
                           size_t piece_count, ps_call_message_fn *on_message, void *arg)
{
    grpc_byte_buffer *buffer = ps_wire_pack(head, pieces, piece_count);
    grpc_op ops[3] = {0};
    size_t n = send_ops(call, buffer, ops);

    assert(head->descriptor == call->route->type->output);
    assert(call->route->method->streams_in && !call->reading);
    call->on_message = on_message;
    call->message_arg = arg;
    call->reading = call->is_one_batch = true;
    ops[n].op = GRPC_OP_RECV_MESSAGE;
    ops[n++].data.recv_message.recv_message = &call->incoming;
    ps_call_batch(call, ops, n, &call->received);
    grpc_byte_buffer_destroy(buffer);
}

bool ps_call_can_send(const ps_call *call)
{
    return !call->sending && !call->answered;
}

void ps_call_on_sent(ps_event *self, bool ok)
{
    ps_call *call = PS_CONTAINER_OF(self, ps_call, sent);

    call->sending = false;
    ps_call_count_read(call);
    if (call->end_waits) {
        call->end_waits = false;
        ps_call_end_now(call, NULL, call->end_error);
    } else if (ok && !call->answered && call->on_sent != NULL) {
        call->on_sent(call->sent_arg, call);
    }
    ps_call_unpend(call);
}
