/* SPDX-License-Identifier: Apache-2.0 */
/* pserver.c - see pserver.h. The store exists from prepare to release. A server
 * has finished when the contributions of all steps are in; it goes on serving
 * pulls, and is collected from whether it has finished or not. From then on its
 * tables are the helper's, which writes them. */
#include "services/pserver/pserver.h"

#include "common/base/files.h"
#include "common/base/log.h"
#include "common/base/xalloc.h"
#include "common/job/counts.h"
#include "common/job/table_numbers.h"
#include "common/train/counted.h"
#include "common/train/merge.h"
#include "common/wire/wire_link_grpc.h"
#include "common/wire/wire_server.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ps_pserver {
    ps_node *node;
    ps_wire_server *wire;
    ps_wire_parts parts;   /* one */
    ps_store *store;       /* its; NULL: idle */
    ps_tables *tables;     /* its; NULL: the job has none */
    uint32_t tables_saved; /* of them that are files; the helper's */
    bool is_complete;      /* all contributions of the session are in */
    /* what counters() lends to an answer */
    uint64_t bins[PS_STALENESS_BINS];
    Psgd__V1__WorkerShare *shares, **share_ptrs; /* (worker_count) */
};

static void complete(void *arg)
{
    ps_pserver *p = arg;
    ps_status result = ps_ok();

    p->is_complete = true;
    if (ps_node_phase(p->node) == PS_PHASE_RUNNING) {
        ps_node_finished(p->node, &result);
    }
}

ps_pserver *ps_pserver_create(ps_loop *loop, uint64_t drop_ack)
{
    ps_pserver *p = ps_xcalloc(1, sizeof *p);

    p->wire = ps_wire_server_create(loop, drop_ack, complete, p);
    return p;
}

void ps_pserver_destroy(ps_pserver *p)
{
    if (p != NULL) {
        ps_wire_server_destroy(p->wire);
        free(p->shares);
        free(p->share_ptrs);
        free(p);
    }
}

ps_service ps_pserver_service(ps_pserver *p)
{
    return ps_grpc_wire_service(p->wire);
}

void ps_pserver_set_node(ps_pserver *p, ps_node *node)
{
    p->node = node;
}

void ps_pserver_init_parts(ps_wire_parts *parts, ps_session *session)
{
    ps_tables *tables = session->tables;

    if (tables == NULL && session->plan->table_count > 0) {
        tables = ps_merge_tables(session->plan, &session->placement, session->rank);
    }
    session->tables = NULL;
    ps_wire_parts_init(parts, session->plan, &session->placement, session->rank, session->weights,
                       tables);
}

static ps_status prepare(void *state, ps_session *session)
{
    ps_pserver *p = state;
    ps_wire_attempt attempt = ps_session_attempt(session);

    p->is_complete = false;
    p->tables_saved = 0;
    ps_pserver_init_parts(&p->parts, session);
    p->store = p->parts.part[0].store;
    p->tables = ps_store_tables(p->store);
    free(p->shares);
    free(p->share_ptrs);
    p->shares = ps_xcalloc(session->placement.rank_count, sizeof *p->shares);
    p->share_ptrs = ps_xcalloc(session->placement.rank_count, sizeof *p->share_ptrs);
    ps_wire_server_open(p->wire, session->plan, &session->placement, &attempt, session->rank,
                        &p->parts);
    return ps_ok();
}

/* Workers may have come already, and even have gone: the streams are open since
 * prepare. */
static void run(void *state)
{
    ps_pserver *p = state;

    if (p->is_complete) {
        complete(p);
    }
}

static void release(void *state)
{
    ps_pserver *p = state;

    ps_wire_server_close(p->wire, "the attempt is over");
    ps_wire_parts_fini(&p->parts);
    p->store = NULL;
    p->tables = NULL;
    ps_node_released(p->node);
}

typedef struct table_writer {
    FILE *out;
    const atomic_bool *stop;
} table_writer;

static ps_status write_piece(void *arg, const void *bytes, size_t len)
{
    table_writer *w = arg;

    if (atomic_load(w->stop)) {
        return ps_fail(PS_ABORTED, "the attempt is over");
    }
    return fwrite(bytes, 1, len, w->out) == len ? ps_ok() : ps_fail_errno(errno, "write");
}

