/* SPDX-License-Identifier: Apache-2.0 */
/* connection.c - see connection.h: opens, reopens and ends a connection's two streams. */
#include "common/wire/connection_impl.h"

#include "common/base/container_of.h"
#include "common/base/xalloc.h"

#include <stdlib.h>

const connection_group ps_connection_groups[PS_PIECE_GROUPS] = {
    [PS_PIECE_SLICES] =
        {
            .name = "weights",
            .put = ps_connection_slices_put,
            .ask = ps_connection_slices_ask,
            .again = ps_connection_slices_again,
            .take = ps_connection_slices_take,
        },
    [PS_PIECE_ROWS] =
        {
            .name = "rows",
            .put = ps_connection_rows_put,
            .ask = ps_connection_rows_ask,
            .again = ps_connection_rows_again,
            .take = ps_connection_rows_take,
        },
};

static void on_retry(ps_event *self, bool ok);

static void init_stream(ps_connection *conn, connection_stream *s)
{
    *s = (connection_stream){.conn = conn};
    ps_redial_init(&s->redial, conn->x->transport->loop, &conn->x->gate, on_retry);
}

/* Lists in conn->owned the slices of the part that are sent as slices, and sets their positions.
 * Slices of a table with a fixed vocabulary are not among them, because they are sent as rows. */
static void choose_slices(ps_connection *conn, const ps_part *part)
{
    connection_exchange *x = conn->x;

    conn->owned = ps_xcalloc(part->owned_count + 1u, sizeof *conn->owned);
    for (uint32_t i = 0; i < part->owned_count; i++) {
        uint32_t slice = part->owned[i];

        if (x->plan->table_of[x->layout->slices[slice].variable] != PS_NO_TABLE) {
            x->position[slice] = CONNECTION_NO_POSITION;
            ps_connection_rows_own(conn, slice);
        } else {
            x->position[slice] = conn->owned_count;
            conn->owned[conn->owned_count++] = slice;
        }
    }
}

void ps_connection_init(ps_connection *conn, connection_exchange *x, uint32_t part)
{
    conn->x = x;
    conn->part = part;
    conn->is_copy = x->placement->parts[part].is_copy;
    conn->original = ps_placement_original(x->placement, part);
    conn->rows = ps_connection_rows_create(conn);
    choose_slices(conn, &x->placement->parts[part]);
    conn->is_used = conn->owned_count > 0 || conn->rows != NULL;
    conn->state = ps_xcalloc(conn->owned_count + 1, sizeof *conn->state);
    conn->took = ps_xcalloc(conn->owned_count + 1, sizeof *conn->took);
    for (uint32_t i = 0; i < conn->owned_count; i++) {
        conn->took[i] = (uint32_t)ps_coder_size(&x->coder, part, conn->owned[i]);
    }
    conn->fresh = ps_xcalloc(x->placement->parts[part].owned_count + 1u, sizeof *conn->fresh);
    conn->got = ps_xcalloc(conn->owned_count + 1, sizeof *conn->got);
    conn->version = ps_xcalloc(conn->owned_count + 1, sizeof *conn->version);
    conn->message_bytes = x->transport->message_bytes;
    init_stream(conn, &conn->push);
    init_stream(conn, &conn->pull);
    for (uint32_t i = 0; i < CONNECTION_BATCH; i++) {
        conn->head_ptrs[i] = &conn->heads[i].msg;
    }
}

void ps_connection_fini(ps_connection *conn)
{
    for (size_t i = 0; i < sizeof conn->encoded / sizeof conn->encoded[0]; i++) {
        ps_buf_unref(conn->encoded[i]);
    }
    ps_connection_rows_destroy(conn->rows);
    free(conn->owned);
    free(conn->state);
    free(conn->took);
    free(conn->fresh);
    free(conn->got);
    free(conn->version);
}

static void open_stream(connection_stream *s)
{
    ps_connection *conn = s->conn;
    ps_transport *t = conn->x->transport;
    bool is_push = s == &conn->push;

    s->greeted = false;
    s->link = t->ops->open(t, conn->part, is_push ? PS_WIRE_PUSH : PS_WIRE_PULL,
                           is_push ? &ps_connection_push_events : &ps_connection_pull_events, conn);
    if (is_push) {
        ps_link_read(s->link);
        ps_connection_pump(conn);
    } else {
        conn->is_reading = false;
        ps_connection_read(conn);
        ps_connection_ask(conn);
    }
}

