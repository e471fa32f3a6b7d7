/* SPDX-License-Identifier: Apache-2.0 */
/* connection_rows.c - rows of sparse tables on the streams of a connection: keys out and rows in,
 * gradients of rows out.
 *
 * What is asked for and pushed is the client's (wanted, met): a connection's share of it are
 * the keys of its part. When a stream breaks, the pull goes on with the keys whose rows have not
 * come, the push begins anew.
 */
#include "common/wire/wire_client_impl.h"

#include "common/base/draw.h"
#include "common/base/xalloc.h"
#include "common/codec/parts.h"
#include "common/job/table_numbers.h"
#include "common/train/merge.h"

#include <stdlib.h>
#include <string.h>

connection_rows *ps_connection_rows_create(const ps_connection *conn)
{
    const ps_plan *plan = conn->x->plan;
    connection_rows *r;

    if (plan->table_count == 0 || !ps_merge_has_rows(conn->x->placement, conn->part)) {
        return NULL;
    }
    r = ps_xcalloc(1, sizeof *r);
    r->most = ps_table_keys_of_message(plan);
    r->index = ps_xcalloc(plan->table_keys + 1u, sizeof *r->index);
    r->keys = ps_xcalloc(r->most, sizeof *r->keys);
    r->shows = ps_xcalloc(r->most, sizeof *r->shows);
    r->clicks = ps_xcalloc(r->most, sizeof *r->clicks);
    for (uint32_t t = 0; t < plan->table_count; t++) {
        r->width = plan->tables[t].width > r->width ? plan->tables[t].width : r->width;
    }
    r->values = ps_xcalloc(r->most * r->width, sizeof *r->values);
    return r;
}

void ps_connection_rows_destroy(connection_rows *r)
{
    if (r != NULL) {
        free(r->index);
        free(r->keys);
        free(r->shows);
        free(r->clicks);
        free(r->values);
        free(r);
    }
}

/* ---- Pulls ---- */

bool ps_connection_rows_ask(ps_connection *conn, Psgd__V1__PullWeightsRequest *req)
{
    const wanted_rows *wanted = &conn->x->wanted;
    connection_rows *r = conn->rows;

    if (r == NULL || !r->is_pulling || r->asked > 0) {
        return false;
    }
    r->asked = r->index_count - r->at < r->most ? r->index_count - r->at : r->most;
    for (size_t i = 0; i < r->asked; i++) {
        r->keys[i] = wanted->keys[r->index[r->at + i]];
    }
    req->clock = wanted->clock;
    req->keys = r->keys;
    req->n_keys = r->asked;
    return true;
}

void ps_connection_ask_rows(ps_connection *conn)
{
    const wanted_rows *wanted = &conn->x->wanted;
    connection_rows *r = conn->rows;

    if (r == NULL) {
        return;
    }
    r->index_count = 0;
    r->at = 0;
    r->asked = 0;
    for (size_t i = 0; i < wanted->count; i++) {
        if (ps_merge_part_of(conn->x->placement, wanted->keys[i]) == conn->part) {
            r->index[r->index_count++] = (uint32_t)i;
        }
    }
    r->is_pulling = r->index_count > 0;
    ps_connection_ask(conn);
}

/* The rows asked for, to their places. */
static ps_status take(ps_connection *conn, const Psgd__V1__PullWeightsResponse *reply,
                      const ps_incoming *payload)
{
    const ps_plan *plan = conn->x->plan;
    const wanted_rows *wanted = &conn->x->wanted;
    connection_rows *r = conn->rows;
    float *to = wanted->rows;
    ps_parts_reader reader = {.heads = reply->rows->values,
                              .count = reply->rows->n_values,
                              .view = payload->view,
                              .arg = payload->arg,
                              .bytes = payload->len};

    if (reply->n_slices > 0 || r == NULL || !r->is_pulling || r->asked == 0 ||
        reply->clock != wanted->clock || reply->rows->count != r->asked) {
        return ps_fail(PS_DATA_LOSS, "%u rows of clock %llu, asked for %zu of clock %llu",
                       reply->rows->count, (unsigned long long)reply->clock,
                       r != NULL ? r->asked : 0, (unsigned long long)wanted->clock);
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
        to += wanted->count * width;
        atomic_fetch_add(&conn->x->base.count.float32_down, r->asked * width * sizeof *to);
    }
    return ps_parts_end(&reader);
}

