/* SPDX-License-Identifier: Apache-2.0 */
/* wire_client_impl.h - what wire_client.c and the connections share; for them only. */
#ifndef PS_COMMON_WIRE_WIRE_CLIENT_IMPL_H
#define PS_COMMON_WIRE_WIRE_CLIENT_IMPL_H

#include "common/wire/connection.h"
#include "common/wire/wire_client.h"

#include "common/wire/coder.h"

#include <pthread.h>

/* Rows that the trainer asks for. */
typedef struct wanted_rows {
    uint64_t number; /* of requests so far */
    uint64_t clock;
    const uint64_t *keys; /* (count) */
    size_t count;
    float *rows;
} wanted_rows;

/* What the trainer hands to the client's thread. */
typedef struct exchange_box {
    pthread_mutex_t mutex; /* guards all below */
    bool kicked;           /* the kick is in flight */
    uint64_t number;       /* of contributions begun */
    uint64_t clock;
    uint32_t block;
    bool is_last;
    bool is_skip;    /* nothing will be sent for the clock */
    bool is_nothing; /* the contribution is zeros, which are not carried */
    uint32_t *ready; /* (variables): those that are final, in order of time */
    ps_rows *rows;   /* (variables): touched ones of those that go by rows; id NULL: not told */
    uint32_t ready_count;
    size_t unseen_bytes;    /* of those that became ready since the last kick, as float32 */
    const ps_met_rows *met; /* the contribution's rows of sparse tables; NULL: not there yet */
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
    uint64_t begins_at; /* clock of the weights that are there at the start */
    ps_coder coder;     /* the connections share it: a slice is one connection's */

    exchange_box box;
    ps_event kick;
    uint64_t seen;          /* number of the contribution the connections work on */
    uint64_t seen_wanted;   /* and of the request for rows */
    uint32_t taken;         /* variables of box.ready that the connections know */
    uint32_t *fresh;        /* (variables): copied from the box */
    ps_rows *fresh_rows;    /* (variables): theirs */
    const ps_met_rows *met; /* the box's; the gate owes acknowledgements as long as it is read */
    wanted_rows wanted;     /* the box's; read until the gate owes no rows */

    /* Requests go out before the step they wait for: safe only where no answer can
     * come before this worker's own contribution, that is where nobody else may
     * bring it. */
    bool asks_early;
    uint32_t *position; /* (slices): index in the connection's owned */
    uint32_t connection_count;
    ps_connection *connections; /* (connection_count), by part; unused ones stay closed */

    bool stopping;
    ps_event over;
    bool over_posted;
    ps_event *done;
};

/* A stream of a connection has ended for good. */
void ps_wire_client_ended(ps_wire_client *x);
/* Adds what a connection's links have carried since the last time. */
void ps_wire_client_count(ps_wire_client *x, ps_connection *conn);

/* connection.c: the node id of the server. */
const char *ps_connection_server(const ps_connection *conn);
/* A stream ended; opens it again or fails the exchange. */
void ps_connection_stream_ended(connection_stream *s, const char *what, const ps_error *error);
/* Says who speaks, in the first message of a stream; NULL in later ones. */
Psgd__V1__WorkerIdentity *ps_connection_greet(connection_stream *s, Psgd__V1__WorkerIdentity *who);
/* May a message go out on it? */
bool ps_connection_can_send(const connection_stream *s);
/* The answer broke the contract: the exchange cannot go on. */
void ps_connection_refuse(ps_connection *conn, const char *what, ps_status why);

/* connection_push.c, connection_pull.c: a stream was opened or may go on. */
extern const ps_link_events ps_connection_push_events, ps_connection_pull_events;
/* Sends a message of the contribution in hand, whose payload is the first `pieces` of the scratch.
 */
void ps_connection_send(ps_connection *conn, Psgd__V1__PushGradientRequest *req, size_t pieces);
void ps_connection_ask(ps_connection *conn); /* sends the requests that are open */
void ps_connection_request_slices(ps_connection *conn, uint64_t clock);

/* connection_rows.c: what a connection keeps of rows; NULL: the part has none. */
connection_rows *ps_connection_rows_create(const ps_connection *conn);
void ps_connection_rows_destroy(connection_rows *rows); /* NULL is allowed */

/* For piece.h. Of slices, connection_push.c and connection_pull.c; of rows, connection_rows.c. */
bool ps_connection_slices_send(ps_connection *conn);
bool ps_connection_slices_ask(ps_connection *conn, Psgd__V1__PullWeightsRequest *req);
void ps_connection_slices_again(ps_connection *conn, ps_wire_stream stream);
PS_MUST_USE ps_status ps_connection_slices_take(ps_connection *conn,
                                                const Psgd__V1__PullWeightsResponse *reply,
                                                const ps_incoming *payload);
bool ps_connection_rows_send(ps_connection *conn);
bool ps_connection_rows_ask(ps_connection *conn, Psgd__V1__PullWeightsRequest *req);
void ps_connection_rows_again(ps_connection *conn, ps_wire_stream stream);
PS_MUST_USE ps_status ps_connection_rows_take(ps_connection *conn,
                                              const Psgd__V1__PullWeightsResponse *reply,
                                              const ps_incoming *payload);

#endif
