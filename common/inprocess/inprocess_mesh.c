/* SPDX-License-Identifier: Apache-2.0 */
/* inprocess_mesh.c - see inprocess_mesh.h. */
#include "common/inprocess/inprocess_mesh.h"

#include "common/base/clock.h"
#include "common/base/container_of.h"
#include "common/base/xalloc.h"

#include <stdlib.h>

typedef struct inbox {
    pthread_mutex_t mutex; /* guards the members below */
    ps_packet **packets;   /* (count) in the order of arrival */
    size_t count, cap;
    ps_gate *gate; /* gate of the worker, nudged when a packet comes; NULL: the worker has ended */
} inbox;

struct ps_inprocess_mail {
    uint32_t workers;
    inbox *inboxes; /* (workers) */
};

typedef struct inprocess_mesh {
    ps_exchange base;
    ps_mesh_worker me;
    ps_inprocess_mail *mail;
    ps_turn turn;
    ps_packet **taken; /* (taken_cap) packets taken out of the inbox at once */
    size_t taken_cap;
} inprocess_mesh;

static inprocess_mesh *of(ps_exchange *exchange)
{
    return PS_CONTAINER_OF(exchange, inprocess_mesh, base);
}

/* --- mail --------------------------------------------------------------------- */

ps_inprocess_mail *ps_inprocess_mail_create(uint32_t workers)
{
    ps_inprocess_mail *mail = ps_xcalloc(1, sizeof *mail);

    mail->workers = workers;
    mail->inboxes = ps_xcalloc(workers, sizeof *mail->inboxes);
    for (uint32_t i = 0; i < workers; i++) {
        pthread_mutex_init(&mail->inboxes[i].mutex, NULL);
    }
    return mail;
}

void ps_inprocess_mail_destroy(ps_inprocess_mail *mail)
{
    if (mail == NULL) {
        return;
    }
    for (uint32_t i = 0; i < mail->workers; i++) {
        for (size_t k = 0; k < mail->inboxes[i].count; k++) {
            ps_packet_unref(mail->inboxes[i].packets[k]);
        }
        free(mail->inboxes[i].packets);
        pthread_mutex_destroy(&mail->inboxes[i].mutex);
    }
    free(mail->inboxes);
    free(mail);
}

static void attend(ps_inprocess_mail *mail, uint32_t rank, ps_gate *gate)
{
    inbox *box = &mail->inboxes[rank];

    pthread_mutex_lock(&box->mutex);
    box->gate = gate;
    pthread_mutex_unlock(&box->mutex);
}

static void put(inbox *box, ps_packet *packet)
{
    pthread_mutex_lock(&box->mutex);
    if (box->count == box->cap) {
        box->cap = box->cap * 2 + 64;
        box->packets = ps_xrealloc(box->packets, box->cap * sizeof(ps_packet *));
    }
    box->packets[box->count++] = ps_packet_ref(packet);
    if (box->gate != NULL) {
        ps_gate_nudge(box->gate);
    }
    pthread_mutex_unlock(&box->mutex);
}

/* Moves the packets of steps up to `clock` from the inbox to x->taken, in order. Leaves later ones.
 * Returns their number. */
static size_t take(inprocess_mesh *x, uint64_t clock)
{
    inbox *box = &x->mail->inboxes[x->me.self];
    size_t n = 0, kept = 0;

    pthread_mutex_lock(&box->mutex);
    if (box->count > x->taken_cap) {
        x->taken_cap = box->count;
        x->taken = ps_xrealloc(x->taken, x->taken_cap * sizeof(ps_packet *));
    }
    for (size_t i = 0; i < box->count; i++) {
        if (box->packets[i]->clock <= clock) {
            x->taken[n++] = box->packets[i];
        } else {
            box->packets[kept++] = box->packets[i];
        }
    }
    box->count = kept;
    pthread_mutex_unlock(&box->mutex);
    return n;
}

