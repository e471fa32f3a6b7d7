/* SPDX-License-Identifier: Apache-2.0 */
/* wire_server.c - see wire_server.h: identifies workers, counts, and manages the life of the
 * server. */
#include "common/wire/wire_server_impl.h"

#include "common/base/clock.h"
#include "common/base/container_of.h"
#include "common/base/xalloc.h"
#include "common/train/merge.h"

#include <stdlib.h>
#include <string.h>

const wire_server_group ps_wire_server_groups[PS_PIECE_GROUPS] = {
    [PS_PIECE_SLICES] =
        {
            .push = ps_wire_server_take_slices,
            .want = ps_wire_server_want_slices,
            .give = ps_wire_server_give_slices,
        },
    [PS_PIECE_ROWS] =
        {
            .push = ps_wire_server_take_rows,
            .want = ps_wire_server_want_rows,
            .give = ps_wire_server_give_rows,
        },
};

void ps_wire_server_tick(ps_wire_server *s)
{
    for (uint32_t i = 0; i < s->parts->count && !s->parts->is_shared; i++) {
        ps_store_tick(s->parts->part[i].store, ps_clock_us());
    }
}

static void on_due(ps_event *self, bool ok)
{
    ps_wire_server *s = PS_CONTAINER_OF(self, ps_wire_server, due.event);

    if (ok && s->plan != NULL) {
        wire_server_trace(s, ps_store_clock(s->parts->part[0].store) + 1);
        ps_wire_server_tick(s);
        wire_server_trace(s, 0);
        ps_wire_server_pump(s);
        ps_wire_server_changed(s);
    }
}

ps_wire_server *ps_wire_server_create(ps_loop *loop, uint64_t drop_ack, void (*complete)(void *arg),
                                      void *arg)
{
    ps_wire_server *s = ps_xcalloc(1, sizeof *s);

    s->loop = loop;
    s->due.event.fire = on_due;
    s->drop_ack = drop_ack;
    s->complete = complete;
    s->complete_arg = arg;
    return s;
}

void ps_wire_server_destroy(ps_wire_server *s)
{
    free(s);
}

ps_traffic ps_wire_server_traffic(const ps_wire_server *s)
{
    ps_traffic sum = {0};

    for (uint32_t i = 0; i < s->worker_count; i++) {
        const ps_traffic *t = &s->workers[i].traffic;

        sum.bytes_in += t->bytes_in;
        sum.bytes_out += t->bytes_out;
        sum.messages_in += t->messages_in;
        sum.messages_out += t->messages_out;
        sum.bytes_through_memory += t->bytes_through_memory;
    }
    return sum;
}

uint64_t ps_wire_server_waits(const ps_wire_server *s)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < s->worker_count; i++) {
        sum += s->workers[i].waits;
    }
    return sum;
}

void ps_wire_server_set_news(ps_wire_server *s, void (*news)(void *arg, uint32_t worker), void *arg)
{
    s->news = news;
    s->news_arg = arg;
}

void ps_wire_server_set_failed(ps_wire_server *s, void (*failed)(void *arg, const ps_status *why),
                               void *arg)
{
    s->failed = failed;
    s->failed_arg = arg;
}

void ps_wire_server_set_sockets_only(ps_wire_server *s, bool is_sockets_only)
{
    s->is_sockets_only = is_sockets_only;
}

bool ps_wire_server_is_sockets_only(const ps_wire_server *s)
{
    return s->is_sockets_only;
}

void ps_wire_server_set_trace(ps_wire_server *s, ps_trace_ring *trace)
{
    s->trace = trace;
    s->wait.began_ns = 0;
}

/* ---- Checkpoints ---- */

void ps_wire_server_cut_at(ps_wire_server *s, uint64_t clock, bool is_now, ps_wire_cut_fn *cut,
                           void *arg)
{
    s->cut_at = cut != NULL ? clock : UINT64_MAX;
    s->cut = cut;
    s->cut_arg = arg;
    s->is_cut_due = false;
    if (cut != NULL && (is_now || ps_store_clock(s->parts->part[0].store) > clock)) {
        ps_wire_server_cut(s);
    }
}

void ps_wire_server_cut(ps_wire_server *s)
{
    ps_store *store = s->parts->part[0].store;
    uint64_t clock = ps_store_clock(store), at = s->cut_at;

    s->is_cut_due = clock < at;
    if (!s->is_cut_due) {
        s->cut_at = UINT64_MAX;
        s->cut(s->cut_arg, at, clock == at || !s->plan->policy->is_deterministic ? store : NULL);
    }
}

const ps_rank_reports *ps_wire_server_reports(const ps_wire_server *s)
{
    return &s->reports;
}

/* ---- The parts ---- */

