/* SPDX-License-Identifier: Apache-2.0 */
/* node_world.c - see node_world.h: the world, its coordinators and its role. */
#include "tests/support/node_world.h"

#include "common/base/clock.h"
#include "common/base/container_of.h"
#include "common/base/xalloc.h"
#include "common/node/node_impl.h" /* for nw_hold_helper, which uses the node's helper thread */
#include "common/rpc/pbjson.h"
#include "common/rpc/process.h"
#include "common/rpc/serve.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { HEARTBEAT_MS = 20, AWAIT_S = 90 };

void nw_changed(node_world *w)
{
    pthread_cond_broadcast(&w->changed);
}

void nw_await(node_world *w, bool (*fn)(node_world *w), const char *what)
{
    struct timespec until;
    bool is_true;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += AWAIT_S;
    pthread_mutex_lock(&w->mutex);
    while (!(is_true = fn(w)) &&
           pthread_cond_timedwait(&w->changed, &w->mutex, &until) != ETIMEDOUT) {
    }
    pthread_mutex_unlock(&w->mutex);
    if (!is_true) {
        fail_msg("waited %d s for: %s", AWAIT_S, what);
    }
}

typedef struct errand {
    ps_event event;
    node_world *w;
    void (*fn)(void *arg);
    void *arg;
    bool done;
} errand;

static void run_errand(ps_event *event, bool ok)
{
    errand *e = PS_CONTAINER_OF(event, errand, event);

    (void)ok;
    e->fn(e->arg);
    pthread_mutex_lock(&e->w->mutex);
    e->done = true;
    nw_changed(e->w);
    pthread_mutex_unlock(&e->w->mutex);
}

void nw_run(node_world *w, void (*fn)(void *arg), void *arg)
{
    errand e = {.event.fire = run_errand, .w = w, .fn = fn, .arg = arg};

    ps_loop_post(w->loop, &e.event);
    pthread_mutex_lock(&w->mutex);
    while (!e.done) {
        pthread_cond_wait(&w->changed, &w->mutex);
    }
    pthread_mutex_unlock(&w->mutex);
}

/* --- the coordinators -------------------------------------------------------- */

static void register_node(void *service, const ProtobufCMessage *request, ps_payload *payload,
                          ps_call *call)
{
    Psgd__V1__RegisterNodeResponse reply = PSGD__V1__REGISTER_NODE_RESPONSE__INIT;
    nw_coordinator *c = service;

    (void)request;
    (void)payload;
    pthread_mutex_lock(&c->world->mutex);
    c->registrations++;
    nw_changed(c->world);
    pthread_mutex_unlock(&c->world->mutex);
    reply.heartbeat_ms = HEARTBEAT_MS;
    reply.lease_ms = 1000;
    ps_call_reply(call, &reply.base);
}

static void take_log(nw_coordinator *c, const Psgd__V1__HeartbeatRequest *request)
{
    if (request->log_offset <= c->log.len &&
        request->log_offset + request->log_bytes.len > c->log.len) {
        size_t skip = c->log.len - (size_t)request->log_offset;

        ps_strbuf_append(&c->log, request->log_bytes.data + skip, request->log_bytes.len - skip);
    }
}

static void heartbeat(void *service, const ProtobufCMessage *message, ps_payload *payload,
                      ps_call *call)
{
    const Psgd__V1__HeartbeatRequest *request = (const Psgd__V1__HeartbeatRequest *)message;
    Psgd__V1__HeartbeatResponse reply = PSGD__V1__HEARTBEAT_RESPONSE__INIT;
    nw_coordinator *c = service;
    bool forget;

    (void)payload;
    pthread_mutex_lock(&c->world->mutex);
    c->heartbeats++;
    c->has_left = request->leaving;
    if (!request->leaving) {
        c->phase = request->phase;
        snprintf(c->job_id, sizeof c->job_id, "%s", request->job_id);
        c->attempt = request->attempt;
        c->error_code = request->error_code;
        c->steps = request->n_progress > 0 ? request->progress[0]->step : 0;
    }
    take_log(c, request);
    reply.log_stored = c->log.len;
    if (c->abort_it && request->job_id[0] != '\0') {
        reply.directive = PSGD__V1__NODE_DIRECTIVE__NODE_DIRECTIVE_ABORT;
        reply.is_lost = c->is_lost;
    }
    forget = c->forget;
    c->forget = false;
    nw_changed(c->world);
    pthread_mutex_unlock(&c->world->mutex);
    if (forget) {
        ps_call_fail(call, ps_fail(PS_NOT_FOUND, "who are you?"));
    } else {
        ps_call_reply(call, &reply.base);
    }
}

