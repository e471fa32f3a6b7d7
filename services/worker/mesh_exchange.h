/* SPDX-License-Identifier: Apache-2.0 */
/* mesh_exchange.h - the exchange of a worker in a mesh: connects a machine of common/mesh to gRPC
 * streams, to the clock of the system and to the weights.
 *
 * Sending. There is an outbox for each peer. Its stream is opened with the first packet. Packets
 * stay in the outbox until the peer acknowledges them. If the stream breaks, it is opened again and
 * they are sent again. Only a repair can leave a peer more than two steps behind; if the outbox for
 * such a peer exceeds its share of PEER_LATE_BYTES, it drops packets of older steps that were not
 * sent.
 *
 * Receiving. There is an inbox for each peer, which holds one message. A message stays in the inbox
 * while the machine cannot use it because the peer is a step ahead; meanwhile the next message is
 * not read. Before a step begins here, packets of that step are taken up to PEER_EARLY_BYTES,
 * divided evenly among the peers.
 *
 * The parts of the exchange that need no network are in common/train/mesh_worker.h: contributions,
 * the optimizer's step on the weights, and the gate. The trainer uses the exchange as a ps_exchange
 * (common/train/exchange.h). All functions here are for the loop's thread. */
#ifndef PS_SERVICES_WORKER_MESH_EXCHANGE_H
#define PS_SERVICES_WORKER_MESH_EXCHANGE_H

#include "common/base/buf.h"
#include "common/mesh/mesh.h"
#include "common/node/node.h"
#include "common/train/exchange.h"

enum {
    PEER_BATCH = 256, /* most packets in a message */
    /* most bytes of packets for a step that has not begun here, from all peers */
    PEER_EARLY_BYTES = 256 << 20,
    /* bytes of all outboxes from which on packets of past steps are dropped */
    PEER_LATE_BYTES = 512 << 20
};

typedef struct ps_mesh_exchange ps_mesh_exchange;

typedef struct ps_mesh_exchange_conf {
    ps_loop *loop;
    const ps_session *session; /* kept; its plan has a mesh */
    uint64_t incarnation;
    /* (param_count): the initial weights; kept: the loop's thread writes later ones here */
    float *weights;
    ps_buf *grad; /* (param_count) floats, the gradient block; a reference is taken */
    /* Called when the machine has taken the message of worker `from`, or has refused it with *st.
     * The next message of that worker may then be given. */
    void (*taken)(void *arg, uint32_t from, const ps_status *st);
    void *arg;
} ps_mesh_exchange_conf;

/* Creates the exchange; messages may be given from now on. Fails as ps_mesh_create does, and with
 * RESOURCE_EXHAUSTED without memory for the blocks held or without a thread for turns. */
PS_MUST_USE ps_status ps_mesh_exchange_create(const ps_mesh_exchange_conf *conf,
                                              ps_mesh_exchange **out);

/* Returns the ps_exchange that the trainer uses. */
ps_exchange *ps_mesh_exchange_base(ps_mesh_exchange *x);

/* Gives the machine the packets of one message, at most PEER_BATCH, from worker `from`. Takes the
 * caller's references to the packets. The message before of that worker must have been taken.
 * `taken` is called when this message is, at once or later. */
void ps_mesh_exchange_give(ps_mesh_exchange *x, uint32_t from, ps_packet *const *packets,
                           size_t count);

/* Drops the message of `from` that was not taken yet, because its stream has ended; `taken` is not
 * called. The peer sends again what was not acknowledged. */
void ps_mesh_exchange_forget(ps_mesh_exchange *x, uint32_t from);

/* Tells the exchange the traffic so far of all streams from peers to this worker, which it adds to
 * its counters. */
void ps_mesh_exchange_served(ps_mesh_exchange *x, const ps_traffic *traffic);

/* Sets peers (rank_count): whether the running step waits for that worker. All false while a task
 * runs a turn of the machine. */
void ps_mesh_exchange_find_missing(const ps_mesh_exchange *x, bool *peers);

/* Writes the node ids of the workers for which the running step waits, such as "worker-1,
 * worker-3"; "" if there are none, or while a task runs a turn of the machine. */
void ps_mesh_exchange_name_missing(const ps_mesh_exchange *x, char *text, size_t cap);

/* Returns the clock of the weights: the number of steps that are finished. */
uint64_t ps_mesh_exchange_clock(const ps_mesh_exchange *x);

/* From now on finishes no further step, so that weights, the optimizer's state and reports stay as
 * they are. */
void ps_mesh_exchange_halt(ps_mesh_exchange *x);

/* Returns what a rank has reported with its contributions to the clocks before that of the weights
 * (rank_reports.h). The exchange owns the bytes. NULL: it is not known. */
const char *ps_mesh_exchange_said(const ps_mesh_exchange *x, uint32_t rank, size_t *len);

/* Ends the exchange; its trainer must have ended. If training has succeeded, first sends what peers
 * still need, for at most timeouts.step_ms. Fires `done` when all outboxes have ended. Messages may
 * be given until then. */
void ps_mesh_exchange_stop(ps_mesh_exchange *x, ps_event *done);

/* Cancels all streams to peers after ps_mesh_exchange_stop, instead of waiting for peers. */
void ps_mesh_exchange_cut(ps_mesh_exchange *x);

/* Frees an exchange that has ended, or that no trainer has used. NULL is allowed. */
void ps_mesh_exchange_destroy(ps_mesh_exchange *x);

#endif
