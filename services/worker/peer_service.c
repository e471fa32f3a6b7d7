/* SPDX-License-Identifier: Apache-2.0 */
/* peer_service.c - see peer_service.h. */
#include "services/worker/peer_service.h"

#include "common/base/xalloc.h"
#include "common/wire/identity.h"

#include "psgd/v1/peer.pb-c.h"

#include <stdlib.h>
#include <string.h>

enum { HEAD_BYTES = 64 << 10, PACKET_BYTES_MAX = 4 * PS_CODEC_VALUES };

/* The stream of one peer to one rank of this process. */
typedef struct peer_in {
    ps_peer_receiver *receiver;
    uint32_t rank;
    uint64_t newest; /* greatest incarnation of the peer so far */
    ps_call *call;   /* NULL: no stream is open */
    uint64_t taken;  /* packets of this stream that the exchange has taken */
    uint64_t told;   /* packets of this stream that were acknowledged to the peer */
    size_t given;    /* packets of the last message, until the exchange has taken it; then 0 */
} peer_in;

/* The streams of all peers to one rank of this process. */
struct ps_peer_receiver {
    ps_peer_receiver *next;    /* next in the service's list; NULL: the last */
    const ps_session *session; /* the session of the rank */
    ps_wire_attempt attempt;   /* the attempt of the session */
    ps_mesh_exchange *exchange;
    peer_in *in; /* (rank_count of the placement): by sender */
    ps_traffic traffic;
};

struct ps_peers {
    ps_peer_receiver *receivers; /* list of open receivers; NULL: none */
};

/* --- messages ----------------------------------------------------------------- */

static ps_status bytes_of(const Psgd__V1__PeerPacket *head, size_t left, size_t i, size_t *len)
{
    *len = head->encoding != NULL ? head->encoding->payload_bytes : head->word_bytes;
    if (*len > PACKET_BYTES_MAX || *len > left) {
        return ps_fail(PS_DATA_LOSS,
                       "packets[%zu]: %zu bytes; %d are allowed, %zu are left in the payload", i,
                       *len, PACKET_BYTES_MAX, left);
    }
    return ps_ok();
}

/* Makes a packet of one head and its `len` bytes at `at` of the payload. Fails with OUT_OF_RANGE if
 * the job has no such clock. */
static ps_status read_packet(const peer_in *p, const Psgd__V1__PeerPacket *head,
                             ps_payload *payload, size_t at, size_t len, ps_packet **out)
{
    uint64_t clocks = p->receiver->session->plan->total_clocks;
    ps_packet *packet;
    const uint8_t *view;

    if (head->clock >= clocks) {
        return ps_fail(PS_OUT_OF_RANGE, "clock: %llu of %llu", (unsigned long long)head->clock,
                       (unsigned long long)clocks);
    }
    packet = ps_packet_create(len);
    packet->clock = head->clock;
    packet->from = p->rank;
    packet->what = head->what;
    packet->piece = head->piece;
    packet->len = len;
    if (head->encoding != NULL) {
        ps_encoding_copy(&packet->head, head->encoding);
    }
    if (len > 0) {
        view = ps_payload_view(payload, at, len, packet->bytes);
        if (view != packet->bytes) {
            memcpy(packet->bytes, view, len);
        }
    }
    *out = packet;
    return ps_ok();
}