bool ps_wire_server_enter(wire_worker *w, ps_wire_part *part)
{
    const ps_wire_parts *parts = w->server->parts;

    if (!parts->is_shared) {
        return true;
    }
    if (w->is_thorough) {
        ps_wire_part_lock(parts, part);
    } else if (!ps_wire_part_try_lock(parts, part)) {
        return false;
    }
    ps_store_tick(part->store, ps_clock_us());
    return true;
}

void ps_wire_server_leave(wire_worker *w, ps_wire_part *part)
{
    int64_t at_us;

    if (!w->server->parts->is_shared) {
        return;
    }
    at_us = ps_store_deadline(part->store);
    w->again_us = at_us < w->again_us ? at_us : w->again_us;
    ps_wire_part_unlock(w->server->parts, part);
}

void ps_wire_server_tell(wire_worker *w)
{
    ps_wire_server *s = w->server;

    if (s->news == NULL) {
        ps_wire_server_pump(s);
    } else if (w->has_news) {
        s->news(s->news_arg, w->rank);
    }
    w->has_news = false;
}

static bool are_complete(const ps_wire_server *s)
{
    for (uint32_t i = 0; i < s->parts->count; i++) {
        if (ps_store_clock(s->parts->part[i].store) < s->plan->total_clocks) {
            return false;
        }
    }
    return true;
}

void ps_wire_server_changed(ps_wire_server *s)
{
    int64_t at_us = INT64_MAX, now_us;

    if (s->loop == NULL && s->complete == NULL) {
        return;
    }
    for (uint32_t i = 0; i < s->parts->count; i++) {
        int64_t of_part_us = ps_store_deadline(s->parts->part[i].store);

        at_us = of_part_us < at_us ? of_part_us : at_us;
    }
    if (at_us != INT64_MAX && s->loop != NULL) {
        now_us = ps_clock_us();
        ps_loop_after(s->loop, &s->due, at_us > now_us ? at_us - now_us : 0);
    }
    if (!s->is_complete && s->complete != NULL && are_complete(s)) {
        s->is_complete = true;
        s->complete(s->complete_arg);
    }
}

static void end_links(wire_worker *w, const char *reason, ps_status why)
{
    ps_refusal r = {.reason = reason, .why = why};

    ps_wire_server_refuse(&w->push, &r);
    ps_wire_server_refuse(&w->pull, &r);
}

ps_status ps_wire_server_lose(ps_wire_server *s, uint32_t worker)
{
    ps_status st = ps_ok();

    for (uint32_t i = 0; i < s->parts->count && ps_is_ok(&st); i++) {
        st = ps_store_lose_worker(s->parts->part[i].store, worker);
    }
    if (!ps_is_ok(&st)) {
        return st;
    }
    end_links(&s->workers[worker], "WORKER_LOST",
              ps_fail(PS_ABORTED, "worker %u counts as lost", worker));
    ps_wire_server_pump(s);
    ps_wire_server_changed(s);
    return ps_ok();
}

void ps_wire_server_cancel(wire_worker *w)
{
    const ps_wire_parts *parts = w->server->parts;

    /* A link can end after the stores have freed their slices; ps_store_pull_cancel is allowed
     * then. */
    for (uint32_t i = 0; i < parts->count; i++) {
        ps_wire_part_lock(parts, &parts->part[i]);
        ps_store_pull_cancel(parts->part[i].store, w->rank);
        ps_wire_part_unlock(parts, &parts->part[i]);
    }
}

/* ---- Refusals and identity ---- */

ps_refusal ps_wire_server_refusal(ps_status why)
{
    /* An empty reason stands for the name of the status code. */
    ps_refusal r = {.reason = "", .why = why};

    switch (why.code) {
    case PS_OUT_OF_RANGE:
        r.reason = "WRONG_CLOCK";
        break;
    case PS_PERMISSION_DENIED:
        r.reason = "NOT_HELD";
        break;
    case PS_INVALID_ARGUMENT:
    case PS_DATA_LOSS:
        r.reason = "BAD_SLICE";
        break;
    default:
        break;
    }
    return r;
}

void ps_wire_server_refuse(ps_wire_link **slot, const ps_refusal *r)
{
    ps_wire_link *link = *slot;

    *slot = NULL;
    if (link != NULL) {
        ps_link_refuse(link, r->reason, r->why);
    }
}

bool ps_wire_server_allows(ps_wire_link **slot, const ps_refusal *r)
{
    if (r->reason != NULL) {
        ps_wire_server_refuse(slot, r);
    }
    return r->reason == NULL;
}

