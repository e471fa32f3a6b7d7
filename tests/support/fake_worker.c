/* SPDX-License-Identifier: Apache-2.0 */
/* fake_worker.c - see fake_worker.h. */
#include "tests/support/fake_worker.h"

#include "common/base/draw.h"
#include "common/base/xalloc.h"
#include "common/codec/feedback.h"
#include "common/rpc/serve.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- known gradients --------------------------------------------------------- */

/* Computes the values [at, at + n) of a block's gradient, times `scale`, and adds them to g or
 * writes them there. */
static void fill(fake_kind kind, uint64_t clock, uint32_t block, const float *w, size_t at,
                 size_t n, float scale, bool accumulate, float *g)
{
    uint32_t key = (uint32_t)ps_draw_key(5, PS_DRAW_TEST, clock, block, 0);

    for (size_t i = at; i < at + n; i++) {
        uint32_t drawn = ps_draw_u32(key, (uint32_t)i);
        float x = (float)(drawn % 7) - 3.0f;

        if (kind == FAKE_CHAINED) {
            x = (float)(int32_t)drawn * 0x1p-31f + 0.25f * w[i];
        }
        x *= scale;
        g[i] = accumulate ? g[i] + x : x;
    }
}

/* --- the worker's thread ------------------------------------------------------ */

static void tell(fake_worker *w, uint64_t clock, fake_at at)
{
    if (w->hook != NULL) {
        w->hook(w->hook_arg, w, clock, at);
    }
}

static void finished(fake_worker *w, uint64_t clock)
{
    pthread_mutex_lock(&w->mutex);
    w->clock = clock;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->mutex);
}

/* Computes the gradients of one block and contributes them, last variable first, as backpropagation
 * does. Returns false if the exchange was stopped or has failed. */
static bool send_block(fake_worker *w, uint64_t clock, uint32_t i)
{
    const ps_plan *plan = w->job->plan;
    const ps_assignment *a = plan->assignment;
    uint32_t held = a->held_count[w->session.rank], block = a->held[w->session.rank][i];
    bool per_block = plan->update->per_block, is_last = i + 1 == held;

    if ((per_block || i == 0) &&
        !ps_exchange_begin(w->exchange, clock, per_block ? block : 0, per_block ? is_last : true)) {
        return false;
    }
    for (uint32_t v = plan->layout.variable_count; v-- > 0;) {
        const ps_variable *var = &plan->layout.variables[v];

        fill(w->kind, clock, block, w->session.weights, var->at, var->size,
             w->kind == FAKE_COUNTED ? 1.0f : plan->update->block_scale(&plan->update_facts),
             !per_block && i > 0, (float *)(void *)w->grad->data);
        if (per_block || is_last) {
            ps_exchange_ready(w->exchange, v, 1);
        }
        if (v == plan->layout.variable_count / 2 && is_last) {
            tell(w, clock, FAKE_IN_THE_MIDST);
        }
        if (v == 1 && is_last) {
            tell(w, clock, FAKE_HAS_ONE_LEFT);
        }
    }
    return true;
}

static bool step(fake_worker *w, uint64_t clock)
{
    const ps_plan *plan = w->job->plan;
    ps_gate *gate = ps_exchange_gate(w->exchange);

    tell(w, clock, FAKE_BEGINS);
    for (uint32_t v = 0; v < plan->layout.variable_count; v++) {
        if (!ps_gate_wait_weights(gate, v, 1, clock)) {
            return false;
        }
    }
    if (ps_exchange_may_be_overtaken(w->exchange) && ps_gate_is_overtaken(gate, clock)) {
        w->skipped++;
        return ps_exchange_skip(w->exchange, clock);
    }
    tell(w, clock, FAKE_HAS_WEIGHTS);
    for (uint32_t i = 0; i < plan->assignment->held_count[w->session.rank]; i++) {
        if (!send_block(w, clock, i)) {
            return false;
        }
    }
    return true;
}

static bool work(fake_worker *w)
{
    ps_gate *gate = ps_exchange_gate(w->exchange);

    for (uint64_t clock = 0; clock < w->steps; clock++) {
        if (!step(w, clock)) {
            return false;
        }
        finished(w, clock + 1);
    }
    return ps_gate_wait_weights(gate, 0, w->job->plan->layout.variable_count, w->steps) &&
           ps_gate_wait_acks(gate);
}

static void *run(void *arg)
{
    fake_worker *w = arg;

    w->went_home = !work(w);
    w->failure = ps_gate_failure(ps_exchange_gate(w->exchange));
    w->stats = ps_exchange_get_stats(w->exchange);
    finished(w, UINT64_MAX);
    return NULL;
}

/* --- its life ------------------------------------------------------------------ */

static void describe(fake_worker *w, uint32_t rank)
{
    size_t bytes = w->job->plan->layout.param_count * sizeof(float);

    assert(w->steps <= w->job->plan->total_steps);
    dp_worker_session(w->job, rank, &w->session);
    w->grad = ps_buf_create(bytes);
    w->grad->len = bytes;
    w->failure = ps_ok();
}

