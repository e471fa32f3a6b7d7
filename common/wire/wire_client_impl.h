/* SPDX-License-Identifier: Apache-2.0 */
/* wire_client_impl.h - what wire_client.c and the connections share; for them only. */
#ifndef PS_COMMON_WIRE_WIRE_CLIENT_IMPL_H
#define PS_COMMON_WIRE_WIRE_CLIENT_IMPL_H

#include "common/wire/connection.h"
#include "common/wire/wire_client.h"

#include "common/wire/coder.h"

#include <pthread.h>

/* A request of the trainer for rows. */
typedef struct wanted_rows {
    uint64_t number; /* number of requests so far, with this one */
    uint64_t clock;
    const uint64_t *keys; /* (count) */
    size_t count;
    float *rows; /* written: (count, width) for each table in turn */
} wanted_rows;

/* What the trainer hands to the client's thread. */
typedef struct exchange_box {
    pthread_mutex_t mutex; /* guards all below */
    bool kicked;           /* the event `kick` was posted and has not fired */
    uint64_t number;       /* number of contributions begun */
    uint64_t clock;
    uint32_t block;
    bool is_last;
    bool is_skip;    /* the clock is skipped: nothing is sent */
    bool is_nothing; /* the contribution is all zeros and goes without slices */
    uint32_t *ready; /* (variables): final ones, in the order in which they became so */
    uint32_t ready_count;
    size_t unseen_bytes;    /* float32 bytes that became ready since the last kick */
    const ps_met_rows *met; /* the contribution's rows; NULL: not pushed yet */
    wanted_rows wanted;
} exchange_box;

struct ps_wire_client {
    ps_exchange base;
    ps_wire_client_conf conf;
    ps_transport *transport;
    const ps_plan *plan;
    const ps_layout *layout;
    const ps_placement *placement;
    float *weights;
    ps_buf *grad;
    ps_gate gate;
    uint64_t begins_at; /* clock of the weights at the start */
    ps_coder coder;     /* shared by the connections, each of which uses its own slices */

    exchange_box box;
    ps_event kick;
    uint64_t seen;          /* number of the contribution that the connections send */
    uint64_t seen_wanted;   /* number of the request for rows that they have */
    uint32_t taken;         /* variables of box.ready that they have */
    uint32_t *fresh;        /* (variables): copied from the box */
    const ps_met_rows *met; /* copied from the box; valid while acknowledgements are owed */
    wanted_rows wanted;     /* copied from the box; valid while rows are owed */

    /* Requests for the next weights are sent before this worker's contribution. Safe only if no
     * answer can arrive before that contribution, so if no other worker may bring it. */
    bool asks_early;
    uint32_t *position; /* (slices): index in `owned` of the slice's connection, or
                         * CONNECTION_NO_POSITION */
    uint32_t connection_count;
    ps_connection *connections; /* (connection_count), by part; unused ones stay closed */

    bool stopping;
    ps_event over;
    bool over_posted;
    ps_event *done;
};

/* Notes that a stream of a connection has ended and is not opened again. */
void ps_wire_client_ended(ps_wire_client *x);
/* Adds the traffic of a connection since the last call to the exchange's counters. */
void ps_wire_client_count(ps_wire_client *x, ps_connection *conn);

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
/* Fails the exchange because an answer was wrong, and ends the pull stream. */
void ps_connection_refuse(ps_connection *conn, const char *what, ps_status why);

/* connection_push.c, connection_pull.c */

extern const ps_link_events ps_connection_push_events, ps_connection_pull_events;
/* Returns where the next bytes of the message are encoded; they then count as a piece of it. */
uint8_t *ps_connection_room(ps_connection *conn, connection_message *m);
void ps_connection_encoded(ps_connection *conn, connection_message *m, size_t bytes);
/* Sends one open request, if the stream can send: for rows first, else for slices. */
void ps_connection_ask(ps_connection *conn);
/* Opens a request for the slices of `clock` and sends it when possible. Does nothing after the
 * job's last clock. */
void ps_connection_request_slices(ps_connection *conn, uint64_t clock);

/* Expects all that a request for weights is answered with. */
void ps_connection_expect(ps_connection *conn);

/* connection_rows.c. Creates the state for rows; returns NULL if the part has no rows. */
connection_rows *ps_connection_rows_create(const ps_connection *conn);
/* Notes a slice of a fixed vocabulary, whose rows the part has. */
void ps_connection_rows_own(ps_connection *conn, uint32_t slice);
void ps_connection_rows_destroy(connection_rows *rows); /* NULL is allowed */

/* The functions of the table in piece.h: for slices in connection_push.c and connection_pull.c, for
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
