/* SPDX-License-Identifier: Apache-2.0 */
/* server_thread.c - see server_thread.h. */
#include "services/pserver/server_thread.h"

#include "common/base/clock.h"
#include "common/base/container_of.h"
#include "common/base/free_memory.h"
#include "common/base/log.h"
#include "common/base/xalloc.h"
#include "common/rpc/loop_thread.h"
#include "common/train/trainer.h"
#include "common/wire/wire_link_grpc.h"
#include "common/wire/wire_server.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ps_server_thread {
    ps_server_thread_conf conf;
    ps_loop_thread *thread; /* NULL: the work is done on the home loop's thread */
    char instance[PS_GRPC_WIRE_INSTANCE_BYTES];
    ps_wire_server *wire;
    uint64_t sessions; /* number of sessions so far */

    /* The session and what the thread has of it; NULL and zeros if there is none. */
    const ps_session *session;
    uint32_t part;
    ps_wire_parts parts; /* has the one part of this thread */
    ps_store *store;     /* the store of that part */
    ps_trace_ring *trace;

    int cut_weights; /* the open file that gets the weights of the checkpoint that is asked for */
    struct saving *saving; /* the part that is being saved piece by piece; NULL: none is */
    uint64_t cut_clock;    /* clock of the checkpoint that a copy of the process writes */
    uint64_t cut_base;     /* `base` of the order for that checkpoint (ps_server_cut_order) */
    ps_server_cut_fn *cut_done;
    void *cut_arg;
    /* only while rescue() runs: the part is saved as it was at rescue_at, not as it is */
    bool rescues;
    uint64_t rescue_at;
};

/* Calls fn(arg) on the thread and returns when fn has returned. */
static void on_thread(ps_server_thread *t, void (*fn)(void *arg), void *arg)
{
    if (t->thread == NULL) {
        fn(arg);
    } else {
        ps_loop_thread_run(t->thread, fn, arg);
    }
}

/* A report from the thread to the home loop: the part has the contributions of all steps, or a
 * contribution cannot be used. */
typedef struct news {
    ps_event event;
    ps_server_thread *t;
    uint64_t session; /* `sessions` when it was sent: a report of an earlier session is dropped */
    ps_status why;    /* OK: the part is complete */
} news;

/* Calls conf.complete if `why` is OK, else conf.failed. Runs on the home loop's thread. */
static void tell(ps_server_thread *t, const ps_status *why)
{
    if (ps_is_ok(why)) {
        t->conf.complete(t->conf.arg);
    } else {
        t->conf.failed(t->conf.arg, why);
    }
}

static void on_news(ps_event *self, bool ok)
{
    news *n = PS_CONTAINER_OF(self, news, event);

    if (ok && n->t->session != NULL && n->session == n->t->sessions) {
        tell(n->t, &n->why);
    }
    free(n);
}

/* Passes a report to the home loop: at once if this is its thread, else by an event. OK: the part
 * is complete. Runs on the thread. */
static void send_news(void *arg, const ps_status *why)
{
    ps_server_thread *t = arg;
    news *n;

    if (t->thread == NULL) {
        tell(t, why);
        return;
    }
    n = ps_xcalloc(1, sizeof *n);
    *n = (news){.event.fire = on_news, .t = t, .session = t->sessions, .why = *why};
    ps_loop_post(t->conf.home, &n->event);
}

/* Reports that the part has the contributions of all steps. Runs on the thread. */
static void complete(void *arg)
{
    send_news(arg, &(ps_status){.code = PS_OK});
}

static ps_loop *own_loop(const ps_server_thread *t)
{
    return t->thread != NULL ? ps_loop_thread_loop(t->thread) : t->conf.home;
}

ps_status ps_server_thread_create(const ps_server_thread_conf *conf, ps_server_thread **out)
{
    ps_server_thread *t = ps_xcalloc(1, sizeof *t);
    ps_status st = ps_ok();

    t->conf = *conf;
    if (conf->beside != NULL) {
        ps_grpc_wire_instance(PS_GRPC_WIRE_COPIES + conf->number, t->instance);
        t->thread = conf->beside->thread;
    } else if (conf->number > 0) {
        ps_grpc_wire_instance(conf->number, t->instance);
        st = ps_loop_thread_start("server", &t->thread);
    }
    if (!ps_is_ok(&st)) {
        free(t);
        return st;
    }
    t->wire = ps_wire_server_create(own_loop(t), conf->drop_ack, complete, t);
    ps_wire_server_set_failed(t->wire, send_news, t);
    ps_wire_server_set_sockets_only(t->wire, conf->is_sockets_only);
    *out = t;
    return ps_ok();
}

