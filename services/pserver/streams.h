/* SPDX-License-Identifier: Apache-2.0 */
/* streams.h - ParameterService: the streams of workers onto one shard.
 *
 * Each worker has at most one push and one pull stream; a newer one, of the
 * same process or of a younger one, takes the place of the older. One message
 * is in flight each way on a stream: a push is read when the one before has
 * been taken and acknowledged, an answer is made when the one before is out. So
 * a worker that does not read costs one message of at most 1 MiB, whatever it
 * asks for. Loop's thread.
 */
#ifndef PS_SERVICES_PSERVER_STREAMS_H
#define PS_SERVICES_PSERVER_STREAMS_H

#include "common/node/node.h"
#include "common/store/shard.h"
#include "common/store/tables.h"

#include "psgd/v1/parameter.pb-c.h"

typedef struct ps_streams ps_streams;

/* `loop` tells the time to policies that have deadlines; NULL: they close nothing
 * by time. `drop_ack`: a fault for tests; the push stream breaks instead of carrying
 * each Nth acknowledgement, but not twice the same one. 0: none. `complete`
 * (optional) is called once a session, when the contributions of all steps are
 * in. */
ps_streams *ps_streams_create(ps_loop *loop, uint64_t drop_ack, void (*complete)(void *arg),
                              void *arg);
void ps_streams_destroy(ps_streams *s); /* closed; NULL is allowed */

/* The service; `s` is its state. Calls are refused until open. */
ps_service ps_streams_service(ps_streams *s);

/* Serves the shard to the session's workers, until close, which ends every
 * stream with ABORTED. Both are kept. */
void ps_streams_open(ps_streams *s, const ps_session *session, ps_shard *shard);
/* After that: and these sparse tables, where the job has some; kept. */
void ps_streams_open_tables(ps_streams *s, ps_tables *tables);

/* They are being saved: rows are neither taken nor given any more. */
void ps_streams_close_tables(ps_streams *s);
void ps_streams_close(ps_streams *s, const char *why);

/* A worker is lost: its streams end, and nobody waits for it any more. Again is
 * OK; FAILED_PRECONDITION if the policy does not go on without it. */
PS_MUST_USE ps_status ps_streams_lose(ps_streams *s, uint32_t worker);

/* Since open; bytes of messages with their 5-byte prefix. */
ps_traffic ps_streams_traffic(const ps_streams *s);

/* Pulls since open that could not be answered whole at once. */
uint64_t ps_streams_waits(const ps_streams *s);

#endif
