/* SPDX-License-Identifier: Apache-2.0 */
/* worker.c - see worker.h. A session's life: prepared (trainer made), running
 * (exchange open, thread on), trained (exchange closing), finished. Release may
 * come in any of them and ends when thread and streams have ended. */
#include "services/worker/worker.h"

#include "common/artifact/events.h"
#include "common/artifact/report.h"
#include "common/base/container_of.h"
#include "common/base/xalloc.h"
#include "common/train/trainer.h"
#include "common/wire/wire_client.h"
#include "common/wire/wire_link_grpc.h"
#include "services/worker/peer_service.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct ps_worker {
    ps_loop *loop;
    ps_node *node;
    const ps_session *session; /* NULL: idle */
    ps_trainer *trainer;
    ps_exchange *exchange;   /* NULL before run and when it has ended */
    ps_peers *peers;         /* streams of other workers */
    ps_peer_exchange *mesh;  /* from prepare to release; NULL: the job has servers */
    ps_exchange_stats stats; /* of an exchange that has ended */
    double waited_s;
    bool is_training; /* the thread runs */
    bool releasing;
    ps_event trained, closed;
    /* what progress() lends to the heartbeat */
    char whom[160];
    Psgd__V1__WorkerProgress__MetricsEntry metrics[1 + PS_METRICS_MAX],
        *metric_ptrs[1 + PS_METRICS_MAX];
    Psgd__V1__EvaluationPart part;
    ps_buf *part_buf; /* what it says */
};

static void finish_release(ps_worker *w)
{
    ps_buf_unref(w->part_buf);
    w->part_buf = NULL;
    if (w->mesh != NULL) {
        ps_peers_close(w->peers, "the attempt is over");
        ps_peer_exchange_destroy(w->mesh);
        w->mesh = NULL;
    }
    ps_trainer_destroy(w->trainer);
    w->trainer = NULL;
    w->session = NULL;
    w->releasing = false;
    ps_node_released(w->node);
}

/* Names a file of the trainer's, if it came to that. */
static void keep(ps_worker *w, const char *prefix, const char *suffix, Psgd__V1__ArtifactKind kind)
{
    char name[160], path[sizeof w->session->folder + sizeof name + 2], rank[16];

    snprintf(rank, sizeof rank, "%u", w->session->rank);
    ps_artifact_name(name, sizeof name, prefix, w->session->plan->spec->title, rank, suffix);
    snprintf(path, sizeof path, "%s/%s", w->session->folder, name);
    if (access(path, F_OK) == 0) {
        ps_node_keep(w->node, name, kind);
    }
}

static void keep_curves(ps_worker *w)
{
    keep(w, "TR", ".csv", PSGD__V1__ARTIFACT_KIND__ARTIFACT_KIND_REPORT);
    keep(w, "EV", ".csv", PSGD__V1__ARTIFACT_KIND__ARTIFACT_KIND_REPORT);
    keep(w, "TB", "/" PS_EVENTS_NAME, PSGD__V1__ARTIFACT_KIND__ARTIFACT_KIND_EVENTS);
}

/* The thread has ended: close the streams, then say so. */
static void on_trained(ps_event *self, bool ok)
{
    ps_worker *w = PS_CONTAINER_OF(self, ps_worker, trained);
    char whom[8];

    (void)ok;
    w->is_training = false;
    w->stats = ps_exchange_get_stats(w->exchange);
    w->waited_s = ps_gate_waited_s(ps_exchange_gate(w->exchange), whom, sizeof whom);
    if (w->mesh != NULL) {
        ps_peer_exchange_stop(w->mesh, &w->closed);
    } else {
        ps_wire_client_stop(w->exchange, &w->closed);
    }
}