void ps_server_thread_destroy(ps_server_thread *t)
{
    if (t != NULL) {
        if (t->conf.beside == NULL) {
            ps_loop_thread_stop(t->thread);
        }
        ps_wire_server_destroy(t->wire);
        free(t);
    }
}

ps_service ps_server_thread_service(ps_server_thread *t)
{
    ps_service service = ps_grpc_wire_service(t->wire);

    if (t->instance[0] != '\0') {
        service.instance = t->instance;
        service.loop = own_loop(t);
    }
    return service;
}

/* ---- A session ---- */

typedef struct opening {
    ps_server_thread *t;
    ps_tables *tables;
    ps_status st;
} opening;

/* Loads the store from the files of the checkpoint that the session begins with, if there are
 * any. */
static ps_status load(ps_server_thread *t)
{
    const ps_session *s = t->session;
    ps_status st = ps_ok();

    for (uint32_t i = 0; i < s->state_count && ps_is_ok(&st); i++) {
        st = ps_wrap(
            ps_store_load_of(t->store, s->first_clock, s->states[i]->data, s->states[i]->len),
            "checkpoint, file %" PRIu32 " of servers", i);
    }
    /* if ranks are not in step, the checkpoint may say that workers were lost; in this attempt all
     * workers are there */
    if (!ps_plan_is_in_step(s->plan)) {
        ps_store_find_workers(t->store);
    }
    return s->state_count > 0 && ps_is_ok(&st) ? ps_wrap(ps_store_load_end(t->store), "checkpoint")
                                               : st;
}

/* Returns whether ranks can go on from this part of the checkpoint. If they are in step, the part
 * must be at the session's first clock, or still have its state at that clock. If they are not,
 * each rank has a clock of its own, and nothing is compared. */
static bool fits(const ps_server_thread *t)
{
    uint64_t clock = ps_store_clock(t->store), first = t->session->first_clock;

    return !ps_plan_is_in_step(t->session->plan) || clock == first ||
           /* all slices may be one clock ahead, if they have kept their state before that step */
           ps_store_has_at(t->store, first);
}

static void open_part(void *arg)
{
    opening *o = arg;
    ps_server_thread *t = o->t;
    const ps_session *s = t->session;
    ps_wire_attempt attempt = ps_session_attempt(s);

    ps_wire_parts_init(&t->parts, s->plan, &s->placement, t->part, s->weights, o->tables);
    t->store = t->parts.part[0].store;
    o->st = load(t);
    if (ps_is_ok(&o->st) && s->state_count > 0 && ps_server_thread_is_used(t) && !fits(t)) {
        o->st = ps_fail(PS_FAILED_PRECONDITION,
                        "checkpoint: servers are at clock %" PRIu64 ", %" PRIu64 " is expected",
                        ps_store_clock(t->store), s->first_clock);
    }
    t->trace = ps_trainer_ring(s->plan);
    ps_wire_server_set_trace(t->wire, t->trace);
    ps_wire_server_open(t->wire, s->plan, &s->placement, &attempt, t->part, &t->parts);
    ps_free_memory_use_huge_pages(); /* after the store was made, which made malloc's memory grow */
}

/* Returns the part of the thread on server `rank`. */
static uint32_t part_of(const ps_server_thread *t, const ps_placement *placement, uint32_t rank)
{
    return t->conf.beside == NULL
               ? placement->first_part[rank] + t->conf.number
               : ps_placement_copy_of(placement,
                                      placement->first_part[ps_placement_copied(placement, rank)] +
                                          t->conf.number);
}

ps_status ps_server_thread_open(ps_server_thread *t, const ps_session *session, ps_tables *tables)
{
    opening o = {.t = t, .tables = tables};

    t->session = session;
    t->part = part_of(t, &session->placement, session->rank);
    t->sessions++;
    on_thread(t, open_part, &o);
    return o.st;
}

static void stop_saving(ps_server_thread *t);

static void close_part(void *arg)
{
    ps_server_thread *t = arg;

    stop_saving(t);
    ps_wire_server_close(t->wire, "the attempt is over");
    ps_wire_parts_fini(&t->parts);
    ps_trace_ring_destroy(t->trace);
    t->trace = NULL;
    t->store = NULL;
}

