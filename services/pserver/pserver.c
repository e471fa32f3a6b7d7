/* SPDX-License-Identifier: Apache-2.0 */
/* pserver.c - see pserver.h.
 *
 * Each thread has a store from prepare to release. The server has finished when every thread whose
 * part has slices or tables has the contributions of all steps; it then still answers pulls.
 * Collect may come before or after that. From Collect on only the task of `save`, which writes the
 * tables, uses the tables. In a job that computes the reducer has the session instead of the
 * threads. */
#include "services/pserver/pserver.h"

#include "common/base/files.h"
#include "common/base/log.h"
#include "common/base/xalloc.h"
#include "common/job/checkpoint_clocks.h"
#include "common/job/counts.h"
#include "common/job/plan.h"
#include "common/rpc/accept.h"
#include "common/rpc/guard.h"
#include "common/script/result.h"
#include "common/train/counted.h"
#include "common/train/merge.h"
#include "common/train/trainer.h"
#include "services/pserver/reducer.h"
#include "services/pserver/server_tables.h"
#include "services/pserver/server_thread.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    /* most calls that save the tables while the job trains: each copy lies in memory until the job
     * ends */
    SAVES_MAX = 4,
    /* most parts of another server of which this one can have copies; that server may have more
     * threads than this one */
    COPIES_MAX = PS_THREADS_MAX
};

struct ps_pserver {
    ps_node *node;
    uint32_t thread_count;
    /* (thread_count + COPIES_MAX): those of the server's own parts, then those of copies */
    ps_server_thread **threads;
    ps_reducer *reducer; /* NULL: there is no loop */
    uint32_t part_count; /* how many of `threads` the session uses, from the first one on */

    bool is_open;        /* a session of a job that trains exists */
    uint32_t incomplete; /* used threads that lack contributions of some step */
    /* `incomplete` is 0: the server has the contributions of all steps; or the records of a job
     * that computes are reduced, or that has failed */
    bool is_complete;
    ps_status result; /* result of the session, when is_complete is set */
    /* the tables that save() writes; NULL: the job has no tables, or Collect has not come */
    ps_tables *tables;
    uint32_t saves;        /* calls in this session that save the tables; at most SAVES_MAX */
    uint32_t tables_saved; /* number of tables that save() has written */
    /* Memory that counters() lends to an answer. */
    ps_server_counts counts;
    Psgd__V1__WorkerShare *shares, **share_ptrs; /* (worker_count) */
    uint32_t *missing;                           /* (worker_count), lent by missing() */

    struct {
        uint64_t clock; /* at whose beginning the checkpoint is; 0: none is asked for */
        /* the threads that save their parts: index in `threads` of the first one, and how many */
        uint32_t first, count;
        uint32_t rank; /* rank of the server whose shards these are */
        uint32_t left; /* used threads that have not saved their part */
        /* weights of all slices of these shards, in the order in which collect() has them */
        ps_snapshot weights;
        ps_status status; /* the first failure of a part */
    } cut;
};

static void count(ps_pserver *p)
{
    ps_server_counts *c = &p->counts;

    c->store = (ps_store_counters){0};
    c->rows = (ps_table_counters){0};
    c->traffic = (ps_traffic){0};
    c->waits = c->open = 0;
    c->clock = UINT64_MAX;
    c->has_no_ledger = true;
    c->ledgers_differ = 0;
    memset(c->workers, 0, c->worker_count * sizeof *c->workers);
    memset(c->is_lost, 0, c->worker_count * sizeof *c->is_lost);
    for (uint32_t t = 0; t < p->part_count; t++) {
        ps_server_thread_add_counts(p->threads[t], c);
    }
}

/* Logs the ledger of the job: the number and hash of the contributions to each slice. If they
 * differ between slices under a deterministic policy, logs this as an error. Logs nothing if there
 * is no ledger. */
static void tell_ledger(ps_pserver *p)
{
    const ps_server_counts *c = &p->counts;
    bool must_agree = ps_node_session(p->node)->plan->policy->is_deterministic;

    count(p);
    if (c->has_no_ledger) {
        return;
    }
    ps_log(c->ledgers_differ == 0 || !must_agree ? PS_LOG_INFO : PS_LOG_ERROR, "pserver",
           "ledger: %" PRIu64 " contributions to each slice, hash %016" PRIx64 "; %" PRIu32
           " slices differ",
           c->ledger.count, c->ledger.hash, c->ledgers_differ);
}