static void on_closed(ps_event *self, bool ok)
{
    ps_worker *w = PS_CONTAINER_OF(self, ps_worker, closed);
    ps_status result = ps_trainer_result(w->trainer);

    (void)ok;
    if (w->mesh != NULL) { /* what the others still needed is in it */
        w->stats = ps_exchange_get_stats(w->exchange);
    }
    w->exchange = NULL;
    if (w->releasing) {
        finish_release(w);
        return;
    }
    keep_curves(w);
    if (w->session->rank == 0 && ps_is_ok(&result)) {
        keep(w, "MODEL", ".safetensors", PSGD__V1__ARTIFACT_KIND__ARTIFACT_KIND_MODEL);
        keep(w, "MODEL", ".onnx", PSGD__V1__ARTIFACT_KIND__ARTIFACT_KIND_MODEL);
    }
    ps_node_finished(w->node, &result);
}

ps_worker *ps_worker_create(ps_loop *loop)
{
    ps_worker *w = ps_xcalloc(1, sizeof *w);

    w->loop = loop;
    w->peers = ps_peers_create();
    w->trained.fire = on_trained;
    w->closed.fire = on_closed;
    for (size_t i = 0; i < 1 + PS_METRICS_MAX; i++) {
        w->metric_ptrs[i] = &w->metrics[i];
    }
    return w;
}

void ps_worker_destroy(ps_worker *worker)
{
    ps_peers_destroy(worker->peers);
    free(worker);
}

ps_service ps_worker_service(ps_worker *worker)
{
    return ps_peers_service(worker->peers);
}

void ps_worker_set_node(ps_worker *worker, ps_node *node)
{
    worker->node = node;
}

/* Others may have begun before this one: their messages are taken from now on. */
static ps_status prepare_mesh(ps_worker *w, const ps_session *session)
{
    ps_peer_exchange_conf conf = {
        .loop = w->loop,
        .session = session,
        .incarnation = ps_node_incarnation(w->node),
        .weights = session->weights,
        .grad = ps_trainer_grad(w->trainer),
        .taken = ps_peers_taken,
        .arg = w->peers,
    };
    ps_status st = ps_peer_exchange_create(&conf, &w->mesh);

    if (ps_is_ok(&st)) {
        ps_peers_open(w->peers, session, w->mesh);
    }
    return st;
}

static ps_status prepare(void *state, ps_session *session)
{
    ps_worker *w = state;
    ps_trainer_conf conf = {
        .job_id = session->job_id,
        .folder = session->folder,
        .rank = session->rank,
        .plan = session->plan,
        .data = session->data,
        .weights = session->weights,
    };
    ps_status st = ps_trainer_create(&conf, &w->trainer);

    if (ps_is_ok(&st) && session->plan->mesh != NULL) {
        st = prepare_mesh(w, session);
        if (!ps_is_ok(&st)) {
            ps_trainer_destroy(w->trainer);
            w->trainer = NULL;
        }
    }
    if (ps_is_ok(&st)) {
        w->session = session;
        w->stats = (ps_exchange_stats){0};
        w->waited_s = 0;
    }
    return st;
}

/* On the trainer's thread. */
static void post_trained(void *arg)
{
    ps_worker *w = arg;

    ps_loop_post(w->loop, &w->trained);
}

ps_exchange *ps_worker_connect(ps_loop *loop, const ps_session *session, uint64_t incarnation,
                               ps_buf *grad)
{
    ps_wire_client_conf conf = {
        .plan = session->plan,
        .placement = &session->placement,
        .attempt = ps_session_attempt(session),
        .rank = session->rank,
        .incarnation = incarnation,
        .transport = ps_grpc_transport_create(loop, &session->placement),
        .patience_us = (int64_t)session->plan->spec->timeouts->step_ms * 1000,
        .weights = session->weights,
        .grad = grad,
    };
    ps_exchange *exchange = ps_wire_client_create(&conf);

    ps_wire_client_start(exchange);
    return exchange;
}

static void open_exchange(ps_worker *w)
{
    if (w->mesh != NULL) {
        w->exchange = ps_peer_exchange_base(w->mesh);
    } else {
        w->exchange = ps_worker_connect(w->loop, w->session, ps_node_incarnation(w->node),
                                        ps_trainer_grad(w->trainer));
    }
}