/* --- The machine --------------------------------------------------------------- */

static uint64_t bytes_of(const ps_packet *packet)
{
    return packet->len + psgd__v1__encoding__get_packed_size(&packet->head.msg);
}

static void hand_out(inprocess_mesh *x)
{
    const ps_mesh_counters *c = ps_mesh_counters_of(x->me.mesh);
    ps_mesh_out out;

    while (ps_mesh_next(x->me.mesh, &out)) {
        for (uint32_t i = 0; i < out.count; i++) {
            put(&x->mail->inboxes[out.targets[i]], out.packet);
        }
        atomic_fetch_add(&x->base.count.bytes_up, bytes_of(out.packet) * out.count);
        atomic_fetch_add(&x->base.count.messages_up, out.count);
        ps_packet_unref(out.packet);
    }
    atomic_store(&x->base.count.float32_up, c->values_copied * sizeof(float));
    atomic_store(&x->base.count.float32_down, c->values_taken * sizeof(float));
}

/* Returns why the job's own code has failed, else `st`. What failed code has encoded means zeros.
 */
static ps_status with_code(const inprocess_mesh *x, ps_status st)
{
    ps_status of_code = ps_plan_code_failure(x->me.plan);

    return ps_is_ok(&of_code) ? st : of_code;
}

/* Gives the machine all packets that have arrived for its step. Sets *any to whether there was one.
 * Fails if the machine refuses a packet. */
static ps_status take_all(inprocess_mesh *x, bool *any)
{
    size_t n = take(x, x->me.next);
    ps_status st = ps_ok();

    ps_mesh_hold(x->me.mesh);
    for (size_t i = 0; i < n; i++) {
        ps_packet *packet = x->taken[i];

        if (ps_is_ok(&st)) {
            st = ps_mesh_take(x->me.mesh, packet);
        }
        atomic_fetch_add(&x->base.count.bytes_down, bytes_of(packet));
        atomic_fetch_add(&x->base.count.messages_down, 1);
        ps_packet_unref(packet);
    }
    *any = n > 0;
    return with_code(x, ps_mesh_release(x->me.mesh, st));
}

/* Gives the machine its packets and sends what it answers, until no packet is left and no step can
 * be finished. */
static void work(inprocess_mesh *x)
{
    bool again = true;

    while (again && ps_gate_is_open(&x->me.gate)) {
        ps_status st = take_all(x, &again);

        if (!ps_is_ok(&st)) {
            ps_gate_fail(&x->me.gate, &st);
            return;
        }
        hand_out(x);
        again |= ps_mesh_worker_finish(&x->me);
    }
}

/* Takes this worker's turn, gives the machine its packets, and checks its deadlines. Called by the
 * gate while the trainer waits for weights. Returns the time of the machine's next deadline. */
static int64_t fetch(void *arg, uint64_t clock, bool is_thorough)
{
    inprocess_mesh *x = arg;
    ps_status st;

    (void)clock;
    (void)is_thorough;
    ps_turn_take(&x->turn);
    work(x);
    st = with_code(x, ps_mesh_tick(x->me.mesh, ps_clock_us()));
    if (!ps_is_ok(&st)) {
        ps_gate_fail(&x->me.gate, &st);
        return INT64_MAX;
    }
    hand_out(x); /* the tick may have begun the step's repair, which sends packets */
    return ps_mesh_deadline(x->me.mesh);
}

static void rest(void *arg)
{
    ps_turn_give(&((inprocess_mesh *)arg)->turn);
}

static void wake(void *arg)
{
    ps_turn_take(&((inprocess_mesh *)arg)->turn);
}

/* --- The trainer's side -------------------------------------------------------- */

