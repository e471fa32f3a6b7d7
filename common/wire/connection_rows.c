/* SPDX-License-Identifier: Apache-2.0 */
/* connection_rows.c - rows of sparse tables on the streams of a connection: sends requests with
 * keys and gradients of rows, receives rows.
 *
 * With a fixed vocabulary the server sends the rows that have changed, without being asked for
 * keys, and the connection writes them into the variable's slices. These slices count as delivered
 * when the answer is complete. With tables that grow, the client lists the keys to pull (wanted)
 * and to push (met); a connection handles the keys that its part has.
 *
 * When a stream was opened again, a pull goes on with the keys whose rows have not arrived, and a
 * push begins anew. */
#include "common/wire/connection_impl.h"

#include "common/base/draw.h"
#include "common/base/xalloc.h"
#include "common/job/plan.h"
#include "common/train/merge.h"

#include <stdlib.h>
#include <string.h>

static const connection_rows_way by_key, followed;

connection_rows *ps_connection_rows_create(const ps_connection *conn)
{
    const ps_plan *plan = conn->x->plan;
    const ps_placement *placement = conn->x->placement;
    uint32_t server = placement->parts[conn->original].server;
    connection_rows *r;

    if (!ps_merge_has_rows(plan, placement, conn->part)) {
        return NULL;
    }
    r = ps_xcalloc(1, sizeof *r);
    r->way = ps_merge_rows_are_followed(plan) ? &followed : &by_key;
    for (uint32_t p = placement->first_part[server]; p < placement->first_part[server + 1]; p++) {
        r->parts += ps_merge_has_rows(plan, placement, p);
    }
    r->most = ps_table_keys_of_message(plan);
    r->index = ps_xcalloc(plan->table_keys + 1u, sizeof *r->index);
    r->keys = ps_xcalloc(r->most, sizeof *r->keys);
    r->shows = ps_xcalloc(r->most, sizeof *r->shows);
    r->clicks = ps_xcalloc(r->most, sizeof *r->clicks);
    for (uint32_t t = 0; t < plan->table_count; t++) {
        r->width = plan->tables[t].width > r->width ? plan->tables[t].width : r->width;
    }
    r->values_of_rows = ps_xcalloc(r->most * r->width, sizeof *r->values_of_rows);
    for (size_t i = 0; i < PS_ROW_HEADS_MAX; i++) {
        r->head_ptrs[i] = &r->heads[i].msg;
    }
    return r;
}

void ps_connection_rows_destroy(connection_rows *r)
{
    if (r != NULL) {
        free(r->index);
        free(r->slices);
        free(r->keys);
        free(r->shows);
        free(r->clicks);
        free(r->values_of_rows);
        free(r);
    }
}

void ps_connection_rows_own(ps_connection *conn, uint32_t slice)
{
    connection_rows *r = conn->rows;

    r->slices = ps_xrealloc(r->slices, (r->slice_count + 1) * sizeof *r->slices);
    r->slices[r->slice_count++] = slice;
    r->values += conn->x->layout->slices[slice].n;
}

/* Returns whether the part has the row, as its own or as a copy. */
static bool is_here(const ps_connection *conn, uint32_t table, uint64_t key)
{
    return ps_merge_part_of(conn->x->plan, conn->x->placement, table, key) == conn->original;
}

/* ---- Pulls ---- */

/* Returns the index of the first of wanted->keys that must not be requested together with key i. */
static size_t stretch_of(const ps_plan *plan, size_t i)
{
    size_t end = SIZE_MAX;

    for (uint32_t t = 0; t < plan->table_count; t++) {
        size_t e = ps_row_groups_stretch(plan, &plan->down[plan->tables[t].variable], i);

        end = e < end ? e : end;
    }
    return end;
}

/* Writes to r->keys the next r->asked keys that the part is to be asked for. */
static void list_asked(connection_rows *r, const wanted_rows *wanted)
{
    for (size_t i = 0; i < r->asked; i++) {
        r->keys[i] = wanted->keys[r->index[r->at + i]];
    }
}

bool ps_connection_rows_ask(ps_connection *conn, Psgd__V1__PullWeightsRequest *req)
{
    const wanted_rows *wanted = &conn->x->wanted;
    connection_rows *r = conn->rows;
    size_t end;

    if (r == NULL || !r->is_pulling || r->asked > 0) {
        return false;
    }
    end = stretch_of(conn->x->plan, r->index[r->at]);
    while (r->at + r->asked < r->index_count && r->asked < r->most &&
           r->index[r->at + r->asked] < end) {
        r->asked++;
    }
    list_asked(r, wanted);
    req->clock = wanted->clock;
    req->keys = r->keys;
    req->n_keys = r->asked;
    return true;
}

