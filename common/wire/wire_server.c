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

    if (ok && s->shard != NULL) {
        ps_shard_tick(s->shard, ps_clock_us());
        if (s->tables != NULL) {
            ps_tables_tick(s->tables, ps_clock_us());
        }
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

/* --- the shard ------------------------------------------------------------- */

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
        ps_shard_clock(s->shard) >= s->session->plan->total_clocks &&
        (s->tables == NULL || ps_tables_clock(s->tables) >= s->session->plan->total_clocks)) {
        s->is_complete = true;
        s->complete(s->complete_arg);
    }
}

static void end_calls(wire_worker *p, const char *reason, ps_status why)
{
    ps_call *calls[] = {p->push, p->pull, p->push_rows, p->pull_rows};

    p->push = p->pull = p->push_rows = p->pull_rows = NULL;
    p->has_wish = false;
    for (size_t c = 0; c < sizeof calls / sizeof calls[0]; c++) {
        if (calls[c] != NULL) {
            ps_identity_refuse(calls[c], reason, why);
        }
    }
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
    end_calls(&s->workers[worker], "WORKER_LOST",
              ps_fail(PS_ABORTED, "worker %u counts as lost", worker));
    ps_wire_server_pump(s);
    ps_wire_server_pump_rows(s); /* nobody waits for the lost one's rows */
    ps_wire_server_changed(s);
    return ps_ok();
}

/* --- who speaks ------------------------------------------------------------ */

const char *ps_wire_server_reason(const ps_status *st)
{
    switch (st->code) {
    case PS_OUT_OF_RANGE:
        return "WRONG_CLOCK";
    case PS_PERMISSION_DENIED:
        return "NOT_HELD";
    case PS_INVALID_ARGUMENT:
    case PS_DATA_LOSS:
        return "BAD_SLICE";
    default:
        return NULL;
    }
}

bool ps_wire_server_check_attempt(const ps_wire_server *s, ps_call *call, uint32_t attempt)
{
    return ps_identity_check_attempt(s->session, call, attempt);
}

wire_worker *ps_wire_server_identify(ps_wire_server *s, ps_call *call,
                                     const Psgd__V1__WorkerIdentity *who, uint32_t attempt)
{
    wire_worker *p;

    if (!ps_identity_check(s->session, call, who, attempt)) {
        return NULL;
    }
    p = &s->workers[who->rank];
    return ps_identity_is_newest(call, who, &p->incarnation) ? p : NULL;
}

/* --- life ------------------------------------------------------------------ */

static const ps_method methods[] = {
    {.name = "PushGradient",
     .handle = ps_wire_server_handle_push,
     .streams_in = true,
     .streams_out = true,
     .max_bytes = WIRE_SERVER_HEAD_BYTES},
    {.name = "PullWeights",
     .handle = ps_wire_server_handle_pull,
     .streams_in = true,
     .streams_out = true,
     .max_bytes = WIRE_SERVER_HEAD_BYTES},
    {.name = "PushRows",
     .handle = ps_wire_server_handle_push_rows,
     .streams_in = true,
     .streams_out = true,
     .max_bytes = WIRE_SERVER_HEAD_BYTES},
    {.name = "PullRows",
     .handle = ps_wire_server_handle_pull_rows,
     .streams_in = true,
     .streams_out = true,
     .max_bytes = WIRE_SERVER_HEAD_BYTES},
};

ps_service ps_wire_server_service(ps_wire_server *s)
{
    return (ps_service){
        .type = &psgd__v1__parameter_service__descriptor,
        .methods = methods,
        .method_count = sizeof methods / sizeof methods[0],
        .state = s,
    };
}

void ps_wire_server_open(ps_wire_server *s, const ps_session *session, ps_shard *shard)
{
    s->session = session;
    s->shard = shard;
    s->worker_count = session->placement.rank_count;
    s->workers = ps_xcalloc(s->worker_count, sizeof *s->workers);
    s->traffic = (ps_traffic){0};
    s->waits = 0;
    s->is_complete = false;
    for (uint32_t i = 0; i < s->worker_count; i++) {
        s->workers[i].server = s;
        s->workers[i].rank = i;
    }
}

void ps_wire_server_open_tables(ps_wire_server *s, ps_tables *tables)
{
    s->tables = tables;
}

void ps_wire_server_close_tables(ps_wire_server *s)
{
    s->tables = NULL;
}

void ps_wire_server_close(ps_wire_server *s, const char *why)
{
    for (uint32_t i = 0; i < s->worker_count; i++) {
        end_calls(&s->workers[i], "ATTEMPT_OVER", ps_fail(PS_ABORTED, "%s", why));
    }
    if (s->loop != NULL) {
        ps_loop_cancel(s->loop, &s->due);
    }
    free(s->workers);
    s->workers = NULL;
    s->worker_count = 0;
    s->session = NULL;
    s->shard = NULL;
    s->tables = NULL;
}