static void finish(ps_pserver *p)
{
    if (p->is_complete && ps_node_phase(p->node) == PS_PHASE_RUNNING) {
        if (p->is_open) {
            tell_ledger(p);
        }
        ps_node_finished(p->node, &p->result);
    }
}

static void complete(void *arg)
{
    ps_pserver *p = arg;

    p->is_complete = --p->incomplete == 0;
    finish(p);
}

/* Fails the job because a worker sent values that are not finite, or the attempt because code of
 * the job cannot run here. Does not wait until a worker reports that: the worker may be faulty. */
static void fail(void *arg, const ps_status *why)
{
    ps_pserver *p = arg;

    if (ps_node_phase(p->node) != PS_PHASE_RUNNING) {
        return;
    }
    if (why->code == PS_RESOURCE_EXHAUSTED) {
        ps_node_finished(p->node, why);
    } else {
        ps_node_diverged(p->node, why);
    }
}

/* Finishes the session of a job that computes, unless `run` has not been called yet. */
static void on_reduced(void *arg, const ps_status *result)
{
    ps_pserver *p = arg;

    p->result = *result;
    p->is_complete = true;
    finish(p);
}

static void on_closed(void *arg)
{
    ps_pserver *p = arg;

    ps_node_released(p->node);
}

ps_status ps_pserver_create(ps_loop *loop, uint32_t threads, uint64_t drop_ack,
                            bool is_sockets_only, ps_pserver **out)
{
    ps_pserver *p = ps_xcalloc(1, sizeof *p);
    ps_status st = ps_ok();

    assert(threads >= 1 && threads <= PS_THREADS_MAX && (loop != NULL || threads == 1));
    p->cut.weights = (ps_snapshot){.fd = -1, .copy_fd = -1};
    p->thread_count = threads;
    p->threads = ps_xcalloc((size_t)threads + COPIES_MAX, sizeof *p->threads);
    for (uint32_t t = 0; t < threads + COPIES_MAX && ps_is_ok(&st); t++) {
        uint32_t number = t < threads ? t : t - threads;
        ps_server_thread_conf conf = {.home = loop,
                                      .number = number,
                                      .beside = t < threads ? NULL : p->threads[number % threads],
                                      .drop_ack = drop_ack,
                                      .is_sockets_only = is_sockets_only,
                                      .complete = complete,
                                      .failed = fail,
                                      .arg = p};

        st = ps_server_thread_create(&conf, &p->threads[t]);
    }
    if (ps_is_ok(&st) && loop != NULL) {
        st = ps_reducer_create(
            &(ps_reducer_conf){.loop = loop, .reduced = on_reduced, .closed = on_closed, .arg = p},
            &p->reducer);
    }
    if (!ps_is_ok(&st)) {
        ps_pserver_destroy(p);
        return st;
    }
    *out = p;
    return st;
}

static void drop_counts(ps_pserver *p)
{
    free(p->counts.workers);
    free(p->counts.is_lost);
    free(p->shares);
    free(p->share_ptrs);
    free(p->missing);
}

void ps_pserver_destroy(ps_pserver *p)
{
    if (p != NULL) {
        for (uint32_t t = 0; t < p->thread_count + COPIES_MAX; t++) {
            ps_server_thread_destroy(p->threads[t]);
        }
        ps_reducer_destroy(p->reducer);
        drop_counts(p);
        free(p->threads);
        free(p);
    }
}

size_t ps_pserver_services(ps_pserver *p, ps_service out[PS_PSERVER_SERVICES_MAX])
{
    size_t count = (size_t)p->thread_count + COPIES_MAX;

    for (size_t t = 0; t < count; t++) {
        out[t] = ps_server_thread_service(p->threads[t]);
    }
    if (p->reducer != NULL) {
        out[count++] = ps_reducer_service(p->reducer);
    }
    return count;
}

void ps_pserver_set_node(ps_pserver *p, ps_node *node)
{
    p->node = node;
}

/* Takes the session's tables for the shards of server `rank`, which are those at *from, or creates
 * empty ones. Returns NULL if the job has none. */