ps_refusal ps_wire_server_check_code(ps_wire_server *s)
{
    ps_refusal r = {.why = ps_plan_code_failure(s->plan)};

    r.reason = ps_is_ok(&r.why) ? NULL : "";
    if (r.why.code == PS_RESOURCE_EXHAUSTED && s->failed != NULL) {
        s->failed(s->failed_arg, &r.why);
        r.why.code = PS_UNAVAILABLE; /* it is not the worker that has failed */
    }
    return r;
}

static void begin_push(wire_worker *w, ps_wire_link *link)
{
    w->push = link;
    ps_link_count(link, &w->traffic);
    w->has_acked = w->owes_ack = false;
    link->events = &ps_wire_server_push_events;
}

static void begin_pull(wire_worker *w, ps_wire_link *link)
{
    w->pull = link;
    ps_link_count(link, &w->traffic);
    ps_wire_server_cancel(w);
    link->events = &ps_wire_server_pull_events;
}

void ps_wire_server_accept(ps_wire_server *s, ps_wire_stream stream, ps_wire_link *link,
                           const ProtobufCMessage *head, const ps_incoming *payload)
{
    const Psgd__V1__PushGradientRequest *push = (const Psgd__V1__PushGradientRequest *)head;
    const Psgd__V1__PullWeightsRequest *pull = (const Psgd__V1__PullWeightsRequest *)head;
    const Psgd__V1__WorkerIdentity *who = stream == PS_WIRE_PUSH ? push->worker : pull->worker;
    ps_refusal r = ps_identity_check(wire_server_held(s), who,
                                     stream == PS_WIRE_PUSH ? push->attempt : pull->attempt);
    ps_refusal replaced = {"REPLACED", ps_fail(PS_ABORTED, "%s", PS_IDENTITY_REPLACED)};
    wire_worker *w;

    if (r.reason == NULL) {
        r = ps_identity_check_node(s->placement, who->rank, link->node_id);
    }
    if (r.reason == NULL) {
        r = ps_identity_check_newest(who, &s->workers[who->rank].incarnation);
    }
    if (!ps_wire_server_allows(&link, &r)) {
        return;
    }
    w = &s->workers[who->rank];
    ps_wire_server_refuse(stream == PS_WIRE_PUSH ? &w->push : &w->pull, &replaced);
    link->arg = w;
    if (stream == PS_WIRE_PUSH) {
        begin_push(w, link);
    } else {
        begin_pull(w, link);
    }
    link->events->on_message(w, head, payload);
}

/* ---- Life ---- */

void ps_wire_server_open(ps_wire_server *s, const ps_plan *plan, const ps_placement *placement,
                         const ps_wire_attempt *of, uint32_t part, ps_wire_parts *parts)
{
    s->plan = plan;
    s->placement = placement;
    s->attempt = *of;
    s->part = part;
    /* in one process nothing is lost, and a worker's thread must not acknowledge for others */
    s->acks_late =
        !parts->is_shared && (placement->parts[part].is_copy ||
                              (ps_plan_rescues(plan) && ps_merge_rows_are_asked_for(plan)));
    s->parts = parts;
    s->worker_count = of->worker_count;
    s->workers = ps_xcalloc(s->worker_count, sizeof *s->workers);
    s->scratch = parts->is_shared ? NULL : ps_xmalloc(sizeof *s->scratch);
    s->is_complete = false;
    s->cut_at = UINT64_MAX;
    s->is_cut_due = false;
    s->reports = (ps_rank_reports){0};
    if (!parts->is_shared && ps_plan_can_rescue(plan) && ps_wire_keeps_reports(placement, part)) {
        ps_rank_reports_init(&s->reports, s->worker_count);
    }
    for (uint32_t i = 0; i < s->worker_count; i++) {
        wire_worker *w = &s->workers[i];

        w->server = s;
        w->rank = i;
        w->is_thorough = true;
        w->next_part = i % parts->count;
        w->scratch = parts->is_shared ? ps_xmalloc(sizeof *w->scratch) : s->scratch;
    }
}

void ps_wire_server_close_tables(ps_wire_server *s)
{
    for (uint32_t i = 0; i < s->parts->count; i++) {
        ps_store_lend_tables(s->parts->part[i].store);
    }
}

void ps_wire_server_close(ps_wire_server *s, const char *why)
{
    for (uint32_t i = 0; i < s->worker_count; i++) {
        end_links(&s->workers[i], "ATTEMPT_OVER", ps_fail(PS_ABORTED, "%s", why));
        if (s->scratch == NULL) {
            free(s->workers[i].scratch);
        }
    }
    if (s->loop != NULL) {
        ps_loop_cancel(s->loop, &s->due);
    }
    ps_rank_reports_fini(&s->reports);
    free(s->scratch);
    free(s->workers);
    s->scratch = NULL;
    s->workers = NULL;
    s->worker_count = 0;
    s->plan = NULL;
    s->parts = NULL;
}
