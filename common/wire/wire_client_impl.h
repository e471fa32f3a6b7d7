/* SPDX-License-Identifier: Apache-2.0 */
/* wire_client_impl.h - what wire_client.c and the connections share; for them only. */
#ifndef PS_COMMON_WIRE_WIRE_CLIENT_IMPL_H
#define PS_COMMON_WIRE_WIRE_CLIENT_IMPL_H

#include "common/wire/connection.h"
#include "common/wire/wire_client.h"

#include "common/wire/coder.h"

#include <pthread.h>

/* What the trainer hands to the loop. */
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
    size_t unseen_bytes; /* of those that became ready since the last kick, as float32 */
} exchange_box;

/* Rows of sparse tables: the trainer fills a box and posts its kick, the connections read it until
 * the gate owes none of that kind. */
typedef struct rows_pull {
    uint64_t clock;
    const uint64_t *keys;
    size_t count;
    float *rows;
} rows_pull;

typedef struct rows_push {
    uint64_t clock;
    uint32_t block;
    const ps_met_rows *met;
} rows_push;

typedef struct rows_kick {
    ps_event event;
    atomic_bool is_out; /* it is in flight */
} rows_kick;

struct ps_wire_client {
    ps_exchange base;
    ps_loop *loop;
    const ps_session *session;
    const ps_plan *plan;
    const ps_layout *layout;
    const ps_placement *placement; /* the session's */
    uint64_t incarnation;
    float *weights;
    ps_buf *grad;
    ps_gate gate;
    ps_coder coder; /* the connections share it: a slice is one connection's */

    exchange_box box;
    ps_event kick;
    rows_pull pull_box;
    rows_push push_box;
    rows_kick pull_kick, push_kick;
    uint64_t seen;       /* number of the contribution the connections work on */
    uint32_t taken;      /* variables of box.ready that the connections know */
    uint32_t *fresh;     /* (variables): copied from the box */
    ps_rows *fresh_rows; /* (variables): theirs */

    /* Wishes go out before the step they wait for: safe only where no answer can
     * come before this worker's own contribution, that is where nobody else may
     * bring it. */
    bool asks_early;
    uint32_t *position; /* (slices): index in the connection's owned */
    uint32_t connection_count;
    ps_connection
        *connections; /* (connection_count), by server; those without slices stay closed */

    bool stopping;
    ps_event over;
    bool over_posted;
    ps_event *done;
};

/* A stream of a connection has ended for good. */
void ps_wire_client_connection_ended(ps_wire_client *x);
/* Adds what a connection's channel has carried since the last time. */
void ps_wire_client_count(ps_wire_client *x, ps_connection *conn);

/* connection_push.c, connection_pull.c: a stream was opened or may go on. */
extern const ps_stream_events ps_connection_push_events, ps_connection_pull_events;
void ps_connection_pull_ask(ps_connection *conn);
void ps_connection_wish(ps_connection *conn, uint64_t clock);
/* connection_replica.c: one slice of an answer where changes are broadcast. *is_new: it
 * makes the replica what it should be; else, if it should have, wish_bad counts it. */
PS_MUST_USE ps_status ps_connection_take_change(ps_connection *conn,
                                                const Psgd__V1__PullWeightsResponse *reply,
                                                size_t i, const uint8_t *bytes, bool *is_new);
/* connection_rows.c: nothing happens where the job has no sparse tables. */
void ps_connection_rows_init(ps_connection *conn);
void ps_connection_rows_fini(ps_connection *conn);
void ps_connection_rows_open(ps_connection *conn);
void ps_connection_rows_stop(ps_connection *conn);
bool ps_connection_rows_are_over(const ps_connection *conn);
/* Begins what is in the pull_box, or in the push_box. */
void ps_connection_rows_pull(ps_connection *conn);
void ps_connection_rows_push(ps_connection *conn);
/* connection.c: a stream ended; opens it again or fails the exchange. */
void ps_connection_stream_ended(connection_stream *s, const char *what, const ps_error *error);

#endif
