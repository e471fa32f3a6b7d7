/* SPDX-License-Identifier: Apache-2.0 */
/* wire_link_direct.h - links between workers and servers in one process.
 *
 * Nothing is packed, and there are no threads but the trainers'. The server takes a message on the
 * thread of the worker that sends it, under the lock of each part concerned. Answers are made on
 * the thread of the worker that receives them, while it waits at its gate. When a message may let
 * another worker go on, that worker's gate is nudged. Counted bytes are what the messages would
 * have if packed. */
#ifndef PS_COMMON_WIRE_WIRE_LINK_DIRECT_H
#define PS_COMMON_WIRE_WIRE_LINK_DIRECT_H

#include "common/train/gate.h"
#include "common/wire/wire_link.h"
#include "common/wire/wire_server.h"

/* Joins the one server of a job with the gates of its workers. */
typedef struct ps_direct_hub {
    ps_wire_server *server; /* open, with shared parts */
    uint32_t worker_count;
    ps_gate **gates; /* (worker_count): the gates to nudge; NULL: the worker does not wait */
} ps_direct_hub;

/* Initialises the hub, and makes the server's news nudge the gates. Keeps the server. */
void ps_direct_hub_init(ps_direct_hub *hub, ps_wire_server *server, uint32_t worker_count);
void ps_direct_hub_fini(ps_direct_hub *hub); /* a zeroed one is allowed */

/* What a worker's transport is made from. The functions are optional; they are called on the
 * worker's thread. */
typedef struct ps_direct_conf {
    ps_direct_hub *hub; /* kept */
    uint32_t rank;
    void (*resume)(void *arg); /* called when the worker wakes up, before it fetches */
    void (*rest)(void *arg);   /* called before the worker sleeps */
    void (*yield)(void *arg);  /* called when the worker begins a clock */
    void *arg;
    int64_t spin_us; /* how long the worker waits busily before it sleeps, in microseconds */
} ps_direct_conf;

ps_transport *ps_direct_transport_create(const ps_direct_conf *conf);

/* Sets the gate at which the worker of this transport waits; NULL: none. Call it before threads
 * start, and after they have ended. */
void ps_direct_transport_attend(ps_transport *transport, ps_gate *gate);

#endif