static bool begin(ps_exchange *exchange, uint64_t clock, uint32_t block, bool is_last)
{
    inprocess_mesh *x = of(exchange);

    if (ps_mesh_worker_is_new(&x->me, clock)) {
        /* Wait here for the end of the step before: only this thread can complete it. */
        if (!ps_gate_wait_weights(&x->me.gate, 0, x->me.plan->layout.variable_count, clock)) {
            return false;
        }
        ps_turn_pass(&x->turn);
    }
    (void)is_last; /* a step ends when it has all blocks */
    ps_mesh_worker_claim(&x->me, clock, block);
    return ps_gate_is_open(&x->me.gate);
}

static void ready(ps_exchange *exchange, uint32_t first_variable, uint32_t count)
{
    inprocess_mesh *x = of(exchange);
    ps_status st;

    if (!ps_mesh_worker_give(&x->me, first_variable, count) || !ps_gate_is_open(&x->me.gate)) {
        return;
    }
    ps_mesh_hold(x->me.mesh);
    st = ps_mesh_worker_advance(&x->me, ps_clock_us());
    st = with_code(x, ps_mesh_release(x->me.mesh, st));
    if (!ps_is_ok(&st)) {
        ps_gate_fail(&x->me.gate, &st);
        return;
    }
    hand_out(x);
}

static void put_kept(const ps_exchange *exchange, uint32_t variable, ps_state_out *out)
{
    ps_mesh_worker_save(&PS_CONTAINER_OF(exchange, const inprocess_mesh, base)->me, variable, out);
}

static void take_kept(ps_exchange *exchange, uint32_t variable, ps_state_in *in)
{
    ps_mesh_worker_load(&of(exchange)->me, variable, in);
}

static void begin_at(ps_exchange *exchange, uint64_t clock, bool has_weights)
{
    assert(has_weights); /* a mesh has no server from which weights could be pulled */
    ps_mesh_worker_start_at(&of(exchange)->me, clock);
}

static const ps_exchange_ops ops = {
    .begin = begin,
    .ready = ready,
    .put = put_kept,
    .take = take_kept,
    .begin_at = begin_at,
};

/* --- life ---------------------------------------------------------------------- */

ps_status ps_inprocess_mesh_create(const ps_inprocess_mesh_conf *conf, ps_exchange **out)
{
    const ps_plan *plan = conf->plan;
    inprocess_mesh *x = ps_xcalloc(1, sizeof *x);
    ps_gate_hooks hooks = {.fetch = fetch,
                           .rest = rest,
                           .wake = wake,
                           .arg = x,
                           .spin_us = conf->turns == NULL ? PS_TURNS_SPIN_US : 0};
    ps_mesh_worker_conf me = {
        .plan = plan,
        .rank = conf->rank,
        .weights = conf->weights,
        .grad = conf->grad,
        /* A worker may have to wait for all others, which take turns on one thread. */
        .window_us = ps_plan_mesh(plan, conf->rank).window_us * plan->spec->workers,
    };
    ps_status st = ps_mesh_worker_init(&x->me, &me);

    if (!ps_is_ok(&st)) {
        ps_mesh_worker_fini(&x->me);
        free(x);
        return st;
    }
    x->base.ops = &ops;
    x->base.gate = &x->me.gate;
    x->mail = conf->mail;
    x->turn.turns = conf->turns;
    ps_gate_set_hooks(&x->me.gate, &hooks);
    attend(conf->mail, conf->rank, &x->me.gate);
    *out = &x->base;
    return ps_ok();
}

void ps_inprocess_mesh_destroy(ps_exchange *exchange)
{
    inprocess_mesh *x = of(exchange);

    attend(x->mail, x->me.self, NULL);
    ps_mesh_worker_fini(&x->me);
    free(x->taken);
    free(x);
}

size_t ps_inprocess_mesh_memory(const ps_exchange *exchange)
{
    return ps_mesh_worker_memory(&PS_CONTAINER_OF(exchange, const inprocess_mesh, base)->me);
}

void ps_inprocess_mesh_leave(ps_exchange *exchange)
{
    ps_turn_give(&of(exchange)->turn);
}