void ps_server_thread_close(ps_server_thread *t)
{
    on_thread(t, close_part, t);
    t->session = NULL;
}

bool ps_server_thread_is_used(const ps_server_thread *t)
{
    return t->parts.part[0].count > 0 || ps_store_tables(t->store) != NULL;
}

ps_trace_track ps_server_thread_track(const ps_server_thread *t)
{
    const ps_session *s = t->session;
    ps_trace_track track = {.ring = t->trace,
                            .process = s->placement.rank_count + 1 + s->rank,
                            .thread = t->conf.number + 1,
                            .thread_name = "serving",
                            .workers = s->placement.rank_count,
                            .part = t->part};

    snprintf(track.process_name, sizeof track.process_name, "server %" PRIu32, s->rank);
    return track;
}

/* ---- Lost workers ---- */

typedef struct losing {
    ps_server_thread *t;
    uint32_t worker;
    bool *is_news;
    ps_status st;
} losing;

static void lose(void *arg)
{
    losing *l = arg;

    if (!ps_store_is_lost(l->t->store, l->worker)) {
        *l->is_news = true;
        l->st = ps_wire_server_lose(l->t->wire, l->worker);
    }
}

ps_status ps_server_thread_lose(ps_server_thread *t, uint32_t worker, bool *is_news)
{
    losing l = {.t = t, .worker = worker, .is_news = is_news, .st = ps_ok()};

    on_thread(t, lose, &l);
    return l.st;
}

/* ---- What the thread has ---- */

typedef struct copying {
    ps_server_thread *t;
    float *weights;
} copying;

/* Calls fn(arg, place, at, n) for each slice of the part: its place in the store, and where its n
 * values begin among those of the server that owns it. */
static ps_status each_slice(const ps_server_thread *t,
                            ps_status (*fn)(void *arg, uint32_t place, size_t at, uint32_t n),
                            void *arg)
{
    const ps_placement *placement = &t->session->placement;
    uint32_t original = ps_placement_original(placement, t->part);
    uint32_t server = placement->parts[original].server;
    ps_status st = ps_ok();
    uint32_t place = 0;
    size_t at = 0;

    for (uint32_t i = 0; i < placement->owned_count[server] && ps_is_ok(&st); i++) {
        uint32_t slice = placement->owned[server][i];
        uint32_t n = placement->layout->slices[slice].n;

        if (placement->part_of[slice] == original) {
            st = fn(arg, place++, at, n);
        }
        at += n;
    }
    return st;
}

static ps_status copy_slice(void *arg, uint32_t place, size_t at, uint32_t n)
{
    const copying *c = arg;

    (void)n;
    ps_store_copy_slice(c->t->store, place, c->weights + at);
    return ps_ok();
}

static void copy_weights(void *arg)
{
    const copying *c = arg;
    ps_status st = each_slice(c->t, copy_slice, arg);

    (void)st; /* copying in memory does not fail */
}

void ps_server_thread_copy_weights(ps_server_thread *t, float *weights)
{
    copying c = {.t = t, .weights = weights};

    on_thread(t, copy_weights, &c);
}

static void close_tables(void *arg)
{
    ps_wire_server_close_tables(((ps_server_thread *)arg)->wire);
}

ps_tables *ps_server_thread_close_tables(ps_server_thread *t)
{
    ps_tables *tables = ps_store_tables(t->store);

    if (tables != NULL) {
        on_thread(t, close_tables, t);
    }
    return tables;
}

ps_status ps_server_thread_at_clock(ps_server_thread *t, uint64_t clock, ps_store_at_clock_fn *fn,
                                    void *arg)
{
    assert(t->thread == NULL); /* only called for the part that the home loop's thread works on */
    if (fn == NULL) {
        ps_store_forget_at_clock(t->store, clock);
        return ps_ok();
    }
    return ps_store_at_clock(t->store, clock, fn, arg);
}

/* ---- Checkpoints ---- */

/* A part that is being saved. The thread posts it to the home loop when the part is saved, when a
 * copy of the process writes it, or when saving has failed. */
typedef struct saving {
    ps_event event; /* on the thread's loop for each piece that it writes, then on the home loop */
    ps_server_thread *t;
    uint64_t session;
    ps_server_cut cut;
    size_t *at; /* (slices of the part): where the slice's values begin in cut_weights */
    /* monotonic time and processor time when the present piece began */
    int64_t piece_us, piece_spent_us;
    int64_t longest_us, most_us; /* longest time and most processor time of a piece so far */
    int64_t spent_us;            /* processor time of all pieces so far */
    unsigned pieces;
} saving;

