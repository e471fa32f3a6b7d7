/* SPDX-License-Identifier: Apache-2.0 */
/* reflection.h - the service grpc.reflection, v1 and v1alpha. It describes the server to clients
 * without .proto files (grpcurl, Postman, buf curl).
 *
 * Both versions are one wire format under two names and share their handler. list_services names
 * the services of this server. Files and symbols are found among all that were compiled in
 * (proto/descriptors.h). Loop thread only.
 */
#ifndef PS_COMMON_RPC_REFLECTION_H
#define PS_COMMON_RPC_REFLECTION_H

#include "common/rpc/server.h"

typedef struct ps_reflection ps_reflection;

/* Returns a reflection service that lists `services` and its own two. Pass health's among them.
 * Keeps pointers to the names of their types. Never NULL. */
ps_reflection *ps_reflection_create(const ps_service *services, size_t count);

/* Frees the reflection service. Call it when the last call of both versions of the service is over.
 * NULL is allowed. */
void ps_reflection_destroy(ps_reflection *reflection);

/* Returns the entry of v1 for the table of a server. `reflection` must outlive its calls. */
ps_service ps_reflection_service_v1(ps_reflection *reflection);

/* Returns the entry of v1alpha for the table of a server. `reflection` must outlive its calls. */
ps_service ps_reflection_service_v1alpha(ps_reflection *reflection);

#endif
