/* SPDX-License-Identifier: Apache-2.0 */
/* mesh_exchange_impl.h - what mesh_exchange.c, peer_inbox.c and peer_outbox.c share; for them only.
 */
#ifndef PS_SERVICES_WORKER_MESH_EXCHANGE_IMPL_H
#define PS_SERVICES_WORKER_MESH_EXCHANGE_IMPL_H

#include "common/wire/redial.h"
#include "services/worker/mesh_exchange.h"

#include "common/train/mesh_worker.h"

#include "psgd/v1/peer.pb-c.h"

/* The stream to one worker. Its queue is [first, sent), not acknowledged yet, and
 * [sent, end), not sent on this stream. */
typedef struct peer_outbox {
    ps_mesh_exchange *x;
    uint32_t to;
    ps_channel *channel; /* NULL: nothing was ever to be said */
    ps_stream *stream;   /* NULL while broken or over */
    bool is_greeted;     /* the identity has been sent on it */
    bool is_closed;      /* by this side: all has been acknowledged */
    ps_redial redial;
    ps_packet **queue; /* (cap) */
    size_t first, sent, end, cap;
    size_t bytes;       /* of what is queued */
    uint64_t acked;     /* packets of this stream */
    ps_traffic counted; /* of the channel */
} peer_outbox;

/* One message of a worker, as far as the machine has not taken it. */
typedef struct peer_inbox {
    ps_packet *packets[PEER_BATCH];
    size_t at, count;   /* [at, count) are there */
    size_t early_bytes; /* taken of the step that has not begun */
} peer_inbox;

struct ps_mesh_exchange {
    ps_exchange base;
    ps_mesh_exchange_conf conf;
    const ps_plan *plan;
    uint32_t peers; /* workers, this one too */
    ps_mesh_worker me;
    ps_event kick;      /* more of the step's contributions is there */
    atomic_bool kicked; /* it is posted */

    /* the loop's */
    bool has_failed;
    ps_timer due;
    peer_outbox *outboxes; /* (peers) */
    peer_inbox *inboxes;   /* (peers) */
    bool stopping, is_cut, is_over;
    ps_timer patience; /* of what is still to be sent */
    ps_event over;
    ps_event *done;
    ps_traffic served; /* of the streams of others */

    /* scratch for one message */
    Psgd__V1__PeerPacket heads[PEER_BATCH], *head_ptrs[PEER_BATCH];
    ps_piece pieces[PEER_BATCH];
};

/* mesh_exchange.c: the machine may have something to say, or be done. */
void exchange_settle(ps_mesh_exchange *x);
void exchange_fail(ps_mesh_exchange *x, const ps_status *why);
void exchange_end_if_over(ps_mesh_exchange *x); /* an outbox may have ended for good */
void exchange_publish(ps_mesh_exchange *x);     /* what was counted */

/* peer_inbox.c: gives the machine what it may take of all messages. Has anything been taken? */
bool peer_take_inboxes(ps_mesh_exchange *x);
void peer_forget_inboxes(ps_mesh_exchange *x);

/* peer_outbox.c */
void peer_outbox_init(peer_outbox *outbox, ps_mesh_exchange *x, uint32_t to);
void peer_outbox_fini(peer_outbox *outbox);
void peer_outbox_say(peer_outbox *outbox, ps_packet *packet); /* keeps a reference */
/* Of a worker that is so far behind that the outbox is full, packets of steps before `clock`
 * that have not been sent are not any more. */
void peer_outbox_thin(peer_outbox *outbox, uint64_t clock);
void peer_outbox_pump(peer_outbox *outbox); /* sends what may be sent */
void peer_outbox_cut(peer_outbox *outbox);
bool peer_outbox_is_over(const peer_outbox *outbox);

#endif
