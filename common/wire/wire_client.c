/* SPDX-License-Identifier: Apache-2.0 */
/* wire_client.c - see wire_client.h: the box through which the trainer gives the client's thread
 * work, and the creation and end of connections. */
#include "common/wire/wire_client.h"

#include "common/base/container_of.h"
#include "common/base/xalloc.h"
#include "common/train/merge.h"
#include "common/wire/connection.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* What the trainer hands to the client's thread. */
typedef struct exchange_box {
    pthread_mutex_t mutex; /* guards the members that follow */
    /* the event `kick`, which empties the box, was posted and has not fired */
    bool kicked;
    uint64_t number; /* number of contributions begun and clocks skipped */
    uint64_t clock;
    uint32_t block;
    bool is_last;
    bool is_skip; /* the worker skips the clock and sends nothing */
    /* all values of the contribution are 0, and it goes without slices */
    bool is_nothing;
    /* the contribution, if it was made in an earlier attempt; NULL: it is a new one */
    const ps_kept_contribution *again;
    /* (variables): those whose gradients are final, in the order of `ready` calls */
    uint32_t *ready;
    uint32_t ready_count;
    size_t unseen_bytes;    /* float32 bytes of what became ready since the last kick */
    const ps_met_rows *met; /* (tables): the contribution's rows; NULL: not pushed yet */
    ps_buf *report;         /* the report that goes with the contribution; NULL: none */
    bool report_is_partial;
    wanted_rows wanted;
} exchange_box;

typedef struct ps_wire_client {
    connection_exchange base;
    exchange_box box;
    ps_event kick;
    uint64_t seen; /* number of the contribution that the connections send */
    /* number of the newest request for rows that was given to the connections */
    uint64_t seen_wanted;
    uint32_t taken; /* number of variables in box.ready that were given to the connections */
    bool has_said;  /* the report of contribution number `seen` was kept (keep_report) */
    ps_buf *before; /* file with contributions of earlier attempts; `again` points into it */
    ps_kept_contribution again[PS_SENT_CLOCKS]; /* (again_count): the contributions in `before` */
    size_t again_count;
    uint32_t *fresh; /* (variables): scratch of empty_box */
    uint32_t connection_count;
    /* (connection_count): one for each part of the placement; those without use stay closed */
    ps_connection *connections;

    bool stopping;
    ps_event over;
    bool over_posted;
    ps_event *done;
} ps_wire_client;

static ps_wire_client *of(ps_exchange *exchange)
{
    return PS_CONTAINER_OF(exchange, ps_wire_client, base.exchange);
}

/* Posts `over`, which frees the transport, if the client is being stopped, all its streams have
 * ended and no `kick` is posted. */
static void post_if_over(ps_wire_client *x)
{
    bool kicked;

    if (!x->stopping || x->over_posted) {
        return;
    }
    pthread_mutex_lock(&x->box.mutex);
    kicked = x->box.kicked;
    pthread_mutex_unlock(&x->box.mutex);
    for (uint32_t i = 0; i < x->connection_count; i++) {
        if (!ps_connection_is_over(&x->connections[i])) {
            return;
        }
    }
    if (!kicked) {
        x->over_posted = true;
        /* Posted and not called, because this may run within a callback of a link that `over`
         * frees. */
        x->base.transport->ops->post(x->base.transport, &x->over);
    }
}

static void on_connection_over(connection_exchange *base)
{
    post_if_over(PS_CONTAINER_OF(base, ps_wire_client, base));
}

static void begin_connections(ps_wire_client *x, const exchange_box *now)
{
    x->seen = now->number;
    x->base.met = NULL;
    x->base.again = now->again;
    ps_coder_begin(&x->base.coder);
    if (x->base.kept != NULL && !now->is_skip && now->again == NULL) {
        x->has_said = false;
        ps_kept_pushes_begin(x->base.kept, now->clock, now->block);
        if (now->is_nothing) {
            ps_kept_pushes_zeros(x->base.kept);
        }
    }
    for (uint32_t i = 0; i < x->connection_count; i++) {
        if (now->is_skip) {
            ps_connection_skip(&x->connections[i], now->clock);
        } else {
            ps_connection_contribution(&x->connections[i], now->clock, now->block, now->is_last,
                                       now->is_nothing);
        }
    }
}