static ps_tables *take_tables(const ps_session *session, ps_tables **from, uint32_t rank)
{
    ps_tables *tables = *from;

    *from = NULL;
    if (tables == NULL) {
        tables = ps_merge_tables(session->plan, &session->placement, rank);
    }
    if (tables != NULL) {
        ps_tables_shrink_at(tables, session->shrinks, session->shrink_count);
    }
    return tables;
}

/* Opens thread number `t` of the session. The first thread has the server's own sparse tables; the
 * first thread for copies has the tables of the server whose copies are here. */
static ps_status open_thread(ps_pserver *p, ps_session *session, uint32_t t)
{
    uint32_t rank = session->rank;
    ps_tables *tables = NULL;

    if (t == 0) {
        tables = take_tables(session, &session->tables[0], rank);
    } else if (t == p->thread_count) {
        tables = take_tables(session, &session->tables[1],
                             ps_placement_copied(&session->placement, rank));
    }
    return ps_server_thread_open(p->threads[t], session, tables);
}

/* Returns how many parts a server has, without copies. */
static uint32_t threads_of(const ps_placement *placement, uint32_t rank)
{
    return placement->first_part[rank + 1] - placement->first_part[rank];
}

static ps_status prepare(void *state, ps_session *session)
{
    ps_pserver *p = state;
    const ps_placement *placement = &session->placement;
    uint32_t threads = threads_of(placement, session->rank);
    ps_status st = ps_ok();

    if (threads != p->thread_count) {
        return ps_fail(PS_FAILED_PRECONDITION, "placements say %u threads; this server has %u",
                       threads, p->thread_count);
    }
    p->part_count = threads;
    if (placement->has_copies) {
        p->part_count += threads_of(placement, ps_placement_copied(placement, session->rank));
    }
    p->is_complete = false;
    p->result = ps_ok();
    p->incomplete = 0;
    p->tables = NULL;
    p->tables_saved = 0;
    p->saves = 0;
    if (session->plan->compute != NULL) {
        ps_reducer_open(p->reducer, session);
        return ps_ok();
    }
    drop_counts(p);
    p->counts = (ps_server_counts){.worker_count = placement->rank_count};
    p->counts.workers = ps_xcalloc(placement->rank_count, sizeof *p->counts.workers);
    p->counts.is_lost = ps_xcalloc(placement->rank_count, sizeof *p->counts.is_lost);
    p->shares = ps_xcalloc(placement->rank_count, sizeof *p->shares);
    p->share_ptrs = ps_xcalloc(placement->rank_count, sizeof *p->share_ptrs);
    p->missing = ps_xcalloc(placement->rank_count, sizeof *p->missing);
    for (uint32_t t = 0; t < p->part_count; t++) {
        ps_status opened = open_thread(p, session, t);

        st = ps_is_ok(&st) ? opened : st;
        p->incomplete += ps_server_thread_is_used(p->threads[t]);
    }
    for (uint32_t t = 0; t < p->part_count && !ps_is_ok(&st); t++) {
        ps_server_thread_close(p->threads[t]);
    }
    /* a server without slices and rows gets no contributions, so it is complete */
    p->is_complete = p->incomplete == 0;
    p->is_open = ps_is_ok(&st);
    ps_session_drop_states(session);
    return st;
}

/* --- checkpoints --------------------------------------------------------------------- */

static void forget_cut(ps_pserver *p)
{
    for (uint32_t t = 0; p->is_open && p->cut.clock > 0 && t < p->part_count; t++) {
        ps_server_thread_cut_at(p->threads[t], &(ps_server_cut_order){.weights = -1});
    }
    ps_snapshot_drop(&p->cut.weights);
    p->cut.clock = 0;
}

/* If all used threads have saved their parts or failed, gives the node the checkpoint, or the first
 * failure. Otherwise, or if no checkpoint is asked for, does nothing. */
static void end_cut(ps_pserver *p)
{
    uint64_t clock = p->cut.clock;

    if (clock == 0 || p->cut.left > 0) {
        return;
    }
    p->cut.clock = 0;
    if (ps_is_ok(&p->cut.status)) {
        ps_node_checkpoint_add(p->node, clock, "weights.f32", p->cut.weights);
        p->cut.weights = (ps_snapshot){.fd = -1, .copy_fd = -1};
        ps_node_checkpoint_end(p->node, clock);
    } else {
        ps_snapshot_drop(&p->cut.weights);
        ps_node_checkpoint_fail(p->node, clock, &p->cut.status);
    }
}

