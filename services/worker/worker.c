/* SPDX-License-Identifier: Apache-2.0 */
/* worker.c - see worker.h. A session is prepared (its ranks are created), runs, and is finished
 * when all ranks have ended. It may be released in any of these states; the release ends when all
 * threads and streams have ended.
 */
#include "services/worker/worker.h"

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/xalloc.h"
#include "common/job/checkpoint_clocks.h"
#include "services/worker/executors.h"
#include "services/worker/loop_link.h"
#include "services/worker/peer_service.h"
#include "services/worker/rank.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct ps_worker {
    ps_loop *loop;
    ps_node *node;
    ps_loop_link *link;        /* to the program that computes models; NULL: there is none */
    bool is_sockets_only;      /* see wire_link_grpc.h */
    const ps_session *session; /* NULL: idle */
    ps_executors *executors;   /* of a job that computes, which has no ranks; NULL: it trains */
    ps_peers *peers;           /* the streams from ranks of other processes */
    uint32_t rank_count;
    ps_rank **ranks; /* (rank_count) */
    float **copies;  /* (rank_count) weights; NULL: the rank uses the session's */
    Psgd__V1__WorkerProgress **progress; /* (rank_count) lent by progress() */
    bool is_running;                     /* from run until all ranks have ended */
    bool is_collected;                   /* collect() came after all ranks had ended */
    bool releasing;
    ps_status result;  /* the first failure of the ranks that have ended */
    bool has_diverged; /* `result` is that a loss, gradient or weight is not finite */
    uint64_t cut;      /* clock of the checkpoint that is being taken; 0: none */
    uint32_t cut_left; /* ranks that have not been saved for it */
};

static void drop_ranks(ps_worker *w)
{
    for (uint32_t i = 0; i < w->rank_count; i++) {
        ps_rank_destroy(w->ranks[i]);
        free(w->copies[i]);
    }
    free(w->ranks);
    free(w->copies);
    free(w->progress);
    w->ranks = NULL;
    w->copies = NULL;
    w->progress = NULL;
    w->rank_count = 0;
    w->session = NULL;
}

/* Tells the program that computes, if there is one, whether the job has all its steps or its
 * attempt has ended without them. */
static void tell_program(const ps_worker *w)
{
    if (w->link != NULL && w->is_collected && ps_is_ok(&w->result) && !ps_node_is_lost(w->node)) {
        ps_loop_link_done(w->link);
    } else if (w->link != NULL) {
        ps_loop_link_over(w->link, &w->result);
    }
}

static void finish_release(ps_worker *w)
{
    tell_program(w);
    ps_executors_destroy(w->executors);
    w->executors = NULL;
    drop_ranks(w);
    w->releasing = false;
    ps_node_released(w->node);
}

static void keep_files(ps_worker *w)
{
    for (uint32_t i = 0; i < w->rank_count; i++) {
        ps_rank_keep_curves(w->ranks[i]);
        if (w->session->ranks[i] == 0 && ps_is_ok(&w->result)) {
            ps_rank_keep_model(w->ranks[i]);
        }
    }
}

/* Counts a rank that has saved itself for the checkpoint, or never will. After the last one, tells
 * the node that the checkpoint is complete. */
static void one_less(ps_worker *w)
{
    uint64_t clock = w->cut;

    if (--w->cut_left == 0) {
        w->cut = 0;
        ps_node_checkpoint_end(w->node, clock);
    }
}

/* Looks for ranks that have ended and have not saved themselves for the checkpoint that is being
 * taken. For such a rank gives the checkpoint up, or, if ranks are not in step, goes on without the
 * rank. */
