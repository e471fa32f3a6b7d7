/* SPDX-License-Identifier: Apache-2.0 */
/* connection_impl.h - what the files connection*.c share; for them only. */
#ifndef PS_COMMON_WIRE_CONNECTION_IMPL_H
#define PS_COMMON_WIRE_CONNECTION_IMPL_H

#include "common/codec/parts.h"
#include "common/wire/connection.h"
#include "common/wire/piece.h"
#include "common/wire/wire_parts.h"

/* What a connection does with one group of pieces: slices, or rows (piece.h). */
typedef struct connection_group {
    const char *name; /* name of the group in messages to users */
    /* Adds those pieces of the contribution that are ready to a message. Returns whether it added
     * anything. */
    bool (*put)(ps_connection *conn, connection_message *m);
    /* Fills in the next request for pieces of the group. Returns false if none is due. */
    bool (*ask)(ps_connection *conn, Psgd__V1__PullWeightsRequest *req);
    /* After a stream has broken: prepares to repeat what was sent or requested on it. */
    void (*again)(ps_connection *conn, ps_wire_stream stream);
    /* Takes the pieces of an answer. Their bytes begin at *at of the payload; *at becomes the
     * offset behind them. */
    ps_status (*take)(ps_connection *conn, const Psgd__V1__PullWeightsResponse *reply,
                      const ps_incoming *payload, size_t *at);
} connection_group;

extern const connection_group ps_connection_groups[PS_PIECE_GROUPS];

/* Makes the thread's trace record from now on if it records the step with number `step`; 0 ends
 * recording. Does nothing if the exchange has no ring: in one process the trainer's thread does the
 * work and records it into its own ring. */
static inline void connection_trace(const ps_connection *conn, uint64_t step)
{
    if (conn->x->trace != NULL) {
        ps_trace_enter(conn->x->trace, step);
    }
}

/* Returns whether `clock` is the first of this attempt and may have been begun in the attempt
 * before. Then some slices may have been stepped on it already. The server would give their weights
 * for the next clock at once, while the worker still computes with the earlier ones. */
static inline bool ps_connection_repeats(const connection_exchange *x, uint64_t clock)
{
    return clock > 0 && clock == x->begins_at && ps_plan_rescues(x->plan);
}

/* connection.c */

/* Returns the node id of the server at the other end. */
const char *ps_connection_server(const ps_connection *conn);
/* Handles the end of a stream: calls x->over if the connection was stopped; else opens the stream
 * again after a pause, or fails the exchange. `what` names the stream in messages to users. */
void ps_connection_stream_ended(connection_stream *s, const char *what, const ps_error *error);
/* Returns the identity for the next message of the stream: *who, filled in, for the first message
 * of a link; NULL for later ones. */
Psgd__V1__WorkerIdentity *ps_connection_greet(connection_stream *s, Psgd__V1__WorkerIdentity *who);
/* Returns whether a message may be sent on the stream now. */
bool ps_connection_can_send(const connection_stream *s);
/* Adds the connection's traffic since the last call to the exchange's counters. */
void ps_connection_count(ps_connection *conn);
/* Fails the exchange because an answer was wrong, and ends the pull stream. */
void ps_connection_refuse(ps_connection *conn, const char *what, ps_status why);

/* connection_push.c, connection_pull.c */

extern const ps_link_events ps_connection_push_events, ps_connection_pull_events;
/* Returns the memory into which the message's next bytes are to be encoded. Then call
 * ps_connection_encoded with their number, which makes them a piece of the message. */
uint8_t *ps_connection_room(ps_connection *conn, connection_message *m);
void ps_connection_encoded(ps_connection *conn, connection_message *m, size_t bytes);
/* If the stream can send, sends one request that is due: for rows first, else for slices. */
void ps_connection_ask(ps_connection *conn);
/* Begins to read the pull stream if no read is in flight and an answer for slices is due or rows
 * are pulled by key. If a request is about to be sent, that begins the read. */
void ps_connection_read(ps_connection *conn);
/* Opens a request for the slices of `clock`, and sends it as soon as possible. Does nothing if
 * `clock` is after the last clock of the job, or if the part is a copy or has no weights that come
 * this way. */
void ps_connection_request_slices(ps_connection *conn, uint64_t clock);

/* Notes that all slices of the request for weights, and with a fixed vocabulary its rows, have yet
 * to arrive. */
void ps_connection_expect(ps_connection *conn);

struct connection_rows_way {
    /* a request for weights is also answered with the rows that have changed */
    bool come_with_weights;
    /* Copies the rows of an answer to where the trainer reads them. */
    ps_status (*take)(ps_connection *conn, const Psgd__V1__PullWeightsResponse *reply,
                      ps_parts_reader *reader);
    /* Notes that the rows of a message have arrived. is_last: they complete the answer. */
    void (*took)(ps_connection *conn, bool is_last);
    /* Returns how many values count as sent for a message with `values` values of rows. */
    size_t (*sent)(const connection_rows *rows, size_t values);
};

/* connection_rows.c. Creates the state for rows; returns NULL if the part has no rows. */
connection_rows *ps_connection_rows_create(const ps_connection *conn);
/* Notes that the part has the rows of this slice of a fixed vocabulary. */
void ps_connection_rows_own(ps_connection *conn, uint32_t slice);
void ps_connection_rows_destroy(connection_rows *rows); /* NULL is allowed */

/* connection_replica.c. Applies slice i of an answer, a change or weights, to the worker's replica.
 * The bytes of the slice begin at `at` of the payload. Sets *is_new if the replica then equals the
 * server's weights; else adds 1 to request_bad. The bytes may be anything; their number was
 * checked. */
PS_MUST_USE ps_status ps_connection_apply_replica(ps_connection *conn,
                                                  const Psgd__V1__PullWeightsResponse *reply,
                                                  size_t i, const ps_incoming *payload, size_t at,
                                                  bool *is_new);

/* The functions of ps_connection_groups: for slices in connection_push.c and connection_pull.c, for
 * rows in connection_rows.c. */
bool ps_connection_slices_put(ps_connection *conn, connection_message *m);
bool ps_connection_slices_ask(ps_connection *conn, Psgd__V1__PullWeightsRequest *req);
void ps_connection_slices_again(ps_connection *conn, ps_wire_stream stream);
PS_MUST_USE ps_status ps_connection_slices_take(ps_connection *conn,
                                                const Psgd__V1__PullWeightsResponse *reply,
                                                const ps_incoming *payload, size_t *at);
bool ps_connection_rows_put(ps_connection *conn, connection_message *m);
bool ps_connection_rows_ask(ps_connection *conn, Psgd__V1__PullWeightsRequest *req);
void ps_connection_rows_again(ps_connection *conn, ps_wire_stream stream);
PS_MUST_USE ps_status ps_connection_rows_take(ps_connection *conn,
                                              const Psgd__V1__PullWeightsResponse *reply,
                                              const ps_incoming *payload, size_t *at);

#endif