void ps_connection_open(ps_connection *conn)
{
    if (!conn->is_used) {
        return;
    }
    for (uint32_t i = 0; i < conn->owned_count; i++) {
        conn->got[i] = conn->version[i] = conn->x->begins_at - conn->x->lacks_weights;
    }
    if (conn->rows != NULL) {
        conn->rows->got = conn->x->begins_at;
    }
    open_stream(&conn->push);
    if (conn->is_copy) {
        return;
    }
    open_stream(&conn->pull);
    if (conn->x->lacks_weights) {
        ps_connection_request_slices(conn, conn->x->begins_at);
    } else if (conn->x->asks_early && !ps_connection_repeats(conn->x, conn->x->begins_at)) {
        /* The worker has the weights of begins_at already, because they came with its job or its
         * saved rank. So it requests those of the next clock. */
        ps_connection_request_slices(conn, conn->x->begins_at + 1);
    }
}

static void stop_stream(connection_stream *s)
{
    ps_redial_stop(&s->redial);
    if (s->link != NULL) {
        ps_link_finish(s->link);
    }
}

void ps_connection_stop(ps_connection *conn)
{
    conn->stopping = true;
    stop_stream(&conn->push);
    stop_stream(&conn->pull);
}

bool ps_connection_is_over(const ps_connection *conn)
{
    return conn->push.link == NULL && conn->pull.link == NULL;
}

const char *ps_connection_server(const ps_connection *conn)
{
    return ps_placement_server(conn->x->placement, conn->part)->node_id;
}

Psgd__V1__WorkerIdentity *ps_connection_greet(connection_stream *s, Psgd__V1__WorkerIdentity *who)
{
    const connection_exchange *x = s->conn->x;

    if (s->greeted) {
        return NULL;
    }
    s->greeted = true;
    ps_identity_fill(who, &x->attempt, x->rank, x->incarnation);
    return who;
}

bool ps_connection_can_send(const connection_stream *s)
{
    return !s->conn->stopping && s->link != NULL && ps_link_can_send(s->link);
}

void ps_connection_count(ps_connection *conn)
{
    connection_exchange *x = conn->x;
    ps_traffic now = x->transport->ops->traffic(x->transport, conn->part), before = conn->counted;

    atomic_fetch_add(&x->exchange.count.bytes_up, now.bytes_out - before.bytes_out);
    atomic_fetch_add(&x->exchange.count.bytes_down, now.bytes_in - before.bytes_in);
    atomic_fetch_add(&x->exchange.count.messages_up, now.messages_out - before.messages_out);
    atomic_fetch_add(&x->exchange.count.messages_down, now.messages_in - before.messages_in);
    atomic_fetch_add(&x->exchange.count.bytes_through_memory,
                     now.bytes_through_memory - before.bytes_through_memory);
    conn->counted = now;
}

void ps_connection_refuse(ps_connection *conn, const char *what, ps_status why)
{
    why = ps_wrap(why, "%s from %s", what, ps_connection_server(conn));
    ps_gate_fail(&conn->x->gate, &why);
    ps_link_finish(conn->pull.link);
}

void ps_connection_stream_ended(connection_stream *s, const char *what, const ps_error *error)
{
    ps_connection *conn = s->conn;

    s->link = NULL;
    if (conn->stopping) {
        conn->x->over(conn->x);
        return;
    }
    ps_redial_ended(&s->redial, what, ps_connection_server(conn), error);
}

static void on_retry(ps_event *self, bool ok)
{
    connection_stream *s = PS_CONTAINER_OF(self, connection_stream, redial.retry.event);
    ps_connection *conn = s->conn;

    if (!ok || conn->stopping) {
        return;
    }
    for (size_t i = 0; i < PS_PIECE_GROUPS; i++) {
        ps_connection_groups[i].again(conn, s == &conn->push ? PS_WIRE_PUSH : PS_WIRE_PULL);
    }
    open_stream(s);
}
