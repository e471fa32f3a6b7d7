/* SPDX-License-Identifier: Apache-2.0 */
/* wire_server_rows.c - see wire_server.h: rows of sparse tables, gradients in and values out. */
#include "common/wire/wire_server_impl.h"

#include "common/base/clock.h"
#include "common/base/draw.h"
#include "common/base/xalloc.h"
#include "common/codec/parts.h"
#include "common/job/table.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const uint8_t *view(void *arg, size_t at, size_t len, void *scratch)
{
    return ps_payload_view(arg, at, len, scratch);
}

static const char *reason_of(const ps_status *st)
{
    switch (st->code) {
    case PS_RESOURCE_EXHAUSTED:
        return "TOO_MANY_ROWS";
    case PS_INVALID_ARGUMENT:
    case PS_DATA_LOSS:
        return "BAD_ROWS";
    default:
        return ps_wire_server_reason(st);
    }
}

static bool has_tables(const ps_wire_server *s, ps_call *call)
{
    if (s->tables == NULL) {
        ps_identity_refuse(call, "NO_TABLES",
                           ps_fail(PS_FAILED_PRECONDITION, "%s",
                                   s->session->plan->has_tables
                                       ? "the job's sparse tables are being collected"
                                       : "this job has no sparse tables"));
    }
    return s->tables != NULL;
}

static ps_status check_count(size_t keys, size_t shows, size_t clicks)
{
    if (keys > PS_TABLE_KEYS) {
        return ps_fail(PS_RESOURCE_EXHAUSTED, "keys: %zu; at most %d are allowed in a message",
                       keys, PS_TABLE_KEYS);
    }
    if (shows != keys || clicks != keys) {
        return ps_fail(PS_INVALID_ARGUMENT, "%zu shows and %zu clicks of %zu keys", shows, clicks,
                       keys);
    }
    return ps_ok();
}

/* ---- Pushes ---- */

static ps_status take(ps_wire_server *s, const wire_worker *p, const Psgd__V1__PushRowsRequest *req,
                      ps_payload *payload)
{
    const ps_plan *plan = s->session->plan;
    ps_parts_reader reader = {.heads = req->rows,
                              .count = req->n_rows,
                              .view = view,
                              .arg = payload,
                              .bytes = ps_payload_len(payload)};
    const ps_plan_table *table;
    ps_status st = check_count(req->n_keys, req->n_shows, req->n_clicks);
    float *grads;

    if (ps_is_ok(&st) && req->table >= plan->table_count) {
        st = ps_fail(PS_INVALID_ARGUMENT, "table: %u of %u", req->table, plan->table_count);
    }
    if (ps_is_ok(&st) && req->block >= plan->assignment->block_count) {
        st = ps_fail(PS_PERMISSION_DENIED, "block: %u of %u", req->block,
                     plan->assignment->block_count);
    }
    if (!ps_is_ok(&st)) {
        return st;
    }
    table = &plan->tables[req->table];
    grads = ps_xmalloc(req->n_keys * table->width * sizeof *grads);
    st = ps_parts_read(&reader, plan->up[table->variable].codec, grads, req->n_keys * table->width);
    if (ps_is_ok(&st)) {
        st = ps_parts_end(&reader);
    }
    if (ps_is_ok(&st)) {
        st = ps_tables_push(s->tables, &(ps_tables_part){.worker = p->rank,
                                                         .clock = req->clock,
                                                         .contributor = req->block,
                                                         .part = req->part,
                                                         .table = req->table,
                                                         .is_last = req->is_last,
                                                         .keys = req->keys,
                                                         .count = req->n_keys,
                                                         .grads = grads,
                                                         .shows = req->shows,
                                                         .clicks = req->clicks});
    }
    free(grads);
    return st;
}

static void on_push(void *arg, const ProtobufCMessage *message, ps_payload *payload, ps_call *call);

static void on_ack_sent(void *arg, ps_call *call)
{
    wire_worker *p = arg;

    if (p->push_rows == call) {
        ps_call_read(call, on_push, p);
    }
}

static void push_gone(void *arg, ps_call *call)
{
    wire_worker *p = arg;

    if (p->push_rows == call) {
        p->push_rows = NULL;
    }
}

