/* SPDX-License-Identifier: Apache-2.0 */
/* health.h - grpc.health.v1.Health: what probes and load balancers ask.
 *
 * Check answers NOT_FOUND for a service it does not know; Watch answers
 * SERVICE_UNKNOWN and stays open, as the standard says. Loop thread only.
 */
#ifndef PS_COMMON_RPC_HEALTH_H
#define PS_COMMON_RPC_HEALTH_H

#include "common/rpc/server.h"

typedef struct ps_health ps_health;

/* Knows "" (the whole server) and the `services`, all SERVING; keeps the names
 * of their types. Never NULL. */
ps_health *ps_health_create(const ps_service *services, size_t count);

/* After the last call of the service is over. NULL is allowed. */
void ps_health_destroy(ps_health *health);

/* Says it to those who watch `service`, too. A name not known yet is added
 * (probes may ask for "readiness"); the name is copied. */
void ps_health_set(ps_health *health, const char *service, bool serving);

/* Everything is NOT_SERVING from now on; every Watch is told so and ends with
 * UNAVAILABLE, so that none of them holds up the end of the server. */
void ps_health_stop(ps_health *health);

/* For the table of a server; `health` must outlive its calls. */
ps_service ps_health_service(ps_health *health);

#endif
