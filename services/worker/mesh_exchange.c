/* SPDX-License-Identifier: Apache-2.0 */
/* mesh_exchange.c - see mesh_exchange.h: creates, ends and frees an exchange, and has the functions
 * that the trainer calls. mesh_turn.c finishes steps. */
#include "services/worker/mesh_exchange_impl.h"

#include "common/base/clock.h"
#include "common/base/container_of.h"
#include "common/base/log.h"
#include "common/base/xalloc.h"
#include "common/store/replica.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static ps_mesh_exchange *of(ps_exchange *exchange)
{
    return PS_CONTAINER_OF(exchange, ps_mesh_exchange, base);
}

/* --- the trainer's side ------------------------------------------------------- */

static bool begin(ps_exchange *exchange, uint64_t clock, uint32_t block, bool is_last)
{
    ps_mesh_exchange *x = of(exchange);

    if (ps_mesh_worker_is_new(&x->me, clock)) {
        if (!ps_gate_wait_acks(&x->me.gate)) {
            return false;
        }
        ps_gate_owe_ack(&x->me.gate, 0);
    }
    (void)is_last; /* a step ends when it has all blocks */
    ps_mesh_worker_claim(&x->me, clock, block);
    return ps_gate_is_open(&x->me.gate);
}

static void ready(ps_exchange *exchange, uint32_t first_variable, uint32_t count)
{
    ps_mesh_exchange *x = of(exchange);

    if (ps_mesh_worker_give(&x->me, first_variable, count) && !atomic_exchange(&x->kicked, true)) {
        ps_loop_post(x->conf.loop, &x->kick);
    }
}

/* Waits until the packets in all outboxes are acknowledged, at most for step_ms: the gate waits for
 * one acknowledgement, which stands for all of them. */
static void drain(ps_exchange *exchange)
{
    ps_mesh_exchange *x = of(exchange);

    if (ps_gate_wait_acks(&x->me.gate)) {
        ps_gate_owe_ack(&x->me.gate, 0);
        ps_loop_post(x->conf.loop, &x->drain);
        (void)ps_gate_wait_acks(&x->me.gate);
    }
}

static void say(ps_exchange *exchange, ps_buf *report, bool is_partial)
{
    ps_mesh_worker_say(&of(exchange)->me, report, is_partial);
}

static void put_kept(const ps_exchange *exchange, uint32_t variable, ps_state_out *out)
{
    ps_mesh_worker_save(&PS_CONTAINER_OF(exchange, const ps_mesh_exchange, base)->me, variable,
                        out);
}

static void take_kept(ps_exchange *exchange, uint32_t variable, ps_state_in *in)
{
    ps_mesh_worker_load(&of(exchange)->me, variable, in);
}

static void begin_at(ps_exchange *exchange, uint64_t clock, bool has_weights)
{
    assert(has_weights); /* in a mesh nobody sends weights */
    ps_mesh_worker_start_at(&of(exchange)->me, clock);
}

/* No worker is overtaken: a step ends when all blocks have arrived, from their workers or by a
 * repair. So may_be_overtaken and leave_out are NULL. */
static const ps_exchange_ops ops = {
    .begin = begin,
    .ready = ready,
    .say = say,
    .put = put_kept,
    .take = take_kept,
    .drain = drain,
    .begin_at = begin_at,
};

/* --- steps -------------------------------------------------------------------- */

void exchange_publish(ps_mesh_exchange *x)
{
    ps_traffic sum = x->served;

    if (x->is_over) {
        return;
    }
    for (uint32_t i = 0; i < x->peers; i++) {
        const ps_traffic *sent = &x->outboxes[i].counted;

        sum.bytes_out += sent->bytes_out;
        sum.bytes_in += sent->bytes_in;
        sum.messages_out += sent->messages_out;
        sum.messages_in += sent->messages_in;
    }
    atomic_store(&x->base.count.bytes_up, sum.bytes_out);
    atomic_store(&x->base.count.bytes_down, sum.bytes_in);
    atomic_store(&x->base.count.messages_up, sum.messages_out);
    atomic_store(&x->base.count.messages_down, sum.messages_in);
    if (!x->turn.is_under_way) {
        const ps_mesh_counters *c = ps_mesh_counters_of(x->me.mesh);

        atomic_store(&x->base.count.float32_up, c->values_copied * sizeof(float));
        atomic_store(&x->base.count.float32_down, c->values_taken * sizeof(float));
    }
}

