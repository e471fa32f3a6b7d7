/* SPDX-License-Identifier: Apache-2.0 */
/* pserver.h - the role of a parameter server (node.h): it holds a part of a job's weights. */
#ifndef PS_SERVICES_PSERVER_PSERVER_H
#define PS_SERVICES_PSERVER_PSERVER_H

#include "common/node/node.h"

typedef struct ps_pserver ps_pserver;

/* Creates a server with 1 to PS_THREADS_MAX threads, of which one is the thread of `loop`. `loop`
 * and `drop_ack` are those of ps_wire_server_create, but with several threads, and for jobs that
 * compute partitions, `loop` must not be NULL; is_sockets_only is that of
 * ps_wire_server_set_sockets_only. Returns RESOURCE_EXHAUSTED if the system refuses a thread. */
PS_MUST_USE ps_status ps_pserver_create(ps_loop *loop, uint32_t threads, uint64_t drop_ack,
                                        bool is_sockets_only, ps_pserver **out);
/* Frees the server, which must have no session. NULL is allowed. */
void ps_pserver_destroy(ps_pserver *p);

/* The hooks for ps_node_start; their state is the server. */
extern const ps_role_hooks ps_pserver_hooks;
/* Writes the services for ps_node_start: ParameterService for each thread and for each of the
 * PS_THREADS_MAX copies of parts that a session may have, and RecordService unless `loop` was NULL.
 * Returns their number. */
enum { PS_PSERVER_SERVICES_MAX = 2 * PS_THREADS_MAX + 1 };
size_t ps_pserver_services(ps_pserver *p, ps_service out[PS_PSERVER_SERVICES_MAX]);
/* Sets the node, after ps_node_start. */
void ps_pserver_set_node(ps_pserver *p, ps_node *node);

#endif
