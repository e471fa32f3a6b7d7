/* SPDX-License-Identifier: Apache-2.0 */
/* echo_world.c - see echo_world.h. */
#include "tests/support/echo_world.h"

#include "common/base/container_of.h"
#include "common/rpc/serve.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef Psgd__Test__Ping ping_t;
typedef Psgd__Test__Block block_t;

ps_buf *echo_buf(size_t n)
{
    ps_buf *buf = ps_buf_create(n);

    for (size_t i = 0; i < n; i++) {
        buf->data[i] = echo_byte(i);
    }
    buf->len = n;
    return buf;
}

bool echo_bytes_match(const uint8_t *bytes, size_t at, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (bytes[i] != echo_byte(at + i)) {
            return false;
        }
    }
    return true;
}

/* --- the service -------------------------------------------------------------- */

static void count_gone(void *arg, ps_call *call)
{
    echo_world *w = arg;

    w->gone++;
    if (w->kept == call) {
        w->kept = NULL;
    }
}

static void keep(echo_world *w, ps_call *call)
{
    w->kept = call;
    ps_call_on_gone(call, count_gone, w);
    if (w->on_kept != NULL) {
        w->on_kept(w);
    }
}

static void fail_with_violations(const ping_t *ping, ps_call *call)
{
    ps_error *e = malloc(sizeof *e);

    ps_error_init(e, ps_fail(PS_INVALID_ARGUMENT, "%u fields", (unsigned)ping->number), "BAD_SPEC");
    ps_error_meta(e, "job", "%s", "j-1");
    ps_error_meta(e, "cut", "%s", "caf\xc3"); /* ends in the middle of a UTF-8 character */
    for (unsigned i = 0; i < ping->number; i++) {
        char field[32];

        snprintf(field, sizeof field, "spec.layers[%u].size", i);
        ps_error_violate(e, field, "%u is not between 1 and 16384", 100000 + i);
    }
    ps_call_fail_error(call, e);
    free(e);
}

static void handle_unary(void *state, const ProtobufCMessage *message, ps_payload *payload,
                         ps_call *call)
{
    const ping_t *ping = (const ping_t *)message;
    Psgd__Test__Pong pong = PSGD__TEST__PONG__INIT;

    (void)payload;
    if (strcmp(ping->text, "fail") == 0) {
        ps_call_fail(call, ps_fail(PS_NOT_FOUND, "as requested"));
    } else if (strcmp(ping->text, "violate") == 0) {
        fail_with_violations(ping, call);
    } else if (strcmp(ping->text, "keep") == 0) {
        keep(state, call);
    } else {
        pong.text = strcmp(ping->text, "peer") == 0 ? (char *)ps_call_peer(call) : ping->text;
        pong.number = ping->number;
        ps_call_reply(call, &pong.base);
    }
}

static void count_block(echo_world *w, ps_payload *payload)
{
    /* does not divide the length of a payload's slices, so some reads cross from one slice to the
     * next */
    enum { STEP = 1000 };
    uint8_t scratch[STEP];
    size_t len = ps_payload_len(payload);

    w->messages++;
    w->bytes += len;
    for (size_t at = 0; at < len; at += STEP) {
        size_t n = len - at < STEP ? len - at : STEP;

        if (!echo_bytes_match(ps_payload_view(payload, at, n, scratch), at, n)) {
            w->bad_payloads++;
            return;
        }
    }
}

static void uploaded(void *arg, const ProtobufCMessage *message, ps_payload *payload, ps_call *call)
{
    echo_world *w = arg;
    const block_t *block = (const block_t *)message;
    Psgd__Test__Pong pong = PSGD__TEST__PONG__INIT;

    if (message == NULL) {
        w->half_closes++;
        pong.number = w->messages;
        pong.bytes = w->bytes;
        ps_call_reply(call, &pong.base);
        return;
    }
    count_block(w, payload);
    if (strcmp(block->text, "stop reading") == 0) {
        keep(w, call);
    } else if (strcmp(block->text, "fail") == 0) {
        ps_call_fail(call, ps_fail(PS_ABORTED, "block %u", (unsigned)block->number));
    } else {
        ps_call_on_gone(call, count_gone, w);
        ps_call_read(call, uploaded, w);
    }
}

static void handle_upload(void *state, const ProtobufCMessage *message, ps_payload *payload,
                          ps_call *call)
{
    uploaded(state, message, payload, call);
}

typedef struct download {
    echo_world *w;
    ps_buf *buf;
    uint64_t left;
} download;

static void download_free(download *d)
{
    ps_buf_unref(d->buf);
    free(d);
}

static void download_gone(void *arg, ps_call *call)
{
    download *d = arg;

    count_gone(d->w, call);
    download_free(d);
}

static void send_next(void *arg, ps_call *call)
{
    download *d = arg;
    block_t b = PSGD__TEST__BLOCK__INIT;
    ps_piece piece = {d->buf->data, d->buf->len, d->buf};

    if (d->left == 0) {
        download_free(d);
        ps_call_finish(call);
        return;
    }
    d->left--;
    d->w->sent++;
    b.number = d->w->sent;
    ps_call_send(call, &b.base, &piece, 1, send_next, d);
}

