/* SPDX-License-Identifier: Apache-2.0 */
/* wire_link_grpc.h - links on streams of gRPC; between two processes of one host, large payloads go
 * through shared memory (link_memory.h). Loop's thread. */
#ifndef PS_COMMON_WIRE_WIRE_LINK_GRPC_H
#define PS_COMMON_WIRE_WIRE_LINK_GRPC_H

#include "common/rpc/server.h"
#include "common/wire/wire_link.h"
#include "common/wire/wire_server.h"

enum {
    /* length of the name of an instance, with its 0 byte */
    PS_GRPC_WIRE_INSTANCE_BYTES = 12,
    /* a server has its copies of parts of the server before it as instances of this number and
     * above: the copy of that server's part t as number PS_GRPC_WIRE_COPIES + t */
    PS_GRPC_WIRE_COPIES = PS_THREADS_MAX
};

/* Creates a transport. Keeps the placement. The channel to a thread of a server is created when the
 * first link to it is opened. `is_sockets_only`: no payload goes through shared memory. */
ps_transport *ps_grpc_transport_create(ps_loop *loop, const ps_placement *placement,
                                       bool is_sockets_only);

/* Writes the name of the instance of ParameterService that thread number `thread`, from 1 on, of a
 * server serves. Thread 0 serves the service without an instance. */
void ps_grpc_wire_instance(uint32_t thread, char text[PS_GRPC_WIRE_INSTANCE_BYTES]);

/* Returns a ParameterService that gives the streams of workers to `server`. Keeps the server. */
ps_service ps_grpc_wire_service(ps_wire_server *server);

#endif