static void on_saved(ps_event *self, bool ok)
{
    saving *x = PS_CONTAINER_OF(self, saving, event);
    ps_server_thread *t = x->t;

    if (ok && t->session != NULL && x->session == t->sessions && t->cut_done != NULL) {
        t->cut_done(t->cut_arg, &x->cut);
    } else {
        ps_snapshot_drop(&x->cut.state);
    }
    free(x);
}

static ps_status write_slice(void *arg, uint32_t place, size_t at, uint32_t n)
{
    const ps_server_thread *t = arg;
    float values[PS_CODEC_VALUES];

    if (t->rescues) {
        ps_store_copy_slice_at(t->store, place, t->rescue_at, values);
    } else {
        ps_store_copy_slice(t->store, place, values);
    }
    return ps_snapshot_put(t->cut_weights, at * sizeof *values, values, n * sizeof *values);
}

/* Writes the part's state to `fd` and its weights to t->cut_weights: as they are, or if t->rescues
 * as they were at rescue_at. ps_snapshot_begin calls it, in a copy of the process if one can be
 * made. */
static ps_status write_part(void *arg, int fd)
{
    ps_server_thread *t = arg;
    ps_status st = t->rescues ? ps_store_save_at(t->store, t->rescue_at, ps_snapshot_write, &fd)
                              : ps_store_save_since(t->store, t->cut_clock, t->cut_base,
                                                    ps_snapshot_write, &fd);

    return ps_is_ok(&st) ? each_slice(t, write_slice, t) : st;
}

/* ---- A part that is saved while the thread goes on ---- */

static ps_status write_state(void *arg, const void *bytes, size_t len)
{
    saving *x = arg;

    return ps_snapshot_write(&x->cut.state.fd, bytes, len);
}

static ps_status write_weights(void *arg, uint32_t place, const float *values, uint32_t n)
{
    const saving *x = arg;

    return ps_snapshot_put(x->t->cut_weights, x->at[place] * sizeof *values, values,
                           n * sizeof *values);
}

/* Measures how long the thread stands still for a piece that it writes. Called when the piece
 * begins, and when it ends. */
static void watch_piece(void *arg, bool begins)
{
    saving *x = arg;
    int64_t now_us = ps_clock_us(), spent_us = ps_clock_thread_us();
    int64_t took_us = now_us - x->piece_us, cost_us = spent_us - x->piece_spent_us;

    if (begins) {
        x->piece_us = now_us;
        x->piece_spent_us = spent_us;
        return;
    }
    x->longest_us = took_us > x->longest_us ? took_us : x->longest_us;
    x->most_us = cost_us > x->most_us ? cost_us : x->most_us;
    x->spent_us += cost_us;
    x->pieces++;
}

static ps_status note_at(void *arg, uint32_t place, size_t at, uint32_t n)
{
    saving *x = arg;

    (void)n;
    x->at[place] = at;
    return ps_ok();
}

/* Writes the next piece of the part. The loop calls it when the thread has nothing else to do,
 * until all pieces are written. Then posts the result to the home loop. */
static void go_on_saving(ps_event *self, bool ok)
{
    saving *x = PS_CONTAINER_OF(self, saving, event);
    ps_server_thread *t = x->t;

    if (!ok || t->saving != x) { /* stop_saving was called, or the loop ends */
        ps_snapshot_drop(&x->cut.state);
        free(x->at);
        free(x);
        return;
    }
    if (ps_store_cut_next(t->store)) {
        ps_loop_idle(own_loop(t), &x->event);
        return;
    }
    x->cut.status = ps_store_cut_end(t->store);
    if (!ps_is_ok(&x->cut.status)) {
        ps_snapshot_drop(&x->cut.state);
    }
    t->saving = NULL;
    free(x->at);
    ps_log(PS_LOG_INFO, "pserver",
           "checkpoint at clock %" PRIu64
           ": stood still for %.1f ms, computed for %.1f ms, at most, "
           "in each of %u pieces; computed %.1f ms in all",
           x->cut.clock, (double)x->longest_us * 1e-3, (double)x->most_us * 1e-3, x->pieces,
           (double)x->spent_us * 1e-3);
    x->event.fire = on_saved;
    ps_loop_post(t->conf.home, &x->event);
}

