/* SPDX-License-Identifier: Apache-2.0 */
/* health.h - the service grpc.health.v1.Health for probes and load balancers.
 *
 * Check answers NOT_FOUND for an unknown service. Watch answers SERVICE_UNKNOWN and stays open, as
 * the standard demands. Loop thread only.
 */
#ifndef PS_COMMON_RPC_HEALTH_H
#define PS_COMMON_RPC_HEALTH_H

#include "common/rpc/client.h"
#include "common/rpc/server.h"

typedef struct ps_health ps_health;

/* Returns a health service in which "" (the whole server) and all `services` are SERVING. The
 * names of their types are copied. Never NULL. */
ps_health *ps_health_create(const ps_service *services, size_t count);

/* Frees the service. Its last call must be over. NULL is allowed. */
void ps_health_destroy(ps_health *health);

/* Sets the status of `service` and sends it to its watchers. Adds a name that is unknown, such
 * as "readiness" for a probe; the name is copied. */
void ps_health_set(ps_health *health, const char *service, bool serving);

/* Sets every service to NOT_SERVING, sends that to all watchers and ends them with UNAVAILABLE.
 * So no Watch delays the end of the server. */
void ps_health_stop(ps_health *health);

/* Returns the entry for the table of a server. `health` must outlive its calls. */
ps_service ps_health_service(ps_health *health);

/* Opens a stream by which the caller notices the end of the process at the other end: Watch of its
 * health service. Its messages say whether that process serves; the caller must read them.
 * Otherwise as ps_stream_open. */
ps_stream *ps_health_watch(ps_channel *channel, const ps_stream_events *events, void *arg);

#endif