static void part_saved(void *arg, ps_server_cut *cut)
{
    ps_pserver *p = arg;
    char name[PS_CHECKPOINT_NAME_MAX];

    if (cut->clock != p->cut.clock) {
        ps_snapshot_drop(&cut->state);
        return;
    }
    if (!ps_is_ok(&cut->status) && ps_is_ok(&p->cut.status)) {
        p->cut.status = cut->status;
    }
    if (ps_is_ok(&cut->status)) {
        ps_checkpoint_store_name(name, p->cut.rank, cut->number);
        ps_node_checkpoint_add(p->node, cut->clock, name, cut->state);
    }
    p->cut.left--;
    end_cut(p);
}

/* Adds a file for each rank to the checkpoint, made of what the rank reported with its
 * contributions, if this server keeps these reports. */
static ps_status add_ranks(ps_pserver *p, uint64_t clock)
{
    const ps_session *session = ps_node_session(p->node);
    ps_server_thread *keeper = NULL;
    ps_status st = ps_ok();

    for (uint32_t t = 0; t < p->cut.count; t++) {
        ps_server_thread *thread = p->threads[p->cut.first + t];

        keeper = ps_server_thread_keeps_reports(thread) ? thread : keeper;
    }
    for (uint32_t rank = 0; keeper != NULL && rank < session->placement.rank_count && ps_is_ok(&st);
         rank++) {
        char name[PS_CHECKPOINT_NAME_MAX];
        ps_snapshot file = {.fd = -1, .copy_fd = -1};
        ps_strbuf said = {0};

        ps_checkpoint_rank_name(name, rank);
        st = ps_server_thread_said(keeper, rank, clock, &said)
                 ? ps_snapshot_blank(0, &file)
                 : ps_fail(PS_FAILED_PRECONDITION, "the reports of rank %u are not all here", rank);
        if (ps_is_ok(&st)) {
            st = ps_trainer_save_said(session->plan, rank, clock, ps_strbuf_text(&said), said.len,
                                      ps_snapshot_write, &file.fd);
        }
        ps_strbuf_fini(&said);
        if (ps_is_ok(&st)) {
            ps_node_checkpoint_add(p->node, clock, name, file);
        } else {
            ps_snapshot_drop(&file);
        }
    }
    return st;
}

/* Begins to take a checkpoint at the beginning of `clock`, in place of one that was asked for
 * before; 0: only gives that one up. `base`: ps_server_cut_order has it. `stays`: workers stay at
 * the clock. Then, and if ranks are not in step, parts are saved as soon as all contributions to
 * earlier clocks have arrived; otherwise when after that somebody pushes to the clock. `rescues`:
 * parts are saved at once, as they were when the clock began. `of_copies`: saves the state of the
 * server of which this one has copies. */
static void take(ps_pserver *p, uint64_t clock, uint64_t base, bool stays, bool rescues,
                 bool of_copies)
{
    const ps_session *session = ps_node_session(p->node);
    const ps_placement *placement = &session->placement;
    size_t bytes;

    forget_cut(p);
    if (clock == 0 || !p->is_open) {
        return;
    }
    p->cut.first = of_copies ? p->thread_count : 0;
    p->cut.rank = of_copies ? ps_placement_copied(placement, session->rank) : session->rank;
    p->cut.count = threads_of(placement, p->cut.rank);
    bytes = ps_placement_value_count(placement, p->cut.rank) * sizeof(float);
    p->cut.clock = clock;
    p->cut.left = 0;
    p->cut.status = ps_snapshot_blank(bytes, &p->cut.weights);
    if (rescues && ps_is_ok(&p->cut.status) && ps_plan_can_rescue(session->plan)) {
        p->cut.status = add_ranks(p, clock);
    }
    if (!ps_is_ok(&p->cut.status)) {
        end_cut(p);
        return;
    }
    for (uint32_t t = 0; t < p->cut.count; t++) {
        p->cut.left += ps_server_thread_is_used(p->threads[p->cut.first + t]);
    }
    for (uint32_t t = 0; t < p->cut.count; t++) {
        ps_server_thread *thread = p->threads[p->cut.first + t];

        if (!ps_server_thread_is_used(thread)) {
            continue;
        }
        if (rescues) {
            ps_server_thread_rescue(thread, clock, p->cut.weights.fd, part_saved, p);
        } else {
            ps_server_thread_cut_at(
                thread,
                &(ps_server_cut_order){.clock = clock,
                                       .base = base,
                                       .is_now = stays || !ps_plan_is_in_step(session->plan),
                                       .weights = p->cut.weights.fd,
                                       .done = part_saved,
                                       .arg = p});
        }
    }
    end_cut(p);
}

