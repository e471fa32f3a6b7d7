/* SPDX-License-Identifier: Apache-2.0 */
/* wire_link_direct.c - see wire_link_direct.h. */
#include "common/wire/wire_link_direct.h"

#include "common/base/container_of.h"
#include "common/base/xalloc.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Most bytes of a message's payload. It is small, so that encoded bytes are still in the
 * processor's cache when they are decoded. */
enum { MESSAGE_BYTES = 128 << 10 };

/* Both ends of a stream. Freed when the client's end has ended and no call on it is running. */
typedef struct direct_pair {
    ps_wire_link client, server;
    struct direct_transport *t;
    ps_wire_stream stream;
    bool is_accepted; /* the server has accepted the stream */
    bool is_over;     /* the client's end has ended */
    bool is_refused;  /* the server's end has ended */
    bool may_answer;  /* the server may send, because the client is fetching answers */
    bool is_asking;   /* the server is handling a message */
    bool is_telling;  /* the client is handling a message */
    unsigned holds;   /* calls in progress that use the pair */
} direct_pair;

typedef struct direct_transport {
    ps_transport base;
    ps_direct_conf conf;
    ps_gate *gate;
    direct_pair *pull; /* the open pull stream; NULL: none */
    ps_traffic traffic;
} direct_transport;

static direct_transport *transport_of(const ps_transport *t)
{
    return PS_CONTAINER_OF(t, direct_transport, base);
}

static direct_pair *of_client(const ps_wire_link *link)
{
    return PS_CONTAINER_OF(link, direct_pair, client);
}

static direct_pair *of_server(const ps_wire_link *link)
{
    return PS_CONTAINER_OF(link, direct_pair, server);
}

static void hold(direct_pair *p)
{
    p->holds++;
}

static void let_go(direct_pair *p)
{
    if (--p->holds == 0 && p->is_over) {
        free(p);
    }
}

/* ---- Payloads ---- */

typedef struct pieces_view {
    const ps_piece *pieces;
    size_t count;
    size_t at, begin; /* index of the piece that was found last, and its offset in the payload */
} pieces_view;

static const uint8_t *view(void *arg, size_t at, size_t len, void *scratch)
{
    pieces_view *v = arg;
    uint8_t *to = scratch;
    size_t left = len;

    if (at < v->begin) {
        v->at = v->begin = 0;
    }
    while (v->at < v->count && at >= v->begin + v->pieces[v->at].len) {
        v->begin += v->pieces[v->at++].len;
    }
    if (len == 0) {
        return scratch;
    }
    assert(v->at < v->count);
    if (at + len <= v->begin + v->pieces[v->at].len) {
        return (const uint8_t *)v->pieces[v->at].data + (at - v->begin);
    }
    for (size_t i = v->at, begin = v->begin; left > 0; begin += v->pieces[i++].len) {
        size_t skip = at > begin ? at - begin : 0, some = v->pieces[i].len - skip;

        some = some < left ? some : left;
        memcpy(to, (const uint8_t *)v->pieces[i].data + skip, some);
        to += some;
        left -= some;
    }
    return scratch;
}

static size_t bytes_of(const ps_piece *pieces, size_t count)
{
    size_t bytes = 0;

    for (size_t i = 0; i < count; i++) {
        bytes += pieces[i].len;
    }
    return bytes;
}

/* ---- The server's end ---- */

static bool server_can_send(const ps_wire_link *link)
{
    const direct_pair *p = of_server(link);

    return !p->is_telling && !p->is_over && (p->stream == PS_WIRE_PUSH || p->may_answer);
}

static void server_send(ps_wire_link *link, const ProtobufCMessage *head, const ps_piece *pieces,
                        size_t count)
{
    direct_pair *p = of_server(link);
    pieces_view v = {.pieces = pieces, .count = count};
    ps_incoming in = {.len = bytes_of(pieces, count), .view = view, .arg = &v};

    p->t->traffic.bytes_in += in.len + protobuf_c_message_get_packed_size(head);
    p->t->traffic.messages_in++;
    hold(p);
    p->is_telling = true;
    p->client.events->on_message(p->client.arg, head, &in);
    p->is_telling = false;
    let_go(p);
}

static void read_no_more(ps_wire_link *link)
{
    (void)link; /* nothing to do: send has already delivered the message */
}

static void end_client(direct_pair *p, const ps_error *error)
{
    if (!p->is_over) {
        p->is_over = true;
        if (p->stream == PS_WIRE_PULL) {
            p->t->pull = NULL;
        }
        p->client.events->on_end(p->client.arg, error);
    }
}

static void server_finish(ps_wire_link *link)
{
    (void)link; /* nothing to do: in one process the client ends the stream */
}

static void server_refuse(ps_wire_link *link, const char *reason, ps_status why)
{
    direct_pair *p = of_server(link);
    ps_error error;

    hold(p);
    p->is_refused = true;
    ps_error_init(&error, why, reason);
    end_client(p, &error);
    let_go(p);
}

static const ps_link_ops server_ops = {
    .can_send = server_can_send,
    .send = server_send,
    .read = read_no_more,
    .send_and_read = server_send,
    .finish = server_finish,
    .refuse = server_refuse,
};

/* ---- The worker's end ---- */

static bool client_can_send(const ps_wire_link *link)
{
    const direct_pair *p = of_client(link);

    return !p->is_asking && !p->is_refused;
}

