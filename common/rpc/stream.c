/* SPDX-License-Identifier: Apache-2.0 */
/* stream.c - see client.h.
 *
 * `ended` is pending from the start until the status has arrived. gRPC then gives back whatever
 * else was in flight. So on_end is called when the last of these events has fired and `pending` is
 * 0.
 */
#include "common/base/container_of.h"
#include "common/base/xalloc.h"
#include "common/rpc/client_impl.h"

#include <assert.h>
#include <stdlib.h>

struct ps_stream {
    ps_channel *channel;
    grpc_call *call;
    const ProtobufCMethodDescriptor *type;
    size_t max_bytes;
    const ps_stream_events *events;
    void *arg;
    ps_event opened, received, sent, half_closed, ended;
    unsigned pending; /* number of these events that are in flight */
    ps_outcome outcome;
    bool over; /* `ended` has fired */
    bool reading, sending;
    bool is_one_batch; /* one batch reads and sends, and `received` fires for both */
    bool half_close_wanted, half_close_started;
    grpc_byte_buffer *incoming; /* written by gRPC while reading */
    ps_received in;
    ps_status bad; /* OK, or what is wrong with a message of the server; the stream is then
                    * cancelled */
};

static void start_batch(ps_stream *s, const grpc_op *ops, size_t count, ps_event *event)
{
    grpc_call_error err = grpc_call_start_batch(s->call, ops, count, event, NULL);

    assert(err == GRPC_CALL_OK);
    (void)err;
    s->pending++;
}

static void unpend(ps_stream *s)
{
    ps_error error;

    if (--s->pending != 0) {
        return;
    }
    assert(s->over);
    if (ps_is_ok(&s->bad)) {
        ps_outcome_read(&s->outcome, s->channel, &error);
    } else {
        ps_error_init(&error, s->bad, ps_wire_reason(&s->bad));
        /* not PS_INVALID_ARGUMENT: the server's message is at fault, not the caller's */
        error.status.code = PS_DATA_LOSS;
    }
    s->events->on_end(s->arg, &error);
    ps_received_fini(&s->in);
    ps_outcome_fini(&s->outcome);
    ps_channel_call_over(s->channel, s->call);
    free(s);
}

static void on_opened(ps_event *self, bool ok)
{
    (void)ok; /* if it failed, `ended` has the reason */
    unpend(PS_CONTAINER_OF(self, ps_stream, opened));
}

static void on_ended(ps_event *self, bool ok)
{
    ps_stream *s = PS_CONTAINER_OF(self, ps_stream, ended);

    (void)ok;
    s->over = true;
    unpend(s);
}

static void start_half_close(ps_stream *s)
{
    grpc_op op = {.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT};

    s->half_close_started = true;
    start_batch(s, &op, 1, &s->half_closed);
}

/* Ends the sending of the message in flight: it was sent if `ok`. Half-closes if
 * ps_stream_half_close was called meanwhile. */
static void end_sending(ps_stream *s, bool ok)
{
    s->sending = !ok; /* after a failure `sending` stays, so that no further message is sent */
    if (ok && s->half_close_wanted && !s->half_close_started) {
        start_half_close(s);
    }
}

/* --- in ---------------------------------------------------------------------- */

static void on_received(ps_event *self, bool ok)
{
    ps_stream *s = PS_CONTAINER_OF(self, ps_stream, received);
    grpc_byte_buffer *buffer = s->incoming;

    (void)ok;
    s->incoming = NULL;
    s->reading = false;
    if (s->is_one_batch) {
        s->is_one_batch = false;
        end_sending(s, buffer != NULL);
    }
    if (buffer != NULL && ps_is_ok(&s->bad)) {
        ps_channel_count_in(s->channel, buffer);
        s->bad = ps_received_unpack(&s->in, buffer, s->type->output, s->max_bytes, PS_SPLIT);
        if (ps_is_ok(&s->bad)) {
            s->events->on_message(s->arg, s->in.message, ps_received_payload(&s->in));
            ps_received_drop_payload(&s->in);
        } else {
            ps_stream_cancel(s);
        }
    } else {
        grpc_byte_buffer_destroy(buffer);
    }
    unpend(s);
}