static void cut(void *state, uint64_t clock, uint64_t base, bool stays)
{
    take(state, clock, base, stays, false, false);
}

static void rescue(void *state, uint64_t clock, bool of_copies)
{
    take(state, clock, 0, true, true, of_copies);
}

/* Streams have been open since prepare, so all contributions may have come before `run` if the job
 * has few steps. Then the server finishes here. */
static void run(void *state)
{
    finish(state);
}

static void release(void *state)
{
    ps_pserver *p = state;

    if (p->reducer != NULL && ps_reducer_is_open(p->reducer)) {
        ps_reducer_close(p->reducer);
        return;
    }
    forget_cut(p);
    for (uint32_t t = 0; p->is_open && t < p->part_count; t++) {
        ps_server_thread_close(p->threads[t]);
    }
    p->is_open = false;
    p->tables = NULL;
    ps_node_released(p->node);
}

/* Writes the tables that were not written yet. A repeated call, after a failure or for another
 * Collect, does not write a table again: a second file of changes would be empty. */
static ps_status save(void *state, const atomic_bool *stop)
{
    ps_pserver *p = state;
    uint32_t count = p->tables != NULL ? p->tables->table_count : 0;
    ps_status st = ps_ok();

    while (p->tables_saved < count && ps_is_ok(&st)) {
        st = ps_server_table_write(ps_node_session(p->node), p->tables, p->tables_saved, stop);
        p->tables_saved += ps_is_ok(&st);
    }
    return st;
}

static void name_tables(ps_pserver *p)
{
    const ps_session *session = ps_node_session(p->node);
    char name[PS_NAME_MAX + 1];

    for (uint32_t t = 0; t < p->tables->table_count; t++) {
        ps_table_file_name(session->plan, t, session->rank, name, sizeof name);
        ps_node_keep(p->node, name, PSGD__V1__ARTIFACT_KIND__ARTIFACT_KIND_MODEL);
    }
}

static size_t tracks(void *state, ps_trace_track **list)
{
    ps_pserver *p = state;

    *list = ps_xcalloc(p->thread_count, sizeof **list);
    for (uint32_t t = 0; p->is_open && t < p->thread_count; t++) {
        (*list)[t] = ps_server_thread_track(p->threads[t]);
    }
    return p->is_open ? p->thread_count : 0;
}

static ps_status collect(void *state)
{
    ps_pserver *p = state;
    const ps_session *session = ps_node_session(p->node);
    size_t bytes = ps_placement_value_count(&session->placement, session->rank) * sizeof(float);
    ps_buf *weights;

    if (session->plan->compute != NULL) {
        ps_node_keep_if_there(p->node, PS_REDUCED_FILE,
                              PSGD__V1__ARTIFACT_KIND__ARTIFACT_KIND_REPORT);
        return ps_ok();
    }
    weights = ps_buf_try_create(bytes);

    if (weights == NULL) {
        return ps_fail(PS_RESOURCE_EXHAUSTED, "no memory for a copy of %zu bytes of weights",
                       bytes);
    }
    for (uint32_t t = 0; t < p->thread_count; t++) {
        ps_server_thread_copy_weights(p->threads[t], (float *)(void *)weights->data);
    }
    weights->len = bytes;
    ps_node_keep_bytes(p->node, "weights.f32", PSGD__V1__ARTIFACT_KIND__ARTIFACT_KIND_MODEL,
                       weights);
    if (ps_plan_table_files(session->plan) > 0) {
        p->tables = ps_server_thread_close_tables(p->threads[0]);
        name_tables(p);
    }
    return ps_ok();
}