/* Makes all packets of a message. If one fails, frees the others. */
static ps_status read_all(const peer_in *p, const Psgd__V1__ExchangeRequest *req,
                          ps_payload *payload, ps_packet *packets[PEER_BATCH])
{
    size_t at = 0, n = 0, bytes = ps_payload_len(payload);
    ps_status st = ps_ok();

    if (req->n_packets == 0 || req->n_packets > PEER_BATCH) {
        return ps_fail(PS_INVALID_ARGUMENT, "packets: %zu; 1 to %d are allowed", req->n_packets,
                       PEER_BATCH);
    }
    while (n < req->n_packets && ps_is_ok(&st)) {
        size_t len;

        st = bytes_of(req->packets[n], bytes - at, n, &len);
        if (ps_is_ok(&st)) {
            st = read_packet(p, req->packets[n], payload, at, len, &packets[n]);
        }
        if (ps_is_ok(&st)) {
            n++;
            at += len;
        }
    }
    if (ps_is_ok(&st) && at != bytes) {
        st = ps_fail(PS_DATA_LOSS, "payload: %zu bytes that belong to no packet", bytes - at);
    }
    while (!ps_is_ok(&st) && n > 0) {
        ps_packet_unref(packets[--n]);
    }
    return st;
}

static void refuse(peer_in *p, ps_status why)
{
    ps_call *call = p->call;

    p->call = NULL;
    ps_identity_refuse(call, why.code == PS_OUT_OF_RANGE ? "WRONG_CLOCK" : "BAD_PACKET", why);
}

static void on_message(void *arg, const ProtobufCMessage *message, ps_payload *payload,
                       ps_call *call)
{
    const Psgd__V1__ExchangeRequest *req = (const Psgd__V1__ExchangeRequest *)message;
    ps_packet *packets[PEER_BATCH];
    peer_in *p = arg;
    ps_peer_receiver *receiver = p->receiver;
    ps_refusal refusal;
    ps_status st;

    if (req == NULL) { /* the peer has ended its side of the stream */
        p->call = NULL;
        ps_call_finish(call);
        return;
    }
    ps_mesh_exchange_served(receiver->exchange, &receiver->traffic);
    refusal = ps_identity_check_attempt(&receiver->attempt, req->attempt);
    if (!ps_identity_allows(call, &refusal)) {
        p->call = NULL;
        return;
    }
    st = read_all(p, req, payload, packets);
    if (!ps_is_ok(&st)) {
        refuse(p, st);
        return;
    }
    p->given = req->n_packets;
    ps_mesh_exchange_give(receiver->exchange, p->rank, packets, req->n_packets);
}

/* --- acknowledgements ---------------------------------------------------------- */

/* Acknowledges the packets that were taken since the last acknowledgement, if there are any and the
 * call can send. */
static void tell(void *arg, ps_call *call)
{
    Psgd__V1__ExchangeResponse ack = PSGD__V1__EXCHANGE_RESPONSE__INIT;
    peer_in *p = arg;

    if (p->call != call || p->told == p->taken || !ps_call_can_send(call)) {
        return;
    }
    p->told = p->taken;
    ack.taken = p->taken;
    ps_call_send(call, &ack.base, NULL, 0, tell, p);
    ps_mesh_exchange_served(p->receiver->exchange, &p->receiver->traffic);
}

void ps_peers_taken(void *arg, uint32_t from, const ps_status *st)
{
    ps_peer_receiver *receiver = arg;
    peer_in *p = &receiver->in[from];
    size_t given = p->given;

    p->given = 0;
    if (p->call == NULL) {
        return;
    }
    if (!ps_is_ok(st)) {
        refuse(p, *st);
        return;
    }
    p->taken += given;
    tell(p, p->call);
    ps_call_read(p->call, on_message, p);
}

/* --- life ---------------------------------------------------------------------- */

static void on_gone(void *arg, ps_call *call)
{
    peer_in *p = arg;

    if (p->call == call) {
        p->call = NULL;
    }
}

/* Returns the receiver of a rank; NULL: this process does not carry it. */
static ps_peer_receiver *find_receiver(const ps_peers *peers, uint32_t rank)
{
    ps_peer_receiver *receiver = peers->receivers;

    while (receiver != NULL && receiver->session->rank != rank) {
        receiver = receiver->next;
    }
    return receiver;
}