/* What this server has of a table, as a file of the attempt: there need not be memory for it. */
static ps_status write_table(ps_pserver *p, uint32_t table, const atomic_bool *stop)
{
    const ps_session *session = ps_node_session(p->node);
    char name[PS_NAME_MAX + 1], path[sizeof session->folder + sizeof name];
    table_writer writer = {.stop = stop};
    ps_status st;

    ps_table_file_name(session->plan, table, session->rank, name, sizeof name);
    st = ps_path_join(path, sizeof path, session->folder, name);
    if (!ps_is_ok(&st)) {
        return st;
    }
    writer.out = fopen(path, "wbe");
    if (writer.out == NULL) {
        return ps_fail_errno(errno, "%s", name);
    }
    st = ps_table_save(ps_tables_at(p->tables, table), ps_merge_table_kind(session->plan),
                       write_piece, &writer);
    if (fclose(writer.out) != 0 && ps_is_ok(&st)) {
        st = ps_fail_errno(errno, "write");
    }
    return ps_wrap(st, "%s", name);
}

/* Each once: of changes there would be none the second time. */
static ps_status save(void *state, const atomic_bool *stop)
{
    ps_pserver *p = state;
    uint32_t count = p->tables != NULL ? p->tables->table_count : 0;
    ps_status st = ps_ok();

    while (p->tables_saved < count && ps_is_ok(&st)) {
        st = write_table(p, p->tables_saved, stop);
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

static ps_status collect(void *state)
{
    ps_pserver *p = state;
    size_t bytes = ps_store_value_count(p->store) * sizeof(float);
    ps_buf *weights = ps_buf_try_create(bytes);

    if (weights == NULL) {
        return ps_fail(PS_RESOURCE_EXHAUSTED, "no memory for a copy of %zu bytes of weights",
                       bytes);
    }
    memcpy(weights->data, ps_store_weights(p->store), bytes);
    weights->len = bytes;
    ps_node_keep_bytes(p->node, "weights.f32", PSGD__V1__ARTIFACT_KIND__ARTIFACT_KIND_MODEL,
                       weights);
    if (p->tables != NULL) {
        ps_wire_server_close_tables(p->wire);
        name_tables(p);
    }
    return ps_ok();
}

static void lose(void *state, uint32_t worker)
{
    ps_pserver *p = state;
    ps_status st;

    if (p->store == NULL || ps_store_is_lost(p->store, worker)) {
        return;
    }
    st = ps_wire_server_lose(p->wire, worker);
    if (ps_is_ok(&st)) {
        ps_log(PS_LOG_WARN, "pserver", "worker %u is lost, going on without it", worker);
    } else { /* the job ends, the coordinator says so next */
        ps_log(PS_LOG_WARN, "pserver", "%s", st.text);
    }
}

/* What each worker brought, and how stale it was. */
static void fill_shares(ps_pserver *p, Psgd__V1__ServerCounters *out)
{
    uint32_t count = ps_node_session(p->node)->placement.rank_count;

    memcpy(p->bins, ps_store_counters_of(p->store)->staleness_bins, sizeof p->bins);
    for (uint32_t w = 0; w < count; w++) {
        const ps_worker_counters *c = ps_store_worker_counters_of(p->store, w);

        psgd__v1__worker_share__init(&p->shares[w]);
        p->shares[w].applied = c->applied;
        p->shares[w].dropped = c->dropped;
        p->shares[w].left_out = c->left_out;
        p->shares[w].lost = ps_store_is_lost(p->store, w);
        p->share_ptrs[w] = &p->shares[w];
    }
    out->staleness_bins = p->bins;
    out->n_staleness_bins = PS_STALENESS_BINS;
    out->workers = p->share_ptrs;
    out->n_workers = count;
}

static void counters(void *state, Psgd__V1__ServerCounters *out)
{
    ps_pserver *p = state;
    ps_counts counts;
    ps_traffic traffic;

    if (p->store == NULL) {
        return;
    }
    traffic = ps_wire_server_traffic(p->wire);
    counts = ps_counted_by_store(ps_store_counters_of(p->store));
    counts.v[PS_COUNT_BYTES_UP] = (double)traffic.bytes_in;
    counts.v[PS_COUNT_BYTES_DOWN] = (double)traffic.bytes_out;
    counts.v[PS_COUNT_MESSAGES_UP] = (double)traffic.messages_in;
    counts.v[PS_COUNT_MESSAGES_DOWN] = (double)traffic.messages_out;
    counts.v[PS_COUNT_PULLS_WAITED] = (double)ps_wire_server_waits(p->wire);
    counts.v[PS_COUNT_VERSION] =
        ps_store_value_count(p->store) > 0 ? (double)ps_store_clock(p->store) : 0;
    counts.v[PS_COUNT_OPEN] = (double)ps_store_open(p->store);
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
    .counters = counters,
};