static void forget_ready(void *arg, ps_call *call)
{
    nw_coordinator *c = arg;

    (void)call;
    pthread_mutex_lock(&c->world->mutex);
    c->ready = NULL;
    nw_changed(c->world);
    pthread_mutex_unlock(&c->world->mutex);
}

static void ready(void *service, const ProtobufCMessage *request, ps_payload *payload,
                  ps_call *call)
{
    static const Psgd__V1__ReadyResponse reply = PSGD__V1__READY_RESPONSE__INIT;
    nw_coordinator *c = service;
    bool answer;

    (void)request;
    (void)payload;
    pthread_mutex_lock(&c->world->mutex);
    c->readies++;
    answer = c->answers_ready;
    c->ready = answer ? NULL : call;
    nw_changed(c->world);
    pthread_mutex_unlock(&c->world->mutex);
    if (answer) {
        ps_call_reply(call, &reply.base);
    } else {
        ps_call_on_gone(call, forget_ready, c);
    }
}

static void not_here(void *service, const ProtobufCMessage *request, ps_payload *payload,
                     ps_call *call)
{
    (void)service;
    (void)request;
    (void)payload;
    ps_call_fail(call, ps_fail(PS_UNIMPLEMENTED, "not in this test"));
}

static const ps_method coordinator_methods[] = {
    {.name = "SubmitJob", .handle = not_here, .may = PS_MAY_ALL},
    {.name = "GetJob", .handle = not_here, .may = PS_MAY_ALL},
    {.name = "ListJobs", .handle = not_here, .may = PS_MAY_ALL},
    {.name = "CancelJob", .handle = not_here, .may = PS_MAY_ALL},
    {.name = "DeleteJob", .handle = not_here, .may = PS_MAY_ALL},
    {.name = "ChangeTables", .handle = not_here, .may = PS_MAY_ALL},
    {.name = "TakeCheckpoint", .handle = not_here, .may = PS_MAY_ALL},
    {.name = "TraceJob", .handle = not_here, .may = PS_MAY_ALL},
    {.name = "ExplainJob", .handle = not_here, .may = PS_MAY_ALL},
    {.name = "ScaleJob", .handle = not_here, .may = PS_MAY_ALL},
    {.name = "ListCheckpoints", .handle = not_here, .may = PS_MAY_ALL},
    {.name = "WatchJob", .handle = not_here, .may = PS_MAY_ALL, .streams_out = true},
    {.name = "ReclaimLogs", .handle = not_here, .may = PS_MAY_ALL, .streams_out = true},
    {.name = "ListNodes", .handle = not_here, .may = PS_MAY_ALL},
    {.name = "GetNodeLog", .handle = not_here, .may = PS_MAY_ALL},
    {.name = "ListPresets", .handle = not_here, .may = PS_MAY_ALL},
    {.name = "GetServerInfo", .handle = not_here, .may = PS_MAY_ALL},
    {.name = "RenewCertificate", .handle = not_here, .may = PS_MAY_ALL},
    {.name = "TakePartition", .handle = not_here, .may = PS_MAY_ALL},
    {.name = "RegisterNode", .handle = register_node, .may = PS_MAY_ALL},
    {.name = "Heartbeat", .handle = heartbeat, .may = PS_MAY_ALL},
    {.name = "Ready", .handle = ready, .may = PS_MAY_ALL},
};

/* --- the role ------------------------------------------------------------------ */

static ps_status prepare(void *state, ps_session *session)
{
    node_world *w = state;
    ps_status st = ps_ok();

    pthread_mutex_lock(&w->mutex);
    if (w->fails_prepare) {
        st = ps_fail(PS_RESOURCE_EXHAUSTED, "not on this host");
    } else {
        w->session = session;
        w->prepared++;
    }
    nw_changed(w);
    pthread_mutex_unlock(&w->mutex);
    return st;
}

static void run(void *state)
{
    node_world *w = state;

    pthread_mutex_lock(&w->mutex);
    w->ran++;
    nw_changed(w);
    pthread_mutex_unlock(&w->mutex);
}

static void release(void *state)
{
    node_world *w = state;
    bool waits;

    pthread_mutex_lock(&w->mutex);
    w->released++;
    w->was_lost = ps_node_is_lost(w->node);
    w->session = NULL;
    waits = w->is_releasing = w->release_waits;
    nw_changed(w);
    pthread_mutex_unlock(&w->mutex);
    if (!waits) {
        ps_node_released(w->node);
    }
}

static size_t progress(void *state, Psgd__V1__WorkerProgress ***list)
{
    static Psgd__V1__WorkerProgress one, *all[1] = {&one};

    (void)state;
    psgd__v1__worker_progress__init(&one);
    one.step = 42;
    *list = all;
    return 1;
}

