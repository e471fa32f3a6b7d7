/* SPDX-License-Identifier: Apache-2.0 */
/* worker.h - the role of a worker: what such a node does with a job. Loop's thread. */
#ifndef PS_SERVICES_WORKER_WORKER_H
#define PS_SERVICES_WORKER_WORKER_H

#include "common/node/node.h"
#include "services/worker/loop_link.h"

typedef struct ps_worker ps_worker;

/* Creates a worker. Takes `link`, the link to the program that computes models; NULL: the worker
 * computes models itself. `is_sockets_only`: no payload goes through shared memory. */
ps_worker *ps_worker_create(ps_loop *loop, ps_loop_link *link, bool is_sockets_only);

/* Frees a worker without a session. */
void ps_worker_destroy(ps_worker *worker);

/* The hooks for ps_node_start; their state is the worker. */
extern const ps_role_hooks ps_worker_hooks;

/* Returns the PeerService, which workers of the same mesh call. */
ps_service ps_worker_service(ps_worker *worker);

/* Tells the worker its node, once, before the node's first call. */
void ps_worker_set_node(ps_worker *worker, ps_node *node);

#endif
