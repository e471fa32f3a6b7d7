/* SPDX-License-Identifier: Apache-2.0 */
/* worker.h - the worker's role: what a node of this kind does with a job. */
#ifndef PS_SERVICES_WORKER_WORKER_H
#define PS_SERVICES_WORKER_WORKER_H

#include "common/node/node.h"

typedef struct ps_worker ps_worker;

ps_worker *ps_worker_create(ps_loop *loop);
void ps_worker_destroy(ps_worker *worker); /* holds no session */

/* For ps_node_start, with the worker as state; then tell it its node. */
extern const ps_role_hooks ps_worker_hooks;
ps_service ps_worker_service(ps_worker *worker); /* what other workers call */
void ps_worker_set_node(ps_worker *worker, ps_node *node);

#endif