/* Keeps the report of the contribution in hand, once, if the rank keeps its contributions. */
static void keep_report(ps_wire_client *x)
{
    const ps_buf *report = x->base.report;

    if (x->base.kept != NULL && report != NULL && !x->has_said) {
        x->has_said = true;
        ps_kept_pushes_say(x->base.kept, report->data, report->len, x->base.report_is_partial);
    }
}

static void ask_rows_of_all(ps_wire_client *x, const exchange_box *now)
{
    x->seen_wanted = now->wanted.number;
    x->base.wanted = now->wanted;
    for (uint32_t i = 0; i < x->connection_count; i++) {
        ps_connection_ask_rows(&x->connections[i]);
    }
}

/* Gives the connections what the trainer has put into the box since the last call: a contribution,
 * a request for rows, a report, variables that became final, rows to push. */
static void empty_box(ps_wire_client *x)
{
    uint32_t fresh_count = 0;
    exchange_box now;

    pthread_mutex_lock(&x->box.mutex);
    now = x->box;
    if (now.number != x->seen) {
        x->taken = 0;
    }
    while (x->taken < x->box.ready_count) {
        uint32_t v = x->box.ready[x->taken++];

        if (x->base.plan->table_of[v] == PS_NO_TABLE) {
            x->fresh[fresh_count++] = v;
        }
    }
    pthread_mutex_unlock(&x->box.mutex);

    if (now.number != x->seen) {
        begin_connections(x, &now);
    }
    if (now.wanted.number != x->seen_wanted) {
        ask_rows_of_all(x, &now);
    }
    x->base.report = now.report;
    x->base.report_is_partial = now.report_is_partial;
    keep_report(x);
    for (uint32_t i = 0; i < fresh_count; i++) {
        uint32_t v = x->fresh[i];

        for (uint32_t s = x->base.layout->first_slice[v]; s < x->base.layout->first_slice[v + 1];
             s++) {
            uint32_t part = x->base.placement->part_of[s];

            ps_connection_slice_ready(&x->connections[part], x->base.position[s]);
            if (x->base.placement->has_copies) {
                part = ps_placement_copy_of(x->base.placement, part);
                ps_connection_slice_ready(&x->connections[part], x->base.position[s]);
            }
        }
    }
    if (now.met != NULL && x->base.met == NULL) {
        x->base.met = now.met;
        for (uint32_t i = 0; i < x->connection_count; i++) {
            ps_connection_rows_ready(&x->connections[i]);
        }
    }
}

static void on_kick(ps_event *self, bool ok)
{
    ps_wire_client *x = PS_CONTAINER_OF(self, ps_wire_client, kick);

    pthread_mutex_lock(&x->box.mutex);
    x->box.kicked = false;
    pthread_mutex_unlock(&x->box.mutex);
    if (!ok || x->stopping) {
        post_if_over(x);
        return;
    }
    empty_box(x);
    for (uint32_t i = 0; i < x->connection_count; i++) {
        ps_connection_pump(&x->connections[i]);
    }
}

static void drop_again(ps_wire_client *x)
{
    for (size_t i = 0; i < x->again_count; i++) {
        ps_kept_contribution_fini(&x->again[i], x->base.plan);
    }
    x->again_count = 0;
    ps_buf_unref(x->before);
    x->before = NULL;
}

static void on_over(ps_event *self, bool ok)
{
    ps_wire_client *x = PS_CONTAINER_OF(self, ps_wire_client, over);

    x->base.transport->ops->destroy(x->base.transport);
    x->base.transport = NULL;
    x->done->fire(x->done, ok);
}

