/* SPDX-License-Identifier: Apache-2.0 */
/* reflection.h - grpc.reflection v1 and v1alpha: what this server serves, told
 * to clients that have no .proto files (grpcurl, Postman, buf curl).
 *
 * Both versions are one wire format under two names and share their handler.
 * list_services names what this very server serves; files and symbols are found
 * in everything that was compiled in (proto/descriptors.h). Loop thread only.
 */
#ifndef PS_COMMON_RPC_REFLECTION_H
#define PS_COMMON_RPC_REFLECTION_H

#include "common/rpc/server.h"

typedef struct ps_reflection ps_reflection;

/* Will name `services` (give health's among them) and the two of its own; keeps
 * their types. Never NULL. */
ps_reflection *ps_reflection_create(const ps_service *services, size_t count);

/* After the last call of both services is over. NULL is allowed. */
void ps_reflection_destroy(ps_reflection *reflection);

/* For the table of a server; `reflection` must outlive their calls. */
ps_service ps_reflection_service_v1(ps_reflection *reflection);
ps_service ps_reflection_service_v1alpha(ps_reflection *reflection);

#endif
