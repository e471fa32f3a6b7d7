/* SPDX-License-Identifier: Apache-2.0 */
/* wire_link_direct.h - links between workers and servers in one process.
 *
 * Nothing is packed and there is no thread beside the trainers'. What a worker sends is taken by
 * the server on the worker's thread, under the lock of each part that it is for. Answers are made
 * on the thread of the worker that they are for, in its waits at the gate; whoever may have more to
 * fetch is nudged. Bytes that count are those of messages as they would be packed.
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
    ps_gate **gates; /* (worker_count): who is told of news; NULL: nobody */
} ps_direct_hub;

/* The server is kept, and told who hears of news. */
void ps_direct_hub_init(ps_direct_hub *hub, ps_wire_server *server, uint32_t worker_count);
void ps_direct_hub_fini(ps_direct_hub *hub); /* a zeroed one is allowed */

/* What a worker does in its waits beside fetching, as of ps_gate_hooks; all optional. */
typedef struct ps_direct_conf {
    ps_direct_hub *hub; /* kept */
    uint32_t rank;
    void (*resume)(void *arg); /* it is awake again: before it fetches */
    void (*rest)(void *arg);   /* it is going to sleep */
    void (*yield)(void *arg);  /* it begins a clock */
    void *arg;
    int64_t spin_us; /* so long it waits awake */
} ps_direct_conf;

ps_transport *ps_direct_transport_create(const ps_direct_conf *conf);

/* The worker that uses this transport waits at that gate, or at none (NULL) any more. To be called
 * before threads start, and after they have ended. */
void ps_direct_transport_attend(ps_transport *transport, ps_gate *gate);

#endif
