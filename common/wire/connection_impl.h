/* SPDX-License-Identifier: Apache-2.0 */
/* connection_impl.h - what the files connection*.c share; for them only. */
#ifndef PS_COMMON_WIRE_CONNECTION_IMPL_H
#define PS_COMMON_WIRE_CONNECTION_IMPL_H

#include "common/codec/parts.h"
#include "common/wire/connection.h"
#include "common/wire/piece.h"
#include "common/wire/wire_parts.h"

/* What a connection does with one group of pieces. */
typedef struct connection_group {
    const char *name; /* in messages */
    /* Adds what is ready of the contribution to a message. Returns whether there was anything. */
    bool (*put)(ps_connection *conn, connection_message *m);
    /* Fills in the next request. Returns false if there is none. */
    bool (*ask)(ps_connection *conn, Psgd__V1__PullWeightsRequest *req);
    /* Prepares a repetition of what was sent or requested on a stream that has broken. */
    void (*again)(ps_connection *conn, ps_wire_stream stream);
    /* Takes the slices or rows of an answer. Their bytes begin at *at, which is moved behind them.
     */
    ps_status (*take)(ps_connection *conn, const Psgd__V1__PullWeightsResponse *reply,
                      const ps_incoming *payload, size_t *at);
} connection_group;

extern const connection_group ps_connection_groups[PS_PIECE_GROUPS];

/* Records what this thread does from now on, if its ring records `step`; 0: nothing. Does nothing
 * without a ring: in one process the thread is the trainer's and records into that one's. */
static inline void connection_trace(const ps_connection *conn, uint64_t step)
{
    if (conn->x->trace != NULL) {
        ps_trace_enter(conn->x->trace, step);
    }
}

/* Returns whether `clock` may be one that is repeated after a loss: some slices may have been
 * stepped on it already. They would be given for the next clock at once, while the worker still
 * computes with those from before. */
static inline bool ps_connection_repeats(const connection_exchange *x, uint64_t clock)
{
    return clock > 0 && clock == x->begins_at && ps_plan_rescues(x->plan);
}

/* connection.c */

/* Returns the node id of the server. */
const char *ps_connection_server(const ps_connection *conn);
/* Handles the end of a stream: opens it again after a pause, or fails the exchange. `what` names
 * the stream in messages. */
void ps_connection_stream_ended(connection_stream *s, const char *what, const ps_error *error);
/* Returns the identity to send: *who, filled, in the first message of a link; NULL in later ones.
 */
Psgd__V1__WorkerIdentity *ps_connection_greet(connection_stream *s, Psgd__V1__WorkerIdentity *who);
/* Returns whether a message may be sent on the stream now. */
bool ps_connection_can_send(const connection_stream *s);
/* Adds the traffic of the connection since the last call to the exchange's counters. */
void ps_connection_count(ps_connection *conn);
/* Fails the exchange because an answer was wrong, and ends the pull stream. */
void ps_connection_refuse(ps_connection *conn, const char *what, ps_status why);

/* connection_push.c, connection_pull.c */

extern const ps_link_events ps_connection_push_events, ps_connection_pull_events;
/* Returns where the next bytes of the message are encoded; they then count as a piece of it. */
uint8_t *ps_connection_room(ps_connection *conn, connection_message *m);
void ps_connection_encoded(ps_connection *conn, connection_message *m, size_t bytes);
/* Sends one open request, if the stream can send: for rows first, else for slices. */
void ps_connection_ask(ps_connection *conn);
/* Reads the pull stream if an answer is to come and nothing reads it. Otherwise the next request
 * reads it. */
void ps_connection_read(ps_connection *conn);
/* Opens a request for the slices of `clock` and sends it when possible. Does nothing after the
 * job's last clock. */
void ps_connection_request_slices(ps_connection *conn, uint64_t clock);

/* Expects all that a request for weights is answered with. */
void ps_connection_expect(ps_connection *conn);

struct connection_rows_way {
    bool come_with_weights; /* a request for weights is answered with changed rows too */
    /* Copies the rows of an answer to their places. */
    ps_status (*take)(ps_connection *conn, const Psgd__V1__PullWeightsResponse *reply,
                      ps_parts_reader *reader);
    /* Notes that the rows have arrived; is_last: with them the answer is complete. */
    void (*took)(ps_connection *conn, bool is_last);
    /* Returns the values for which a sent message with so many values of rows stands. */
    size_t (*sent)(const connection_rows *rows, size_t values);
};

/* connection_rows.c. Creates the state for rows; returns NULL if the part has no rows. */
connection_rows *ps_connection_rows_create(const ps_connection *conn);
/* Notes a slice of a fixed vocabulary, whose rows the part has. */
void ps_connection_rows_own(ps_connection *conn, uint32_t slice);
void ps_connection_rows_destroy(connection_rows *rows); /* NULL is allowed */

/* connection_replica.c. Applies slice i of an answer, a change or weights, to the worker's replica;
 * the bytes of the slice begin at `at` of the payload. If the replica is wrong afterwards, adds 1
 * to request_bad and leaves *is_new false; else sets it. The bytes may be anything; their number
 * was checked. */
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