void ps_wire_client_destroy(ps_exchange *exchange)
{
    ps_wire_client *x = of(exchange);

    assert(x->base.transport == NULL); /* on_over has fired */
    for (uint32_t i = 0; i < x->connection_count; i++) {
        ps_connection_fini(&x->connections[i]);
    }
    ps_gate_fini(&x->base.gate);
    ps_coder_fini(&x->base.coder);
    ps_kept_pushes_destroy(x->base.kept);
    drop_again(x);
    pthread_mutex_destroy(&x->box.mutex);
    ps_buf_unref(x->base.grad);
    ps_buf_unref(x->box.report);
    free(x->box.ready);
    free(x->fresh);
    free(x->base.position);
    free(x->connections);
    free(x);
}

static bool may_be_overtaken(const ps_exchange *exchange)
{
    return ps_merge_may_overtake(
        PS_CONTAINER_OF(exchange, const connection_exchange, exchange)->plan);
}

/* Puts a new contribution, of which nothing is ready, into the box. To skip a clock or to
 * contribute zeros, the caller then sets is_skip or is_nothing. Returns with the mutex held. */
static void open_box(ps_wire_client *x, uint64_t clock, uint32_t block, bool is_last)
{
    pthread_mutex_lock(&x->box.mutex);
    x->box.number++;
    x->box.clock = clock;
    x->box.block = block;
    x->box.is_last = is_last;
    x->box.is_skip = false;
    x->box.is_nothing = false;
    x->box.again = NULL;
    x->box.met = NULL;
    /* its contribution was acknowledged, so no connection reads it any more */
    ps_buf_unref(x->box.report);
    x->box.report = NULL;
    x->box.ready_count = 0;
    x->box.unseen_bytes = 0;
}

/* Releases the mutex and posts `kick`, unless `kick` is posted already and has not emptied the
 * box. */
static void kick_and_unlock(ps_wire_client *x)
{
    bool kick = !x->box.kicked;

    x->box.kicked = true;
    x->box.unseen_bytes = 0;
    pthread_mutex_unlock(&x->box.mutex);
    if (kick) {
        x->base.transport->ops->post(x->base.transport, &x->kick);
    }
}

/* Notes that every part with something of the job has to acknowledge the contribution. */
static void owe_acks(ps_wire_client *x)
{
    for (uint32_t i = 0; i < x->connection_count; i++) {
        if (x->connections[i].is_used) {
            ps_gate_owe_ack(&x->base.gate, i);
        }
    }
}

/* If the workers of one process take turns, ends this worker's turn once a clock. A worker that
 * never has to wait would otherwise keep its turn for ever. */
static void yield(ps_wire_client *x, uint64_t clock)
{
    if (x->base.transport->ops->yield != NULL && (x->box.number == 0 || x->box.clock != clock)) {
        x->base.transport->ops->yield(x->base.transport);
    }
}

static bool begin(ps_exchange *exchange, uint64_t clock, uint32_t block, bool is_last)
{
    ps_wire_client *x = of(exchange);

    if (!ps_gate_wait_acks(&x->base.gate)) {
        return false;
    }
    yield(x, clock);
    owe_acks(x);
    open_box(x, clock, block, is_last);
    pthread_mutex_unlock(&x->box.mutex);
    return true;
}

static bool leave_out(ps_exchange *exchange, uint64_t clock)
{
    ps_wire_client *x = of(exchange);

    if (!ps_gate_wait_acks(&x->base.gate)) {
        return false;
    }
    open_box(x, clock, 0, true);
    x->box.is_skip = true;
    kick_and_unlock(x);
    return true;
}

static bool nothing(ps_exchange *exchange, uint64_t clock)
{
    ps_wire_client *x = of(exchange);

    if (!ps_gate_wait_acks(&x->base.gate)) {
        return false;
    }
    yield(x, clock);
    owe_acks(x);
    open_box(x, clock, 0, true);
    x->box.is_nothing = true;
    kick_and_unlock(x);
    return ps_gate_is_open(&x->base.gate);
}

/* Returns the bytes of the variable as float32, about what its slices take in messages. 0 for a
 * variable that is sent as rows, because rows are counted when they are pushed. */
