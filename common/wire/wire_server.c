/* SPDX-License-Identifier: Apache-2.0 */
/* wire_server.c - see wire_server.h: who speaks, what is counted, life and end. */
#include "common/wire/wire_server_impl.h"

#include "common/base/clock.h"
#include "common/base/container_of.h"
#include "common/base/xalloc.h"

#include <stdlib.h>
#include <string.h>

static void on_due(ps_event *self, bool ok)
{
    ps_wire_server *s = PS_CONTAINER_OF(self, ps_wire_server, due.event);

    if (ok && s->plan != NULL) {
        ps_wire_server_tick(s);
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
    return s->traffic;
}

uint64_t ps_wire_server_waits(const ps_wire_server *s)
{
    return s->waits;
}

/* ---- The store ---- */

void ps_wire_server_tick(ps_wire_server *s)
{
    int64_t now_us = ps_clock_us();

    ps_shard_tick(s->shard, now_us);
    if (s->tables != NULL) {
        ps_tables_tick(s->tables, now_us);
    }
}

void ps_wire_server_changed(ps_wire_server *s)
{
    int64_t at_us = ps_shard_deadline(s->shard), now_us;

    if (s->tables != NULL) {
        int64_t rows_us = ps_book_deadline(ps_tables_book(s->tables));

        at_us = rows_us < at_us ? rows_us : at_us;
    }

    if (at_us != INT64_MAX && s->loop != NULL) {
        now_us = ps_clock_us();
        ps_loop_after(s->loop, &s->due, at_us > now_us ? at_us - now_us : 0);
    }
    if (!s->is_complete && s->complete != NULL &&
        ps_shard_clock(s->shard) >= s->plan->total_clocks &&
        (s->tables == NULL || ps_tables_clock(s->tables) >= s->plan->total_clocks)) {
        s->is_complete = true;
        s->complete(s->complete_arg);
    }
}

static void end_links(wire_worker *w, const char *reason, ps_status why)
{
    ps_refusal r = {.reason = reason, .why = why};

    w->wants_rows = false;
    ps_wire_server_refuse(&w->push, &r);
    ps_wire_server_refuse(&w->pull, &r);
}

ps_status ps_wire_server_lose(ps_wire_server *s, uint32_t worker)
{
    ps_status st = ps_shard_lose_worker(s->shard, worker);

    if (ps_is_ok(&st) && s->tables != NULL) {
        st = ps_tables_lose(s->tables, worker);
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

/* ---- Who speaks ---- */

ps_refusal ps_wire_server_refusal(ps_status why)
{
    ps_refusal r = {.reason = "", .why = why}; /* "": the code's name */

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

static void begin_push(wire_worker *w, ps_wire_link *link)
{
    w->push = link;
    w->has_acked = false;
    link->events = &ps_wire_server_push_events;
}

static void begin_pull(wire_worker *w, ps_wire_link *link)
{
    w->pull = link;
    w->wants_rows = false;
    ps_shard_pull_cancel(w->server->shard, w->rank);
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
                         const ps_wire_attempt *of, uint32_t server, ps_shard *shard,
                         ps_tables *tables)
{
    s->plan = plan;
    s->placement = placement;
    s->attempt = *of;
    s->rank = server;
    s->shard = shard;
    s->tables = tables;
    s->worker_count = of->worker_count;
    s->workers = ps_xcalloc(s->worker_count, sizeof *s->workers);
    s->traffic = (ps_traffic){0};
    s->waits = 0;
    s->is_complete = false;
    for (uint32_t i = 0; i < s->worker_count; i++) {
        s->workers[i].server = s;
        s->workers[i].rank = i;
    }
}

void ps_wire_server_close_tables(ps_wire_server *s)
{
    s->tables = NULL;
}

void ps_wire_server_close(ps_wire_server *s, const char *why)
{
    for (uint32_t i = 0; i < s->worker_count; i++) {
        end_links(&s->workers[i], "ATTEMPT_OVER", ps_fail(PS_ABORTED, "%s", why));
    }
    if (s->loop != NULL) {
        ps_loop_cancel(s->loop, &s->due);
    }
    free(s->workers);
    s->workers = NULL;
    s->worker_count = 0;
    s->plan = NULL;
    s->shard = NULL;
    s->tables = NULL;
}