void ps_connection_ask_rows(ps_connection *conn)
{
    const wanted_rows *wanted = &conn->x->wanted;
    connection_rows *r = conn->rows;

    if (r == NULL || conn->is_copy) {
        return;
    }
    r->index_count = 0;
    r->at = 0;
    r->asked = 0;
    for (size_t i = 0; i < wanted->count; i++) {
        if (is_here(conn, 0, wanted->keys[i])) {
            r->index[r->index_count++] = (uint32_t)i;
        }
    }
    r->is_pulling = r->index_count > 0;
    ps_connection_ask(conn);
}

/* Copies the rows of an answer to a request by key to their places in wanted->rows. Fails if the
 * answer does not fit the request. */
static ps_status take_asked(ps_connection *conn, const Psgd__V1__PullWeightsResponse *reply,
                            ps_parts_reader *reader)
{
    const ps_plan *plan = conn->x->plan;
    const wanted_rows *wanted = &conn->x->wanted;
    connection_rows *r = conn->rows;
    float *to = wanted->rows;

    if (!r->is_pulling || r->asked == 0 || reply->clock != wanted->clock ||
        reply->rows->count != r->asked) {
        return ps_fail(PS_DATA_LOSS, "%u rows of clock %llu, asked for %zu of clock %llu",
                       reply->rows->count, (unsigned long long)reply->clock, r->asked,
                       (unsigned long long)wanted->clock);
    }
    list_asked(r, wanted); /* a push may have used the scratch since the request */
    for (uint32_t t = 0; t < plan->table_count; t++) {
        size_t width = plan->tables[t].width;
        ps_status st =
            ps_row_groups_read(&(ps_row_groups){.plan = plan,
                                                .table = t,
                                                .choice = &plan->down[plan->tables[t].variable],
                                                .keys = r->keys,
                                                .count = r->asked},
                               reader, r->values_of_rows);

        if (!ps_is_ok(&st)) {
            return st;
        }
        for (size_t i = 0; i < r->asked; i++) {
            memcpy(to + r->index[r->at + i] * width, r->values_of_rows + i * width,
                   width * sizeof *to);
        }
        to += wanted->count * width;
        atomic_fetch_add(&conn->x->exchange.count.float32_down, r->asked * width * sizeof *to);
    }
    return ps_ok();
}

/* Notes that the rows of the open request have arrived. If no key of the part is left, tells the
 * gate that the part's rows have arrived. */
static void took_asked(ps_connection *conn, bool is_last)
{
    connection_rows *r = conn->rows;

    (void)is_last;
    r->at += r->asked;
    r->asked = 0;
    if (r->at == r->index_count) {
        r->is_pulling = false;
        ps_gate_rows_came(&conn->x->gate, conn->part);
    }
}

/* Checks that the rows in an answer are of one table of the job, that this part has them, and that
 * they answer the open request. */
static ps_status check_changed(const ps_connection *conn,
                               const Psgd__V1__PullWeightsResponse *reply)
{
    const ps_plan *plan = conn->x->plan;
    const Psgd__V1__RowValues *rows = reply->rows;

    if (!conn->request_rows || reply->clock != conn->requested || rows->n_keys != rows->count ||
        rows->count > conn->rows->most || rows->table >= plan->table_count) {
        return ps_fail(PS_DATA_LOSS, "%u rows of table %u for clock %llu, asked for clock %llu",
                       rows->count, rows->table, (unsigned long long)reply->clock,
                       (unsigned long long)conn->requested);
    }
    for (size_t i = 0; i < rows->n_keys; i++) {
        if (rows->keys[i] >= plan->tables[rows->table].rows ||
            !is_here(conn, rows->table, rows->keys[i])) {
            return ps_fail(PS_DATA_LOSS, "row %llu of table %u is not of this server",
                           (unsigned long long)rows->keys[i], rows->table);
        }
    }
    return ps_ok();
}

/* Returns whether rows of conn->requested are still missing. If not, rows that are sent again after
 * a break are not written, because training may be using the weights. */
static bool is_new(const ps_connection *conn)
{
    return conn->rows->got < conn->requested;
}

/* Copies the changed rows of an answer to their places in the weights, unless all rows of the
 * request have arrived before (is_new). Fails if the answer does not fit the open request. */