static void on_push(void *arg, const ProtobufCMessage *message, ps_payload *payload, ps_call *call)
{
    const Psgd__V1__PushRowsRequest *req = (const Psgd__V1__PushRowsRequest *)message;
    Psgd__V1__PushRowsResponse ack = PSGD__V1__PUSH_ROWS_RESPONSE__INIT;
    wire_worker *p = arg;
    ps_wire_server *s = p->server;
    ps_status st;

    if (req == NULL) { /* the worker is done */
        p->push_rows = NULL;
        ps_call_finish(call);
        return;
    }
    ps_traffic_count_in(&s->traffic, message, ps_payload_len(payload));
    if (!ps_wire_server_check_attempt(s, call, req->attempt) || !has_tables(s, call)) {
        p->push_rows = NULL;
        return;
    }
    ps_tables_tick(s->tables, ps_clock_us());
    st = take(s, p, req, payload);
    if (!ps_is_ok(&st)) {
        p->push_rows = NULL;
        ps_identity_refuse(call, reason_of(&st), st);
        return;
    }
    if (req->is_last && ps_tables_is_in(s->tables, req->clock, req->block)) {
        ack.clock = req->clock;
        ack.block = req->block;
        ps_traffic_count_out(&s->traffic, &ack.base, 0);
        ps_call_send(call, &ack.base, NULL, 0, on_ack_sent, p);
    } else {
        ps_call_read(call, on_push, p);
    }
    if (req->is_last) {
        ps_wire_server_pump_rows(s);
        ps_wire_server_changed(s);
    }
}

void ps_wire_server_handle_push_rows(void *service, const ProtobufCMessage *request,
                                     ps_payload *payload, ps_call *call)
{
    const Psgd__V1__PushRowsRequest *req = (const Psgd__V1__PushRowsRequest *)request;
    ps_wire_server *s = service;
    wire_worker *p = ps_wire_server_identify(s, call, req->worker, req->attempt);

    if (p == NULL || !has_tables(s, call)) {
        return;
    }
    ps_identity_replace(&p->push_rows);
    p->push_rows = call;
    ps_call_on_gone(call, push_gone, p);
    on_push(p, request, payload, call);
}

/* ---- Pulls ---- */

static void on_pull(void *arg, const ProtobufCMessage *message, ps_payload *payload, ps_call *call);

static void on_answer_sent(void *arg, ps_call *call)
{
    wire_worker *p = arg;

    if (p->pull_rows == call) {
        ps_call_read(call, on_pull, p);
    }
}

/* The rows of all tables, encoded, into a buffer of its own; heads are the streams'. */
static ps_buf *encode(ps_wire_server *s, const wire_worker *p, const float *rows, size_t *heads)
{
    const ps_plan *plan = s->session->plan;
    size_t count = p->wish_count, bytes = 0;
    ps_buf *out;

    for (uint32_t t = 0; t < plan->table_count; t++) {
        const ps_codec_choice *down = &plan->down[plan->tables[t].variable];

        bytes += ps_parts_bytes(down->codec, &down->params, count * plan->tables[t].width);
    }
    out = ps_buf_create(bytes + 1);
    *heads = 0;
    for (uint32_t t = 0; t < plan->table_count; t++) {
        const ps_codec_choice *down = &plan->down[plan->tables[t].variable];
        size_t n = count * plan->tables[t].width;
        uint64_t key = ps_draw_key(plan->spec->seed, PS_DRAW_DOWN, t, p->wish_clock, p->rank);

        out->len += ps_parts_encode(down->codec, &down->params, key, rows, n, out->data + out->len,
                                    s->row_heads + *heads);
        *heads += ps_parts_count(n);
        rows += n;
    }
    return out;
}

static size_t width_of(const ps_plan *plan)
{
    size_t width = 0;

    for (uint32_t t = 0; t < plan->table_count; t++) {
        width += plan->tables[t].width;
    }
    return width;
}