static size_t bytes_of(const ps_wire_client *x, uint32_t v)
{
    return x->base.plan->table_of[v] != PS_NO_TABLE
               ? 0
               : x->base.layout->variables[v].size * sizeof(float);
}

static void ready(ps_exchange *exchange, uint32_t first_variable, uint32_t count)
{
    ps_wire_client *x = of(exchange);

    pthread_mutex_lock(&x->box.mutex);
    for (uint32_t v = first_variable; v < first_variable + count; v++) {
        assert(x->box.ready_count < x->base.layout->variable_count);
        x->box.ready[x->box.ready_count++] = v;
        x->box.unseen_bytes += bytes_of(x, v);
    }
    /* Waking the loop costs a switch of threads, so it is woken only when it would send. */
    if (x->box.unseen_bytes >= x->base.transport->batch_bytes ||
        x->box.ready_count == x->base.layout->variable_count) {
        kick_and_unlock(x);
    } else {
        pthread_mutex_unlock(&x->box.mutex);
    }
}

static void ask_rows(ps_exchange *exchange, uint64_t clock, const uint64_t *keys, size_t count,
                     float *rows)
{
    ps_wire_client *x = of(exchange);
    bool *owes = ps_xcalloc(x->connection_count, sizeof *owes);

    for (size_t i = 0; i < count; i++) {
        owes[ps_merge_part_of(x->base.plan, x->base.placement, 0, keys[i])] = true;
    }
    for (uint32_t i = 0; i < x->connection_count; i++) {
        if (owes[i]) {
            ps_gate_owe_rows(&x->base.gate, i);
        }
    }
    free(owes);
    pthread_mutex_lock(&x->box.mutex);
    x->box.wanted = (wanted_rows){.number = x->box.wanted.number + 1,
                                  .clock = clock,
                                  .keys = keys,
                                  .count = count,
                                  .rows = rows};
    kick_and_unlock(x);
}

static bool pull_rows(ps_exchange *exchange, uint64_t clock, const uint64_t *keys, size_t count,
                      float *rows)
{
    ps_gate *gate = ps_exchange_gate(exchange);

    if (!ps_gate_wait_rows(gate, clock)) {
        return false;
    }
    ask_rows(exchange, clock, keys, count, rows);
    return ps_gate_wait_rows(gate, clock);
}

static void push_rows(ps_exchange *exchange, const ps_met_rows *met)
{
    ps_wire_client *x = of(exchange);

    pthread_mutex_lock(&x->box.mutex);
    x->box.met = met;
    for (uint32_t i = 0; i < x->base.plan->table_count; i++) {
        x->box.unseen_bytes += met[i].count * x->base.plan->tables[i].width * sizeof *met[i].grads;
    }
    /* no kick here, because `ready` of the last table follows and kicks */
    pthread_mutex_unlock(&x->box.mutex);
}

static void say(ps_exchange *exchange, ps_buf *report, bool is_partial)
{
    ps_wire_client *x = of(exchange);

    pthread_mutex_lock(&x->box.mutex);
    ps_buf_unref(x->box.report);
    x->box.report = report;
    x->box.report_is_partial = is_partial;
    pthread_mutex_unlock(&x->box.mutex); /* no kick here, because `ready` follows and kicks */
}

static void put_kept(const ps_exchange *exchange, uint32_t variable, ps_state_out *out)
{
    ps_coder_put(&PS_CONTAINER_OF(exchange, const connection_exchange, exchange)->coder, variable,
                 out);
}

static void take_kept(ps_exchange *exchange, uint32_t variable, ps_state_in *in)
{
    ps_coder_take(&PS_CONTAINER_OF(exchange, connection_exchange, exchange)->coder, variable, in);
}

static void begin_at(ps_exchange *exchange, uint64_t clock, bool has_weights)
{
    of(exchange)->base.begins_at = clock;
    of(exchange)->base.lacks_weights = !has_weights;
}