static ps_status take_changed(ps_connection *conn, const Psgd__V1__PullWeightsResponse *reply,
                              ps_parts_reader *reader)
{
    const connection_exchange *x = conn->x;
    connection_rows *r = conn->rows;
    const Psgd__V1__RowValues *rows = reply->rows;
    const ps_plan_table *table;
    ps_status st = check_changed(conn, reply);
    float *to;

    if (!ps_is_ok(&st)) {
        return st;
    }
    table = &x->plan->tables[rows->table];
    st = ps_row_groups_read(&(ps_row_groups){.plan = x->plan,
                                             .table = rows->table,
                                             .choice = &x->plan->down[table->variable],
                                             .keys = rows->keys,
                                             .count = rows->n_keys},
                            reader, r->values_of_rows);
    to = x->weights + x->layout->variables[table->variable].at;
    for (size_t i = 0; ps_is_ok(&st) && is_new(conn) && i < rows->n_keys; i++) {
        memcpy(to + rows->keys[i] * table->width, r->values_of_rows + i * table->width,
               table->width * sizeof *to);
    }
    return st;
}

/* Notes that changed rows have arrived. is_last: with them, all slices of the vocabulary are
 * complete. */
static void took_changed(ps_connection *conn, bool is_last)
{
    connection_rows *r = conn->rows;

    conn->has_weights = true;
    conn->request_rows = !is_last;
    if (is_last && is_new(conn)) {
        r->got = conn->requested;
        memcpy(conn->fresh + conn->fresh_count, r->slices, r->slice_count * sizeof *r->slices);
        conn->fresh_count += r->slice_count;
        atomic_fetch_add(&conn->x->exchange.count.float32_down, r->values * sizeof(float));
    }
}

ps_status ps_connection_rows_take(ps_connection *conn, const Psgd__V1__PullWeightsResponse *reply,
                                  const ps_incoming *payload, size_t *at)
{
    const Psgd__V1__RowValues *rows = reply->rows;
    ps_parts_reader reader = {
        .view = payload->view, .arg = payload->arg, .bytes = payload->len, .from = *at};
    ps_status st;

    if (rows == NULL) {
        return ps_ok();
    }
    if (conn->rows == NULL) {
        return ps_fail(PS_DATA_LOSS, "%u rows; there are none of this server", rows->count);
    }
    reader.heads = rows->values;
    reader.count = rows->n_values;
    st = conn->rows->way->take(conn, reply, &reader);
    if (ps_is_ok(&st)) {
        st = ps_parts_end(&reader);
    }
    if (!ps_is_ok(&st)) {
        return st;
    }
    *at = reader.from;
    conn->rows->way->took(conn, rows->is_last);
    return st;
}

/* ---- Pushes ---- */

