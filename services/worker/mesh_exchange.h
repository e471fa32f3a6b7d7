/* SPDX-License-Identifier: Apache-2.0 */
/* mesh_exchange.h - the exchange among workers, without a server: what each says to
 * whom is a machine of common/mesh, here it gets streams, time and weights.
 *
 * One stream (an outbox) to each worker that this one has something to say to, opened at
 * the first packet; packets stay in the outbox until they are acknowledged, so a stream
 * that breaks is opened again and they are sent again. What comes in is put into an
 * inbox, one message for each worker: while the machine cannot use it, because the
 * sender is a step ahead, the message stays there, and the next one is not read. Before
 * a step has begun here, packets of it are taken up to PEER_EARLY_BYTES in all. A outbox
 * keeps what was said in the last steps; for a worker that is further behind, which only a
 * rescue can leave there, its share of PEER_LATE_BYTES.
 *
 * Contributions, the step of the weights by the sum and the gate are common/train/
 * mesh_worker.h's. Everything is for the loop's thread; the trainer's side
 * is common/train/exchange.h.
 */
#ifndef PS_SERVICES_WORKER_MESH_EXCHANGE_H
#define PS_SERVICES_WORKER_MESH_EXCHANGE_H

#include "common/base/buf.h"
#include "common/mesh/mesh.h"
#include "common/node/node.h"
#include "common/train/exchange.h"

enum {
    PEER_BATCH = 256,             /* most packets in a message */
    PEER_EARLY_BYTES = 256 << 20, /* of packets of a step that has not begun, from all workers */
    PEER_LATE_BYTES = 512 << 20   /* of packets of steps past, for all workers */
};

typedef struct ps_mesh_exchange ps_mesh_exchange;

typedef struct ps_mesh_exchange_conf {
    ps_loop *loop;
    const ps_session *session; /* kept; its plan has a mesh */
    uint64_t incarnation;
    float *weights; /* (param_count), of clock 0; kept: written by the loop's thread */
    ps_buf *grad;   /* param_count floats; a reference is taken */
    /* The message of a worker has been taken, or has been found wrong; the next may come. */
    void (*taken)(void *arg, uint32_t from, const ps_status *st);
    void *arg;
} ps_mesh_exchange_conf;

/* Takes messages from now on. RESOURCE_EXHAUSTED: no memory for so many blocks. */
PS_MUST_USE ps_status ps_mesh_exchange_create(const ps_mesh_exchange_conf *conf,
                                              ps_mesh_exchange **out);
ps_exchange *ps_mesh_exchange_base(ps_mesh_exchange *x); /* for the trainer */

/* The packets of one message from a worker, at most PEER_BATCH; the references are taken. Not
 * before the one before has been taken. `taken` follows, at once or later, unless it is
 * forgotten: its stream is no more, and all that is not acknowledged will be sent again. */
void ps_mesh_exchange_give(ps_mesh_exchange *x, uint32_t from, ps_packet *const *packets,
                           size_t count);
void ps_mesh_exchange_forget(ps_mesh_exchange *x, uint32_t from);

/* What the streams of others have carried so far. */
void ps_mesh_exchange_served(ps_mesh_exchange *x, const ps_traffic *traffic);

/* The workers that the step in hand waits for, as "worker-1, worker-3"; "" if it does not. */
void ps_mesh_exchange_name_missing(const ps_mesh_exchange *x, char *text, size_t cap);

/* The trainer is gone. What others still need is sent, for at most the time of a step, if all
 * went well; then the outboxes end and `done` fires. Messages are taken all the same. */
void ps_mesh_exchange_stop(ps_mesh_exchange *x, ps_event *done);
void ps_mesh_exchange_cut(ps_mesh_exchange *x); /* after stop: does not wait for that */

/* Stopped, or never used by a trainer. NULL is allowed. */
void ps_mesh_exchange_destroy(ps_mesh_exchange *x);

#endif