/* Begins to save the part as it is now, piece by piece, while the thread goes on
 * (ps_store_cut_begin). */
static void begin_saving(ps_server_thread *t, saving *x)
{
    const ps_store_cut_sink sink = {
        .write = write_state, .weights = write_weights, .watch = watch_piece, .arg = x};
    ps_status st;

    x->at = ps_xcalloc(t->parts.part[0].count, sizeof *x->at);
    st = each_slice(t, note_at, x);
    (void)st; /* noting places does not fail */
    watch_piece(x, true);
    ps_store_cut_begin(t->store, &sink);
    watch_piece(x, false);
    ps_log(PS_LOG_INFO, "pserver", "checkpoint at clock %" PRIu64 " begins", x->cut.clock);
    t->saving = x;
    x->event.fire = go_on_saving;
    ps_loop_idle(own_loop(t), &x->event);
}

/* Gives up the part that is being saved piece by piece, if one is. go_on_saving, whose event is
 * still to come, frees it. */
static void stop_saving(ps_server_thread *t)
{
    if (t->saving != NULL) {
        ps_store_cut_drop(t->store);
        t->saving = NULL;
    }
}

/* ---- A part that is saved at a clock ---- */

/* Saves the part in a copy of the process: if it has rows, of which a step changes few, or for a
 * rescue. */
static void save_in_copy(ps_server_thread *t, saving *x)
{
    t->cut_clock = x->cut.clock;
    x->cut.state = ps_snapshot_begin(write_part, t);
    if (!t->rescues) {
        ps_store_mark(t->store, t->cut_clock, t->cut_base);
    }
    ps_log(PS_LOG_INFO, "pserver",
           "checkpoint at clock %" PRIu64 ": stood still for %.1f ms, computed for %.1f ms",
           x->cut.clock, (double)x->cut.state.stood_us * 1e-3,
           (double)x->cut.state.spent_us * 1e-3);
}

/* Begins to save the part. Runs on the thread. Posts the result to the home loop: when all is
 * written, if the thread itself writes; at once, if a copy of the process writes or if saving
 * cannot begin. `store` NULL: saving fails, because the part no longer has its state of that
 * clock. */
static void save_part(void *arg, uint64_t clock, ps_store *store)
{
    ps_server_thread *t = arg;
    saving *x = ps_xcalloc(1, sizeof *x);

    x->event.fire = on_saved;
    x->t = t;
    x->session = t->sessions;
    x->cut = (ps_server_cut){
        .clock = clock, .number = t->conf.number, .state = {.fd = -1, .copy_fd = -1}};
    if (t->rescues && ps_store_has_lent_tables(t->store)) {
        x->cut.status = ps_fail(PS_UNAVAILABLE, "files of the job's tables are being collected");
    } else if (t->rescues && store == NULL) {
        x->cut.status =
            ps_fail(PS_FAILED_PRECONDITION, "it is at clock %" PRIu64, ps_store_clock(t->store));
    } else if (store == NULL) {
        x->cut.status = ps_fail(PS_FAILED_PRECONDITION, "the server is further already");
    } else if (t->rescues || ps_store_has_rows(store)) {
        x->cut.status = ps_ok();
        save_in_copy(t, x);
    } else {
        x->cut.status = ps_snapshot_blank(0, &x->cut.state);
        if (ps_is_ok(&x->cut.status)) {
            begin_saving(t, x);
            return;
        }
    }
    ps_loop_post(t->conf.home, &x->event);
}

typedef struct cutting {
    ps_server_thread *t;
    ps_server_cut_order order;
} cutting;

static void rescue(void *arg)
{
    const cutting *c = arg;
    ps_server_thread *t = c->t;

    ps_wire_server_cut_at(t->wire, 0, false, NULL, NULL);
    stop_saving(t);
    t->cut_weights = c->order.weights;
    t->rescues = true;
    t->rescue_at = c->order.clock;
    save_part(t, c->order.clock, ps_store_has_at(t->store, c->order.clock) ? t->store : NULL);
    t->rescues = false;
}

void ps_server_thread_rescue(ps_server_thread *t, uint64_t clock, int weights,
                             ps_server_cut_fn *done, void *arg)
{
    cutting c = {.t = t, .order = {.clock = clock, .weights = weights}};

    t->cut_done = done;
    t->cut_arg = arg;
    on_thread(t, rescue, &c);
}

typedef struct asking {
    ps_server_thread *t;
    uint32_t rank;
    uint64_t clock;
    ps_strbuf *said;
    bool is_known;
} asking;

