/* SPDX-License-Identifier: Apache-2.0 */
/* rank.c - see rank.h. A rank is created, runs (its exchange is open and its thread trains), has
 * trained (its exchange closes), and ends. */
#include "services/worker/rank.h"

#include "common/artifact/events.h"
#include "common/artifact/report.h"
#include "common/artifact/round_record.h"
#include "common/base/container_of.h"
#include "common/base/log.h"
#include "common/base/shorten.h"
#include "common/base/xalloc.h"
#include "common/job/counts.h"
#include "common/rpc/accept.h"
#include "common/rpc/guard.h"
#include "common/train/counted.h"
#include "common/wire/wire_client.h"
#include "common/wire/wire_link_grpc.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct ps_rank {
    ps_rank_conf conf;
    ps_session session; /* the node's session with this rank's number and weights */
    ps_trainer *trainer;
    ps_exchange *exchange;      /* NULL before start */
    ps_mesh_exchange *mesh;     /* NULL: the job has servers */
    ps_peer_receiver *receiver; /* takes what peers send, in a mesh; else NULL */
    ps_loop_rank *loop; /* link to the program that computes the model; NULL: there is none */
    /* records of the loop's thread for the timeline; NULL: a mesh */
    ps_trace_ring *trace;
    ps_exchange_stats stats; /* final stats of an exchange that has ended */
    double waited_s;
    ps_status failure; /* why the trainer could not be started; OK: it was, or was not asked to */
    bool is_training;  /* the trainer's thread runs */
    bool has_ended;    /* the trainer's thread has ended and the rank's streams are closed */
    /* of a rank that does not train any more: the clock at which it was held or ended early; the
     * number of clocks of the job if it was held only after its end; 0: none of these */
    uint64_t held_at;
    ps_event trained, closed;
    uint64_t cut_at; /* a checkpoint asked for before the start (ps_rank_cut_at); 0: none */
    uint64_t owed;   /* clock of a checkpoint that was asked for and is not taken yet; 0: none */
    bool stays;      /* `stays` of the call of ps_rank_cut_at that set cut_at */

    /* Memory that ps_rank_progress lends. */
    Psgd__V1__WorkerProgress progress;
    char whom[160];
    /* (wait_count) whom this rank waits for: numbers of servers; in a mesh ranks of workers */
    uint32_t *waits;
    size_t wait_count;
    Psgd__V1__WorkerProgress__MetricsEntry metrics[1 + PS_METRICS_MAX],
        *metric_ptrs[1 + PS_METRICS_MAX];
    Psgd__V1__WorkerProgress__ProgramMetricsEntry program_metrics[PS_METRICS_MAX],
        *program_metric_ptrs[PS_METRICS_MAX];
    struct past {
        Psgd__V1__WorkerEvaluation message;
        Psgd__V1__WorkerEvaluation__MetricsEntry metrics[1 + PS_METRICS_MAX],
            *metric_ptrs[1 + PS_METRICS_MAX];
    } past[PS_EVALUATIONS_KEPT];
    Psgd__V1__WorkerEvaluation *past_ptrs[PS_EVALUATIONS_KEPT];
    Psgd__V1__EvaluationPart part;
    ps_buf *part_buf; /* bytes of `part` */

    float *copy; /* (param_count) weights for the model of a job that ends early; NULL: none */
    uint64_t copied_step;
};

/* Writes to r->waits for whom the rank waits, or waited when it gave up; nobody if neither. */
static void find_waits(ps_rank *r)
{
    const ps_placement *placement = &r->session.placement;
    uint32_t n = r->mesh != NULL ? placement->rank_count : placement->server_count;
    ps_gate *gate = ps_exchange_gate(r->exchange);
    bool *owes = ps_xcalloc(n + 1, sizeof *owes);
    bool one; /* in a mesh the gate knows a single server, which stands for all other workers */

    r->wait_count = 0;
    if (r->mesh == NULL) {
        (void)ps_gate_find_debtors(gate, owes);
    } else if (ps_gate_find_debtors(gate, &one) > 0 ||
               ps_gate_failure(gate).code == PS_DEADLINE_EXCEEDED) {
        ps_mesh_exchange_find_missing(r->mesh, owes);
    }
    for (uint32_t i = 0; i < n; i++) {
        if (owes[i]) {
            r->waits[r->wait_count++] = i;
        }
    }
    free(owes);
}

