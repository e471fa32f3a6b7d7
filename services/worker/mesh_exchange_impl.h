/* SPDX-License-Identifier: Apache-2.0 */
/* mesh_exchange_impl.h - state and functions that mesh_exchange.c, mesh_turn.c, peer_inbox.c and
 * peer_outbox.c share; for them only.
 */
#ifndef PS_SERVICES_WORKER_MESH_EXCHANGE_IMPL_H
#define PS_SERVICES_WORKER_MESH_EXCHANGE_IMPL_H

#include "common/rpc/tasks.h"
#include "common/wire/rank_reports.h"
#include "common/wire/redial.h"
#include "services/worker/mesh_exchange.h"

#include "common/train/mesh_worker.h"

#include "psgd/v1/peer.pb-c.h"

/* The packets for one peer, and the stream that sends them. In `queue`, [first, sent) were sent on
 * this stream and are not acknowledged; [sent, end) were not sent on it. */
typedef struct peer_outbox {
    ps_mesh_exchange *x;
    uint32_t to;
    ps_channel *channel; /* NULL before the first packet */
    ps_stream *stream;   /* NULL: not open */
    bool is_greeted;     /* the identity was sent on this stream */
    bool is_closed;      /* this side has closed the stream, because everything was acknowledged */
    ps_redial redial;
    ps_packet **queue; /* (cap) */
    size_t first, sent, end, cap;
    size_t bytes;   /* bytes of the packets in the queue */
    uint64_t acked; /* number of packets that were acknowledged on this stream */
    /* traffic of the channel that was added to the exchange's counters so far */
    ps_traffic counted;
} peer_outbox;

/* One message of a peer, and how much of it the machine has taken. */
typedef struct peer_inbox {
    ps_packet *packets[PEER_BATCH];
    size_t at, count; /* packets [at, count) were not given to the machine yet */
    /* memory of the packets of x->me.next that were taken before that step began here, in bytes */
    size_t early_bytes;
} peer_inbox;

/* One turn of the machine (mesh.h): the packets and variables that it is given, and the results. If
 * codecs of the job may call a sandbox, which blocks, turns run as tasks on another thread, from
 * the first step until all is over. The loop does not touch the machine while a task runs. */
typedef struct mesh_turn {
    ps_task task;
    bool is_under_way;   /* the task runs, or waits to run */
    bool advances;       /* the trainer has given variables since the turn before */
    bool is_due;         /* the machine's deadline has come since the turn before */
    ps_packet **packets; /* (count) of (PEER_BATCH per peer), by peer, in the order of arrival */
    size_t count;
    ps_status *refused; /* (peers): why the machine did not take a packet of the peer */
    ps_status failed;   /* why the exchange has failed in this turn; else OK */
    /* in this turn the machine began a repair (mesh.h): it sends all packets of the step again */
    bool begins_repair;
    /* if is_due: names of the workers for whom the machine waited then */
    char waits_for[160];
} mesh_turn;

struct ps_mesh_exchange {
    ps_exchange base;
    ps_mesh_exchange_conf conf;
    const ps_plan *plan;
    uint32_t peers; /* number of workers of the job, with this one */
    ps_mesh_worker me;
    ps_event kick;      /* posted when the trainer has given variables */
    atomic_bool kicked; /* `kick` is posted */
    ps_event drain;     /* posted when the trainer has made its last contribution */

    ps_tasks *tasks; /* a thread for turns; NULL: no codec calls a sandbox */

    /* used by the loop's thread only */
    bool has_given; /* the trainer has given variables since the last turn */
    bool has_begun; /* the trainer has given a variable, in whatever step */
    bool is_due;    /* the machine's deadline has come since the last turn */
    mesh_turn turn;
    bool has_failed;
    bool is_halted; /* no further step is finished */
    /* reports of all ranks, if the plan can go on from the state of one rank; else empty */
    ps_rank_reports reports;
    ps_timer due;
    peer_outbox *outboxes; /* (peers) */
    peer_inbox *inboxes;   /* (peers) */
    bool stopping;         /* no step begins any more; outboxes send what they have */
    bool is_cut, is_over;
    ps_timer patience; /* bounds the wait for outboxes */
    ps_event over;     /* posted when the outboxes have ended and the exchange was stopped */
    ps_event *done;    /* NULL: ps_mesh_exchange_stop was not called */
    ps_traffic served; /* traffic of the streams from peers to this worker */

    /* scratch for one message */
    Psgd__V1__PeerPacket heads[PEER_BATCH], *head_ptrs[PEER_BATCH];
    ps_piece pieces[PEER_BATCH];
};

/* mesh_exchange.c */

/* Fails the exchange: the trainer's waits return false. */
void exchange_fail(ps_mesh_exchange *x, const ps_status *why);

/* If all outboxes have ended: wakes a trainer that waits in `drain`, and posts `over`. */
void exchange_end_if_over(ps_mesh_exchange *x);

/* Copies the traffic counters to where the trainer reads them, until the exchange is over. */
void exchange_publish(ps_mesh_exchange *x);

/* mesh_turn.c */
void exchange_init_turn(ps_mesh_exchange *x);
void exchange_fini_turn(ps_mesh_exchange *x);

/* Gives the machine turns until nothing changes: moves packets between machine, inboxes and
 * outboxes, and ends the step if its sum is complete. While a turn is under way it only lets the
 * outboxes send. */
void exchange_settle(ps_mesh_exchange *x);

/* Writes the node ids of the workers in `which` (peers), as in "worker-1, worker-3". */
void exchange_name_workers(const ps_mesh_exchange *x, const bool *which, char *text, size_t cap);

/* Writes the node ids of the workers for whom the machine waits. The caller has the machine: no
 * task uses it meanwhile. */
void exchange_name_missing(const ps_mesh_exchange *x, char *text, size_t cap);

/* peer_inbox.c */

/* Moves the packets of all inboxes that the machine can use now to x->turn. */
void peer_lend_inboxes(ps_mesh_exchange *x);

/* After a turn: empties each inbox whose message the machine has taken completely, or has refused,
 * and calls `taken` of ps_mesh_exchange_conf for it. */
void peer_settle_inboxes(ps_mesh_exchange *x);

/* Drops the messages of all inboxes. */
void peer_forget_inboxes(ps_mesh_exchange *x);

/* peer_outbox.c */
void peer_outbox_init(peer_outbox *outbox, ps_mesh_exchange *x, uint32_t to);
void peer_outbox_fini(peer_outbox *outbox);

/* Appends a packet; adds a reference to it. */
void peer_outbox_add(peer_outbox *outbox, ps_packet *packet);

/* If the outbox has more than its share of PEER_LATE_BYTES: drops packets of steps before `clock`
 * that were not sent. */
void peer_outbox_thin(peer_outbox *outbox, uint64_t clock);

/* Opens the stream when there is a first packet. Sends a message if there are packets that were not
 * sent and the stream can send. Closes the stream when the exchange is stopping and nothing is
 * left. */
void peer_outbox_pump(peer_outbox *outbox);

/* Cancels the stream and does not open it again. */
void peer_outbox_cut(peer_outbox *outbox);

/* Returns whether no stream is open, and nothing is left to send or the exchange was cut. */
bool peer_outbox_is_over(const peer_outbox *outbox);

#endif
