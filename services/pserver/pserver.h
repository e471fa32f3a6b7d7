/* SPDX-License-Identifier: Apache-2.0 */
/* pserver.h - the parameter server's role: what a node of this kind does with a job. */
#ifndef PS_SERVICES_PSERVER_PSERVER_H
#define PS_SERVICES_PSERVER_PSERVER_H

#include "common/node/node.h"
#include "common/wire/wire_parts.h"

typedef struct ps_pserver ps_pserver;

/* `loop` and `drop_ack` as in wire_server.h. */
ps_pserver *ps_pserver_create(ps_loop *loop, uint64_t drop_ack);
void ps_pserver_destroy(ps_pserver *p); /* holds no session */

/* For ps_node_start, with the server as state and its service beside; then
 * tell it its node. */
extern const ps_role_hooks ps_pserver_hooks;
ps_service ps_pserver_service(ps_pserver *p);
void ps_pserver_set_node(ps_pserver *p, ps_node *node);

/* Makes what a server has of a session, in one part, with the tables that came with it. */
void ps_pserver_init_parts(ps_wire_parts *parts, ps_session *session);

#endif