/* Begins to close the streams, because the trainer's thread has ended. */
static void on_trained(ps_event *self, bool ok)
{
    ps_rank *r = PS_CONTAINER_OF(self, ps_rank, trained);
    char whom[8];

    (void)ok;
    r->is_training = false;
    r->stats = ps_exchange_get_stats(r->exchange);
    r->waited_s = ps_gate_waited_s(ps_exchange_gate(r->exchange), whom, sizeof whom);
    find_waits(r);
    r->held_at = ps_gate_held_at(ps_exchange_gate(r->exchange));
    if (r->mesh != NULL) {
        ps_mesh_exchange_stop(r->mesh, &r->closed);
    } else {
        ps_wire_client_stop(r->exchange, &r->closed);
    }
}

static void on_closed(ps_event *self, bool ok)
{
    ps_rank *r = PS_CONTAINER_OF(self, ps_rank, closed);

    (void)ok;
    if (r->mesh != NULL) { /* a rank that did not drain its mesh may have sent more since */
        r->stats = ps_exchange_get_stats(r->exchange);
    }
    r->has_ended = true;
    r->conf.ended(r->conf.arg);
}

/* Reads the rank's file of the checkpoint, if there is one, before the exchange begins. */
static ps_status load(ps_rank *r, ps_exchange *exchange)
{
    ps_status st = ps_ok();

    if (r->conf.state != NULL) {
        st = ps_wrap(ps_trainer_load(r->trainer, exchange, r->conf.state->data, r->conf.state->len),
                     "checkpoint of rank %" PRIu32, r->conf.rank);
    }
    ps_buf_unref(r->conf.state);
    r->conf.state = NULL;
    return st;
}

static ps_status make_mesh(ps_rank *r)
{
    ps_mesh_exchange_conf conf = {
        .loop = r->conf.loop,
        .session = &r->session,
        .incarnation = ps_node_incarnation(r->conf.node),
        .weights = r->session.weights,
        .grad = ps_trainer_grad(r->trainer),
        .taken = ps_peers_taken,
    };
    ps_status st;

    r->receiver = ps_peer_receiver_create(&r->session);
    conf.arg = r->receiver;
    st = ps_mesh_exchange_create(&conf, &r->mesh);
    if (ps_is_ok(&st)) { /* before packets of others come, which may be ahead */
        st = load(r, ps_mesh_exchange_base(r->mesh));
    }
    if (ps_is_ok(&st)) {
        ps_peers_open(r->conf.peers, r->receiver, r->mesh);
    }
    return st;
}

/* The saved state of a rank, on its way to the loop. */
typedef struct saving {
    ps_event event;
    ps_rank *rank;
    uint64_t clock;
    ps_snapshot state, weights;
} saving;

static void on_saved(ps_event *self, bool ok)
{
    saving *x = PS_CONTAINER_OF(self, saving, event);

    if (ok) { /* the rank still exists: `trained` is posted later */
        x->rank->owed = x->rank->owed == x->clock ? 0 : x->rank->owed;
        x->rank->conf.saved(x->rank->conf.arg, x->rank->conf.rank, x->clock, x->state, x->weights);
    } else {
        ps_snapshot_drop(&x->state);
        ps_snapshot_drop(&x->weights);
    }
    free(x);
}

/* Passes the saved state of the rank to the loop. Called on the trainer's thread. */
static void post_saved(void *arg, uint64_t clock, ps_snapshot state, ps_snapshot weights)
{
    ps_rank *r = arg;
    saving *x = ps_xcalloc(1, sizeof *x);

    *x = (saving){
        .event.fire = on_saved, .rank = r, .clock = clock, .state = state, .weights = weights};
    ps_loop_post(r->conf.loop, &x->event);
}

