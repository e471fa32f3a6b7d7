/* SPDX-License-Identifier: Apache-2.0 */
/* delivery.c - see delivery.h. All servers that lack their records are called at the same time.
 * When these calls have ended, those that failed are repeated after a pause.
 */
#include "services/worker/delivery.h"

#include "common/base/clock.h"
#include "common/base/container_of.h"
#include "common/base/xalloc.h"
#include "common/script/executor.h"
#include "common/script/record_owner.h"

#include "psgd/v1/parameter.pb-c.h"

#include <stdlib.h>

/* The pause after a call that failed, and how long an answer may take. */
enum { PAUSE_US = 300 * 1000, ANSWER_US = 30 * 1000 * 1000 };

struct ps_delivery_routes {
    ps_loop *loop;
    const ps_session *session;
    uint64_t incarnation;
    uint32_t count;
    ps_channel **channels; /* (count), by server */
};

/* The delivery to one server. */
typedef struct stop {
    ps_delivery *delivery;
    ps_unary *call; /* NULL: none is in progress */
    bool is_done;   /* the server has stored the records */
} stop;

struct ps_delivery {
    ps_delivery_routes *routes;
    uint32_t rank;
    ps_delivered_fn *delivered;
    void *arg;
    uint8_t *records; /* (PS_PART_RECORDS_MAX) in the order of servers */
    size_t *at;       /* (count + 1) where the records of each server begin */
    stop *stops;      /* (count) */
    uint32_t partition;
    uint32_t calling; /* calls in progress */
    bool is_stopped;
    int64_t deadline_us;
    ps_status failure; /* the last failure in this round of calls; OK: none has failed */
    ps_timer again;
};

ps_delivery_routes *ps_delivery_routes_create(ps_loop *loop, const ps_session *session,
                                              uint64_t incarnation)
{
    const ps_placement *placement = &session->placement;
    ps_delivery_routes *routes = ps_xcalloc(1, sizeof *routes);

    routes->loop = loop;
    routes->session = session;
    routes->incarnation = incarnation;
    routes->count = placement->server_count;
    routes->channels = ps_xcalloc(routes->count, sizeof(ps_channel *));
    for (uint32_t s = 0; s < routes->count; s++) {
        routes->channels[s] = ps_channel_create(loop, placement->servers[s].address);
        ps_channel_expect(routes->channels[s], PS_PRINCIPAL_NODE, placement->servers[s].node_id);
    }
    return routes;
}

void ps_delivery_routes_destroy(ps_delivery_routes *routes)
{
    if (routes == NULL) {
        return;
    }
    for (uint32_t s = 0; s < routes->count; s++) {
        ps_channel_destroy(routes->channels[s]);
    }
    free(routes->channels);
    free(routes);
}

static void on_again(ps_event *self, bool ok);

ps_delivery *ps_delivery_create(ps_delivery_routes *routes, uint32_t rank,
                                ps_delivered_fn *delivered, void *arg)
{
    ps_delivery *d = ps_xcalloc(1, sizeof *d);

    d->routes = routes;
    d->rank = rank;
    d->delivered = delivered;
    d->arg = arg;
    d->records = ps_xmalloc(PS_PART_RECORDS_MAX);
    d->at = ps_xcalloc(routes->count + 1u, sizeof *d->at);
    d->stops = ps_xcalloc(routes->count, sizeof *d->stops);
    d->again.event.fire = on_again;
    return d;
}

void ps_delivery_destroy(ps_delivery *d)
{
    if (d != NULL) {
        free(d->records);
        free(d->at);
        free(d->stops);
        free(d);
    }
}

void ps_delivery_split(ps_delivery *d, const uint8_t *records, size_t n)
{
    ps_records_split(records, n, d->routes->count, d->records, d->at);
}

static void end(ps_delivery *d, ps_status result)
{
    d->partition = 0;
    d->delivered(d->arg, &result);
}

static void answered(void *arg, const ps_error *error, const ProtobufCMessage *reply);

static void call_all(ps_delivery *d)
{
    const ps_delivery_routes *routes = d->routes;
    const ps_wire_attempt attempt = ps_session_attempt(routes->session);
    Psgd__V1__PushRecordsRequest q = PSGD__V1__PUSH_RECORDS_REQUEST__INIT;
    Psgd__V1__WorkerIdentity who;

    ps_identity_fill(&who, &attempt, d->rank, routes->incarnation);
    q.worker = &who;
    q.attempt = attempt.attempt;
    q.partition = d->partition;
    d->failure = ps_ok();
    for (uint32_t s = 0; s < routes->count; s++) {
        stop *to = &d->stops[s];

        if (!to->is_done) {
            q.records = (ProtobufCBinaryData){.data = d->records + d->at[s],
                                              .len = d->at[s + 1] - d->at[s]};
            to->call = ps_unary_start(routes->channels[s], &psgd__v1__record_service__descriptor,
                                      "PushRecords", &q.base, ANSWER_US, answered, to);
            d->calling++;
        }
    }
}

/* Ends the delivery, or goes on with it, when no call is in progress any more. After a refusal
 * other than INVALID_ARGUMENT the call is repeated, as if the server were away: it may have gone
 * over to another attempt, and then the coordinator ends this one. */
static void go_on(ps_delivery *d)
{
    if (d->is_stopped) {
        end(d, ps_fail(PS_CANCELLED, "the worker is stopping"));
    } else if (ps_is_ok(&d->failure)) {
        end(d, ps_ok());
    } else if (d->failure.code == PS_INVALID_ARGUMENT || ps_clock_us() >= d->deadline_us) {
        ps_code code =
            d->failure.code == PS_INVALID_ARGUMENT ? PS_INVALID_ARGUMENT : PS_UNAVAILABLE;

        end(d, ps_fail(code, "records of partition %u: %s", d->partition, d->failure.text));
    } else {
        ps_loop_after(d->routes->loop, &d->again, PAUSE_US);
    }
}

static void answered(void *arg, const ps_error *error, const ProtobufCMessage *reply)
{
    stop *from = arg;
    ps_delivery *d = from->delivery;

    (void)reply;
    from->call = NULL;
    from->is_done = ps_is_ok(&error->status);
    if (!from->is_done) {
        d->failure = ps_wrap(error->status, "server %s",
                             d->routes->session->placement.servers[from - d->stops].node_id);
    }
    if (--d->calling == 0) {
        go_on(d);
    }
}

static void on_again(ps_event *self, bool ok)
{
    ps_delivery *d = PS_CONTAINER_OF(self, ps_delivery, again.event);

    if (ok) {
        call_all(d);
    }
}

void ps_delivery_start(ps_delivery *d, uint32_t partition)
{
    const Psgd__V1__TimeoutSpec *timeouts = d->routes->session->plan->spec->timeouts;

    d->partition = partition;
    d->is_stopped = false;
    d->deadline_us = ps_clock_us() + (int64_t)timeouts->step_ms * 1000;
    for (uint32_t s = 0; s < d->routes->count; s++) {
        d->stops[s] = (stop){.delivery = d};
    }
    call_all(d);
}

bool ps_delivery_stop(ps_delivery *d)
{
    if (d == NULL || d->partition == 0) {
        return false;
    }
    d->is_stopped = true;
    for (uint32_t s = 0; s < d->routes->count; s++) {
        if (d->stops[s].call != NULL) {
            ps_unary_cancel(d->stops[s].call);
        }
    }
    if (d->again.armed) {
        ps_loop_cancel(d->routes->loop, &d->again);
        go_on(d);
    }
    return true;
}
