/* SPDX-License-Identifier: Apache-2.0 */
/* wire_server_rows.c - see wire_server.h: rows of sparse tables; receives gradients, sends
 * values. */
#include "common/wire/wire_server_impl.h"

#include "common/base/draw.h"
#include "common/base/nonfinite.h"
#include "common/base/xalloc.h"
#include "common/train/merge.h"
#include "common/wire/row_groups.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Returns the refusal for a status; OK gives none. */
static ps_refusal refusal_of(ps_status why)
{
    ps_refusal r = {0};

    switch (why.code) {
    case PS_OK:
        break;
    case PS_RESOURCE_EXHAUSTED:
        r = (ps_refusal){.reason = "TOO_MANY_ROWS", .why = why};
        break;
    case PS_INVALID_ARGUMENT:
    case PS_DATA_LOSS:
        r = (ps_refusal){.reason = "BAD_ROWS", .why = why};
        break;
    default:
        r = ps_wire_server_refusal(why);
        break;
    }
    return r;
}

/* Returns the part that has the sparse tables. */
static ps_wire_part *tables_part(const ps_wire_server *s)
{
    return &s->parts->part[0];
}

static ps_refusal check_tables(const ps_wire_server *s)
{
    if (ps_store_has_rows(tables_part(s)->store)) {
        return (ps_refusal){0};
    }
    return (ps_refusal){
        .reason = "NO_TABLES",
        .why = ps_fail(PS_FAILED_PRECONDITION,
                       "the job has no sparse tables, or the server's files are being collected")};
}

/* ---- Pushes ---- */

static ps_status check_rows(const ps_plan *plan, const Psgd__V1__RowGradients *rows)
{

    if (rows->n_keys > PS_TABLE_KEYS) {
        return ps_fail(PS_RESOURCE_EXHAUSTED, "rows.keys: %zu; at most %d are allowed in a message",
                       rows->n_keys, PS_TABLE_KEYS);
    }
    if (rows->n_shows != rows->n_clicks || (rows->n_shows > 0 && rows->n_shows != rows->n_keys)) {
        return ps_fail(PS_INVALID_ARGUMENT, "rows: %zu shows and %zu clicks of %zu keys",
                       rows->n_shows, rows->n_clicks, rows->n_keys);
    }
    if (rows->table >= plan->table_count) {
        return ps_fail(PS_INVALID_ARGUMENT, "rows.table: %u of %u", rows->table, plan->table_count);
    }
    return ps_ok();
}

static ps_status push(wire_worker *w, const ps_store_rows *rows)
{
    ps_wire_part *part = tables_part(w->server);
    uint32_t width;
    ps_status st;

    (void)ps_wire_server_enter(w, part);
    st = ps_store_push_rows(part->store, rows);
    width = ps_table_width(ps_tables_at(ps_store_tables(part->store), rows->table));
    ps_wire_server_leave(w, part);
    w->is_poisoned |= st.code == PS_INVALID_ARGUMENT &&
                      ps_first_nonfinite(rows->grads, rows->count * width) < rows->count * width;
    w->has_news |= rows->is_last;
    w->may_be_in = true;
    return st;
}

static ps_status take(wire_worker *w, const Psgd__V1__PushGradientRequest *req,
                      const ps_incoming *payload, size_t *at)
{
    const Psgd__V1__RowGradients *rows = req->rows;
    const ps_plan *plan = w->server->plan;
    ps_parts_reader reader = {.heads = rows->values,
                              .count = rows->n_values,
                              .view = payload->view,
                              .arg = payload->arg,
                              .bytes = payload->len,
                              .from = *at};
    const ps_plan_table *table;
    ps_status st = check_rows(plan, rows);
    float *grads;

    if (!ps_is_ok(&st)) {
        return st;
    }
    table = &plan->tables[rows->table];
    grads = ps_xmalloc(rows->n_keys * table->width * sizeof *grads);
    st = ps_row_groups_read(&(ps_row_groups){.plan = plan,
                                             .table = rows->table,
                                             .choice = &plan->up[table->variable],
                                             .keys = rows->keys,
                                             .count = rows->n_keys},
                            &reader, grads);
    if (ps_is_ok(&st)) {
        st = ps_parts_end(&reader);
        *at = payload->len;
    }
    if (ps_is_ok(&st)) {
        st = push(w, &(ps_store_rows){.worker = w->rank,
                                      .clock = req->clock,
                                      .contributor = wire_server_contributor(w, req),
                                      .part = rows->part,
                                      .table = rows->table,
                                      .is_last = rows->is_last,
                                      .keys = rows->keys,
                                      .count = rows->n_keys,
                                      .grads = grads,
                                      .shows = rows->n_shows > 0 ? rows->shows : NULL,
                                      .clicks = rows->n_clicks > 0 ? rows->clicks : NULL});
    }
    free(grads);
    return st;
}

ps_refusal ps_wire_server_take_rows(wire_worker *w, const Psgd__V1__PushGradientRequest *req,
                                    const ps_incoming *payload, size_t *at)
{
    ps_refusal r = {0};

    if (req->rows != NULL) {
        r = check_tables(w->server);
    }
    return req->rows == NULL || r.reason != NULL ? r : refusal_of(take(w, req, payload, at));
}

/* ---- Pulls ---- */

