/* SPDX-License-Identifier: Apache-2.0 */
/* pserver.h - the parameter server's role: what a node of this kind does with a job. */
#ifndef PS_SERVICES_PSERVER_PSERVER_H
#define PS_SERVICES_PSERVER_PSERVER_H

#include "common/node/node.h"

typedef struct ps_pserver ps_pserver;

/* Creates a server with 1 to PS_THREADS_MAX threads: the loop's, and others. `loop` and `drop_ack`
 * as in wire_server.h; with several threads there must be a loop. Fails with RESOURCE_EXHAUSTED if
 * there is no thread to be had. */
PS_MUST_USE ps_status ps_pserver_create(ps_loop *loop, uint32_t threads, uint64_t drop_ack,
                                        ps_pserver **out);
void ps_pserver_destroy(ps_pserver *p); /* holds no session */

/* For ps_node_start, with the server as state and its services beside; then
 * tell it its node. */
extern const ps_role_hooks ps_pserver_hooks;
size_t ps_pserver_services(ps_pserver *p, ps_service out[PS_THREADS_MAX]); /* returns how many */
void ps_pserver_set_node(ps_pserver *p, ps_node *node);

#endif