void ps_connection_rows_begin(ps_connection *conn)
{
    if (conn->rows != NULL) {
        conn->rows->is_ready = conn->rows->is_sent = false;
        conn->rows->kept = 0;
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

static const ps_codec_choice *up_of(const ps_connection *conn, uint32_t table)
{
    const ps_plan *plan = conn->x->plan;

    return &plan->up[plan->tables[table].variable];
}

/* Copies keys of this part, with their gradients, from the rows of table t in x->met to the scratch
 * of the next message, beginning at row *from: at most r->most, and no more than may be in one
 * message. *from becomes the first row that was not looked at. Returns the number of keys. */
static size_t gather(ps_connection *conn, uint32_t t, size_t *from)
{
    const ps_met_rows *met = &conn->x->met[t];
    size_t width = conn->x->plan->tables[t].width, n = 0;
    size_t end = ps_row_groups_stretch(conn->x->plan, up_of(conn, t), *from);
    connection_rows *r = conn->rows;

    end = end < met->count ? end : met->count;
    for (; *from < end && n < r->most; (*from)++) {
        if (is_here(conn, t, met->keys[*from])) {
            r->keys[n] = met->keys[*from];
            if (met->shows != NULL) {
                r->shows[n] = met->shows[*from];
                r->clicks[n] = met->clicks[*from];
            }
            memcpy(r->values_of_rows + n * width, met->grads + *from * width,
                   width * sizeof *met->grads);
            n++;
        }
    }
    return n;
}

/* Returns whether none of the rows that follow is this part's: those from row `from` of table t on,
 * and those of later tables. */
static bool is_rest_empty(const ps_connection *conn, uint32_t t, size_t from)
{
    for (; t < conn->x->plan->table_count; t++, from = 0) {
        const ps_met_rows *met = &conn->x->met[t];

        for (; from < met->count; from++) {
            if (is_here(conn, t, met->keys[from])) {
                return false;
            }
        }
    }
    return true;
}

static size_t sent_by_key(const connection_rows *r, size_t values)
{
    (void)r;
    return values;
}

static size_t sent_of_slices(const connection_rows *r, size_t values)
{
    (void)values;
    return r->is_sent ? r->values : 0;
}

static const connection_rows_way by_key = {
    .take = take_asked, .took = took_asked, .sent = sent_by_key};
static const connection_rows_way followed = {
    .take = take_changed, .took = took_changed, .sent = sent_of_slices, .come_with_weights = true};

/* Keeps a message with rows for a replay after a loss, if the rank keeps its contributions. Does
 * nothing for a copy, and for a message that is sent again, because it was kept before. */
static void keep(ps_connection *conn, const Psgd__V1__RowGradients *rows, const uint8_t *bytes,
                 size_t len)
{
    connection_rows *r = conn->rows;

    if (conn->x->kept != NULL && !conn->is_copy && rows->part == r->kept) {
        r->kept++;
        ps_kept_pushes_add_rows(conn->x->kept, conn->x->placement->parts[conn->part].server,
                                r->parts, rows, bytes, len);
    }
}

/* Encodes the n rows of table t that `gather` has copied, and adds them to the message. */
static void put_part(ps_connection *conn, connection_message *m, uint32_t t, size_t n)
{
    const ps_plan *plan = conn->x->plan;
    const ps_codec_choice *up = up_of(conn, t);
    connection_rows *r = conn->rows;
    Psgd__V1__RowGradients *rows = &r->message;
    ps_row_groups of = {.plan = plan, .table = t, .choice = up, .keys = r->keys, .count = n};
    uint64_t draws = ps_draw_key(plan->spec->seed, PS_DRAW_UP, t, conn->clock, conn->block);
    bool has_seen = conn->x->met[t].shows != NULL;
    const uint8_t *room = ps_connection_room(conn, m);
    size_t heads;
    size_t bytes = ps_row_groups_encode(&of, draws, PS_DRAW_UP, r->values_of_rows,
                                        ps_connection_room(conn, m), r->heads, &heads);

    ps_connection_encoded(conn, m, bytes);
    psgd__v1__row_gradients__init(rows);
    rows->part = r->part++;
    rows->table = t;
    rows->keys = r->keys;
    rows->n_keys = n;
    rows->shows = r->shows;
    rows->n_shows = has_seen ? n : 0;
    rows->clicks = r->clicks;
    rows->n_clicks = has_seen ? n : 0;
    rows->is_last = r->is_sent;
    rows->values = r->head_ptrs;
    rows->n_values = heads;
    m->head.rows = rows;
    keep(conn, rows, room, bytes);
    if (!conn->is_copy) {
        atomic_fetch_add(&conn->x->exchange.count.float32_up,
                         r->way->sent(r, n * plan->tables[t].width) * sizeof(float));
    }
}

/* Returns whether the n rows of table t that `gather` has copied fit into the message beside its
 * slices. They always fit into a message without slices. How many rows a message has must not
 * depend on its slices, because that number changes how codecs round the rows. */
static bool fits(const ps_connection *conn, const connection_message *m, uint32_t t, size_t n)
{
    ps_row_groups rows = {.plan = conn->x->plan,
                          .table = t,
                          .choice = up_of(conn, t),
                          .keys = conn->rows->keys,
                          .count = n};

    return m->head.n_slices == 0 || m->bytes + ps_row_groups_bytes(&rows) <= conn->message_bytes;
}

bool ps_connection_rows_put(ps_connection *conn, connection_message *m)
{
    connection_rows *r = conn->rows;
    uint32_t t;
    size_t n, from;

    if (r == NULL || !r->is_ready || r->is_sent || conn->unsent > 0) {
        return false;
    }
    t = r->table;
    from = r->from;
    n = gather(conn, t, &from);
    while (n == 0 && !is_rest_empty(conn, t, from)) {
        if (from == conn->x->met[t].count) {
            t++;
            from = 0;
        }
        n = gather(conn, t, &from);
    }
    if (!fits(conn, m, t, n)) {
        return false;
    }
    r->table = t;
    r->from = from;
    r->is_sent = is_rest_empty(conn, t, from);
    put_part(conn, m, t, n);
    return true;
}
