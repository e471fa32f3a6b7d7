/* SPDX-License-Identifier: Apache-2.0 */
/* connection_rows.c - the two streams of a connection for sparse tables: ids out and rows in,
 * gradients of rows out and acknowledgements in.
 *
 * What is asked for and pushed is the exchange's (pull_box, push_box): this connection's share of
 * it are the ids of its server. One message is in flight each way; when a stream breaks, the pull
 * goes on with the ids whose rows have not come, the push begins anew.
 */
#include "common/wire/wire_client_impl.h"

#include "common/base/container_of.h"
#include "common/base/draw.h"
#include "common/base/xalloc.h"
#include "common/codec/parts.h"
#include "common/job/table.h"
#include "common/train/merge.h"
#include "common/wire/identity.h"

#include <stdlib.h>
#include <string.h>

static void on_retry(ps_event *self, bool ok);

void ps_connection_rows_init(ps_connection *conn)
{
    const ps_plan *plan = conn->x->plan;
    connection_rows *r;

    if (!plan->has_tables) {
        return;
    }
    conn->rows = r = ps_xcalloc(1, sizeof *r);
    r->push = (connection_stream){.conn = conn};
    r->pull = (connection_stream){.conn = conn};
    ps_redial_init(&r->push.redial, conn->x->loop, &conn->x->gate, on_retry);
    ps_redial_init(&r->pull.redial, conn->x->loop, &conn->x->gate, on_retry);
    r->most = ps_table_keys_of_message(plan);
    r->index = ps_xcalloc(plan->table_keys + 1u, sizeof *r->index);
    r->keys = ps_xcalloc(r->most, sizeof *r->keys);
    r->shows = ps_xcalloc(r->most, sizeof *r->shows);
    r->clicks = ps_xcalloc(r->most, sizeof *r->clicks);
    for (uint32_t t = 0; t < plan->table_count; t++) {
        r->width = plan->tables[t].width > r->width ? plan->tables[t].width : r->width;
    }
    r->values = ps_xcalloc(r->most * r->width, sizeof *r->values);
}

void ps_connection_rows_fini(ps_connection *conn)
{
    connection_rows *r = conn->rows;

    if (r != NULL) {
        free(r->index);
        free(r->keys);
        free(r->shows);
        free(r->clicks);
        free(r->values);
        free(r);
    }
}

static void refuse(ps_connection *conn, connection_stream *s, ps_status why)
{
    why = ps_wrap(why, "rows from %s", conn->x->placement->servers[conn->server].node_id);
    ps_gate_fail(&conn->x->gate, &why);
    ps_stream_cancel(s->stream);
}

/* Who speaks, in the first message of a stream. */
static Psgd__V1__WorkerIdentity *greet(ps_connection *conn, connection_stream *s,
                                       Psgd__V1__WorkerIdentity *identity)
{
    if (s->greeted) {
        return NULL;
    }
    s->greeted = true;
    ps_identity_fill(identity, conn->x->session, conn->x->incarnation);
    return identity;
}

/* ---- Pulls ---- */

static void ask(ps_connection *conn)
{
    Psgd__V1__PullRowsRequest req = PSGD__V1__PULL_ROWS_REQUEST__INIT;
    Psgd__V1__WorkerIdentity identity;
    const rows_pull *box = &conn->x->pull_box;
    connection_rows *r = conn->rows;

    if (conn->stopping || !r->is_pulling || r->asked > 0 || r->pull.stream == NULL ||
        !ps_stream_can_send(r->pull.stream)) {
        return;
    }
    r->asked = r->index_count - r->at < r->most ? r->index_count - r->at : r->most;
    for (size_t i = 0; i < r->asked; i++) {
        r->keys[i] = box->keys[r->index[r->at + i]];
    }
    req.worker = greet(conn, &r->pull, &identity);
    req.attempt = conn->x->session->attempt;
    req.clock = box->clock;
    req.keys = r->keys;
    req.n_keys = r->asked;
    ps_stream_send(r->pull.stream, &req.base, NULL, 0);
}

void ps_connection_rows_pull(ps_connection *conn)
{
    const rows_pull *box = &conn->x->pull_box;
    connection_rows *r = conn->rows;

    r->index_count = 0;
    r->at = 0;
    r->asked = 0;
    for (size_t i = 0; i < box->count; i++) {
        if (ps_merge_server_of(conn->x->placement, box->keys[i]) == conn->server) {
            r->index[r->index_count++] = (uint32_t)i;
        }
    }
    r->is_pulling = r->index_count > 0;
    ask(conn);
}

static const uint8_t *view(void *arg, size_t at, size_t len, void *scratch)
{
    return ps_payload_view(arg, at, len, scratch);
}

