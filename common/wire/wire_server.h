/* SPDX-License-Identifier: Apache-2.0 */
/* wire_server.h - a server's side of push and pull: the links of workers to one part, or to shared
 * parts.
 *
 * Each worker has at most one push and one pull link. A newer link replaces the older one; it may
 * be of the same process or of a restarted one. One message is in flight each way on a link: the
 * next push is read when the last one was taken and its acknowledgement is out, the next answer is
 * built when the last one is out. So a worker that does not read costs at most one message of 1 MiB
 * and one request for rows. Loop's thread; if parts are shared, each worker's thread uses its own
 * links.
 */
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

/* Creates a server, which is closed. `loop` runs the timer for policies with deadlines; with NULL
 * no sum closes by time. `complete` (optional) is called once in a session, when the contributions
 * of all steps have arrived. `drop_ack` injects a fault for tests: if it is N > 0, every Nth
 * acknowledgement ends the push link instead of being sent, but none is dropped twice. */
ps_wire_server *ps_wire_server_create(ps_loop *loop, uint64_t drop_ack, void (*complete)(void *arg),
                                      void *arg);
/* Frees a closed server. NULL is allowed. */
void ps_wire_server_destroy(ps_wire_server *s);

/* Accepts a link that a worker has opened, with its first message. Refuses it if the server is
 * closed or the identity is wrong. */
void ps_wire_server_accept(ps_wire_server *s, ps_wire_stream stream, ps_wire_link *link,
                           const ProtobufCMessage *head, const ps_incoming *payload);

/* Opens the server: serves `part` of the placement, or the shared `parts`, to the workers of an
 * attempt. All pointers are kept. */
void ps_wire_server_open(ps_wire_server *s, const ps_plan *plan, const ps_placement *placement,
                         const ps_wire_attempt *of, uint32_t part, ps_wire_parts *parts);

/* Sets news(arg, worker), which is called when a push or pull of `worker` may let others go on. For
 * shared parts. Call it before threads start. */
void ps_wire_server_set_news(ps_wire_server *s, void (*news)(void *arg, uint32_t worker),
                             void *arg);

/* Sets failed(arg, why), which is called for every push with values that are not finite. Such a
 * push is refused, but the job cannot go on correctly. `why` names the worker. Call it before
 * threads start. */
void ps_wire_server_set_failed(ps_wire_server *s, void (*failed)(void *arg, const ps_status *why),
                               void *arg);

/* Has the server open no shared memory that workers offer (wire_link_grpc.h): all payloads go by
 * sockets. Call it before threads start. */
void ps_wire_server_set_sockets_only(ps_wire_server *s, bool is_sockets_only);
bool ps_wire_server_is_sockets_only(const ps_wire_server *s);

/* Sets the ring of the server's thread, into which it records what it does and for whom it waits;
 * NULL: none. Call it before ps_wire_server_open. Not for shared parts, whose work is recorded by
 * the threads that do it. */
void ps_wire_server_set_trace(ps_wire_server *s, ps_trace_ring *trace);

/* Calls cut(arg, clock, store) once when everything before `clock` is in and somebody pushes to it:
 * before what is pushed changes anything. If `is_now`, nobody will push to it: it is called as soon
 * as everything before is in, maybe at once; all workers have pulled the weights of `clock`. All
 * snapshots of that clock that a worker has pulled are made then. The store is to be saved; NULL:
 * the server is further already. Under other policies than deterministic ones it may be further:
 * the store is as it is between two messages. Not for shared parts. Replaces an earlier call that
 * has not come; `cut` NULL forgets it. */
typedef void ps_wire_cut_fn(void *arg, uint64_t clock, ps_store *store);
void ps_wire_server_cut_at(ps_wire_server *s, uint64_t clock, bool is_now, ps_wire_cut_fn *cut,
                           void *arg);

/* Lends what ranks have said with their contributions. Not for shared parts. */
const ps_rank_reports *ps_wire_server_reports(const ps_wire_server *s);

/* Sends all answers that a worker may get now, on that worker's thread. Unless `is_thorough`,
 * passes over parts that other threads have locked. Returns the monotonic time in microseconds at
 * which to call it again even without news; INT64_MAX: never. */
int64_t ps_wire_server_poll(ps_wire_server *s, uint32_t worker, bool is_thorough);

/* Stops taking and giving rows, because the tables are being saved. */
void ps_wire_server_close_tables(ps_wire_server *s);
/* Closes the server: ends every link with ABORTED and the text `why`. */
void ps_wire_server_close(ps_wire_server *s, const char *why);

/* Goes on without a lost worker and ends its links. A repetition is OK. Returns FAILED_PRECONDITION
 * if the policy does not survive the loss. */
PS_MUST_USE ps_status ps_wire_server_lose(ps_wire_server *s, uint32_t worker);

/* Returns the traffic since open; zeros if parts are shared. Bytes are of messages with their
 * 5-byte prefix. */
ps_traffic ps_wire_server_traffic(const ps_wire_server *s);

/* Returns the number of pulls since open that could not be answered completely at once. */
uint64_t ps_wire_server_waits(const ps_wire_server *s);

#endif