static void look_for_owed(ps_worker *w)
{
    ps_status ended = ps_fail(PS_FAILED_PRECONDITION, "a rank has ended");
    uint64_t clock = w->cut;

    for (uint32_t i = 0; i < w->rank_count && w->cut != 0 && !w->releasing; i++) {
        if (ps_rank_is_running(w->ranks[i]) || !ps_rank_owes_cut(w->ranks[i], clock)) {
            continue;
        }
        (void)ps_rank_cut_at(w->ranks[i], 0, false);
        if (ps_plan_is_in_step(w->session->plan)) {
            w->cut = 0;
            ps_node_checkpoint_fail(w->node, clock, &ended);
        } else {
            one_less(w);
        }
    }
}

/* Finishes the session, or its release if that has begun, when all ranks have ended. A failed rank
 * stops the others, which would wait for it. */
static void on_ended(void *arg)
{
    ps_worker *w = arg;
    uint32_t running = 0;

    for (uint32_t i = 0; i < w->rank_count; i++) {
        ps_status st;

        if (ps_rank_is_running(w->ranks[i])) {
            running++;
            continue;
        }
        st = ps_rank_result(w->ranks[i]);
        if (!ps_is_ok(&st) && ps_is_ok(&w->result)) {
            w->result = st;
            w->has_diverged = ps_rank_has_diverged(w->ranks[i]);
        }
    }
    for (uint32_t i = 0; i < w->rank_count && !ps_is_ok(&w->result); i++) {
        ps_rank_stop(w->ranks[i]);
    }
    look_for_owed(w);
    if (running > 0) {
        return;
    }
    w->is_running = false;
    if (w->releasing) {
        finish_release(w);
        return;
    }
    keep_files(w);
    if (w->has_diverged) {
        ps_node_diverged(w->node, &w->result);
    } else {
        ps_node_finished(w->node, &w->result);
    }
}

ps_worker *ps_worker_create(ps_loop *loop, ps_loop_link *link, bool is_sockets_only)
{
    ps_worker *w = ps_xcalloc(1, sizeof *w);

    w->loop = loop;
    w->link = link;
    w->is_sockets_only = is_sockets_only;
    w->peers = ps_peers_create();
    return w;
}