/* The rows asked for, to their places. */
static ps_status take(ps_connection *conn, const Psgd__V1__PullRowsResponse *reply,
                      ps_payload *payload)
{
    const ps_plan *plan = conn->x->plan;
    const rows_pull *box = &conn->x->pull_box;
    connection_rows *r = conn->rows;
    float *to = box->rows;
    ps_parts_reader reader = {.heads = reply->rows,
                              .count = reply->n_rows,
                              .view = view,
                              .arg = payload,
                              .bytes = ps_payload_len(payload)};

    if (!r->is_pulling || r->asked == 0 || reply->clock != box->clock || reply->count != r->asked) {
        return ps_fail(PS_DATA_LOSS, "%u rows of clock %llu, asked for %zu of clock %llu",
                       reply->count, (unsigned long long)reply->clock, r->asked,
                       (unsigned long long)box->clock);
    }
    for (uint32_t t = 0; t < plan->table_count; t++) {
        size_t width = plan->tables[t].width;
        ps_status st = ps_parts_read(&reader, plan->down[plan->tables[t].variable].codec, r->values,
                                     r->asked * width);

        if (!ps_is_ok(&st)) {
            return st;
        }
        for (size_t i = 0; i < r->asked; i++) {
            memcpy(to + r->index[r->at + i] * width, r->values + i * width, width * sizeof *to);
        }
        to += box->count * width;
        atomic_fetch_add(&conn->x->base.count.float32_down, r->asked * width * sizeof *to);
    }
    return ps_parts_end(&reader);
}

static void on_rows(void *arg, const ProtobufCMessage *head, ps_payload *payload)
{
    ps_connection *conn = arg;
    connection_rows *r = conn->rows;
    ps_status st = take(conn, (const Psgd__V1__PullRowsResponse *)head, payload);

    ps_redial_works(&r->pull.redial);
    ps_wire_client_count(conn->x, conn);
    if (!ps_is_ok(&st)) {
        refuse(conn, &r->pull, st);
        return;
    }
    r->at += r->asked;
    r->asked = 0;
    if (r->at == r->index_count) {
        r->is_pulling = false;
        ps_gate_rows_came(&conn->x->gate, conn->server, PS_ROWS_PULLED);
    }
    ps_stream_read(r->pull.stream);
    ask(conn);
}

/* ---- Pushes ---- */

/* Ids of this server among those of table t from *from on, at most r->most: into the message's
 * lists; *from is behind them then. */
static size_t gather(ps_connection *conn, uint32_t t, size_t *from)
{
    const ps_met_rows *met = &conn->x->push_box.met[t];
    size_t width = conn->x->plan->tables[t].width, n = 0;
    connection_rows *r = conn->rows;

    for (; *from < met->count && n < r->most; (*from)++) {
        if (ps_merge_server_of(conn->x->placement, met->keys[*from]) == conn->server) {
            r->keys[n] = met->keys[*from];
            r->shows[n] = met->shows[*from];
            r->clicks[n] = met->clicks[*from];
            memcpy(r->values + n * width, met->grads + *from * width, width * sizeof *r->values);
            n++;
        }
    }
    return n;
}

/* Is there nothing of this server from there on? */
static bool is_rest_empty(const ps_connection *conn, uint32_t t, size_t from)
{
    for (; t < conn->x->plan->table_count; t++, from = 0) {
        const ps_met_rows *met = &conn->x->push_box.met[t];

        for (; from < met->count; from++) {
            if (ps_merge_server_of(conn->x->placement, met->keys[from]) == conn->server) {
                return false;
            }
        }
    }
    return true;
}

static void send_part(ps_connection *conn, uint32_t t, size_t n, bool is_last)
{
    Psgd__V1__PushRowsRequest req = PSGD__V1__PUSH_ROWS_REQUEST__INIT;
    Psgd__V1__WorkerIdentity identity;
    const rows_push *box = &conn->x->push_box;
    const ps_plan *plan = conn->x->plan;
    const ps_codec_choice *up = &plan->up[plan->tables[t].variable];
    connection_rows *r = conn->rows;
    size_t values = n * plan->tables[t].width, heads = ps_parts_count(values);
    ps_buf *out = ps_buf_create(ps_parts_bytes(up->codec, &up->params, values) + 1);
    uint64_t key = ps_draw_key(plan->spec->seed, PS_DRAW_UP, t, box->clock,
                               ((uint64_t)r->part << 32) | box->block);
    Psgd__V1__Encoding *ptrs[CONNECTION_ROW_HEADS];
    ps_piece piece;

    out->len = ps_parts_encode(up->codec, &up->params, key, r->values, values, out->data, r->heads);
    for (size_t i = 0; i < heads; i++) {
        ptrs[i] = &r->heads[i].msg;
    }
    req.worker = greet(conn, &r->push, &identity);
    req.attempt = conn->x->session->attempt;
    req.clock = box->clock;
    req.block = box->block;
    req.part = r->part++;
    req.table = t;
    req.keys = r->keys;
    req.n_keys = n;
    req.shows = r->shows;
    req.n_shows = n;
    req.clicks = r->clicks;
    req.n_clicks = n;
    req.is_last = is_last;
    req.rows = ptrs;
    req.n_rows = heads;
    piece = (ps_piece){.data = out->data, .len = out->len, .buf = out};
    ps_stream_send(r->push.stream, &req.base, &piece, out->len > 0);
    ps_buf_unref(out);
    atomic_fetch_add(&conn->x->base.count.float32_up, values * sizeof(float));
}