void ps_mesh_exchange_served(ps_mesh_exchange *x, const ps_traffic *traffic)
{
    x->served = *traffic;
    exchange_publish(x);
}

void exchange_fail(ps_mesh_exchange *x, const ps_status *why)
{
    x->has_failed = true;
    ps_loop_cancel(x->conf.loop, &x->due);
    ps_gate_fail(&x->me.gate, why);
}

static void on_kick(ps_event *self, bool ok)
{
    ps_mesh_exchange *x = PS_CONTAINER_OF(self, ps_mesh_exchange, kick);

    atomic_store(&x->kicked, false);
    if (ok && !x->stopping && !x->has_failed) {
        x->has_given = true;
        exchange_settle(x);
    }
}

static void on_due(ps_event *self, bool ok)
{
    ps_mesh_exchange *x = PS_CONTAINER_OF(self, ps_mesh_exchange, due.event);

    if (ok && !x->stopping && !x->has_failed) {
        x->is_due = true;
        exchange_settle(x);
    }
}

void ps_mesh_exchange_find_missing(const ps_mesh_exchange *x, bool *peers)
{
    memset(peers, 0, x->peers * sizeof *peers);
    if (!x->turn.is_under_way) {
        ps_mesh_missing(x->me.mesh, peers);
    }
}

void ps_mesh_exchange_name_missing(const ps_mesh_exchange *x, char *text, size_t cap)
{
    text[0] = '\0';
    if (!x->turn.is_under_way) {
        exchange_name_missing(x, text, cap);
    }
}

/* --- after a loss --------------------------------------------------------------- */

uint64_t ps_mesh_exchange_clock(const ps_mesh_exchange *x)
{
    return x->me.next;
}

void ps_mesh_exchange_halt(ps_mesh_exchange *x)
{
    x->is_halted = true;
}

const char *ps_mesh_exchange_said(const ps_mesh_exchange *x, uint32_t rank, size_t *len)
{
    return ps_rank_reports_at(&x->reports, rank, x->me.next, len);
}

/* --- life --------------------------------------------------------------------- */

static void on_patience(ps_event *self, bool ok)
{
    ps_mesh_exchange *x = PS_CONTAINER_OF(self, ps_mesh_exchange, patience.event);
    char whom[160];
    bool *open;

    if (!ok || x->is_over) {
        return;
    }
    open = ps_xcalloc(x->peers, sizeof *open);
    for (uint32_t i = 0; i < x->peers; i++) {
        open[i] = !peer_outbox_is_over(&x->outboxes[i]);
    }
    exchange_name_workers(x, open, whom, sizeof whom);
    free(open);
    ps_log(PS_LOG_WARN, "peers", "the last steps were not acknowledged in time by %s", whom);
    ps_mesh_exchange_cut(x);
}

static void on_over(ps_event *self, bool ok)
{
    ps_mesh_exchange *x = PS_CONTAINER_OF(self, ps_mesh_exchange, over);
    const ps_mesh_counters *c = ps_mesh_counters_of(x->me.mesh);

    ps_log(PS_LOG_INFO, "peers",
           "exchange %s: %llu packets, %llu copies sent, %llu bytes without heads; "
           "%llu came twice, %llu repairs",
           x->plan->mesh->name, (unsigned long long)c->packets, (unsigned long long)c->copies,
           (unsigned long long)c->bytes_copied, (unsigned long long)c->duplicates,
           (unsigned long long)c->repairs);
    ps_log(PS_LOG_INFO, "peers", "after %llu exchanges the checksum of the weights is %016llx",
           (unsigned long long)x->me.next,
           (unsigned long long)ps_replica_checksum(x->conf.weights, x->plan->layout.param_count));
    x->done->fire(x->done, ok);
}

void exchange_end_if_over(ps_mesh_exchange *x)
{
    if (x->turn.is_under_way) {
        return; /* on_turn calls this function again */
    }
    for (uint32_t i = 0; i < x->peers; i++) {
        if (!peer_outbox_is_over(&x->outboxes[i])) {
            return;
        }
    }
    if (!x->is_over) {
        x->is_over = true;
        ps_loop_cancel(x->conf.loop, &x->patience);
        ps_gate_acked(&x->me.gate, 0);
        if (x->done != NULL) { /* posted, because the callback of an outbox may be running */
            ps_loop_post(x->conf.loop, &x->over);
        }
    }
}

/* Begins the end: each outbox closes its stream when all of its packets are acknowledged, or is cut
 * after step_ms. If the gate was stopped or has failed, cuts all of them now. */