/* ---- Contributions that another process sends again ---- */

static ps_status put_sent(ps_exchange *exchange, ps_state_out *out)
{
    ps_wire_client *x = of(exchange);
    ps_buf *bytes = NULL;
    ps_status st;

    if (x->base.kept == NULL) {
        return ps_fail(PS_FAILED_PRECONDITION, "rank %u keeps no contributions", x->base.rank);
    }
    empty_box(x);
    for (uint32_t i = 0; i < x->connection_count; i++) {
        ps_connection_keep_rest(&x->connections[i]);
    }
    st = ps_kept_pushes_write_newest(x->base.kept, x->base.placement, PS_SENT_CLOCKS,
                                     ps_state_write_buf, &bytes);
    if (ps_is_ok(&st)) {
        ps_state_put_u64(out, bytes->len);
        ps_state_put(out, bytes->data, bytes->len);
    }
    ps_buf_unref(bytes);
    return st;
}

/* Returns whether the connections' buffers have room for all slices of c. The slices come from a
 * file, so their lengths may be wrong. */
static bool fits(const ps_wire_client *x, const ps_kept_contribution *c)
{
    for (uint32_t s = 0; !c->is_nothing && s < x->base.layout->slice_count; s++) {
        if (!x->base.plan->by_matrix[x->base.layout->slices[s].variable] &&
            c->len[s] > ps_coder_size(&x->base.coder, x->base.placement->part_of[s], s)) {
            return false;
        }
    }
    return true;
}

/* Reads the contributions to the clocks [first, end) from x->before. */
static ps_status take_contributions(ps_wire_client *x, uint64_t first, uint64_t end)
{
    ps_kept_file file;
    ps_status st =
        ps_kept_file_open(&file, x->base.plan, x->base.rank, x->before->data, x->before->len);

    while (ps_is_ok(&st) && file.clock < first) {
        st = ps_kept_file_push(&file, x->base.plan, x->base.placement, NULL);
    }
    for (uint64_t clock = first; clock < end && ps_is_ok(&st); clock++) {
        ps_kept_contribution *c = &x->again[x->again_count];

        if (file.clock != clock || x->again_count == PS_SENT_CLOCKS) {
            return ps_fail(PS_DATA_LOSS, "the contribution to clock %llu is not there",
                           (unsigned long long)clock);
        }
        x->again_count++;
        st = ps_kept_file_take(&file, x->base.plan, c);
        if (ps_is_ok(&st) && !fits(x, c)) {
            st = ps_fail(PS_DATA_LOSS, "a slice of the contribution to clock %llu is too long",
                         (unsigned long long)clock);
        }
        if (ps_is_ok(&st) && x->base.kept != NULL) {
            ps_kept_pushes_keep(x->base.kept, x->base.placement, c);
        }
    }
    return st;
}

static ps_status take_sent(ps_exchange *exchange, uint64_t first, uint64_t end, ps_state_in *in)
{
    ps_wire_client *x = of(exchange);
    uint64_t len = ps_state_take_u64(in);
    const uint8_t *bytes = ps_state_view(in, len);

    if (bytes == NULL) {
        return in->status;
    }
    drop_again(x);
    x->before = ps_buf_try_create(len + 1);
    if (x->before == NULL) {
        return ps_fail(PS_RESOURCE_EXHAUSTED, "no memory for %llu bytes of contributions",
                       (unsigned long long)len);
    }
    memcpy(x->before->data, bytes, len);
    x->before->len = len;
    return take_contributions(x, first, end);
}

static bool resend(ps_exchange *exchange, uint64_t clock)
{
    ps_wire_client *x = of(exchange);
    const ps_kept_contribution *again = NULL;

    for (size_t i = 0; i < x->again_count; i++) {
        again = x->again[i].clock == clock ? &x->again[i] : again;
    }
    assert(again != NULL);
    if (!ps_gate_wait_weights(&x->base.gate, 0, x->base.layout->variable_count, clock) ||
        !ps_gate_wait_acks(&x->base.gate)) {
        return false;
    }
    owe_acks(x);
    open_box(x, clock, again->block, true);
    x->box.again = again;
    x->box.is_nothing = again->is_nothing;
    for (uint32_t v = 0; !again->is_nothing && v < x->base.layout->variable_count; v++) {
        x->box.ready[x->box.ready_count++] = v;
    }
    kick_and_unlock(x);
    return ps_gate_is_open(&x->base.gate);
}

