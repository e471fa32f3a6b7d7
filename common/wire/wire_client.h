/* SPDX-License-Identifier: Apache-2.0 */
/* wire_client.h - a worker's side of push and pull: the exchange through parameter servers.
 *
 * It has one connection (a push and a pull stream) to each thread of a parameter server that holds
 * something of the job. The trainer says which gradients are final; the connections send them while
 * backpropagation still runs, and decode weights directly into the parameter block. A contribution
 * stays in the gradient block until every server has acknowledged it. So after a broken stream was
 * opened again, the contribution is sent again; servers count it once.
 *
 * The functions below are for the client's thread: that of the loop with gRPC, the trainer's own in
 * one process. The trainer's side is common/train/exchange.h.
 */
#ifndef PS_COMMON_WIRE_WIRE_CLIENT_H
#define PS_COMMON_WIRE_WIRE_CLIENT_H

#include "common/base/buf.h"
#include "common/job/plan.h"
#include "common/placement/placement.h"
#include "common/trace/trace.h"
#include "common/train/exchange.h"
#include "common/wire/identity.h"
#include "common/wire/kept_pushes.h"
#include "common/wire/wire_link.h"

/* All pointers are kept. */
typedef struct ps_wire_client_conf {
    const ps_plan *plan;
    const ps_placement *placement;
    ps_wire_attempt attempt;
    uint32_t rank;
    uint64_t incarnation;    /* of this process */
    ps_transport *transport; /* taken */
    int64_t patience_us;     /* longest single wait of the trainer */
    float *weights;          /* (param_count), of clock 0; written by the client's thread */
    ps_buf *grad;            /* param_count floats; a reference is taken */
    size_t kept_bytes;       /* of contributions that are kept (kept_pushes.h); 0: none are */
} ps_wire_client_conf;

/* Creates the exchange; opens no stream yet. */
ps_exchange *ps_wire_client_create(const ps_wire_client_conf *conf);
/* Sets the ring of the client's thread, into which it records what it encodes, sends and takes;
 * NULL: none, as in one process, where the thread is the trainer's. Call it before
 * ps_wire_client_start. */
void ps_wire_client_set_trace(ps_exchange *exchange, ps_trace_ring *trace);
/* Opens the streams. */
void ps_wire_client_start(ps_exchange *exchange);

/* Ends all streams, after the trainer's thread has ended, and fires `done`. The exchange keeps what
 * ps_trainer_save_parked and ps_wire_client_kept give of it. */
void ps_wire_client_stop(ps_exchange *exchange, ps_event *done);
/* Frees an exchange whose `done` has fired. */
void ps_wire_client_destroy(ps_exchange *exchange);

/* Returns the contributions that are kept; NULL: none are. */
ps_kept_pushes *ps_wire_client_kept(ps_exchange *exchange);

/* Returns the bytes that error feedback keeps. */
size_t ps_wire_client_feedback(const ps_exchange *exchange);

#endif
