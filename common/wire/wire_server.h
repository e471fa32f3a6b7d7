/* SPDX-License-Identifier: Apache-2.0 */
/* wire_server.h - a server's side of push and pull: the links of workers to one part, or to shared
 * parts.
 *
 * Each worker has at most one push link and one pull link. A newer link replaces the older one; the
 * worker's process may be the same or a new one. One message is in flight in each direction of a
 * link: the next push is read when the last one was handled and, if it completed a contribution,
 * the acknowledgement was sent; the next answer is built when the last one was sent. So a worker
 * that does not read costs at most one message of 1 MiB and one request for rows. Loop's thread; if
 * parts are shared, each worker's thread uses the links of this worker. */
#ifndef PS_COMMON_WIRE_WIRE_SERVER_H
#define PS_COMMON_WIRE_WIRE_SERVER_H

#include "common/job/plan.h"
#include "common/placement/placement.h"
#include "common/trace/trace.h"
#include "common/wire/identity.h"
#include "common/wire/rank_reports.h"
#include "common/wire/wire_link.h"
#include "common/wire/wire_parts.h"

typedef struct ps_wire_server ps_wire_server;

/* Creates a server, which is closed until ps_wire_server_open. `loop` runs the timer for policies
 * with deadlines; NULL: a sum closes by time only when a worker's thread uses shared parts.
 * `complete` (optional) is called once while the server is open, when the contributions to all
 * clocks of the job have arrived. `drop_ack` is a fault for tests: if it is N > 0, every N-th
 * acknowledgement ends the push link instead of being sent; the acknowledgement of one contribution
 * is not dropped twice. */
ps_wire_server *ps_wire_server_create(ps_loop *loop, uint64_t drop_ack, void (*complete)(void *arg),
                                      void *arg);
/* Frees a closed server. NULL is allowed. */
void ps_wire_server_destroy(ps_wire_server *s);

/* Accepts a link that a worker has opened, with its first message. Refuses it if the server is
 * closed or the identity is wrong. */
void ps_wire_server_accept(ps_wire_server *s, ps_wire_stream stream, ps_wire_link *link,
                           const ProtobufCMessage *head, const ps_incoming *payload);

/* Opens the server, which then serves workers of the attempt `of`: `part` of the placement, or
 * `parts` if they are shared. Keeps all pointers. */
void ps_wire_server_open(ps_wire_server *s, const ps_plan *plan, const ps_placement *placement,
                         const ps_wire_attempt *of, uint32_t part, ps_wire_parts *parts);

/* Sets news(arg, worker), which is called when a push or pull of `worker` may let other workers go
 * on. For shared parts. Call it before threads start. */
void ps_wire_server_set_news(ps_wire_server *s, void (*news)(void *arg, uint32_t worker),
                             void *arg);

/* Sets failed(arg, why), which is called for every push that has a value that is not finite, and
 * with RESOURCE_EXHAUSTED if code of the job cannot run on this machine. The push or pull is
 * refused, but the job cannot go on correctly. Of a value that is not finite, `why` names the
 * worker. Call it before threads start. */
void ps_wire_server_set_failed(ps_wire_server *s, void (*failed)(void *arg, const ps_status *why),
                               void *arg);

/* Sets whether the server opens no shared memory that workers offer (wire_link_grpc.h), so that all
 * payloads go by sockets. Call it before threads start. */
void ps_wire_server_set_sockets_only(ps_wire_server *s, bool is_sockets_only);
bool ps_wire_server_is_sockets_only(const ps_wire_server *s);

/* Sets the ring into which the server's thread records what it does and for whom it waits; NULL:
 * none. Call it before ps_wire_server_open. Not for shared parts, because there the trainers'
 * threads do the work and record it. */
void ps_wire_server_set_trace(ps_wire_server *s, ps_trace_ring *trace);

/* What ps_wire_server_cut_at has called once. `store` is the store to be saved as it is now, at the
 * beginning of `clock`; NULL: it is too late, because the server is beyond `clock`. Under a policy
 * that is not deterministic the store is always given, as it is between two messages. */
typedef void ps_wire_cut_fn(void *arg, uint64_t clock, ps_store *store);
/* Arranges one call of cut(arg, clock, store) when all contributions to the clocks before `clock`
 * have arrived and somebody pushes to it; the call comes before that push changes anything. is_now:
 * nobody will push to `clock`, so the call comes as soon as all earlier contributions have arrived,
 * perhaps at once; all workers must have pulled the weights of `clock`. All snapshots of that clock
 * that a worker has pulled have been made by then. If the server is beyond `clock` already, the
 * call comes at once. Replaces a call that was arranged and has not come; `cut` NULL cancels that
 * one. Not for shared parts. */
void ps_wire_server_cut_at(ps_wire_server *s, uint64_t clock, bool is_now, ps_wire_cut_fn *cut,
                           void *arg);

/* Returns the reports that ranks have sent with their contributions; the server's. Not for shared
 * parts. */
const ps_rank_reports *ps_wire_server_reports(const ps_wire_server *s);

/* Sends all answers that a worker may get now. Called on that worker's thread, if parts are shared.
 * Unless is_thorough, skips parts that other threads have locked. Returns the monotonic time in
 * microseconds at which to call it again even without news; INT64_MAX: never. */
int64_t ps_wire_server_poll(ps_wire_server *s, uint32_t worker, bool is_thorough);

/* Stops taking and giving rows of sparse tables, because the tables are being written to files. */
void ps_wire_server_close_tables(ps_wire_server *s);
/* Closes the server: ends every link with ABORTED and the text `why`. */
void ps_wire_server_close(ps_wire_server *s, const char *why);

/* Continues without a lost worker and ends its links. OK if it is lost already. Returns
 * FAILED_PRECONDITION if the policy does not survive the loss. */
PS_MUST_USE ps_status ps_wire_server_lose(ps_wire_server *s, uint32_t worker);

/* Returns the traffic since ps_wire_server_open; zeros if parts are shared. The bytes of a message
 * include gRPC's prefix of 5 bytes. */
ps_traffic ps_wire_server_traffic(const ps_wire_server *s);

/* Returns the number of pulls, since ps_wire_server_open, that had to wait for other workers; 0 if
 * parts are shared. */
uint64_t ps_wire_server_waits(const ps_wire_server *s);

#endif