ps_status ps_connection_rows_take(ps_connection *conn, const Psgd__V1__PullWeightsResponse *reply,
                                  const ps_incoming *payload)
{
    ps_status st = take(conn, reply, payload);
    connection_rows *r = conn->rows;

    if (!ps_is_ok(&st)) {
        return st;
    }
    r->at += r->asked;
    r->asked = 0;
    if (r->at == r->index_count) {
        r->is_pulling = false;
        ps_gate_rows_came(&conn->x->gate, conn->part);
    }
    return st;
}

/* ---- Pushes ---- */

void ps_connection_rows_begin(ps_connection *conn)
{
    if (conn->rows != NULL) {
        conn->rows->is_ready = conn->rows->is_sent = false;
    }
}

void ps_connection_rows_ready(ps_connection *conn)
{
    connection_rows *r = conn->rows;

    if (r != NULL) {
        r->is_ready = true;
        r->is_sent = false;
        r->table = r->part = 0;
        r->from = 0;
    }
}

void ps_connection_rows_again(ps_connection *conn, ps_wire_stream stream)
{
    if (conn->rows != NULL && stream == PS_WIRE_PULL) {
        conn->rows->asked = 0;
    } else if (conn->rows != NULL && conn->rows->is_ready) {
        ps_connection_rows_ready(conn);
    }
}

/* Keys of this server among those of table t from *from on, at most r->most: into the message's
 * lists; *from is behind them then. */
static size_t gather(ps_connection *conn, uint32_t t, size_t *from)
{
    const ps_met_rows *met = &conn->x->met[t];
    size_t width = conn->x->plan->tables[t].width, n = 0;
    connection_rows *r = conn->rows;

    for (; *from < met->count && n < r->most; (*from)++) {
        if (ps_merge_part_of(conn->x->placement, met->keys[*from]) == conn->part) {
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
        const ps_met_rows *met = &conn->x->met[t];

        for (; from < met->count; from++) {
            if (ps_merge_part_of(conn->x->placement, met->keys[from]) == conn->part) {
                return false;
            }
        }
    }
    return true;
}

static void send_part(ps_connection *conn, uint32_t t, size_t n)
{
    Psgd__V1__PushGradientRequest req = PSGD__V1__PUSH_GRADIENT_REQUEST__INIT;
    Psgd__V1__RowGradients rows = PSGD__V1__ROW_GRADIENTS__INIT;
    const ps_plan *plan = conn->x->plan;
    const ps_codec_choice *up = &plan->up[plan->tables[t].variable];
    connection_rows *r = conn->rows;
    size_t values = n * plan->tables[t].width, heads = ps_parts_count(values);
    ps_buf *out = ps_buf_create(ps_parts_bytes(up->codec, &up->params, values) + 1);
    uint64_t key = ps_draw_key(plan->spec->seed, PS_DRAW_UP, t, conn->clock,
                               ((uint64_t)r->part << 32) | conn->block);
    Psgd__V1__Encoding *ptrs[CONNECTION_ROW_HEADS];

    out->len = ps_parts_encode(up->codec, &up->params, key, r->values, values, out->data, r->heads);
    for (size_t i = 0; i < heads; i++) {
        ptrs[i] = &r->heads[i].msg;
    }
    rows.part = r->part++;
    rows.table = t;
    rows.keys = r->keys;
    rows.n_keys = n;
    rows.shows = r->shows;
    rows.n_shows = n;
    rows.clicks = r->clicks;
    rows.n_clicks = n;
    rows.is_last = r->is_sent;
    rows.values = ptrs;
    rows.n_values = heads;
    req.rows = &rows;
    conn->pieces[0] = (ps_piece){.data = out->data, .len = out->len, .buf = out};
    atomic_fetch_add(&conn->x->base.count.float32_up, values * sizeof(float));
    ps_connection_send(conn, &req, out->len > 0);
    ps_buf_unref(out);
}

bool ps_connection_rows_send(ps_connection *conn)
{
    connection_rows *r = conn->rows;
    uint32_t t;
    size_t n;

    if (r == NULL || !r->is_ready || r->is_sent || conn->unsent > 0) {
        return false;
    }
    do {
        t = r->table;
        n = gather(conn, t, &r->from);
        if (r->from == conn->x->met[t].count && t + 1 < conn->x->plan->table_count) {
            r->table++;
            r->from = 0;
        }
    } while (n == 0 && r->table != t);
    r->is_sent = is_rest_empty(conn, r->table, r->from);
    send_part(conn, t, n);
    return true;
}