static void find_said(void *arg)
{
    asking *a = arg;
    size_t len = 0;
    const char *said =
        ps_rank_reports_at(ps_wire_server_reports(a->t->wire), a->rank, a->clock, &len);

    a->is_known = said != NULL;
    if (a->is_known) {
        ps_strbuf_append(a->said, said, len);
    }
}

bool ps_server_thread_keeps_reports(const ps_server_thread *t)
{
    return ps_wire_keeps_reports(&t->session->placement, t->part);
}

bool ps_server_thread_said(ps_server_thread *t, uint32_t rank, uint64_t clock, ps_strbuf *said)
{
    asking a = {.t = t, .rank = rank, .clock = clock, .said = said};

    on_thread(t, find_said, &a);
    return a.is_known;
}

static void set_cut(void *arg)
{
    const cutting *c = arg;

    stop_saving(c->t);
    c->t->cut_weights = c->order.weights;
    c->t->cut_base = c->order.base;
    ps_wire_server_cut_at(c->t->wire, c->order.clock, c->order.is_now,
                          c->order.done != NULL ? save_part : NULL, c->t);
}

void ps_server_thread_cut_at(ps_server_thread *t, const ps_server_cut_order *order)
{
    cutting c = {.t = t, .order = *order};

    t->cut_done = order->done;
    t->cut_arg = order->arg;
    on_thread(t, set_cut, &c);
}

typedef struct finding {
    ps_server_thread *t;
    bool *is_missing;
    uint64_t *clock;
} finding;

static void find_missing(void *arg)
{
    const finding *f = arg;
    const ps_store *store = f->t->store;
    uint32_t cap = f->t->session->placement.rank_count, *workers, count;
    uint64_t clock = ps_store_clock(store);

    if (clock >= f->t->session->plan->total_clocks) {
        return;
    }
    *f->clock = clock < *f->clock ? clock : *f->clock;
    workers = ps_xcalloc(cap + 1, sizeof *workers);
    count = ps_store_waits_for(store, workers, cap);
    for (uint32_t i = 0; i < count && i < cap; i++) {
        f->is_missing[workers[i]] = true;
    }
    free(workers);
}

void ps_server_thread_find_missing(ps_server_thread *t, bool *is_missing, uint64_t *clock)
{
    finding f = {.t = t, .is_missing = is_missing, .clock = clock};

    on_thread(t, find_missing, &f);
}

typedef struct counting {
    ps_server_thread *t;
    ps_server_counts *sum;
} counting;

static void add_counts(void *arg)
{
    const counting *c = arg;
    const ps_store *store = c->t->store;
    ps_server_counts *sum = c->sum;
    ps_traffic traffic = ps_wire_server_traffic(c->t->wire);
    ps_table_counters rows = ps_store_table_counters(store);

    if (ps_server_thread_is_used(c->t) && ps_store_clock(store) < sum->clock) {
        sum->clock = ps_store_clock(store);
    }
    sum->traffic.bytes_in += traffic.bytes_in;
    sum->traffic.bytes_out += traffic.bytes_out;
    sum->traffic.messages_in += traffic.messages_in;
    sum->traffic.messages_out += traffic.messages_out;
    sum->traffic.bytes_through_memory += traffic.bytes_through_memory;
    sum->ledgers_differ += ps_store_ledger(store, &sum->has_no_ledger, &sum->ledger);
    if (c->t->conf.beside != NULL) {
        /* This thread has copies. The server that owns these shards counts the rest, which would
         * count twice otherwise. */
        return;
    }
    ps_table_counters_add(&sum->rows, &rows);
    ps_store_counters_add(&sum->store, ps_store_counters_of(store));
    sum->waits += ps_wire_server_waits(c->t->wire);
    sum->open += ps_store_open(store);
    for (uint32_t w = 0; w < sum->worker_count; w++) {
        const ps_worker_counters *of = ps_store_worker_counters_of(store, w);

        sum->workers[w].applied += of->applied;
        sum->workers[w].dropped += of->dropped;
        sum->workers[w].left_out += of->left_out;
        sum->is_lost[w] = sum->is_lost[w] || ps_store_is_lost(store, w);
    }
}

void ps_server_thread_add_counts(ps_server_thread *t, ps_server_counts *sum)
{
    counting c = {.t = t, .sum = sum};

    on_thread(t, add_counts, &c);
}