static void answer(wire_worker *p)
{
    Psgd__V1__PullRowsResponse head = PSGD__V1__PULL_ROWS_RESPONSE__INIT;
    ps_wire_server *s = p->server;
    ps_call *call = p->pull_rows;
    float *rows = ps_xmalloc(p->wish_count * width_of(s->session->plan) * sizeof *rows);
    ps_status st = ps_tables_pull(s->tables, p->wish_keys, p->wish_count, rows);
    ps_piece piece;
    size_t heads;
    ps_buf *out;

    p->has_wish = false;
    ps_tables_gave(s->tables, p->rank);
    if (!ps_is_ok(&st)) {
        free(rows);
        p->pull_rows = NULL;
        ps_identity_refuse(call, reason_of(&st), st);
        return;
    }
    out = encode(s, p, rows, &heads);
    free(rows);
    for (size_t i = 0; i < heads; i++) {
        s->row_head_ptrs[i] = &s->row_heads[i].msg;
    }
    head.clock = p->wish_clock;
    head.count = (uint32_t)p->wish_count;
    head.rows = s->row_head_ptrs;
    head.n_rows = heads;
    piece = (ps_piece){.data = out->data, .len = out->len, .buf = out};
    ps_traffic_count_out(&s->traffic, &head.base, out->len);
    ps_call_send(call, &head.base, &piece, out->len > 0, on_answer_sent, p);
    ps_buf_unref(out);
}

void ps_wire_server_pump_rows(ps_wire_server *s)
{
    for (uint32_t i = 0; s->tables != NULL && i < s->worker_count; i++) {
        wire_worker *p = &s->workers[i];

        if (p->pull_rows != NULL && p->has_wish &&
            ps_tables_may_pull(s->tables, p->rank, p->wish_clock)) {
            answer(p);
        }
    }
}

static void pull_gone(void *arg, ps_call *call)
{
    wire_worker *p = arg;

    if (p->pull_rows == call) {
        p->pull_rows = NULL;
        p->has_wish = false;
    }
}

static ps_status take_wish(wire_worker *p, const Psgd__V1__PullRowsRequest *req)
{
    const ps_plan *plan = p->server->session->plan;
    size_t most = ps_table_keys_of_message(plan);

    if (req->n_keys == 0 || req->n_keys > most) {
        return ps_fail(PS_RESOURCE_EXHAUSTED, "keys: %zu; 1 to %zu are allowed in a message",
                       req->n_keys, most);
    }
    if (req->clock > plan->total_clocks) {
        return ps_fail(PS_OUT_OF_RANGE, "clock: %" PRIu64 "; the job has %" PRIu64, req->clock,
                       plan->total_clocks);
    }
    memcpy(p->wish_keys, req->keys, req->n_keys * sizeof *req->keys);
    p->wish_count = req->n_keys;
    p->wish_clock = req->clock;
    p->has_wish = true;
    return ps_ok();
}

static void on_pull(void *arg, const ProtobufCMessage *message, ps_payload *payload, ps_call *call)
{
    const Psgd__V1__PullRowsRequest *req = (const Psgd__V1__PullRowsRequest *)message;
    wire_worker *p = arg;
    ps_wire_server *s = p->server;
    ps_status st;

    (void)payload;
    if (req == NULL) { /* the worker is done */
        p->pull_rows = NULL;
        ps_call_finish(call);
        return;
    }
    ps_traffic_count_in(&s->traffic, message, 0);
    if (!ps_wire_server_check_attempt(s, call, req->attempt) || !has_tables(s, call)) {
        p->pull_rows = NULL;
        return;
    }
    st = take_wish(p, req);
    if (!ps_is_ok(&st)) {
        p->pull_rows = NULL;
        ps_identity_refuse(call, reason_of(&st), st);
        return;
    }
    s->waits += !ps_tables_may_pull(s->tables, p->rank, p->wish_clock);
    ps_wire_server_pump_rows(s);
}

void ps_wire_server_handle_pull_rows(void *service, const ProtobufCMessage *request,
                                     ps_payload *payload, ps_call *call)
{
    const Psgd__V1__PullRowsRequest *req = (const Psgd__V1__PullRowsRequest *)request;
    ps_wire_server *s = service;
    wire_worker *p = ps_wire_server_identify(s, call, req->worker, req->attempt);

    if (p == NULL || !has_tables(s, call)) {
        return;
    }
    ps_identity_replace(&p->pull_rows);
    p->pull_rows = call;
    p->has_wish = false;
    ps_call_on_gone(call, pull_gone, p);
    on_pull(p, request, payload, call);
}