ps_status ps_rank_create(const ps_rank_conf *conf, ps_rank **out)
{
    ps_rank *r = ps_xcalloc(1, sizeof *r);
    ps_trainer_conf trainer = {
        .job_id = conf->session->job_id,
        .folder = conf->session->folder,
        .rank = conf->rank,
        .plan = conf->session->plan,
        .data = conf->session->data,
        .weights = conf->weights,
        .saved = post_saved,
        .arg = r,
        .first_clock = conf->session->first_clock,
    };
    ps_status st;

    r->conf = *conf;
    r->conf.state = conf->state != NULL ? ps_buf_ref(conf->state) : NULL;
    r->session = *conf->session;
    r->session.rank = conf->rank;
    r->session.weights = conf->weights;
    r->trained.fire = on_trained;
    r->closed.fire = on_closed;
    r->waits = ps_xcalloc(r->session.plan->mesh != NULL ? r->session.placement.rank_count
                                                        : r->session.placement.server_count,
                          sizeof *r->waits);
    for (size_t i = 0; i < 1 + PS_METRICS_MAX; i++) {
        r->metric_ptrs[i] = &r->metrics[i];
    }
    for (size_t i = 0; i < PS_METRICS_MAX; i++) {
        r->program_metric_ptrs[i] = &r->program_metrics[i];
    }
    if (r->session.plan->mesh == NULL) {
        r->trace = ps_trainer_ring(r->session.plan);
    }
    st = conf->link != NULL ? ps_loop_rank_create(conf->link, &r->session, conf->rank, &r->loop)
                            : ps_ok();
    if (ps_is_ok(&st)) {
        trainer.loop = r->loop != NULL ? ps_loop_rank_ops(r->loop) : NULL;
        st = ps_trainer_create(&trainer, &r->trainer);
    }
    if (ps_is_ok(&st) && r->session.plan->mesh != NULL) {
        st = make_mesh(r);
    }
    if (!ps_is_ok(&st)) {
        ps_rank_destroy(r);
        return st;
    }
    *out = r;
    return ps_ok();
}

void ps_rank_destroy(ps_rank *r)
{
    if (r == NULL) {
        return;
    }
    assert(!ps_rank_is_running(r));
    ps_buf_unref(r->part_buf);
    ps_buf_unref(r->conf.state);
    ps_peers_remove(r->conf.peers, r->receiver, "the attempt is over");
    if (r->mesh != NULL) {
        ps_mesh_exchange_destroy(r->mesh);
    } else if (r->exchange != NULL) {
        ps_wire_client_destroy(r->exchange);
    }
    ps_trainer_destroy(r->trainer);
    ps_loop_rank_destroy(r->loop);
    ps_trace_ring_destroy(r->trace);
    free(r->waits);
    free(r->copy);
    free(r);
}

/* Tells the loop that the trainer has ended. Called on the trainer's thread. */
static void post_trained(void *arg)
{
    ps_rank *r = arg;

    ps_loop_post(r->conf.loop, &r->trained);
}

ps_exchange *ps_rank_connect(ps_loop *loop, const ps_session *session, uint64_t incarnation,
                             ps_buf *grad, bool is_sockets_only)
{
    ps_wire_client_conf conf = {
        .plan = session->plan,
        .placement = &session->placement,
        .attempt = ps_session_attempt(session),
        .rank = session->rank,
        .incarnation = incarnation,
        .transport = ps_grpc_transport_create(loop, &session->placement, is_sockets_only),
        .patience_us = (int64_t)session->plan->spec->timeouts->step_ms * 1000,
        .weights = session->weights,
        .grad = grad,
        .kept_bytes = ps_plan_kept_bytes(session->plan),
    };

    return ps_wire_client_create(&conf);
}

static bool ask_for_cut(ps_rank *r, uint64_t clock, bool stays)
{
    ps_gate *gate = ps_exchange_gate(r->exchange);

    if (ps_plan_is_in_step(r->session.plan)) {
        return ps_gate_cut_at(gate, clock, stays);
    }
    ps_gate_cut_from(gate, clock);
    return true;
}

static ps_status open_exchange(ps_rank *r)
{
    ps_status st = ps_ok();

    if (r->mesh != NULL) {
        r->exchange = ps_mesh_exchange_base(r->mesh);
    } else {
        r->exchange = ps_rank_connect(r->conf.loop, &r->session, ps_node_incarnation(r->conf.node),
                                      ps_trainer_grad(r->trainer), r->conf.is_sockets_only);
        ps_wire_client_set_trace(r->exchange, r->trace);
        st = load(r, r->exchange);
        ps_wire_client_start(r->exchange);
    }
    (void)ask_for_cut(r, r->cut_at, r->stays);
    return st;
}