const ps_role_hooks nw_worker_hooks = {
    .role = PSGD__V1__NODE_ROLE__NODE_ROLE_WORKER,
    .service = "psgd-worker",
    .prepare = prepare,
    .run = run,
    .release = release,
    .progress = progress,
};

const ps_role_hooks nw_server_hooks = {
    .role = PSGD__V1__NODE_ROLE__NODE_ROLE_PSERVER,
    .service = "psgd-pserver",
    .prepare = prepare,
    .run = run,
    .release = release,
    .progress = progress,
};

/* --- life ------------------------------------------------------------------------ */

static void *serve(void *arg)
{
    ps_loop_run(((node_world *)arg)->loop);
    return NULL;
}

static void coordinator_is_down(ps_event *event, bool ok)
{
    nw_coordinator *c = PS_CONTAINER_OF(event, nw_coordinator, down);

    (void)ok;
    pthread_mutex_lock(&c->world->mutex);
    c->server = NULL;
    nw_changed(c->world);
    pthread_mutex_unlock(&c->world->mutex);
}

static void start_coordinator(void *arg)
{
    nw_coordinator *c = arg;
    ps_status st = ps_serve(c->world->loop, &c->service, 1, c->address, &c->server);

    if (!ps_is_ok(&st)) {
        fprintf(stderr, "%s\n", st.text);
        abort();
    }
    snprintf(c->address, sizeof c->address, "127.0.0.1:%d", ps_server_port(c->server));
}

static void stop_coordinator(void *arg)
{
    nw_coordinator *c = arg;

    ps_server_stop(c->server, 0, &c->down);
}

void nw_start_coordinator(node_world *w, unsigned index)
{
    nw_run(w, start_coordinator, &w->coordinator[index]);
}

static bool first_is_down(node_world *w)
{
    return w->coordinator[0].server == NULL;
}

static bool second_is_down(node_world *w)
{
    return w->coordinator[1].server == NULL;
}

void nw_stop_coordinator(node_world *w, unsigned index)
{
    if (w->coordinator[index].server != NULL) {
        nw_run(w, stop_coordinator, &w->coordinator[index]);
        nw_await(w, index == 0 ? first_is_down : second_is_down, "the coordinator to be down");
    }
}

static void node_is_down(ps_event *event, bool ok)
{
    node_world *w = PS_CONTAINER_OF(event, node_world, node_down);

    (void)ok;
    pthread_mutex_lock(&w->mutex);
    w->node_is_down = true;
    nw_changed(w);
    pthread_mutex_unlock(&w->mutex);
}

/* Arguments and results of the part of nw_begin that runs on the loop's thread. */
typedef struct beginning {
    node_world *w;
    const ps_role_hooks *hooks;
    void *state;
    const ps_service *extra;
    size_t extra_count;
    const char *data_path;
    ps_status status;
} beginning;

static void begin(void *arg)
{
    beginning *b = arg;
    node_world *w = b->w;
    ps_node_conf conf = {
        .listen = "127.0.0.1:0",
        .coordinator = w->coordinator[0].address,
        .node_id = "node-1",
        .data_dir = w->dir.path,
        .data_path = b->data_path,
        .data_cache_bytes = UINT64_C(1) << 30,
    };

    b->status =
        ps_node_start(w->loop, &conf, b->hooks, b->state, b->extra, b->extra_count, &w->node);
    if (ps_is_ok(&b->status)) {
        snprintf(w->address, sizeof w->address, "%s", ps_node_address(w->node));
        w->channel = ps_channel_create(w->loop, w->address);
    }
}

static bool is_registered(node_world *w)
{
    return w->coordinator[0].registrations > 0 && w->coordinator[0].heartbeats > 0;
}

void nw_begin(node_world *w, const ps_role_hooks *hooks, void *state, const ps_service *extra,
              size_t extra_count, const char *data_path)
{
    beginning b = {w,         hooks,          state != NULL ? state : w, extra, extra_count,
                   data_path, {.code = PS_OK}};
    ps_status st;

    ps_rpc_init_process();
    memset(w, 0, sizeof *w);
    pthread_mutex_init(&w->mutex, NULL);
    pthread_cond_init(&w->changed, NULL);
    w->role = hooks->role;
    w->dir = temp_dir_create();
    w->node_down.fire = node_is_down;
    st = ps_loop_create(&w->loop);
    assert_true(ps_is_ok(&st));
    pthread_create(&w->thread, NULL, serve, w);
    for (unsigned i = 0; i < NW_COORDINATORS; i++) {
        nw_coordinator *c = &w->coordinator[i];

        c->world = w;
        c->answers_ready = true;
        c->down.fire = coordinator_is_down;
        snprintf(c->address, sizeof c->address, "127.0.0.1:0");
        c->service = (ps_service){
            .type = &psgd__v1__coordinator_service__descriptor,
            .methods = coordinator_methods,
            .method_count = sizeof coordinator_methods / sizeof coordinator_methods[0],
            .state = c,
        };
        nw_start_coordinator(w, i);
    }
    nw_run(w, begin, &b);
    assert_string_equal(b.status.text, "");
    nw_await(w, is_registered, "the node to register");
}