static void begin_end(ps_mesh_exchange *x)
{
    x->stopping = true;
    ps_loop_cancel(x->conf.loop, &x->due);
    if (!ps_gate_is_open(&x->me.gate)) {
        ps_mesh_exchange_cut(x);
        return;
    }
    ps_loop_after(x->conf.loop, &x->patience, (int64_t)x->plan->spec->timeouts->step_ms * 1000);
    for (uint32_t i = 0; i < x->peers; i++) {
        peer_outbox_pump(&x->outboxes[i]);
    }
    exchange_end_if_over(x);
}

static void on_drain(ps_event *self, bool ok)
{
    ps_mesh_exchange *x = PS_CONTAINER_OF(self, ps_mesh_exchange, drain);

    if (ok && !x->stopping) {
        begin_end(x);
    }
}

void ps_mesh_exchange_stop(ps_mesh_exchange *x, ps_event *done)
{
    assert(x->done == NULL);
    x->done = done;
    if (x->is_over) {
        ps_loop_post(x->conf.loop, &x->over);
    } else if (!x->stopping) {
        begin_end(x);
    } else if (!ps_gate_is_open(&x->me.gate)) {
        ps_mesh_exchange_cut(x);
    }
}

void ps_mesh_exchange_cut(ps_mesh_exchange *x)
{
    if (!x->is_cut) {
        x->is_cut = true;
        for (uint32_t i = 0; i < x->peers; i++) {
            peer_outbox_cut(&x->outboxes[i]);
        }
    }
    exchange_end_if_over(x);
}

/* Checks the report of another rank. After a loss that rank's state may be made of its reports. */
static ps_status check_said(void *arg, uint32_t worker, uint64_t clock, const ps_said *said)
{
    const ps_mesh_exchange *x = arg;

    return ps_rank_reports_check(&x->reports, x->plan, worker, clock, said);
}

ps_status ps_mesh_exchange_create(const ps_mesh_exchange_conf *conf, ps_mesh_exchange **out)
{
    const ps_plan *plan = conf->session->plan;
    ps_mesh_worker_conf me = {
        .plan = plan,
        .rank = conf->session->rank,
        .weights = conf->weights,
        .grad = conf->grad,
        .window_us = ps_plan_mesh(plan, conf->session->rank).window_us,
        .has_reports = ps_plan_can_rescue(plan),
        .check_said = check_said,
    };
    ps_mesh_exchange *x = ps_xcalloc(1, sizeof *x);
    ps_status st;

    me.arg = x;
    x->base.ops = &ops;
    x->base.gate = &x->me.gate;
    x->conf = *conf;
    x->plan = plan;
    x->peers = conf->session->placement.rank_count;
    x->kick.fire = on_kick;
    x->drain.fire = on_drain;
    x->due.event.fire = on_due;
    x->patience.event.fire = on_patience;
    x->over.fire = on_over;
    if (me.has_reports) {
        ps_rank_reports_init(&x->reports, x->peers);
    }
    x->outboxes = ps_xcalloc(x->peers, sizeof *x->outboxes);
    x->inboxes = ps_xcalloc(x->peers, sizeof *x->inboxes);
    exchange_init_turn(x);
    for (uint32_t i = 0; i < x->peers; i++) {
        peer_outbox_init(&x->outboxes[i], x, i);
    }
    st = ps_mesh_worker_init(&x->me, &me);
    if (ps_is_ok(&st) && ps_mesh_may_block(x->me.mesh)) {
        st = ps_tasks_create(conf->loop, 1, 1, &x->tasks);
    }
    if (!ps_is_ok(&st)) {
        ps_mesh_exchange_destroy(x);
        return st;
    }
    *out = x;
    return ps_ok();
}

void ps_mesh_exchange_destroy(ps_mesh_exchange *x)
{
    if (x == NULL) {
        return;
    }
    assert(!x->me.has_begun || x->is_over);
    ps_tasks_destroy(x->tasks);
    peer_forget_inboxes(x);
    for (uint32_t i = 0; i < x->peers; i++) {
        peer_outbox_fini(&x->outboxes[i]);
    }
    ps_mesh_worker_fini(&x->me);
    ps_rank_reports_fini(&x->reports);
    free(x->outboxes);
    free(x->inboxes);
    exchange_fini_turn(x);
    free(x);
}

ps_exchange *ps_mesh_exchange_base(ps_mesh_exchange *x)
{
    return &x->base;
}