static void handle_download(void *state, const ProtobufCMessage *message, ps_payload *payload,
                            ps_call *call)
{
    const ping_t *ping = (const ping_t *)message;
    download *d = malloc(sizeof *d);

    (void)payload;
    *d = (download){state, echo_buf(ping->size), ping->number};
    ps_call_on_gone(call, download_gone, d);
    send_next(d, call);
}

static void chatted(void *arg, const ProtobufCMessage *message, ps_payload *payload, ps_call *call);

static void chat_next(void *arg, ps_call *call)
{
    ps_call_read(call, chatted, arg);
}

static void chatted(void *arg, const ProtobufCMessage *message, ps_payload *payload, ps_call *call)
{
    echo_world *w = arg;
    size_t len = ps_payload_len(payload);
    ps_piece piece = {.len = len};
    uint8_t *copy;

    if (message == NULL) {
        w->half_closes++;
        ps_call_finish(call);
        return;
    }
    count_block(w, payload);
    copy = malloc(len + 1);
    piece.data = ps_payload_view(payload, 0, len, copy);
    ps_call_send(call, message, &piece, 1, chat_next, w);
    free(copy);
    if (strcmp(((const block_t *)message)->text, "finish") == 0) {
        ps_call_finish(call); /* ends the call while the echo is still being sent */
    }
}

static void handle_chat(void *state, const ProtobufCMessage *message, ps_payload *payload,
                        ps_call *call)
{
    ps_call_on_gone(call, count_gone, state);
    chatted(state, message, payload, call);
}

static const ps_method echo_methods[] = {
    {.name = "Unary", .handle = handle_unary, .may = PS_MAY_ALL},
    {.name = "Upload", .handle = handle_upload, .may = PS_MAY_ALL, .streams_in = true},
    {.name = "Download", .handle = handle_download, .may = PS_MAY_ALL, .streams_out = true},
    {.name = "Chat",
     .handle = handle_chat,
     .may = PS_MAY_ALL,
     .streams_in = true,
     .streams_out = true},
};

ps_service echo_service(echo_world *w)
{
    return (ps_service){.type = &psgd__test__echo_service__descriptor,
                        .methods = echo_methods,
                        .method_count = sizeof echo_methods / sizeof echo_methods[0],
                        .state = w};
}

/* --- the world ---------------------------------------------------------------- */

static void must(ps_status st)
{
    if (!ps_is_ok(&st)) {
        fprintf(stderr, "echo_world: %s\n", st.text);
        abort();
    }
}

static void on_down(ps_event *self, bool ok)
{
    echo_world *w = PS_CONTAINER_OF(self, echo_world, down);

    (void)ok;
    ps_loop_stop(w->loop);
}

void echo_world_begin(echo_world *w)
{
    ps_service service = echo_service(w);
    char target[32];

    memset(w, 0, sizeof *w);
    w->down.fire = on_down;
    must(ps_loop_create(&w->loop));
    must(ps_serve(w->loop, &service, 1, "127.0.0.1:0", &w->server));
    snprintf(target, sizeof target, "127.0.0.1:%d", ps_server_port(w->server));
    w->channel = ps_channel_create(w->loop, target);
}

void echo_world_one_over(echo_world *w)
{
    if (--w->to_come == 0) {
        w->client_traffic = ps_channel_traffic(w->channel);
        ps_channel_destroy(w->channel);
        ps_server_stop(w->server, 0, &w->down);
    }
}

void echo_world_end(echo_world *w)
{
    ps_loop_run(w->loop);
    ps_loop_destroy(w->loop);
}

/* --- calls -------------------------------------------------------------------- */

static void on_reply(void *arg, const ps_error *error, const ProtobufCMessage *message)
{
    echo_reply *out = arg;
    const Psgd__Test__Pong *pong = (const Psgd__Test__Pong *)message;

    out->times++;
    out->error = *error;
    if (pong != NULL) {
        out->number = pong->number;
        out->bytes = pong->bytes;
        snprintf(out->text, sizeof out->text, "%s", pong->text);
    }
    echo_world_one_over(out->w);
}

ps_unary *echo_call(echo_world *w, const char *text, uint64_t number, int64_t timeout_us,
                    echo_reply *out)
{
    ping_t ping = PSGD__TEST__PING__INIT;

    memset(out, 0, sizeof *out);
    out->w = w;
    w->to_come++;
    ping.text = (char *)text;
    ping.number = number;
    return ps_unary_start(w->channel, &psgd__test__echo_service__descriptor, "Unary", &ping.base,
                          timeout_us, on_reply, out);
}

static void on_odd_reply(void *arg, const ps_error *error, const ProtobufCMessage *message)
{
    echo_reply *out = arg;

    (void)message;
    out->times++;
    out->error = *error;
    echo_world_one_over(out->w);
}

void odd_call(echo_world *w, const char *method, const Psgd__Test__Odd *odd, echo_reply *out)
{
    ProtobufCServiceDescriptor disguised = psgd__test__odd_service__descriptor;

    disguised.name = psgd__test__echo_service__descriptor.name;
    memset(out, 0, sizeof *out);
    out->w = w;
    w->to_come++;
    ps_unary_start(w->channel, &disguised, method, &odd->base, TIMEOUT_US, on_odd_reply, out);
}