ps_refusal ps_wire_server_want_rows(wire_worker *w, const Psgd__V1__PullWeightsRequest *req)
{
    ps_wire_part *part = tables_part(w->server);
    const ps_plan *plan = w->server->plan;
    ps_refusal r = check_tables(w->server);
    size_t most;
    ps_status st;

    if (r.reason != NULL) {
        return r;
    }
    most = ps_table_keys_of_message(plan);
    if (req->n_keys > most) {
        return refusal_of(ps_fail(PS_RESOURCE_EXHAUSTED,
                                  "keys: %zu; at most %zu are allowed in a message", req->n_keys,
                                  most));
    }
    if (req->clock > plan->total_clocks) {
        return refusal_of(ps_fail(PS_OUT_OF_RANGE, "clock: %" PRIu64 "; the job has %" PRIu64,
                                  req->clock, plan->total_clocks));
    }
    ps_wire_part_lock(w->server->parts, part);
    st = ps_store_rows_begin(part->store, w->rank, req->clock, req->keys, req->n_keys);
    ps_wire_part_unlock(w->server->parts, part);
    return refusal_of(st);
}

static const ps_codec_choice *down_of(const ps_plan *plan, uint32_t table)
{
    return &plan->down[plan->tables[table].variable];
}

/* Returns whether all rows of an answer are sent as float32, without a codec. */
static bool is_plain(const ps_plan *plan, const ps_store_rows_answer *answer)
{
    bool is = true;

    for (uint32_t t = 0; t < answer->table_count && is; t++) {
        const ps_codec_choice *down = down_of(plan, answer->first_table + t);

        is = ps_codec_is_plain(down->codec, &down->params);
    }
    return is;
}

/* Returns the bytes of an answer whose rows are sent as float32, without a copy. Writes the heads
 * into the scratch and their number to *heads. */
static ps_buf *share(const wire_worker *w, const ps_store_rows_answer *answer, size_t *heads)
{
    const ps_plan *plan = w->server->plan;

    *heads = 0;
    for (uint32_t t = 0; t < answer->table_count; t++) {
        uint32_t table = answer->first_table + t;
        const ps_codec_choice *down = down_of(plan, table);
        size_t n = answer->count * plan->tables[table].width;

        ps_parts_heads(down->codec, &down->params, n, w->scratch->row_heads + *heads);
        *heads += ps_parts_count(n);
    }
    return ps_buf_ref(answer->values);
}

static ps_row_groups rows_of(const ps_plan *plan, const ps_store_rows_answer *answer,
                             uint32_t table)
{
    return (ps_row_groups){.plan = plan,
                           .table = table,
                           .choice = down_of(plan, table),
                           .keys = answer->keys,
                           .count = answer->count};
}

/* Encodes the rows of an answer into a new buffer and their heads into the scratch. Sets *heads to
 * the number of heads. Of a fixed vocabulary every worker gets the same bytes. Rows that were
 * requested by key are encoded with draws that depend on the rank. */
static ps_buf *encode(const wire_worker *w, const ps_store_rows_answer *answer, size_t *heads)
{
    const ps_plan *plan = w->server->plan;
    const float *rows = (const float *)(const void *)answer->values->data;
    uint32_t end = answer->first_table + answer->table_count;
    uint64_t whose = ps_merge_rows_are_followed(plan) ? 0 : 1 + (uint64_t)w->rank;
    size_t bytes = 0, more;
    ps_buf *out;

    for (uint32_t t = answer->first_table; t < end; t++) {
        ps_row_groups of = rows_of(plan, answer, t);

        bytes += ps_row_groups_bytes(&of);
    }
    out = ps_buf_create(bytes + 1);
    *heads = 0;
    for (uint32_t t = answer->first_table; t < end; t++) {
        ps_row_groups of = rows_of(plan, answer, t);
        uint64_t draws = ps_draw_key(plan->spec->seed, PS_DRAW_DOWN, t, answer->clock, whose);

        out->len += ps_row_groups_encode(&of, draws, PS_DRAW_DOWN, rows, out->data + out->len,
                                         w->scratch->row_heads + *heads, &more);
        *heads += more;
        rows += answer->count * plan->tables[t].width;
    }
    return out;
}

/* Adds the rows `given` to the answer: as float32 if no codec changes them, else encoded. */
static void put_rows(wire_worker *w, wire_answer *a, const ps_store_rows_answer *given)
{
    wire_scratch *x = w->scratch;
    Psgd__V1__RowValues *rows = &x->rows;
    size_t heads;

    a->rows = (is_plain(w->server->plan, given) ? share : encode)(w, given, &heads);
    a->bytes += a->rows->len;
    for (size_t i = 0; i < heads; i++) {
        x->row_head_ptrs[i] = &x->row_heads[i].msg;
    }
    psgd__v1__row_values__init(rows);
    rows->count = (uint32_t)given->count;
    rows->values = x->row_head_ptrs;
    rows->n_values = heads;
    rows->table = given->first_table;
    rows->keys = (uint64_t *)(uintptr_t)given->keys;
    rows->n_keys = ps_merge_rows_are_followed(w->server->plan) ? given->count : 0;
    rows->is_last = given->is_last;
    a->head.clock = given->clock;
    a->head.version = given->version;
    a->head.rows = rows;
}

/* A ps_store_rows_cut. */
static size_t cut(const void *arg, uint32_t table, const uint64_t *keys, size_t count)
{
    const ps_plan *plan = arg;

    return ps_row_groups_cut(&(ps_row_groups){.plan = plan,
                                              .table = table,
                                              .choice = down_of(plan, table),
                                              .keys = keys,
                                              .count = count});
}

bool ps_wire_server_give_rows(wire_worker *w, wire_answer *a)
{
    ps_wire_part *part = tables_part(w->server);
    ps_store_rows_answer given;
    bool is_there;

    if (!ps_store_wants_rows(part->store, w->rank) || !ps_wire_server_enter(w, part)) {
        return false;
    }
    is_there = ps_store_rows_next(part->store, w->rank, cut, w->server->plan, &given);
    ps_wire_server_leave(w, part);
    if (is_there) {
        put_rows(w, a, &given);
        ps_buf_unref(given.values);
    }
    return is_there;
}
