/* SPDX-License-Identifier: Apache-2.0 */
/* node_probe.c - see node_probe.h. */
#include "services/coordinator/node_probe.h"

#include "common/base/linked.h"
#include "common/base/log.h"
#include "common/base/xalloc.h"
#include "common/rpc/client.h"
#include "services/coordinator/coordinator.h"

#include "psgd/v1/node.pb-c.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PROBES_MAX = 16, /* most calls in progress */
    PROBE_US = 2000000
};

struct ps_probe {
    ps_coordinator *c;
    char node_id[PS_NODES_ID_MAX];
    uint64_t incarnation;
    ps_channel *channel;
    ps_unary *call;
    ps_probe *prev, *next;
};

static void on_status(void *arg, const ps_error *error, const ProtobufCMessage *reply)
{
    const Psgd__V1__GetStatusResponse *r = (const void *)reply;
    ps_probe *probe = arg;
    ps_coordinator *c = probe->c;
    ps_node_entry *node = ps_nodes_find(&c->nodes, probe->node_id);

    if (ps_is_ok(&error->status) && node && node->incarnation == probe->incarnation && r->node &&
        strcmp(r->node->id, probe->node_id) == 0 && node->is_suspect) {
        ps_log_with(PS_LOG_INFO, "nodes", PS_LOG_FIELDS(PS_LOG_STR("node", node->id)),
                    "answers again");
        ps_node_trust(node);
        ps_coordinator_schedule(c);
    }
    PS_UNLINK(c->probes, probe);
    ps_channel_destroy(probe->channel);
    free(probe);
}

static void start(ps_coordinator *c, const ps_node_entry *node)
{
    Psgd__V1__GetStatusRequest q = PSGD__V1__GET_STATUS_REQUEST__INIT;
    ps_probe *probe = ps_xcalloc(1, sizeof *probe);

    probe->c = c;
    snprintf(probe->node_id, sizeof probe->node_id, "%s", node->id);
    probe->incarnation = node->incarnation;
    PS_LINK_FIRST(c->probes, probe);
    probe->channel = ps_channel_create(c->loop, node->address);
    ps_channel_expect(probe->channel, PS_PRINCIPAL_NODE, node->id);
    probe->call = ps_unary_start(probe->channel, &psgd__v1__node_service__descriptor, "GetStatus",
                                 &q.base, PROBE_US, on_status, probe);
}

static bool is_under_way(const ps_coordinator *c, const char *node_id, size_t *count)
{
    bool is_it = false;

    *count = 0;
    for (const ps_probe *probe = c->probes; probe; probe = probe->next) {
        ++*count;
        is_it = is_it || strcmp(probe->node_id, node_id) == 0;
    }
    return is_it;
}

void ps_probe_nodes(ps_coordinator *c)
{
    int64_t now_us = ps_coordinator_now_us(c);
    size_t first = c->probed, count = 0;

    /* Begins after the node that was probed last, so that each node gets its turn. */
    for (size_t i = 0; i < c->nodes.count && count < PROBES_MAX; i++) {
        size_t at = (first + i) % c->nodes.count;
        const ps_node_entry *node = c->nodes.entries[at];

        if (node->is_suspect && ps_node_is_alive(&c->nodes, node, now_us) &&
            !is_under_way(c, node->id, &count) && count < PROBES_MAX) {
            start(c, node);
            c->probed = at + 1;
        }
    }
}

void ps_probes_end(ps_coordinator *c)
{
    for (ps_probe *probe = c->probes; probe; probe = probe->next) {
        ps_unary_cancel(probe->call);
    }
}