void ps_worker_destroy(ps_worker *worker)
{
    ps_peers_destroy(worker->peers);
    ps_loop_link_destroy(worker->link);
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

/* --- checkpoints ----------------------------------------------------------- */

static void on_saved(void *arg, uint32_t rank, uint64_t clock, ps_snapshot state,
                     ps_snapshot weights)
{
    ps_worker *w = arg;
    char name[PS_CHECKPOINT_NAME_MAX];

    if (clock != w->cut) {
        ps_snapshot_drop(&state);
        ps_snapshot_drop(&weights);
        return;
    }
    ps_checkpoint_rank_name(name, rank);
    ps_node_checkpoint_add(w->node, clock, name, state);
    if (weights.fd >= 0) {
        ps_node_checkpoint_add(w->node, clock, "weights.f32", weights);
    }
    one_less(w);
}

static void cut(void *state, uint64_t clock, uint64_t base, bool stays)
{
    ps_worker *w = state;
    ps_status late = ps_fail(PS_FAILED_PRECONDITION, "a rank is further already");
    bool is_ahead = true;

    (void)base; /* servers have the rows */
    w->cut = clock;
    w->cut_left = w->rank_count;
    for (uint32_t i = 0; i < w->rank_count; i++) {
        is_ahead = ps_rank_cut_at(w->ranks[i], clock, stays) && is_ahead;
    }
    if (!is_ahead) { /* on_saved drops what other ranks save for it */
        w->cut = 0;
        ps_node_checkpoint_fail(w->node, clock, &late);
    }
    if (w->is_running) {
        look_for_owed(w);
    }
}

/* The files of state of all ranks, which one rank gives because it has the state of all. */
typedef struct giving {
    ps_rank *from;      /* the rank that gives them */
    ps_snapshot *files; /* (count), by rank */
    uint32_t count;     /* number of ranks of the job */
} giving;

/* Writes the bytes that the files of all ranks have in common to `fd`, and the rest of each rank's
 * file to the descriptors of giving.files. */
static ps_status write_ranks(void *arg, int fd)
{
    const giving *g = arg;
    ps_status st = ps_rank_give_alike(g->from, fd);

    for (uint32_t rank = 0; rank < g->count && ps_is_ok(&st); rank++) {
        int own = g->files[rank].fd;

        /* a copy of the process that was killed may have written to it */
        st = ps_snapshot_empty(own);
        st = ps_is_ok(&st) ? ps_rank_give(g->from, rank, own) : st;
    }
    return st;
}

/* Adds the files of all ranks of the job, and the weights, to the checkpoint, with the state that
 * `from` has. A copy of the process writes the ranks' files, as the loop has heartbeats to send.
 * All of them are complete when the file of their common bytes is complete. */
static ps_status add_all(ps_worker *w, ps_rank *from, uint64_t clock)
{
    giving g = {.from = from, .count = w->session->placement.rank_count};
    ps_snapshot weights = {.fd = -1, .copy_fd = -1};
    ps_status st = ps_rank_give_weights(from, &weights);

    g.files = ps_xcalloc(g.count, sizeof *g.files);
    for (uint32_t rank = 0; rank < g.count; rank++) {
        g.files[rank] = (ps_snapshot){.fd = -1, .copy_fd = -1};
        if (ps_is_ok(&st)) {
            st = ps_snapshot_blank(0, &g.files[rank]);
        }
    }
    if (ps_is_ok(&st)) {
        ps_node_checkpoint_add_common(w->node, clock, ps_snapshot_begin(write_ranks, &g));
        ps_node_checkpoint_add(w->node, clock, "weights.f32", weights);
    }
    for (uint32_t rank = 0; rank < g.count; rank++) {
        char name[PS_CHECKPOINT_NAME_MAX];

        ps_checkpoint_rank_name(name, rank);
        if (ps_is_ok(&st)) {
            ps_node_checkpoint_add_spliced(w->node, clock, name, g.files[rank],
                                           ps_rank_alike_at(from));
        } else {
            ps_snapshot_drop(&g.files[rank]);
        }
    }
    if (!ps_is_ok(&st)) {
        ps_snapshot_drop(&weights);
    }
    free(g.files);
    return st;
}

/* Halts the exchanges of all ranks of a mesh, and gives the state of the job at `clock` if one of
 * the ranks has it. Else fails the checkpoint. */
static void rescue(void *state, uint64_t clock, bool of_copies)
{
    ps_status st = ps_fail(PS_FAILED_PRECONDITION, "no rank here is at that clock");
    ps_worker *w = state;
    int64_t began_us = ps_clock_us();
    ps_rank *from = NULL;

    (void)of_copies; /* only servers have copies */
    w->cut = 0;      /* what ranks still save for an earlier checkpoint is dropped */
    for (uint32_t i = 0; i < w->rank_count; i++) {
        from = ps_rank_halt(w->ranks[i], clock) ? w->ranks[i] : from;
    }
    if (from != NULL) {
        st = add_all(w, from, clock);
        ps_log(PS_LOG_INFO, "worker",
               "gives all ranks at clock %" PRIu64 ": stood still for %.1f ms", clock,
               (double)(ps_clock_us() - began_us) * 1e-3);
    }
    if (ps_is_ok(&st)) {
        ps_node_checkpoint_end(w->node, clock);
    } else {
        ps_node_checkpoint_fail(w->node, clock, &st);
    }
}

/* Creates rank i of the session. Each exchange writes weights of its own; the first rank uses the
 * session's. */
static ps_status make_rank(ps_worker *w, const ps_session *session, uint32_t i)
{
    size_t bytes = session->weight_count * sizeof(float);
    bool is_program = ps_plan_is_program(session->plan, session->ranks[i]);
    ps_rank_conf conf = {
        .loop = w->loop,
        .node = w->node,
        .session = session,
        .rank = session->ranks[i],
        .weights = session->weights,
        .peers = w->peers,
        .link = w->link,
        .is_sockets_only = w->is_sockets_only,
        .ended = on_ended,
        .saved = on_saved,
        .arg = w,
        .state = session->state_count > 0 ? session->states[i] : NULL,
    };

    if (is_program != (w->link != NULL)) {
        return ps_fail(PS_FAILED_PRECONDITION, "rank %u: %s", conf.rank,
                       is_program ? "a program computes it, and none has joined by this worker"
                                  : "psgd computes it, and this worker is for a program's ranks");
    }
    if (i > 0) {
        w->copies[i] = ps_aligned_alloc(bytes);
        if (w->copies[i] == NULL) {
            return ps_fail(PS_RESOURCE_EXHAUSTED, "no memory for %zu bytes of weights of rank %u",
                           bytes, conf.rank);
        }
        memcpy(w->copies[i], session->weights, bytes);
        conf.weights = w->copies[i];
    }
    return ps_rank_create(&conf, &w->ranks[i]);
}

/* Finishes the session of a job that computes. */
static void on_computed(void *arg, const ps_status *result)
{
    ps_worker *w = arg;

    w->is_running = false;
    w->result = *result;
    if (w->releasing) {
        finish_release(w);
    } else {
        ps_node_finished(w->node, result);
    }
}

/* Creates the executors for a job that computes. */
static ps_status prepare_executors(ps_worker *w, const ps_session *session)
{
    const ps_executors_conf conf = {
        .loop = w->loop, .node = w->node, .session = session, .ended = on_computed, .arg = w};

    if (w->link != NULL) {
        return ps_fail(PS_FAILED_PRECONDITION,
                       "this worker was joined by a program that computes a model, and the job has "
                       "none");
    }
    return ps_executors_create(&conf, &w->executors);
}

static ps_status prepare(void *state, ps_session *session)
{
    ps_worker *w = state;
    ps_status st = ps_ok();

    w->session = session;
    w->result = ps_ok();
    w->has_diverged = false;
    w->is_collected = false;
    w->cut = 0;
    if (session->plan->compute != NULL) {
        st = prepare_executors(w, session);
        w->session = ps_is_ok(&st) ? session : NULL;
        return st;
    }
    w->rank_count = session->rank_count;
    w->ranks = ps_xcalloc(w->rank_count, sizeof *w->ranks);
    w->copies = ps_xcalloc(w->rank_count, sizeof *w->copies);
    w->progress = ps_xcalloc(w->rank_count, sizeof *w->progress);
    w->result = ps_ok();
    w->has_diverged = false;
    w->is_collected = false;
    w->cut = 0;
    if (session->state_count > 0 && session->state_count != w->rank_count) {
        st = ps_fail(PS_FAILED_PRECONDITION,
                     "%u files of a checkpoint for %u ranks; one for each rank is expected",
                     session->state_count, w->rank_count);
    }
    for (uint32_t i = 0; i < w->rank_count && ps_is_ok(&st); i++) {
        st = make_rank(w, session, i);
    }
    ps_session_drop_states(session);
    if (!ps_is_ok(&st)) {
        drop_ranks(w);
    }
    return st;
}

static void run(void *state)
{
    ps_worker *w = state;

    w->is_running = true;
    if (w->executors != NULL) {
        ps_executors_start(w->executors);
    }
    for (uint32_t i = 0; i < w->rank_count; i++) {
        ps_rank_start(w->ranks[i]);
    }
}

static void release(void *state)
{
    ps_worker *w = state;

    assert(!w->releasing);
    if (!w->is_running) {
        finish_release(w);
        return;
    }
    /* on_ended, or on_computed for a job that computes, then calls finish_release */
    w->releasing = true;
    if (w->executors != NULL) {
        ps_executors_stop(w->executors);
    }
    for (uint32_t i = 0; i < w->rank_count; i++) {
        ps_rank_stop(w->ranks[i]);
    }
}

static size_t tracks(void *state, ps_trace_track **list)
{
    ps_worker *w = state;
    size_t count = 0;

    *list = ps_xcalloc(w->rank_count * PS_RANK_TRACKS + 1, sizeof **list);
    for (uint32_t i = 0; i < w->rank_count; i++) {
        count += ps_rank_tracks(w->ranks[i], *list + count);
    }
    return count;
}

static ps_status kept(void *state, uint32_t at, const bool *is_lost, ps_snapshot *out)
{
    ps_worker *w = state;

    return ps_rank_kept(w->ranks[at], is_lost, out);
}

static ps_status park(void *state)
{
    ps_worker *w = state;
    ps_status st = ps_ok();

    for (uint32_t i = 0; i < w->rank_count; i++) {
        ps_status of_rank = ps_rank_park(w->ranks[i]);

        st = ps_is_ok(&of_rank) || st.code == PS_FAILED_PRECONDITION ? st : of_rank;
    }
    return st;
}

static ps_status parked(void *state, uint32_t at, ps_snapshot *out)
{
    ps_worker *w = state;

    return ps_rank_parked(w->ranks[at], out);
}

static void forget(void *state, uint64_t clock)
{
    ps_worker *w = state;

    for (uint32_t i = 0; i < w->rank_count; i++) {
        ps_rank_forget(w->ranks[i], clock);
    }
}

/* Registers the reports as far as they are written, which is up to a complete line. If the job has
 * not finished here, rank 0 of a mesh also copies its weights, from which `save` writes a model. */
static ps_status collect(void *state)
{
    ps_worker *w = state;

    w->is_collected = !w->is_running;
    for (uint32_t i = 0; i < w->rank_count; i++) {
        ps_rank_keep_curves(w->ranks[i]);
        if (w->session->ranks[i] == 0 && (w->is_running || !ps_is_ok(&w->result))) {
            ps_rank_copy_model(w->ranks[i]);
        }
    }
    return ps_ok();
}

/* Writes the lines of the reports that are still in memory, and the model that `collect` has
 * copied. A full disk is no failure here: the lines written so far are collected. A worker that has
 * finished has waited for room itself. */
static ps_status save(void *state, const atomic_bool *stop)
{
    ps_worker *w = state;
    ps_status st = ps_ok();

    for (uint32_t i = 0; i < w->rank_count && ps_is_ok(&st) && !atomic_load(stop); i++) {
        st = ps_rank_flush(w->ranks[i]);
        ps_rank_write_copy(w->ranks[i]);
    }
    return st.code == PS_RESOURCE_EXHAUSTED ? ps_ok() : st;
}

static void hold(void *state)
{
    ps_worker *w = state;

    for (uint32_t i = 0; i < w->rank_count; i++) {
        ps_rank_hold(w->ranks[i]);
    }
}

static void end_at(void *state, uint64_t clock)
{
    ps_worker *w = state;

    for (uint32_t i = 0; i < w->rank_count; i++) {
        ps_rank_end_at(w->ranks[i], clock);
    }
}

static size_t progress(void *state, Psgd__V1__WorkerProgress ***list)
{
    ps_worker *w = state;

    if (w->executors != NULL) {
        return ps_executors_progress(w->executors, list);
    }
    for (uint32_t i = 0; i < w->rank_count; i++) {
        w->progress[i] = ps_rank_progress(w->ranks[i]);
    }
    *list = w->progress;
    return w->rank_count;
}

const ps_role_hooks ps_worker_hooks = {
    .role = PSGD__V1__NODE_ROLE__NODE_ROLE_WORKER,
    .service = "psgd-worker",
    .prepare = prepare,
    .run = run,
    .release = release,
    .collect = collect,
    .save = save,
    .hold = hold,
    .end_at = end_at,
    .cut = cut,
    .rescue = rescue,
    .kept = kept,
    .park = park,
    .parked = parked,
    .forget = forget,
    .progress = progress,
    .tracks = tracks,
};
