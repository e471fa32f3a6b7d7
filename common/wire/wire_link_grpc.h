/* SPDX-License-Identifier: Apache-2.0 */
/* wire_link_grpc.h - links on streams of gRPC; between two processes of one host, large payloads go
 * through shared memory (link_memory.h). Loop's thread. */
#ifndef PS_COMMON_WIRE_WIRE_LINK_GRPC_H
#define PS_COMMON_WIRE_WIRE_LINK_GRPC_H

#include "common/rpc/server.h"
#include "common/wire/wire_link.h"
#include "common/wire/wire_server.h"

enum {
    PS_GRPC_WIRE_INSTANCE_BYTES = 12,
    /* a server serves the copy of the t-th part of the server before it as this instance + t */
    PS_GRPC_WIRE_COPIES = PS_THREADS_MAX
};

/* Creates a transport. Keeps the placement. The channel to a thread of a server is created when a
 * link to it is first opened. `is_sockets_only`: no payload goes through shared memory. */
ps_transport *ps_grpc_transport_create(ps_loop *loop, const ps_placement *placement,
                                       bool is_sockets_only);

/* Writes the name of the instance of ParameterService that thread `thread` of a server serves, from
 * 1 on. Thread 0 serves the service itself. */
void ps_grpc_wire_instance(uint32_t thread, char text[PS_GRPC_WIRE_INSTANCE_BYTES]);

/* Returns the ParameterService whose streams the server accepts. Keeps the server. */
ps_service ps_grpc_wire_service(ps_wire_server *server);

#endif
