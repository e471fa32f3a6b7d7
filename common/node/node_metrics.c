/* SPDX-License-Identifier: Apache-2.0 */
/* node_metrics.c - what /metrics and /readyz of a node say. */
#include "common/base/xalloc.h"
#include "common/job/counts.h"
#include "common/node/node_impl.h"
#include "common/ops/metrics.h"
#include "common/train/gate.h"

#include <stdio.h>
#include <stdlib.h>

enum { RANK_BYTES = 12 };

static void add_node(ps_node *node, ps_strbuf *out)
{
    const ps_agent *shown = ps_node_shown(node);
    Psgd__V1__DiskInfo disk;

    ps_metrics_begin(out, "psgd_node_info", "gauge", "name and role of the node; always 1");
    ps_metrics_add(out, "psgd_node_info",
                   PS_LABELS({"node", node->node_id}, {"role", node->hooks->service + 5}), 1);
    ps_metrics_one(out, "psgd_node_registered", "gauge", "1 if the coordinator knows the node",
                   node->home != NULL && ps_link_is_registered(node->home));
    ps_metrics_begin(out, "psgd_node_phase", "gauge", "1 for the phase that the node is in");
    for (int phase = PS_PHASE_IDLE; phase <= PS_PHASE_FAILED; phase++) {
        ps_metrics_add(out, "psgd_node_phase", PS_LABELS({"phase", ps_phase_name((ps_phase)phase)}),
                       shown->phase == (ps_phase)phase);
    }
    ps_node_disk_tell(node, &disk);
    if (disk.free_bytes != UINT64_MAX) {
        ps_metrics_one(out, "psgd_node_disk_free_bytes", "gauge",
                       "free space on the disk of --data-dir", (double)disk.free_bytes);
    }
}

/* Adds the counters of the ranks that a worker carries. */
static void add_ranks(const ps_node *node, ps_strbuf *out)
{
    Psgd__V1__WorkerProgress **list = NULL;
    size_t n = node->hooks->progress(node->state, &list);
    ps_counts *counts = ps_xcalloc(n + 1, sizeof *counts);
    ps_metrics_of *of = ps_xcalloc(n + 1, sizeof *of);
    ps_label(*labels)[3] = ps_xcalloc(n + 1, sizeof *labels);
    char(*ranks)[RANK_BYTES] = ps_xcalloc(n + 1, sizeof *ranks);

    for (size_t i = 0; i < n; i++) {
        counts[i] = ps_counts_get(&list[i]->base, PS_OF_WORKER);
        snprintf(ranks[i], sizeof ranks[i], "%u", list[i]->rank);
        labels[i][0] = (ps_label){"job_id", node->session->job_id};
        labels[i][1] = (ps_label){"rank", ranks[i]};
        of[i] = (ps_metrics_of){&counts[i], labels[i]};
    }
    ps_metrics_counts(out, PS_OF_WORKER, of, n);
    free(ranks);
    free(labels);
    free(of);
    free(counts);
}

/* Adds a histogram of the staleness of applied contributions. Bin b of the counters has those with
 * a staleness below 2^b that are in no earlier bin, the last bin all others. The buckets sum them
 * up: bucket b is all up to 2^b - 1. */
static void add_staleness(ps_strbuf *out, const ps_session *session, const char *rank,
                          const Psgd__V1__ServerCounters *counters)
{
    static const char name[] = "psgd_server_staleness_clocks";
    const ps_label job = {"job_id", session->job_id}, server = {"rank", rank};
    uint64_t sum = 0;
    char line[64];

    ps_metrics_begin(out, name, "histogram",
                     "clocks by which applied contributions were behind the weights");
    for (size_t bin = 0; bin < counters->n_staleness_bins; bin++) {
        char edge[24] = "+Inf";

        sum += counters->staleness_bins[bin];
        if (bin + 1 < counters->n_staleness_bins) {
            snprintf(edge, sizeof edge, "%.0f", (double)(1ULL << bin) - 1);
        }
        snprintf(line, sizeof line, "%s_bucket", name);
        ps_metrics_add(out, line, PS_LABELS(job, server, {"le", edge}), (double)sum);
    }
    snprintf(line, sizeof line, "%s_sum", name);
    ps_metrics_add(out, line, PS_LABELS(job, server), (double)counters->staleness_sum);
    snprintf(line, sizeof line, "%s_count", name);
    ps_metrics_add(out, line, PS_LABELS(job, server), (double)sum);
}

static void add_server(const ps_node *node, ps_strbuf *out)
{
    Psgd__V1__ServerCounters counters = PSGD__V1__SERVER_COUNTERS__INIT;
    char rank[RANK_BYTES];
    ps_counts counts;

    node->hooks->counters(node->state, &counters);
    counts = ps_counts_get(&counters.base, PS_OF_SERVER);
    snprintf(rank, sizeof rank, "%u", node->session->rank);
    ps_metrics_counts(
        out, PS_OF_SERVER,
        &(ps_metrics_of){&counts, PS_LABELS({"job_id", node->session->job_id}, {"rank", rank})}, 1);
    if (counters.n_staleness_bins > 0) {
        add_staleness(out, node->session, rank, &counters);
    }
}

static void write_metrics(void *state, ps_strbuf *out)
{
    ps_node *node = state;

    add_node(node, out);
    if (node->hooks->progress != NULL) { /* only workers have this hook */
        ps_metrics_begin(out, "psgd_worker_wait_seconds", "histogram",
                         "single waits of training for weights or acknowledgements");
        ps_metrics_histogram(out, "psgd_worker_wait_seconds", NULL, ps_gate_waits());
    }
    if (node->session == NULL || node->is_releasing) {
        return;
    }
    if (node->hooks->progress != NULL) {
        add_ranks(node, out);
    }
    if (node->hooks->counters != NULL) {
        add_server(node, out);
    }
}

static ps_status is_ready(void *state)
{
    ps_node *node = state;
    Psgd__V1__DiskInfo disk;

    ps_node_disk_tell(node, &disk);
    if (node->is_stopping) {
        return ps_fail(PS_UNAVAILABLE, "the node is being stopped");
    }
    if (node->home == NULL || !ps_link_is_registered(node->home)) {
        return ps_fail(PS_UNAVAILABLE, "no coordinator has registered the node");
    }
    if (disk.is_low) {
        return ps_fail(PS_UNAVAILABLE, "the disk of --data-dir is nearly full (--min-free)");
    }
    return ps_ok();
}

ps_status ps_node_start_ops(ps_node *node, const char *listen)
{
    ps_ops_source source = {.state = node, .metrics = write_metrics, .ready = is_ready};

    return listen != NULL && listen[0] != '\0'
               ? ps_ops_start(node->loop, listen, node->hooks->service, &source, &node->ops)
               : ps_ok();
}
