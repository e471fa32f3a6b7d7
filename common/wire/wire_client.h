/* SPDX-License-Identifier: Apache-2.0 */
/* wire_client.h - a worker's side of push and pull: the exchange through parameter servers.
 *
 * It has one connection (a push and a pull stream) to each thread of a parameter server that holds
 * something of the job. The trainer says which gradients are final. The connections send them while
 * backpropagation is still running, and decode weights directly into the block of weights. A
 * contribution stays in the gradient block until every server has acknowledged it. So it can be
 * sent again when a stream broke and was opened again; servers count it once.
 *
 * The functions below are for the client's thread: with gRPC the thread of its loop, in one process
 * the trainer's own thread. The trainer uses common/train/exchange.h. */
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

/* What an exchange through servers is made from. All pointers are kept. */
typedef struct ps_wire_client_conf {
    const ps_plan *plan;
    const ps_placement *placement;
    ps_wire_attempt attempt;
    uint32_t rank;
    /* number of this process, higher than those of earlier processes of the worker */
    uint64_t incarnation;
    ps_transport *transport; /* the exchange takes it */
    int64_t patience_us;     /* longest single wait of the trainer, in microseconds */
    /* (param_count): the initial weights; the client's thread writes later ones here */
    float *weights;
    ps_buf *grad; /* (param_count) floats, the gradient block; a reference is taken */
    /* most bytes of contributions that are kept (kept_pushes.h); 0: none are kept */
    size_t kept_bytes;
} ps_wire_client_conf;

/* Creates the exchange; opens no stream yet. */
ps_exchange *ps_wire_client_create(const ps_wire_client_conf *conf);
/* Sets the ring into which the client's thread records what it encodes, sends and receives. NULL:
 * none, as in one process, where the trainer's thread does it and records into its own ring. Call
 * it before ps_wire_client_start. */
void ps_wire_client_set_trace(ps_exchange *exchange, ps_trace_ring *trace);
/* Opens the streams. */
void ps_wire_client_start(ps_exchange *exchange);

/* Ends all streams and then fires `done`. The trainer's thread must have ended.
 * ps_trainer_save_parked and ps_wire_client_kept may still use the exchange afterwards. */
void ps_wire_client_stop(ps_exchange *exchange, ps_event *done);
/* Frees an exchange. The event `done` of ps_wire_client_stop must have fired. */
void ps_wire_client_destroy(ps_exchange *exchange);

/* Returns the kept contributions of the rank; NULL: none are kept. The exchange's. */
ps_kept_pushes *ps_wire_client_kept(ps_exchange *exchange);

/* Returns the number of bytes that codecs keep between contributions, such as residuals. */
size_t ps_wire_client_feedback(const ps_exchange *exchange);

#endif