static const ps_exchange_ops ops = {
    .begin = begin,
    .ready = ready,
    .may_be_overtaken = may_be_overtaken,
    .leave_out = leave_out,
    .nothing = nothing,
    .pull_rows = pull_rows,
    .ask_rows = ask_rows,
    .push_rows = push_rows,
    .say = say,
    .put = put_kept,
    .take = take_kept,
    .begin_at = begin_at,
    .put_sent = put_sent,
    .take_sent = take_sent,
    .resend = resend,
};

ps_exchange *ps_wire_client_create(const ps_wire_client_conf *conf)
{
    const ps_plan *plan = conf->plan;
    const ps_layout *layout = &plan->layout;
    ps_wire_client *x = ps_xcalloc(1, sizeof *x);

    x->base.exchange.ops = &ops;
    x->base.exchange.gate = &x->base.gate;
    x->base.over = on_connection_over;
    x->base.attempt = conf->attempt;
    x->base.rank = conf->rank;
    x->base.incarnation = conf->incarnation;
    x->base.transport = conf->transport;
    x->base.plan = plan;
    x->base.layout = layout;
    x->base.placement = conf->placement;
    ps_coder_init(&x->base.coder, plan, conf->placement, conf->rank);
    x->base.asks_early = plan->policy->asks_early && !may_be_overtaken(&x->base.exchange);
    x->base.weights = conf->weights;
    x->base.grad = ps_buf_ref(conf->grad);
    if (conf->kept_bytes > 0) {
        x->base.kept = ps_kept_pushes_create(plan, conf->rank, conf->kept_bytes);
    }
    x->kick.fire = on_kick;
    x->over.fire = on_over;
    pthread_mutex_init(&x->box.mutex, NULL);
    x->box.ready = ps_xcalloc(layout->variable_count, sizeof *x->box.ready);
    x->fresh = ps_xcalloc(layout->variable_count, sizeof *x->fresh);
    x->base.position = ps_xcalloc(layout->slice_count, sizeof *x->base.position);
    ps_gate_init(&x->base.gate, x->base.placement, conf->patience_us);
    x->connection_count = x->base.placement->part_count;
    x->connections = ps_xcalloc(x->connection_count, sizeof *x->connections);
    for (uint32_t i = 0; i < x->connection_count; i++) {
        ps_connection_init(&x->connections[i], &x->base, i);
    }
    return &x->base.exchange;
}

void ps_wire_client_set_trace(ps_exchange *exchange, ps_trace_ring *trace)
{
    of(exchange)->base.trace = trace;
}

void ps_wire_client_start(ps_exchange *exchange)
{
    ps_wire_client *x = of(exchange);

    for (uint32_t i = 0; i < x->connection_count; i++) {
        ps_connection_open(&x->connections[i]);
    }
}

void ps_wire_client_stop(ps_exchange *exchange, ps_event *done)
{
    ps_wire_client *x = of(exchange);

    assert(!x->stopping);
    x->stopping = true;
    x->done = done;
    /* keeps post_if_over from posting while links are still being stopped */
    x->over_posted = true;
    for (uint32_t i = 0; i < x->connection_count; i++) {
        ps_connection_stop(&x->connections[i]);
    }
    x->over_posted = false;
    post_if_over(x);
}

ps_kept_pushes *ps_wire_client_kept(ps_exchange *exchange)
{
    return of(exchange)->base.kept;
}

size_t ps_wire_client_feedback(const ps_exchange *exchange)
{
    return ps_coder_memory(&PS_CONTAINER_OF(exchange, const connection_exchange, exchange)->coder);
}