bool ps_rank_cut_at(ps_rank *r, uint64_t clock, bool stays)
{
    r->owed = clock;
    if (r->is_training) {
        return ask_for_cut(r, clock, stays);
    }
    r->cut_at = clock; /* without effect if the rank has ended */
    r->stays = stays;
    return clock == 0 || !ps_rank_is_running(r);
}

/* Returns the contributions that the rank has kept; NULL: none. */
static ps_kept_pushes *kept_of(ps_rank *r)
{
    return r->exchange != NULL && r->mesh == NULL ? ps_wire_client_kept(r->exchange) : NULL;
}

ps_status ps_rank_kept(ps_rank *r, const bool *is_lost, ps_snapshot *out)
{
    const ps_kept_pushes *kept = kept_of(r);
    ps_status st = kept != NULL ? ps_snapshot_blank(0, out)
                                : ps_fail(PS_FAILED_PRECONDITION,
                                          "rank %" PRIu32 " keeps no contributions", r->conf.rank);

    if (ps_is_ok(&st)) {
        st =
            ps_kept_pushes_write(kept, &r->session.placement, is_lost, ps_snapshot_write, &out->fd);
        if (!ps_is_ok(&st)) {
            ps_snapshot_drop(out);
        }
    }
    return st;
}

ps_status ps_rank_park(ps_rank *r)
{
    if (r->mesh != NULL || r->exchange == NULL ||
        (!r->is_training && !ps_trainer_has_ended(r->trainer))) {
        return ps_fail(PS_FAILED_PRECONDITION, "rank %" PRIu32 " does not train", r->conf.rank);
    }
    if (!r->is_training) {
        return ps_ok();
    }
    return ps_gate_park(ps_exchange_gate(r->exchange))
               ? ps_ok()
               : ps_fail(PS_UNAVAILABLE, "rank %" PRIu32 " still computes", r->conf.rank);
}

ps_status ps_rank_parked(ps_rank *r, ps_snapshot *out)
{
    ps_status st = ps_snapshot_blank(0, out);

    if (ps_is_ok(&st)) {
        st = ps_trainer_save_parked(r->trainer, r->exchange, ps_snapshot_write, &out->fd);
        if (!ps_is_ok(&st)) {
            ps_snapshot_drop(out);
        }
    }
    return st;
}

bool ps_rank_halt(ps_rank *r, uint64_t clock)
{
    if (r->mesh == NULL) {
        return false;
    }
    ps_mesh_exchange_halt(r->mesh);
    return ps_mesh_exchange_clock(r->mesh) == clock;
}

ps_status ps_rank_give_alike(ps_rank *r, int fd)
{
    return ps_trainer_save_alike(r->trainer, ps_mesh_exchange_base(r->mesh), ps_snapshot_write,
                                 &fd);
}

size_t ps_rank_alike_at(const ps_rank *r)
{
    return ps_trainer_alike_at(r->trainer);
}

ps_status ps_rank_give(ps_rank *r, uint32_t of, int fd)
{
    ps_said said = {0};

    said.bytes = (const uint8_t *)ps_mesh_exchange_said(r->mesh, of, &said.len);
    return said.bytes != NULL
               ? ps_trainer_save_like(r->trainer, of, ps_mesh_exchange_clock(r->mesh), &said,
                                      ps_snapshot_write, &fd)
               : ps_fail(PS_FAILED_PRECONDITION, "the reports of rank %" PRIu32 " are not all here",
                         of);
}

ps_status ps_rank_give_weights(const ps_rank *r, ps_snapshot *out)
{
    size_t bytes = r->session.plan->layout.param_count * sizeof *r->session.weights;
    ps_status st = ps_snapshot_blank(bytes, out);

    if (ps_is_ok(&st)) {
        st = ps_snapshot_put(out->fd, 0, r->session.weights, bytes);
        if (!ps_is_ok(&st)) {
            ps_snapshot_drop(out);
        }
    }
    return st;
}