static void handle_exchange(void *service, const ProtobufCMessage *request, ps_payload *payload,
                            ps_call *call)
{
    const Psgd__V1__ExchangeRequest *req = (const Psgd__V1__ExchangeRequest *)request;
    ps_peers *peers = service;
    ps_peer_receiver *receiver = find_receiver(peers, req->to);
    ps_refusal refusal = ps_identity_check(
        peers->receivers != NULL ? &peers->receivers->attempt : NULL, req->worker, req->attempt);
    const ps_principal *caller = ps_call_caller(call);
    peer_in *p;

    if (refusal.reason == NULL) {
        refusal = ps_identity_check_node(&peers->receivers->session->placement, req->worker->rank,
                                         caller->kind == PS_PRINCIPAL_NODE ? caller->name : NULL);
    }
    if (!ps_identity_allows(call, &refusal)) {
        return;
    }
    if (receiver == NULL) {
        ps_identity_refuse(
            call, "WRONG_RANK",
            ps_fail(PS_INVALID_ARGUMENT, "to: rank %u is not of this process", req->to));
        return;
    }
    if (req->worker->rank == req->to) {
        ps_identity_refuse(
            call, "WRONG_RANK",
            ps_fail(PS_INVALID_ARGUMENT, "worker.rank: %u speaks to itself", req->worker->rank));
        return;
    }
    p = &receiver->in[req->worker->rank];
    refusal = ps_identity_check_newest(req->worker, &p->newest);
    if (!ps_identity_allows(call, &refusal)) {
        return;
    }
    ps_identity_replace(&p->call);
    ps_mesh_exchange_forget(receiver->exchange, p->rank);
    p->call = call;
    ps_call_count(call, &receiver->traffic);
    p->taken = p->told = p->given = 0;
    ps_call_on_gone(call, on_gone, p);
    on_message(p, request, payload, call);
}

static const ps_method methods[] = {
    {.name = "Exchange",
     .handle = handle_exchange,
     .may = PS_MAY_NODE,
     .streams_in = true,
     .streams_out = true,
     .max_bytes = HEAD_BYTES},
};

ps_peers *ps_peers_create(void)
{
    return ps_xcalloc(1, sizeof(ps_peers));
}

void ps_peers_destroy(ps_peers *peers)
{
    free(peers);
}

ps_service ps_peers_service(ps_peers *peers)
{
    return (ps_service){
        .type = &psgd__v1__peer_service__descriptor,
        .methods = methods,
        .method_count = sizeof methods / sizeof methods[0],
        .state = peers,
    };
}

ps_peer_receiver *ps_peer_receiver_create(const ps_session *session)
{
    ps_peer_receiver *receiver = ps_xcalloc(1, sizeof *receiver);

    receiver->session = session;
    receiver->attempt = ps_session_attempt(session);
    receiver->in = ps_xcalloc(session->placement.rank_count, sizeof *receiver->in);
    for (uint32_t i = 0; i < session->placement.rank_count; i++) {
        receiver->in[i].receiver = receiver;
        receiver->in[i].rank = i;
    }
    return receiver;
}

void ps_peers_open(ps_peers *peers, ps_peer_receiver *receiver, ps_mesh_exchange *exchange)
{
    receiver->exchange = exchange;
    receiver->next = peers->receivers;
    peers->receivers = receiver;
}

void ps_peers_remove(ps_peers *peers, ps_peer_receiver *receiver, const char *why)
{
    ps_peer_receiver **at;

    if (receiver == NULL) {
        return;
    }
    at = &peers->receivers;
    while (*at != NULL && *at != receiver) {
        at = &(*at)->next;
    }
    if (*at != NULL) {
        *at = receiver->next;
    }
    for (uint32_t i = 0; i < receiver->session->placement.rank_count; i++) {
        ps_call *call = receiver->in[i].call;

        receiver->in[i].call = NULL;
        if (call != NULL) {
            ps_identity_refuse(call, "ATTEMPT_OVER", ps_fail(PS_ABORTED, "%s", why));
        }
    }
    free(receiver->in);
    free(receiver);
}