static void client_send(ps_wire_link *link, const ProtobufCMessage *head, const ps_piece *pieces,
                        size_t count)
{
    direct_pair *p = of_client(link);
    pieces_view v = {.pieces = pieces, .count = count};
    ps_incoming in = {.len = bytes_of(pieces, count), .view = view, .arg = &v};

    p->t->traffic.bytes_out += in.len + protobuf_c_message_get_packed_size(head);
    p->t->traffic.messages_out++;
    hold(p);
    p->is_asking = true;
    if (p->is_accepted) {
        p->server.events->on_message(p->server.arg, head, &in);
    } else {
        p->is_accepted = true;
        ps_wire_server_accept(p->t->conf.hub->server, p->stream, &p->server, head, &in);
    }
    p->is_asking = false;
    let_go(p);
}

static void client_finish(ps_wire_link *link)
{
    direct_pair *p = of_client(link);
    ps_error error;

    hold(p);
    ps_error_init(&error, ps_fail(PS_CANCELLED, "the worker hung up"), NULL);
    if (p->is_accepted && !p->is_refused) {
        p->is_refused = true;
        p->server.events->on_end(p->server.arg, &error);
    }
    end_client(p, &error);
    let_go(p);
}

static const ps_link_ops client_ops = {
    .can_send = client_can_send,
    .send = client_send,
    .read = read_no_more,
    .send_and_read = client_send,
    .finish = client_finish,
};

/* ---- The transport ---- */

static ps_wire_link *open_link(ps_transport *transport, uint32_t part, ps_wire_stream stream,
                               const ps_link_events *events, void *arg)
{
    direct_pair *p = ps_xcalloc(1, sizeof *p);

    assert(part == 0);
    p->client = (ps_wire_link){.ops = &client_ops, .events = events, .arg = arg};
    p->server.ops = &server_ops;
    p->t = transport_of(transport);
    p->stream = stream;
    if (stream == PS_WIRE_PULL) {
        p->t->pull = p;
    }
    return &p->client;
}

static ps_traffic traffic(const ps_transport *t, uint32_t part)
{
    (void)part;
    return transport_of(t)->traffic;
}

static void fire(ps_transport *t, ps_event *event)
{
    (void)t; /* everything runs on the trainer's thread */
    event->fire(event, true);
}

static void destroy(ps_transport *t)
{
    free(transport_of(t));
}

static void yield(ps_transport *transport)
{
    const ps_direct_conf *conf = &transport_of(transport)->conf;

    if (conf->yield != NULL) {
        conf->yield(conf->arg);
    }
}

static const ps_transport_ops transport_ops = {
    .open = open_link,
    .traffic = traffic,
    .post = fire,
    .destroy = destroy,
    .yield = yield,
};

ps_transport *ps_direct_transport_create(const ps_direct_conf *conf)
{
    direct_transport *t = ps_xcalloc(1, sizeof *t);

    t->base =
        (ps_transport){.ops = &transport_ops, .message_bytes = MESSAGE_BYTES, .spreads = true};
    t->conf = *conf;
    return &t->base;
}

/* ---- Waits ---- */

static void wake(void *arg)
{
    const ps_direct_conf *conf = &((direct_transport *)arg)->conf;

    if (conf->resume != NULL) {
        conf->resume(conf->arg);
    }
}

static int64_t fetch(void *arg, uint64_t clock, bool is_thorough)
{
    direct_transport *t = arg;
    int64_t again_us = INT64_MAX;

    (void)clock; /* not needed: the client's request told the server the clock */
    wake(t);
    if (t->pull != NULL && t->pull->is_accepted) {
        direct_pair *p = t->pull;

        hold(p);
        p->may_answer = true;
        again_us = ps_wire_server_poll(t->conf.hub->server, t->conf.rank, is_thorough);
        p->may_answer = false;
        let_go(p);
    }
    return again_us;
}

static void rest(void *arg)
{
    const ps_direct_conf *conf = &((direct_transport *)arg)->conf;

    if (conf->rest != NULL) {
        conf->rest(conf->arg);
    }
}

void ps_direct_transport_attend(ps_transport *transport, ps_gate *gate)
{
    direct_transport *t = transport_of(transport);
    ps_gate_hooks hooks = {
        .fetch = fetch, .rest = rest, .wake = wake, .arg = t, .spin_us = t->conf.spin_us};

    t->conf.hub->gates[t->conf.rank] = gate;
    if (gate != NULL) {
        ps_gate_set_hooks(gate, &hooks);
    }
}

/* ---- The hub ---- */

static void nudge_others(void *arg, uint32_t worker)
{
    const ps_direct_hub *hub = arg;

    for (uint32_t w = 0; w < hub->worker_count; w++) {
        if (w != worker && hub->gates[w] != NULL) {
            ps_gate_nudge(hub->gates[w]);
        }
    }
}

void ps_direct_hub_init(ps_direct_hub *hub, ps_wire_server *server, uint32_t worker_count)
{
    *hub = (ps_direct_hub){.server = server, .worker_count = worker_count};
    hub->gates = ps_xcalloc(worker_count, sizeof(ps_gate *));
    ps_wire_server_set_news(server, nudge_others, hub);
}

void ps_direct_hub_fini(ps_direct_hub *hub)
{
    free(hub->gates);
    *hub = (ps_direct_hub){0};
}