void ps_rank_forget(ps_rank *r, uint64_t clock)
{
    ps_kept_pushes *kept = kept_of(r);

    /* with copies of shards the newest clocks are kept, wherever checkpoints are */
    if (kept != NULL && !r->session.placement.has_copies) {
        ps_kept_pushes_forget(kept, clock);
    }
}

bool ps_rank_owes_cut(const ps_rank *r, uint64_t clock)
{
    return r->owed == clock;
}

void ps_rank_start(ps_rank *r)
{
    ps_status st = open_exchange(r);

    r->is_training = true;
    if (ps_is_ok(&st) && r->loop != NULL) {
        st = ps_loop_rank_start(r->loop);
    }
    if (ps_is_ok(&st)) {
        st = ps_trainer_start(r->trainer, r->exchange, post_trained, r);
    }
    if (!ps_is_ok(&st)) {
        r->failure = st;
        ps_gate_fail(ps_exchange_gate(r->exchange), &st);
        ps_loop_post(r->conf.loop, &r->trained);
    }
}

void ps_rank_stop(ps_rank *r)
{
    if (!ps_rank_is_running(r)) {
        return;
    }
    if (r->is_training) {
        ps_gate_stop(ps_exchange_gate(r->exchange));
    } else if (r->mesh != NULL) {
        ps_mesh_exchange_cut(r->mesh);
    }
}

void ps_rank_hold(ps_rank *r)
{
    if (r->is_training) {
        (void)ps_gate_hold(ps_exchange_gate(r->exchange));
    } else if (r->exchange != NULL && r->held_at == 0) {
        r->held_at = r->session.plan->total_clocks; /* it had ended before: nothing is held */
    }
}

void ps_rank_end_at(ps_rank *r, uint64_t clock)
{
    if (r->is_training) {
        ps_gate_end_at(ps_exchange_gate(r->exchange), clock);
    }
}

bool ps_rank_is_running(const ps_rank *r)
{
    return r->exchange != NULL && !r->has_ended;
}

ps_status ps_rank_result(const ps_rank *r)
{
    assert(!ps_rank_is_running(r)); /* the trainer's thread may write its result */
    return ps_is_ok(&r->failure) ? ps_trainer_result(r->trainer) : r->failure;
}

bool ps_rank_has_diverged(const ps_rank *r)
{
    return ps_trainer_has_diverged(r->trainer);
}

size_t ps_rank_tracks(const ps_rank *r, ps_trace_track out[PS_RANK_TRACKS])
{
    out[0] =
        ps_trace_worker(ps_trainer_trace(r->trainer), r->conf.rank, r->session.plan->spec->workers);
    if (r->trace == NULL) {
        return 1;
    }
    out[1] = out[0];
    out[1].ring = r->trace;
    out[1].thread = 2;
    out[1].thread_name = "messages";
    return 2;
}

/* Registers a file of the trainer with the node, if it exists. */
static void keep(const ps_rank *r, const char *prefix, const char *suffix,
                 Psgd__V1__ArtifactKind kind)
{
    char name[160], path[sizeof r->session.folder + sizeof name + 2], rank[16];

    snprintf(rank, sizeof rank, "%u", r->conf.rank);
    ps_artifact_name(name, sizeof name, prefix, r->session.plan->spec->title, rank, suffix);
    snprintf(path, sizeof path, "%s/%s", r->session.folder, name);
    if (access(path, F_OK) == 0) {
        ps_node_keep(r->conf.node, name, kind);
    }
}

void ps_rank_keep_curves(const ps_rank *r)
{
    keep(r, "TR", ".csv", PSGD__V1__ARTIFACT_KIND__ARTIFACT_KIND_REPORT);
    keep(r, "EV", ".csv", PSGD__V1__ARTIFACT_KIND__ARTIFACT_KIND_REPORT);
    keep(r, PS_ROUNDS_PREFIX, PS_ROUNDS_SUFFIX, PSGD__V1__ARTIFACT_KIND__ARTIFACT_KIND_REPORT);
    keep(r, "TB", "/" PS_EVENTS_NAME, PSGD__V1__ARTIFACT_KIND__ARTIFACT_KIND_EVENTS);
    keep(r, "VOCAB", ".txt", PSGD__V1__ARTIFACT_KIND__ARTIFACT_KIND_MODEL);
}

