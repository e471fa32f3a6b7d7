/* SPDX-License-Identifier: Apache-2.0 */
/* wire_server.h - a server's side of push and pull: the links of workers onto one store.
 *
 * Each worker has at most one push and one pull link; a newer one, of the
 * same process or of a younger one, takes the place of the older. One message
 * is in flight each way on a link: a push is read when the one before has
 * been taken and acknowledged, an answer is made when the one before is out. So
 * a worker that does not read costs one message of at most 1 MiB and one request for rows, whatever
 * it asks for. Loop's thread; where parts are shared, a worker's own for its links.
 */
#ifndef PS_COMMON_WIRE_WIRE_SERVER_H
#define PS_COMMON_WIRE_WIRE_SERVER_H

#include "common/job/plan.h"
#include "common/placement/placement.h"
#include "common/wire/identity.h"
#include "common/wire/wire_link.h"
#include "common/wire/wire_parts.h"

typedef struct ps_wire_server ps_wire_server;

/* `loop` tells the time to policies that have deadlines; NULL: they close nothing
 * by time. `drop_ack`: a fault for tests; the push link breaks instead of carrying
 * each Nth acknowledgement, but not twice the same one. 0: none. `complete`
 * (optional) is called once a session, when the contributions of all steps are
 * in. */
ps_wire_server *ps_wire_server_create(ps_loop *loop, uint64_t drop_ack, void (*complete)(void *arg),
                                      void *arg);
void ps_wire_server_destroy(ps_wire_server *s); /* closed; NULL is allowed */

/* Takes a link that a worker has opened, with its first message. Refused until open. */
void ps_wire_server_accept(ps_wire_server *s, ps_wire_stream stream, ps_wire_link *link,
                           const ProtobufCMessage *head, const ps_incoming *payload);

/* Serves what part `part` of a placement has to the attempt's workers, until close, which ends
 * every link with ABORTED. All pointers are kept. */
void ps_wire_server_open(ps_wire_server *s, const ps_plan *plan, const ps_placement *placement,
                         const ps_wire_attempt *of, uint32_t part, ps_wire_parts *parts);

/* Where parts are shared: calls news(arg, worker) when a worker's push may let others go on. To be
 * set before threads start. */
void ps_wire_server_set_news(ps_wire_server *s, void (*news)(void *arg, uint32_t worker),
                             void *arg);

/* Calls failed(arg, why) when a worker has pushed values that are not finite: they are refused, but
 * the job cannot become what it was to be. `why` names the worker. Again for each such push. To be
 * set before threads start. */
void ps_wire_server_set_failed(ps_wire_server *s, void (*failed)(void *arg, const ps_status *why),
                               void *arg);

/* Sends what a worker may have now, on its own thread. Not thorough: parts that others hold just
 * now are left for later. Returns the time when it is to be called again whatever happens;
 * INT64_MAX: never. */
int64_t ps_wire_server_poll(ps_wire_server *s, uint32_t worker, bool is_thorough);

/* The tables are being saved: rows are neither taken nor given any more. */
void ps_wire_server_close_tables(ps_wire_server *s);
void ps_wire_server_close(ps_wire_server *s, const char *why);

/* Ends a lost worker's links; nobody waits for it any more. Again is
 * OK; FAILED_PRECONDITION if the policy does not go on without it. */
PS_MUST_USE ps_status ps_wire_server_lose(ps_wire_server *s, uint32_t worker);

/* Since open; bytes of messages with their 5-byte prefix. */
ps_traffic ps_wire_server_traffic(const ps_wire_server *s);

/* Returns the pulls since open that could not be answered whole at once. */
uint64_t ps_wire_server_waits(const ps_wire_server *s);

#endif