/* --- calls on the tables while the job trains ------------------------------------ */

static uint64_t shrink_all(ps_tables *tables)
{
    uint64_t removed = 0;

    for (uint32_t t = 0; t < tables->table_count; t++) {
        removed += ps_table_shrink(ps_tables_at(tables, t));
    }
    return removed;
}

static void shrink_copies(void *arg, ps_tables *tables, uint64_t clock)
{
    (void)arg;
    (void)clock;
    shrink_all(tables);
}

static void shrink_tables(void *arg, ps_tables *tables, uint64_t clock)
{
    uint64_t removed = shrink_all(tables);

    (void)arg;
    ps_log(PS_LOG_INFO, "pserver", "shrink before step %llu: %llu rows removed",
           (unsigned long long)clock + 1, (unsigned long long)removed);
}

/* Saves the tables as they are at the beginning of `clock`. A failure is only logged; the job goes
 * on. */
static void save_tables(void *arg, ps_tables *tables, uint64_t clock)
{
    ps_pserver *p = arg;
    ps_status st = ps_ok();

    for (uint32_t t = 0; t < tables->table_count && ps_is_ok(&st); t++) {
        st = ps_server_table_keep(p->node, tables, t, clock);
    }
    if (ps_is_ok(&st)) {
        ps_log(PS_LOG_INFO, "pserver", "tables saved before step %llu",
               (unsigned long long)clock + 1);
    } else {
        ps_log(PS_LOG_ERROR, "pserver", "tables not saved before step %llu: %s",
               (unsigned long long)clock + 1, st.text);
    }
}

/* Returns the thread with the copies of another server's tables. NULL: there are no copies. */
static ps_server_thread *copies_of(const ps_pserver *p)
{
    return p->part_count > p->thread_count ? p->threads[p->thread_count] : NULL;
}

/* Arranges that the tables shrink at the beginning of `clock`, and the copies of another server's
 * tables too. If one of the two cannot be arranged, neither is. */
static ps_status arrange_shrink(ps_pserver *p, uint64_t clock)
{
    ps_server_thread *copies = copies_of(p);
    ps_status st = ps_server_thread_at_clock(p->threads[0], clock, shrink_tables, p);

    if (ps_is_ok(&st) && copies != NULL) {
        st = ps_server_thread_at_clock(copies, clock, shrink_copies, p);
        if (!ps_is_ok(&st)) {
            ps_status forgotten = ps_server_thread_at_clock(p->threads[0], clock, NULL, NULL);

            (void)forgotten; /* forgetting does not fail */
        }
    }
    return st;
}

/* Cancels the action that is arranged for the beginning of `clock`. */
static ps_status cancel(ps_pserver *p, uint64_t clock)
{
    ps_server_thread *copies = copies_of(p);
    ps_status st = ps_server_thread_at_clock(p->threads[0], clock, NULL, NULL);

    return ps_is_ok(&st) && copies != NULL ? ps_server_thread_at_clock(copies, clock, NULL, NULL)
                                           : st;
}

static ps_status tables(void *state, Psgd__V1__TablesAction action, uint64_t clock)
{
    ps_pserver *p = state;
    bool is_save = action == PSGD__V1__TABLES_ACTION__TABLES_ACTION_SAVE;
    ps_status st;

    if (action == PSGD__V1__TABLES_ACTION__TABLES_ACTION_UNSPECIFIED) {
        return cancel(p, clock);
    }
    if (!is_save && action != PSGD__V1__TABLES_ACTION__TABLES_ACTION_SHRINK) {
        return ps_fail(PS_INVALID_ARGUMENT, "action %d; shrink and save are allowed", (int)action);
    }
    if (is_save && p->saves == SAVES_MAX) {
        return ps_fail(PS_RESOURCE_EXHAUSTED, "the tables were saved %d times; no more are kept",
                       SAVES_MAX);
    }
    /* Only the server's own tables note that they were saved, not the copies of another server's
     * tables: when that server is lost, so are the files of this save. If the copies are used then,
     * their next save also has the changes of the lost saves. */
    st = is_save ? ps_server_thread_at_clock(p->threads[0], clock, save_tables, p)
                 : arrange_shrink(p, clock);
    p->saves += is_save && ps_is_ok(&st);
    return st;
}