typedef struct ending {
    node_world *w;
    int64_t grace_us;
} ending;

static void stop_node(void *arg)
{
    ending *e = arg;

    ps_node_stop(e->w->node, e->grace_us, 0, &e->w->node_down);
}

static bool is_down(node_world *w)
{
    return w->node_is_down;
}

void nw_stop_node(node_world *w, int64_t grace_us)
{
    ending e = {w, grace_us};

    nw_run(w, stop_node, &e);
    nw_await(w, is_down, "the node to be down");
}

/* --- the helper ------------------------------------------------------------------ */

static void hold(ps_task *task)
{
    node_world *w = PS_CONTAINER_OF(task, node_world, hold);

    pthread_mutex_lock(&w->mutex);
    while (!w->is_let_go) {
        pthread_cond_wait(&w->changed, &w->mutex);
    }
    pthread_mutex_unlock(&w->mutex);
}

static void held(ps_task *task)
{
    node_world *w = PS_CONTAINER_OF(task, node_world, hold);

    pthread_mutex_lock(&w->mutex);
    w->is_held = false;
    nw_changed(w);
    pthread_mutex_unlock(&w->mutex);
}

static void start_hold(void *arg)
{
    node_world *w = arg;

    w->hold.run = hold;
    w->hold.done = held;
    ps_tasks_submit(w->node->tasks, NULL, &w->hold);
}

void nw_hold_helper(node_world *w)
{
    w->is_let_go = false;
    w->is_held = true;
    nw_run(w, start_hold, w);
}

static bool is_free(node_world *w)
{
    return !w->is_held;
}

void nw_let_helper_go(node_world *w)
{
    pthread_mutex_lock(&w->mutex);
    w->is_let_go = true;
    nw_changed(w);
    pthread_mutex_unlock(&w->mutex);
    nw_await(w, is_free, "the helper");
}

typedef struct question {
    const node_world *w;
    bool has_server;
} question;

static void look_for_server(void *arg)
{
    question *q = arg;

    q->has_server = q->w->node->server != NULL;
}

void nw_await_no_server(node_world *w)
{
    int64_t until_us = ps_clock_us() + AWAIT_S * INT64_C(1000000);
    question q = {w, true};

    while (q.has_server && ps_clock_us() < until_us) { /* each time all events of the loop */
        nw_run(w, look_for_server, &q);
    }
    assert_false(q.has_server);
}

static void end_loop(void *arg)
{
    node_world *w = arg;

    ps_channel_destroy(w->channel);
    ps_loop_stop(w->loop);
}

void nw_end(node_world *w)
{
    if (!w->node_is_down) {
        nw_stop_node(w, 0);
    }
    for (unsigned i = 0; i < NW_COORDINATORS; i++) {
        nw_stop_coordinator(w, i);
        ps_strbuf_fini(&w->coordinator[i].log);
    }
    nw_run(w, end_loop, w);
    pthread_join(w->thread, NULL);
    ps_loop_destroy(w->loop);
    temp_dir_destroy(&w->dir);
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->mutex);
}

/* --- jobs ------------------------------------------------------------------------ */

ps_plan *nw_plan(const char *json)
{
    ProtobufCMessage *spec = NULL;
    ps_error error = {.status = ps_ok()};
    json_t *tree = json_loads(json, 0, NULL);
    ps_plan *plan = NULL;
    ps_status st = ps_pb_from_json(&psgd__v1__job_spec__descriptor, tree, "spec", &error, &spec);

    assert_string_equal(st.text, "");
    st = ps_plan_create((Psgd__V1__JobSpec *)spec, NULL, NULL, &plan);
    assert_string_equal(st.text, "");
    protobuf_c_message_free_unpacked(spec, NULL);
    json_decref(tree);
    return plan;
}

float *nw_weights(const ps_plan *plan)
{
    float *weights = ps_xaligned_alloc(plan->layout.param_count * sizeof(float));
    ps_model *model = NULL;
    ps_status st = ps_plan_model(plan, 1, &model);

    assert_string_equal(st.text, "");
    ps_model_init(model, plan->spec->seed, weights);
    ps_model_destroy(model);
    return weights;
}