void ps_stream_read(ps_stream *s)
{
    grpc_op op = {.op = GRPC_OP_RECV_MESSAGE};

    assert(!s->reading);
    s->reading = true;
    op.data.recv_message.recv_message = &s->incoming;
    start_batch(s, &op, 1, &s->received);
}

/* --- out --------------------------------------------------------------------- */

static void on_half_closed(ps_event *self, bool ok)
{
    (void)ok;
    unpend(PS_CONTAINER_OF(self, ps_stream, half_closed));
}

static void on_sent(ps_event *self, bool ok)
{
    ps_stream *s = PS_CONTAINER_OF(self, ps_stream, sent);

    end_sending(s, ok);
    if (ok && !s->over && s->events->on_sent != NULL) {
        s->events->on_sent(s->arg);
    }
    unpend(s);
}

static void send(ps_stream *s, const ProtobufCMessage *head, const ps_piece *pieces,
                 size_t piece_count, bool reads)
{
    grpc_byte_buffer *buffer = ps_wire_pack(head, pieces, piece_count);
    grpc_op ops[2] = {{.op = GRPC_OP_SEND_MESSAGE}, {.op = GRPC_OP_RECV_MESSAGE}};

    assert(ps_stream_can_send(s) && head->descriptor == s->type->input);
    s->sending = true;
    ps_channel_count_out(s->channel, buffer);
    ops[0].data.send_message.send_message = buffer;
    if (reads) {
        assert(!s->reading);
        s->reading = s->is_one_batch = true;
        ops[1].data.recv_message.recv_message = &s->incoming;
    }
    start_batch(s, ops, reads ? 2 : 1, reads ? &s->received : &s->sent);
    grpc_byte_buffer_destroy(buffer);
}

void ps_stream_send(ps_stream *s, const ProtobufCMessage *head, const ps_piece *pieces,
                    size_t piece_count)
{
    send(s, head, pieces, piece_count, false);
}

void ps_stream_send_and_read(ps_stream *s, const ProtobufCMessage *head, const ps_piece *pieces,
                             size_t piece_count)
{
    send(s, head, pieces, piece_count, true);
}

bool ps_stream_can_send(const ps_stream *s)
{
    return !s->sending && !s->half_close_wanted;
}

void ps_stream_half_close(ps_stream *s)
{
    assert(!s->half_close_wanted);
    s->half_close_wanted = true;
    if (!s->sending) {
        start_half_close(s);
    }
}

void ps_stream_cancel(ps_stream *s)
{
    grpc_call_cancel(s->call, NULL);
}

/* --- the beginning ------------------------------------------------------------ */

ps_stream *ps_stream_open(ps_channel *channel, const ProtobufCServiceDescriptor *type,
                          const char *method, int64_t timeout_us, size_t max_bytes,
                          const ps_stream_events *events, void *arg)
{
    ps_stream *s = ps_xcalloc(1, sizeof *s);
    grpc_op open = {.op = GRPC_OP_SEND_INITIAL_METADATA, .flags = ps_channel_call_flags(channel)};
    grpc_op ops[2] = {0};

    s->channel = channel;
    s->type = protobuf_c_service_descriptor_get_method_by_name(type, method);
    s->max_bytes = max_bytes;
    s->events = events;
    s->arg = arg;
    s->opened.fire = on_opened;
    s->received.fire = on_received;
    s->sent.fire = on_sent;
    s->half_closed.fire = on_half_closed;
    s->ended.fire = on_ended;
    s->bad = ps_ok();
    ps_received_init(&s->in);
    ps_outcome_init(&s->outcome);
    assert(s->type != NULL);
    s->call = ps_channel_call(channel, type, s->type, timeout_us);
    start_batch(s, &open, 1, &s->opened);
    ps_outcome_ops(&s->outcome, &ops[0], &ops[1]);
    start_batch(s, ops, 2, &s->ended);
    return s;
}