ps_status ps_rank_flush(const ps_rank *r)
{
    return ps_trainer_flush(r->trainer);
}

/* In a mesh the loop's thread writes the weights, so they are complete while this function runs on
 * it. */
void ps_rank_copy_model(ps_rank *r)
{
    size_t bytes = r->session.plan->layout.param_count * sizeof(float);
    char name[160];

    if (r->mesh == NULL || r->copy != NULL) {
        return;
    }
    r->copy = malloc(bytes);
    if (r->copy == NULL) {
        ps_log(PS_LOG_WARN, "worker", "no model: no memory for a copy of %zu bytes", bytes);
        return;
    }
    memcpy(r->copy, r->session.weights, bytes);
    r->copied_step = ps_trainer_get_progress(r->trainer).step;
    ps_artifact_name(name, sizeof name, "MODEL", r->session.plan->spec->title, "0", ".safetensors");
    ps_node_keep_if_there(r->conf.node, name, PSGD__V1__ARTIFACT_KIND__ARTIFACT_KIND_MODEL);
}

void ps_rank_write_copy(const ps_rank *r)
{
    ps_status st;

    if (r->copy == NULL) {
        return;
    }
    st = ps_trainer_write_copy(r->trainer, r->copy, r->copied_step);
    if (!ps_is_ok(&st)) {
        ps_log(PS_LOG_WARN, "worker", "no model: %s", st.text);
    }
}

void ps_rank_keep_model(const ps_rank *r)
{
    keep(r, "MODEL", ".safetensors", PSGD__V1__ARTIFACT_KIND__ARTIFACT_KIND_MODEL);
    keep(r, "MODEL", ".onnx", PSGD__V1__ARTIFACT_KIND__ARTIFACT_KIND_MODEL);
}

/* --- progress -------------------------------------------------------------- */

static void fill_metric(Psgd__V1__WorkerProgress__MetricsEntry *entry, const char *name,
                        double value)
{
    psgd__v1__worker_progress__metrics_entry__init(entry);
    entry->key = (char *)name;
    entry->value = value;
}

static void fill_past(const ps_plan *plan, const ps_trainer_evaluation *from, struct past *out)
{
    psgd__v1__worker_evaluation__init(&out->message);
    out->message.number = from->number;
    out->message.step = from->step;
    out->message.n_metrics = 1 + plan->metric_count;
    out->message.metrics = out->metric_ptrs;
    for (size_t i = 0; i < out->message.n_metrics; i++) {
        Psgd__V1__WorkerEvaluation__MetricsEntry *entry = &out->metrics[i];

        psgd__v1__worker_evaluation__metrics_entry__init(entry);
        entry->key = (char *)(i == 0 ? "loss" : plan->metrics[i - 1].metric->name);
        entry->value = i == 0 ? from->loss : from->values[i - 1];
        out->metric_ptrs[i] = entry;
    }
}

/* Lends those evaluations before number `last` that the trainer still has. */
static void lend_past(ps_rank *r, uint32_t last)
{
    uint32_t first = last > PS_EVALUATIONS_KEPT ? last - PS_EVALUATIONS_KEPT + 1 : 1;
    ps_trainer_evaluation found;

    r->progress.past = r->past_ptrs;
    for (uint32_t number = first; number < last; number++) {
        struct past *out = &r->past[r->progress.n_past];

        if (ps_trainer_get_evaluation(r->trainer, number, &found)) {
            fill_past(r->session.plan, &found, out);
            r->past_ptrs[r->progress.n_past++] = &out->message;
        }
    }
}

/* Lends the result of this rank's share of the last split evaluation; NULL if there is none. */
static Psgd__V1__EvaluationPart *lend_part(ps_rank *r)
{
    ps_buf_unref(r->part_buf);
    psgd__v1__evaluation_part__init(&r->part);
    r->part_buf = ps_trainer_get_part(r->trainer, &r->part.evaluation);
    if (r->part_buf == NULL) {
        return NULL;
    }
    r->part.state = (ProtobufCBinaryData){.len = r->part_buf->len, .data = r->part_buf->data};
    return &r->part;
}