static void serve(void *arg)
{
    fake_worker *w = arg;
    ps_status st = ps_serve(w->on->loop, &w->service, 1, w->address, &w->server);

    assert(ps_is_ok(&st));
    (void)st;
    snprintf(w->address, sizeof w->address, "127.0.0.1:%d", ps_server_port(w->server));
}

static void listen_to_peers(void *arg)
{
    fake_worker *w = arg;
    ps_mesh_exchange_conf conf = {
        .loop = w->on->loop,
        .session = &w->session,
        .incarnation = w->incarnation,
        .weights = w->session.weights,
        .grad = w->grad,
        .taken = ps_peers_taken,
        .arg = w->receiver,
    };
    ps_status st = ps_mesh_exchange_create(&conf, &w->mesh);

    assert(ps_is_ok(&st));
    (void)st;
    ps_peers_open(w->peers, w->receiver, w->mesh);
    serve(w);
}

void fake_worker_listen(fake_worker *w, uint32_t rank)
{
    describe(w, rank);
    w->peers = ps_peers_create();
    w->receiver = ps_peer_receiver_create(&w->session);
    w->service = ps_peers_service(w->peers);
    snprintf(w->address, sizeof w->address, "127.0.0.1:0");
    side_run(w->on, listen_to_peers, w);
    snprintf(w->job->placement.processes[rank].address, PS_ENDPOINT_ADDRESS_MAX, "%s", w->address);
}

typedef struct closing {
    fake_worker *w;
    flag closed;
} closing;

static void stop_server(void *arg)
{
    closing *c = arg;

    ps_server_stop(c->w->server, 0, &c->closed.event);
}

static void run_closing(fake_worker *w, void (*fn)(void *arg))
{
    closing c = {.w = w};

    flag_init(&c.closed);
    side_run(w->on, fn, &c);
    flag_wait(&c.closed);
    flag_fini(&c.closed);
}

void fake_worker_break(fake_worker *w)
{
    run_closing(w, stop_server);
}

void fake_worker_resume(fake_worker *w)
{
    side_run(w->on, serve, w);
}

static void open_exchange(void *arg)
{
    fake_worker *w = arg;

    w->exchange =
        ps_rank_connect(w->on->loop, &w->session, w->incarnation, w->grad, w->is_sockets_only);
    ps_wire_client_start(w->exchange);
}

void fake_worker_start(fake_worker *w, uint32_t rank)
{
    int err;

    pthread_mutex_init(&w->mutex, NULL);
    pthread_cond_init(&w->changed, NULL);
    if (w->peers != NULL) {
        w->exchange = ps_mesh_exchange_base(w->mesh);
    } else {
        describe(w, rank);
        side_run(w->on, open_exchange, w);
    }
    err = pthread_create(&w->thread, NULL, run, w);
    assert(err == 0);
    (void)err;
}

void fake_worker_wait(fake_worker *w, uint64_t clock)
{
    pthread_mutex_lock(&w->mutex);
    while (w->clock < clock) {
        pthread_cond_wait(&w->changed, &w->mutex);
    }
    pthread_mutex_unlock(&w->mutex);
}

void fake_worker_stop(fake_worker *w)
{
    ps_gate_stop(ps_exchange_gate(w->exchange));
}

static void close_exchange(void *arg)
{
    closing *c = arg;

    if (c->w->mesh != NULL) {
        ps_mesh_exchange_stop(c->w->mesh, &c->closed.event);
    } else {
        ps_wire_client_stop(c->w->exchange, &c->closed.event);
    }
}

void fake_worker_join(fake_worker *w)
{
    pthread_join(w->thread, NULL);
    run_closing(w, close_exchange);
    if (w->mesh != NULL) {
        /* after the end, so with the packets that other workers still needed */
        w->stats = ps_exchange_get_stats(w->exchange);
    } else {
        ps_wire_client_destroy(w->exchange);
    }
    w->exchange = NULL;
}

static void close_peers(void *arg)
{
    closing *c = arg;

    ps_peers_remove(c->w->peers, c->w->receiver, "the test is over");
    c->w->receiver = NULL;
    stop_server(c);
}

static void drop_mesh(void *arg)
{
    fake_worker *w = arg;

    ps_mesh_exchange_destroy(w->mesh);
}

void fake_worker_fini(fake_worker *w)
{
    if (w->peers != NULL) {
        run_closing(w, close_peers);
        side_run(w->on, drop_mesh, w);
        ps_peers_destroy(w->peers);
    }
    ps_buf_unref(w->grad);
    dp_session_fini(&w->session);
    pthread_mutex_destroy(&w->mutex);
    pthread_cond_destroy(&w->changed);
}

/* --- the twin ------------------------------------------------------------------ */

