/* SPDX-License-Identifier: Apache-2.0 */
/* wire_link_direct.h - links between workers and servers in one process.
 *
 * Nothing is packed, and the trainers' threads are the only ones. The server takes a message on
 * the thread of the worker that sends it, under the lock of each part concerned. Answers are made
 * on the thread of the worker that receives them, while it waits at the gate; a worker that may
 * have more to fetch is nudged. Counted bytes are those of the packed messages.
 */
#ifndef PS_COMMON_WIRE_WIRE_LINK_DIRECT_H
#define PS_COMMON_WIRE_WIRE_LINK_DIRECT_H

#include "common/train/gate.h"
#include "common/wire/wire_link.h"
#include "common/wire/wire_server.h"

/* The one server of a job and the gates of its workers. */
typedef struct ps_direct_hub {
    ps_wire_server *server; /* open; its parts are shared */
    uint32_t worker_count;
    ps_gate **gates; /* (worker_count) gates that are nudged; NULL: the worker does not wait */
} ps_direct_hub;

/* Initialises the hub and sets the server's news. Keeps the server. */
void ps_direct_hub_init(ps_direct_hub *hub, ps_wire_server *server, uint32_t worker_count);
void ps_direct_hub_fini(ps_direct_hub *hub); /* a zeroed one is allowed */

/* A worker's transport. The functions are called during its waits, as those of ps_gate_hooks; all
 * are optional. */
typedef struct ps_direct_conf {
    ps_direct_hub *hub; /* kept */
    uint32_t rank;
    void (*resume)(void *arg); /* called when the worker wakes up, before it fetches */
    void (*rest)(void *arg);   /* called before the worker sleeps */
    void (*yield)(void *arg);  /* called when the worker begins a clock */
    void *arg;
    int64_t spin_us; /* time in microseconds for which it spins before it sleeps */
} ps_direct_conf;

ps_transport *ps_direct_transport_create(const ps_direct_conf *conf);

/* Sets the gate at which the worker of this transport waits; NULL: none. Call it before threads
 * start, and after they have ended. */
void ps_direct_transport_attend(ps_transport *transport, ps_gate *gate);

#endif