static void lose(void *state, uint32_t worker)
{
    ps_pserver *p = state;
    ps_status st = ps_ok();
    bool is_news = false;

    for (uint32_t t = 0; p->is_open && t < p->thread_count && ps_is_ok(&st); t++) {
        st = ps_server_thread_lose(p->threads[t], worker, &is_news);
    }
    if (!is_news) {
        return;
    }
    if (ps_is_ok(&st)) {
        ps_log(PS_LOG_WARN, "pserver", "worker %u is lost, going on without it", worker);
    } else { /* the policy does not survive the loss: the coordinator will end the job */
        ps_log(PS_LOG_WARN, "pserver", "%s", st.text);
    }
}

static size_t missing(void *state, uint32_t **ranks, uint64_t *clock)
{
    ps_pserver *p = state;
    bool *is_missing;
    size_t count = 0;

    if (!p->is_open || ps_node_phase(p->node) != PS_PHASE_RUNNING) {
        return 0;
    }
    *clock = UINT64_MAX;
    is_missing = ps_xcalloc(p->counts.worker_count, sizeof *is_missing);
    for (uint32_t t = 0; t < p->part_count; t++) {
        ps_server_thread_find_missing(p->threads[t], is_missing, clock);
    }
    for (uint32_t w = 0; w < p->counts.worker_count; w++) {
        if (is_missing[w]) {
            p->missing[count++] = w;
        }
    }
    free(is_missing);
    *ranks = p->missing;
    return count;
}

/* Fills in what became of each worker's contributions, and the bins of staleness. Lends p's
 * memory. */
static void fill_shares(ps_pserver *p, Psgd__V1__ServerCounters *out)
{
    for (uint32_t w = 0; w < p->counts.worker_count; w++) {
        const ps_worker_counters *c = &p->counts.workers[w];

        psgd__v1__worker_share__init(&p->shares[w]);
        p->shares[w].applied = c->applied;
        p->shares[w].dropped = c->dropped;
        p->shares[w].left_out = c->left_out;
        p->shares[w].lost = p->counts.is_lost[w];
        p->share_ptrs[w] = &p->shares[w];
    }
    out->staleness_bins = p->counts.store.staleness_bins;
    out->n_staleness_bins = PS_STALENESS_BINS;
    out->workers = p->share_ptrs;
    out->n_workers = p->counts.worker_count;
}

static void counters(void *state, Psgd__V1__ServerCounters *out)
{
    ps_pserver *p = state;
    const ps_server_counts *c = &p->counts;
    ps_counts counts;

    if (!p->is_open) {
        return;
    }
    count(p);
    counts = ps_counted_by_store(&c->store, &c->rows);
    counts.v[PS_COUNT_BYTES_UP] = (double)c->traffic.bytes_in;
    counts.v[PS_COUNT_BYTES_DOWN] = (double)c->traffic.bytes_out;
    counts.v[PS_COUNT_MESSAGES_UP] = (double)c->traffic.messages_in;
    counts.v[PS_COUNT_MESSAGES_DOWN] = (double)c->traffic.messages_out;
    counts.v[PS_COUNT_BYTES_THROUGH_MEMORY] = (double)c->traffic.bytes_through_memory;
    counts.v[PS_COUNT_PULLS_WAITED] = (double)c->waits;
    counts.v[PS_COUNT_VERSION] = c->clock != UINT64_MAX ? (double)c->clock : 0;
    counts.v[PS_COUNT_OPEN] = (double)c->open;
    counts.v[PS_COUNT_CONNECTIONS_REFUSED] = (double)ps_accept_refused();
    counts.v[PS_COUNT_CONNECTIONS_CLOSED] = (double)ps_guard_closed();
    ps_counts_put(&counts, PS_OF_SERVER, &out->base);
    fill_shares(p, out);
}

const ps_role_hooks ps_pserver_hooks = {
    .role = PSGD__V1__NODE_ROLE__NODE_ROLE_PSERVER,
    .service = "psgd-pserver",
    .prepare = prepare,
    .run = run,
    .release = release,
    .collect = collect,
    .save = save,
    .lose = lose,
    .tables = tables,
    .cut = cut,
    .rescue = rescue,
    .missing = missing,
    .tracks = tracks,
    .counters = counters,
};