/* Encodes n values of `from` and writes what the receiver decodes. */
static void through(const ps_codec_choice *choice, uint64_t key, const float *from, float *to,
                    size_t n)
{
    static uint8_t bytes[PS_SLICE_VALUES * sizeof(float)];
    ps_encoding head;
    ps_status st;

    ps_codec_encode(choice->codec, &choice->params, key, 0, from, n, bytes, &head);
    st = ps_codec_decode(NULL, &head.msg, bytes, head.msg.payload_bytes, PS_INTO_SET, to, n);
    assert(ps_is_ok(&st));
    (void)st;
}

/* Replaces g by what the receiver decodes of it. With error feedback first adds `lost`, the
 * residuals of earlier encodings, and stores the new residuals there. */
static void sent(const ps_codec_choice *choice, uint64_t key, float *g, float *lost, size_t n)
{
    float *p = ps_xcalloc(n, sizeof *p);
    bool feeds_back = ps_feedback_is_on(choice->codec, &choice->params);

    for (size_t i = 0; i < n; i++) {
        p[i] = feeds_back ? g[i] + lost[i] : g[i];
    }
    through(choice, key, p, g, n);
    for (size_t i = 0; i < n; i++) {
        lost[i] = p[i] - g[i];
    }
    free(p);
}

/* Computes what contributor k sends for the clock, as the servers decode it. lost: (workers,
 * param_count), the residuals. */
static void contribution(const dp_job *job, fake_kind kind, uint64_t clock, uint32_t k,
                         const float *w, float *lost, float *g)
{
    const ps_plan *plan = job->plan;
    const ps_layout *layout = &plan->layout;
    const ps_assignment *a = plan->assignment;
    float scale = kind == FAKE_COUNTED ? 1.0f : plan->update->block_scale(&plan->update_facts);
    uint32_t worker = plan->update->per_block ? a->holders[(size_t)k * a->redundancy] : k;

    lost += (size_t)worker * layout->param_count;
    if (plan->update->per_block) {
        fill(kind, clock, k, w, 0, layout->param_count, scale, false, g);
    } else {
        for (uint32_t i = 0; i < a->held_count[k]; i++) {
            fill(kind, clock, a->held[k][i], w, 0, layout->param_count, scale, i > 0, g);
        }
    }
    for (uint32_t s = 0; s < layout->slice_count; s++) {
        const ps_slice *slice = &layout->slices[s];

        sent(&plan->up[slice->variable], ps_draw_key(plan->spec->seed, PS_DRAW_UP, s, clock, k),
             g + slice->at, lost + slice->at, slice->n);
    }
}

static void twin_step(const dp_job *job, fake_kind kind, uint64_t clock, const float *seen,
                      float *w, float *state, float *lost)
{
    const ps_plan *plan = job->plan;
    size_t n = plan->layout.param_count;
    float *sum = ps_xcalloc(n, sizeof *sum), *g = ps_xcalloc(n, sizeof *g);
    float scale = plan->update->merge_scale(&plan->update_facts);
    uint32_t contributors =
        plan->update->per_block ? plan->assignment->block_count : plan->spec->workers;

    contribution(job, kind, clock, 0, seen, lost, sum);
    for (uint32_t k = 1; k < contributors; k++) {
        contribution(job, kind, clock, k, seen, lost, g);
        for (size_t i = 0; i < n; i++) {
            sum[i] = sum[i] + g[i];
        }
    }
    for (size_t i = 0; i < n && scale != 1.0f; i++) {
        sum[i] *= scale;
    }
    if (plan->optim_on_server) {
        plan->optim->step(&plan->optim_params, clock + 1, sum, w, state, w, n);
    } else {
        for (size_t i = 0; i < n; i++) {
            w[i] -= sum[i];
        }
    }
    free(sum);
    free(g);
}

void fake_twin(const dp_job *job, fake_kind kind, uint64_t steps, float *servers, float *workers)
{
    const ps_plan *plan = job->plan;
    const ps_layout *layout = &plan->layout;
    size_t n = layout->param_count;
    float *state = ps_xcalloc(n * plan->optim->slots + 1, sizeof *state);
    float *lost = ps_xcalloc(n * plan->spec->workers, sizeof *lost);

    memcpy(servers, job->weights, n * sizeof *servers);
    /* the weights of clock 0 are in the packages, so no codec has changed them */
    memcpy(workers, job->weights, n * sizeof *workers);
    for (uint64_t clock = 0; clock < steps; clock++) {
        twin_step(job, kind, clock, workers, servers, state, lost);
        for (uint32_t s = 0; s < layout->slice_count; s++) {
            const ps_slice *slice = &layout->slices[s];

            through(&plan->down[slice->variable],
                    ps_draw_key(plan->spec->seed, PS_DRAW_DOWN, s, clock + 1, 0),
                    servers + slice->at, workers + slice->at, slice->n);
        }
    }
    free(state);
    free(lost);
}
