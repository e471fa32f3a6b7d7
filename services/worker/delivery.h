/* SPDX-License-Identifier: Apache-2.0 */
/* delivery.h - sends the records of partitions to the servers that have their keys
 * (common/script/record_owner.h). Loop's thread, except ps_delivery_split. */
#ifndef PS_SERVICES_WORKER_DELIVERY_H
#define PS_SERVICES_WORKER_DELIVERY_H

#include "common/node/session.h"
#include "common/rpc/client.h"

typedef struct ps_delivery_routes ps_delivery_routes;
typedef struct ps_delivery ps_delivery;

/* Creates the channels to the servers of a session, which must have some; keeps the session.
 * `incarnation` is the number of this process. */
ps_delivery_routes *ps_delivery_routes_create(ps_loop *loop, const ps_session *session,
                                              uint64_t incarnation);
/* Frees the channels. Destroy the deliveries first. NULL is allowed. */
void ps_delivery_routes_destroy(ps_delivery_routes *routes);

/* Called at the end of a delivery.
 * OK                all servers have stored their records
 * UNAVAILABLE       a server has not stored its records within the job's step_ms
 * INVALID_ARGUMENT  a server says that it was sent no sorted records, or keys of another server
 * CANCELLED         the delivery was stopped */
typedef void ps_delivered_fn(void *arg, const ps_status *result);

/* Creates what a rank uses to deliver records, one partition after the other. Keeps the routes. */
ps_delivery *ps_delivery_create(ps_delivery_routes *routes, uint32_t rank,
                                ps_delivered_fn *delivered, void *arg);
/* Frees what ps_delivery_create has made. No delivery may be running. NULL is allowed. */
void ps_delivery_destroy(ps_delivery *delivery);

/* Copies n bytes of sorted records, at most PS_PART_RECORDS_MAX, for the next delivery. Any thread,
 * while no delivery runs. */
void ps_delivery_split(ps_delivery *delivery, const uint8_t *records, size_t n);

/* Begins to deliver the records of ps_delivery_split, as those of `partition` (from 1); `delivered`
 * is called at the end. A server that does not take its records is asked again within the job's
 * step_ms, unless it says INVALID_ARGUMENT. */
void ps_delivery_start(ps_delivery *delivery, uint32_t partition);

/* Makes the delivery that is running end soon; `delivered` is called with CANCELLED, perhaps within
 * this call. Returns false if none is running. NULL is allowed. */
bool ps_delivery_stop(ps_delivery *delivery);

#endif
