/* SPDX-License-Identifier: Apache-2.0 */
/* connection.c - see connection.h: opening, breaking and ending of a connection's two streams. */
#include "common/wire/wire_client_impl.h"

#include "common/base/container_of.h"
#include "common/base/xalloc.h"

#include <stdlib.h>

static void on_retry_push(ps_event *self, bool ok);
static void on_retry_pull(ps_event *self, bool ok);

void ps_connection_init(ps_connection *conn, ps_wire_client *x, uint32_t server)
{
    conn->x = x;
    conn->server = server;
    conn->owned = x->placement->owned[server];
    conn->owned_count = x->placement->owned_count[server];
    conn->state = ps_xcalloc(conn->owned_count + 1, sizeof *conn->state);
    conn->slices = ps_xcalloc(conn->owned_count + 1, sizeof *conn->slices);
    conn->got = ps_xcalloc(conn->owned_count + 1, sizeof *conn->got);
    conn->version = ps_xcalloc(conn->owned_count + 1, sizeof *conn->version);
    conn->message_bytes = PS_PAYLOAD_MAX;
    conn->push = (connection_stream){.conn = conn};
    conn->pull = (connection_stream){.conn = conn};
    ps_connection_rows_init(conn);
    ps_redial_init(&conn->push.redial, x->loop, &x->gate, on_retry_push);
    ps_redial_init(&conn->pull.redial, x->loop, &x->gate, on_retry_pull);
    for (uint32_t i = 0; i < CONNECTION_BATCH; i++) {
        conn->head_ptrs[i] = &conn->heads[i].msg;
    }
}

void ps_connection_fini(ps_connection *conn)
{
    ps_channel_destroy(conn->channel);
    for (size_t i = 0; i < sizeof conn->encoded / sizeof conn->encoded[0]; i++) {
        ps_buf_unref(conn->encoded[i]);
    }
    ps_connection_rows_fini(conn);
    free(conn->state);
    free(conn->slices);
    free(conn->got);
    free(conn->version);
}

static void open_stream(connection_stream *s)
{
    ps_connection *conn = s->conn;
    bool is_push = s == &conn->push;

    s->greeted = false;
    s->stream =
        ps_stream_open(conn->channel, &psgd__v1__parameter_service__descriptor,
                       is_push ? "PushGradient" : "PullWeights", PS_NO_TIMEOUT, 0,
                       is_push ? &ps_connection_push_events : &ps_connection_pull_events, conn);
    ps_stream_read(s->stream);
    if (is_push) {
        ps_connection_pump(conn);
    } else {
        ps_connection_pull_ask(conn);
    }
}

void ps_connection_open(ps_connection *conn)
{
    if (conn->owned_count == 0) {
        return;
    }
    conn->channel =
        ps_channel_create(conn->x->loop, conn->x->placement->servers[conn->server].address);
    ps_connection_rows_open(conn);
    open_stream(&conn->push);
    open_stream(&conn->pull);
    if (conn->x->asks_early) {
        ps_connection_wish(conn, 1); /* the weights of clock 0 came with the packages */
    }
}

void ps_connection_stop(ps_connection *conn)
{
    conn->stopping = true;
    ps_connection_rows_stop(conn);
    ps_redial_stop(&conn->push.redial);
    ps_redial_stop(&conn->pull.redial);
    if (conn->push.stream != NULL) {
        ps_stream_cancel(conn->push.stream);
    }
    if (conn->pull.stream != NULL) {
        ps_stream_cancel(conn->pull.stream);
    }
}

bool ps_connection_is_over(const ps_connection *conn)
{
    return conn->push.stream == NULL && conn->pull.stream == NULL &&
           ps_connection_rows_are_over(conn);
}

void ps_connection_stream_ended(connection_stream *s, const char *what, const ps_error *error)
{
    ps_connection *conn = s->conn;
    const char *who = conn->x->placement->servers[conn->server].node_id;

    s->stream = NULL;
    if (conn->stopping) {
        ps_wire_client_connection_ended(conn->x);
        return;
    }
    ps_redial_ended(&s->redial, what, who, error);
}

static void on_retry_push(ps_event *self, bool ok)
{
    connection_stream *s = PS_CONTAINER_OF(self, connection_stream, redial.retry.event);
    ps_connection *conn = s->conn;

    if (!ok || conn->stopping) {
        return;
    }
    for (uint32_t i = 0; conn->has_contribution && i < conn->owned_count; i++) {
        if (conn->state[i] == SLICE_SENT) { /* perhaps it never came */
            conn->state[i] = SLICE_WAITS;
            conn->unsent++;
            ps_connection_slice_ready(conn, i);
        }
    }
    open_stream(s);
}

static void on_retry_pull(ps_event *self, bool ok)
{
    connection_stream *s = PS_CONTAINER_OF(self, connection_stream, redial.retry.event);

    if (ok && !s->conn->stopping) {
        s->conn->wish_sent = false;
        s->conn->wish_left = s->conn->owned_count; /* what came before comes again */
        open_stream(s);
    }
}