static void push(ps_connection *conn)
{
    connection_rows *r = conn->rows;
    uint32_t t;
    size_t n = 0;

    if (conn->stopping || !r->is_pushing || r->is_sent || r->push.stream == NULL ||
        !ps_stream_can_send(r->push.stream)) {
        return;
    }
    do {
        t = r->table;
        n = gather(conn, t, &r->from);
        if (r->from == conn->x->push_box.met[t].count && t + 1 < conn->x->plan->table_count) {
            r->table++;
            r->from = 0;
        }
    } while (n == 0 && r->table != t);
    r->is_sent = is_rest_empty(conn, r->table, r->from);
    send_part(conn, t, n, r->is_sent);
}

static void restart_push(connection_rows *r)
{
    r->table = 0;
    r->from = 0;
    r->part = 0;
    r->is_sent = false;
}

void ps_connection_rows_push(ps_connection *conn)
{
    restart_push(conn->rows);
    conn->rows->is_pushing = true;
    push(conn);
}

static void on_ack(void *arg, const ProtobufCMessage *head, ps_payload *payload)
{
    const Psgd__V1__PushRowsResponse *ack = (const Psgd__V1__PushRowsResponse *)head;
    ps_connection *conn = arg;
    connection_rows *r = conn->rows;

    (void)payload;
    ps_redial_works(&r->push.redial);
    ps_wire_client_count(conn->x, conn);
    if (r->is_pushing && ack->clock == conn->x->push_box.clock &&
        ack->block == conn->x->push_box.block) {
        r->is_pushing = false;
        ps_gate_rows_came(&conn->x->gate, conn->server, PS_ROWS_PUSHED);
    }
    ps_stream_read(r->push.stream);
}

/* ---- Life ---- */

static void on_asked(void *arg)
{
    ask(arg);
}

static void on_pushed(void *arg)
{
    push(arg);
}

static void on_pull_end(void *arg, const ps_error *error)
{
    ps_connection_stream_ended(&((ps_connection *)arg)->rows->pull, "PullRows", error);
}

static void on_push_end(void *arg, const ps_error *error)
{
    ps_connection_stream_ended(&((ps_connection *)arg)->rows->push, "PushRows", error);
}

static const ps_stream_events pull_events = {
    .on_message = on_rows, .on_sent = on_asked, .on_end = on_pull_end};
static const ps_stream_events push_events = {
    .on_message = on_ack, .on_sent = on_pushed, .on_end = on_push_end};

static void open_stream(connection_stream *s)
{
    ps_connection *conn = s->conn;
    bool is_push = s == &conn->rows->push;

    s->greeted = false;
    s->stream = ps_stream_open(conn->channel, &psgd__v1__parameter_service__descriptor,
                               is_push ? "PushRows" : "PullRows", PS_NO_TIMEOUT, 0,
                               is_push ? &push_events : &pull_events, conn);
    ps_stream_read(s->stream);
    if (is_push) {
        restart_push(conn->rows);
        push(conn);
    } else {
        conn->rows->asked = 0;
        ask(conn);
    }
}

static void on_retry(ps_event *self, bool ok)
{
    connection_stream *s = PS_CONTAINER_OF(self, connection_stream, redial.retry.event);

    if (ok && !s->conn->stopping) {
        open_stream(s);
    }
}

void ps_connection_rows_open(ps_connection *conn)
{
    if (conn->rows != NULL) {
        open_stream(&conn->rows->push);
        open_stream(&conn->rows->pull);
    }
}

void ps_connection_rows_stop(ps_connection *conn)
{
    connection_rows *r = conn->rows;

    if (r == NULL) {
        return;
    }
    ps_redial_stop(&r->push.redial);
    ps_redial_stop(&r->pull.redial);
    if (r->push.stream != NULL) {
        ps_stream_cancel(r->push.stream);
    }
    if (r->pull.stream != NULL) {
        ps_stream_cancel(r->pull.stream);
    }
}

bool ps_connection_rows_are_over(const ps_connection *conn)
{
    return conn->rows == NULL ||
           (conn->rows->push.stream == NULL && conn->rows->pull.stream == NULL);
}