/* Lends what the rank's program has said last of its metrics (values). */
static void lend_program_metrics(ps_rank *r, const double *values)
{
    const Psgd__V1__JobSpec *spec = r->session.plan->spec;
    size_t n = 0;

    for (size_t i = 0; r->loop != NULL && i < spec->n_program_metrics; i++) {
        Psgd__V1__WorkerProgress__ProgramMetricsEntry *entry = &r->program_metrics[n];

        if (!isnan(values[i]) && strcmp(spec->program_metrics[i], "accuracy") != 0) {
            psgd__v1__worker_progress__program_metrics_entry__init(entry);
            entry->key = spec->program_metrics[i];
            entry->value = values[i];
            n++;
        }
    }
    r->progress.program_metrics = r->program_metric_ptrs;
    r->progress.n_program_metrics = n;
}

/* Sets in r->progress the counters (counter_table.h), and for whom the rank waits: their node ids
 * as text, and their numbers. */
static void fill_counts(ps_rank *r, const ps_trainer_progress *progress)
{
    ps_exchange_stats stats = r->stats;
    double waited_s = r->waited_s;
    ps_counts counts;

    r->whom[0] = '\0';
    if (ps_rank_is_running(r)) {
        if (r->is_training) {
            find_waits(r);
        }
        stats = ps_exchange_get_stats(r->exchange);
        waited_s = ps_gate_waited_s(ps_exchange_gate(r->exchange), r->whom, sizeof r->whom);
        if (r->mesh != NULL && r->whom[0] != '\0') {
            ps_mesh_exchange_name_missing(r->mesh, r->whom, sizeof r->whom);
        }
    }
    counts = ps_counted_by_worker(r->session.plan, progress, &stats, waited_s);
    counts.v[PS_COUNT_CONNECTIONS_REFUSED] = (double)ps_accept_refused();
    counts.v[PS_COUNT_CONNECTIONS_CLOSED] = (double)ps_guard_closed();
    ps_counts_put(&counts, PS_OF_WORKER, &r->progress.base);
    r->progress.waiting_for = r->whom;
    if (r->session.plan->mesh != NULL) {
        r->progress.waits_for_workers = r->waits;
        r->progress.n_waits_for_workers = r->wait_count;
    } else {
        r->progress.waits_for_servers = r->waits;
        r->progress.n_waits_for_servers = r->wait_count;
    }
}

Psgd__V1__WorkerProgress *ps_rank_progress(ps_rank *r)
{
    const ps_plan *plan = r->session.plan;
    Psgd__V1__WorkerProgress *out = &r->progress;
    ps_trainer_progress p = ps_trainer_get_progress(r->trainer);

    psgd__v1__worker_progress__init(out);
    out->rank = r->conf.rank;
    out->reached_stop = p.reached_stop;
    out->weights_clock = r->mesh != NULL ? ps_mesh_exchange_clock(r->mesh) : 0;
    out->held_at = r->is_training ? ps_gate_held_at(ps_exchange_gate(r->exchange)) : r->held_at;
    fill_counts(r, &p);
    lend_program_metrics(r, p.program_metrics);
    if (p.waiting_for[0] != '\0') {
        snprintf(r->whom, sizeof r->whom, "%s: room on its disk: %s",
                 PS_SHORT(ps_placement_process(&r->session.placement, r->conf.rank)->node_id, 40),
                 PS_SHORT(p.waiting_for, 90));
    }
    out->evaluated_step = p.evaluated_step;
    if (p.evaluations > 0) {
        fill_metric(&r->metrics[0], "loss", p.eval_loss);
        for (size_t i = 0; i < plan->metric_count; i++) {
            fill_metric(&r->metrics[1 + i], plan->metrics[i].metric->name, p.eval_values[i]);
        }
        out->metrics = r->metric_ptrs;
        out->n_metrics = 1 + plan->metric_count;
        out->part = lend_part(r);
        if (!plan->spec->split_evaluation) {
            lend_past(r, p.evaluations);
        }
    }
    return out;
}