static void run(void *state)
{
    ps_worker *w = state;
    ps_status st;

    open_exchange(w);
    w->is_training = true;
    st = ps_trainer_start(w->trainer, w->exchange, post_trained, w);
    if (!ps_is_ok(&st)) {
        ps_gate_fail(ps_exchange_gate(w->exchange), &st);
        ps_loop_post(w->loop, &w->trained);
    }
}

static void release(void *state)
{
    ps_worker *w = state;

    assert(!w->releasing);
    if (w->exchange != NULL) { /* on_closed goes on */
        w->releasing = true;
        if (w->is_training) {
            ps_gate_stop(ps_exchange_gate(w->exchange));
        } else if (w->mesh != NULL) {
            ps_peer_exchange_cut(w->mesh);
        }
        return;
    }
    finish_release(w);
}

/* The curves as far as they go: files grow by whole rows. */
static ps_status collect(void *state)
{
    ps_worker *w = state;

    if (w->session != NULL) {
        keep_curves(w);
    }
    return ps_ok();
}

static void fill_metric(Psgd__V1__WorkerProgress__MetricsEntry *entry, const char *name,
                        double value)
{
    psgd__v1__worker_progress__metrics_entry__init(entry);
    entry->key = (char *)name;
    entry->value = value;
}

/* What was found in this worker's share, lent until the next call. */
static Psgd__V1__EvaluationPart *lend_part(ps_worker *w)
{
    ps_buf_unref(w->part_buf);
    psgd__v1__evaluation_part__init(&w->part);
    w->part_buf = ps_trainer_get_part(w->trainer, &w->part.evaluation);
    if (w->part_buf == NULL) {
        return NULL;
    }
    w->part.state = (ProtobufCBinaryData){.len = w->part_buf->len, .data = w->part_buf->data};
    return &w->part;
}

static void progress(void *state, Psgd__V1__WorkerProgress *out)
{
    ps_worker *w = state;
    ps_trainer_progress p;
    ps_exchange_stats stats = w->stats;

    w->whom[0] = '\0';
    if (w->trainer == NULL) {
        return;
    }
    p = ps_trainer_get_progress(w->trainer);
    out->seconds_waiting = w->waited_s;
    if (w->exchange != NULL) {
        stats = ps_exchange_get_stats(w->exchange);
        out->seconds_waiting =
            ps_gate_waited_s(ps_exchange_gate(w->exchange), w->whom, sizeof w->whom);
        if (w->mesh != NULL && w->whom[0] != '\0') {
            ps_peer_exchange_name_missing(w->mesh, w->whom, sizeof w->whom);
        }
    }
    if (p.waiting_for[0] != '\0') {
        snprintf(w->whom, sizeof w->whom, "%.60s: room on its disk: %.70s",
                 ps_placement_process(&w->session->placement, w->session->rank)->node_id,
                 p.waiting_for);
    }
    out->step = p.step;
    out->total_steps = w->session->plan->total_steps;
    out->epoch = p.epoch;
    out->loss = p.loss;
    out->accuracy = p.accuracy;
    out->samples = p.samples;
    out->bytes_up = stats.bytes_up;
    out->bytes_down = stats.bytes_down;
    out->bytes_up_float32 = stats.bytes_up_float32;
    out->bytes_down_float32 = stats.bytes_down_float32;
    out->messages_up = stats.messages_up;
    out->messages_down = stats.messages_down;
    out->resyncs = stats.resyncs;
    out->waiting_for = w->whom;
    out->evaluations = p.evaluations;
    if (p.evaluations > 0) {
        const ps_plan *plan = w->session->plan;

        fill_metric(&w->metrics[0], "loss", p.eval_loss);
        for (size_t i = 0; i < plan->metric_count; i++) {
            fill_metric(&w->metrics[1 + i], plan->metrics[i].metric->name, p.eval_values[i]);
        }
        out->metrics = w->metric_ptrs;
        out->n_metrics = 1 + plan->metric_count;
        out->part = lend_part(w);
    }
}

const ps_role_hooks ps_worker_hooks = {
    .role = PSGD__V1__NODE_ROLE__NODE_ROLE_WORKER,
    .service = "psgd-worker",
    .prepare = prepare,
    .run = run,
    .release = release,
    .collect = collect,
    .progress = progress,
};
