/* SPDX-License-Identifier: Apache-2.0 */
/* known_nodes.c - the nodes that have registered, and their leases. */
#include "services/coordinator/domain/known_nodes.h"

#include "common/base/address.h"
#include "common/base/plain_name.h"
#include "common/base/shorten.h"
#include "common/base/xalloc.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MISSED_MAX = 3 /* a node that has missed so many heartbeats in a row is not chosen */ };

static const int64_t forget_us = 3600 * INT64_C(1000000);
/* how long ps_node_set_full, and ps_node_set_short, count */
static const int64_t full_us = 10 * INT64_C(1000000), short_us = 60 * INT64_C(1000000);

void ps_nodes_init(ps_nodes *nodes, int64_t heartbeat_us, int64_t lease_us)
{
    *nodes = (ps_nodes){.heartbeat_us = heartbeat_us, .lease_us = lease_us};
}

void ps_nodes_fini(ps_nodes *nodes)
{
    for (size_t i = 0; i < nodes->count; i++) {
        free(nodes->entries[i]);
    }
    free(nodes->entries);
    *nodes = (ps_nodes){0};
}

const char *ps_role_name(Psgd__V1__NodeRole role)
{
    return role == PSGD__V1__NODE_ROLE__NODE_ROLE_WORKER ? "worker" : "pserver";
}

/* Returns the index of `id` in the sorted list, or the index where it belongs. */
static size_t place_of(const ps_nodes *nodes, const char *id)
{
    size_t low = 0, high = nodes->count;

    while (low < high) {
        size_t mid = low + (high - low) / 2;

        if (strcmp(nodes->entries[mid]->id, id) < 0) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return low;
}

ps_node_entry *ps_nodes_find(const ps_nodes *nodes, const char *id)
{
    size_t at = place_of(nodes, id);

    return at < nodes->count && strcmp(nodes->entries[at]->id, id) == 0 ? nodes->entries[at] : NULL;
}

ps_node_entry *ps_nodes_find_address(const ps_nodes *nodes, const char *address, int64_t now_us)
{
    for (size_t i = 0; i < nodes->count; i++) {
        if (strcmp(nodes->entries[i]->address, address) == 0 &&
            ps_node_is_alive(nodes, nodes->entries[i], now_us)) {
            return nodes->entries[i];
        }
    }
    return NULL;
}

/* Returns the length of the major and minor version at the beginning of `version`, such as that of
 * "0.1" in "0.1.4". Both must be the same in node and coordinator. If there is no second dot,
 * returns the length of the whole text. */
static size_t minor_length(const char *version)
{
    size_t major = strcspn(version, ".");

    return version[major] == '\0' ? major : major + 1 + strcspn(version + major + 1, ".");
}

/* Refuses a node of another minor version, whose protocol may be another one. A node that names no
 * version is a program of others, and is accepted. */
static ps_status check_version(const Psgd__V1__RegisterNodeRequest *req)
{
    size_t n = minor_length(req->version);

    if (req->version[0] == '\0' ||
        (n == minor_length(PS_VERSION) && strncmp(req->version, PS_VERSION, n) == 0)) {
        return ps_ok();
    }
    return ps_fail(PS_FAILED_PRECONDITION,
                   "version: node %s is psgd %s, the coordinator is psgd %s; both need the same "
                   "minor version, %.*s",
                   req->node_id, PS_SHORT(req->version, 30), PS_VERSION,
                   (int)minor_length(PS_VERSION), PS_VERSION);
}

static ps_status check(const Psgd__V1__RegisterNodeRequest *req)
{
    ps_address address;
    ps_status st;

    if (!ps_plain_name_is_valid(req->node_id, PS_PLAIN_NAME_NODE)) {
        return ps_fail(PS_INVALID_ARGUMENT, "node_id: 1 to 64 of A-Z a-z 0-9 . _ -");
    }
    if (req->role != PSGD__V1__NODE_ROLE__NODE_ROLE_WORKER &&
        req->role != PSGD__V1__NODE_ROLE__NODE_ROLE_PSERVER) {
        return ps_fail(PS_INVALID_ARGUMENT, "role: WORKER or PSERVER, not %d", (int)req->role);
    }
    if (req->incarnation == 0) {
        return ps_fail(PS_INVALID_ARGUMENT, "incarnation: not 0");
    }
    if (strlen(req->address) >= PS_NODES_ADDRESS_MAX) {
        return ps_fail(PS_INVALID_ARGUMENT, "address: at most %d bytes", PS_NODES_ADDRESS_MAX - 1);
    }
    st = ps_address_parse(req->address, "", 0, &address);
    if (ps_is_ok(&st) && (address.host[0] == '\0' || address.port == 0)) {
        st = ps_fail(PS_INVALID_ARGUMENT, "host and port are wanted");
    }
    st = ps_wrap(st, "address");
    return ps_is_ok(&st) ? check_version(req) : st;
}

/* Returns whether the entry may be dropped for another node: no job holds the node, and either it
 * is not alive, or it registered more than two heartbeat intervals ago and has sent no heartbeat
 * since. */
static bool gives_way(const ps_nodes *nodes, const ps_node_entry *node, int64_t now_us)
{
    return node->holder[0] == '\0' &&
           (!ps_node_is_alive(nodes, node, now_us) ||
            (!node->has_beaten && now_us - node->seen_us > 2 * nodes->heartbeat_us));
}

static void drop(ps_nodes *nodes, size_t at)
{
    free(nodes->entries[at]);
    nodes->count--;
    memmove(&nodes->entries[at], &nodes->entries[at + 1],
            (nodes->count - at) * sizeof(ps_node_entry *));
}

/* Makes room for one more node of `host`. If the host's share is full, drops an entry of this host;
 * else, if the list is full, an entry of any host: of those that gives_way allows, the one that was
 * silent longest. Fails if no entry may be dropped. */
static ps_status make_room(ps_nodes *nodes, const char *host, int64_t now_us)
{
    size_t of_host = 0, oldest = nodes->count;
    bool is_host_full;

    for (size_t i = 0; i < nodes->count; i++) {
        of_host += strcmp(nodes->entries[i]->host, host) == 0;
    }
    is_host_full = of_host >= PS_NODES_OF_HOST_MAX;
    if (!is_host_full && nodes->count < PS_NODES_MAX) {
        return ps_ok();
    }
    for (size_t i = 0; i < nodes->count; i++) {
        const ps_node_entry *node = nodes->entries[i];

        if ((!is_host_full || strcmp(node->host, host) == 0) && gives_way(nodes, node, now_us) &&
            (oldest == nodes->count || node->seen_us < nodes->entries[oldest]->seen_us)) {
            oldest = i;
        }
    }
    if (oldest < nodes->count) {
        drop(nodes, oldest);
        return ps_ok();
    }
    return is_host_full ? ps_fail(PS_RESOURCE_EXHAUSTED,
                                  "%zu nodes of host %s are known already; %d are allowed", of_host,
                                  host, PS_NODES_OF_HOST_MAX)
                        : ps_fail(PS_RESOURCE_EXHAUSTED,
                                  "%d nodes are known already; no more are allowed", PS_NODES_MAX);
}

static void insert(ps_nodes *nodes, const char *id, ps_node_entry **out)
{
    size_t at = place_of(nodes, id);

    if (nodes->count == nodes->cap) {
        nodes->cap = nodes->cap ? nodes->cap * 2 : 16;
        nodes->entries = ps_xrealloc(nodes->entries, nodes->cap * sizeof(ps_node_entry *));
    }
    memmove(&nodes->entries[at + 1], &nodes->entries[at],
            (nodes->count - at) * sizeof(ps_node_entry *));
    nodes->count++;
    *out = nodes->entries[at] = ps_xcalloc(1, sizeof **out);
    snprintf((*out)->id, sizeof(*out)->id, "%s", id);
}

/* Refuses a second process with the id of a node that is alive, as the two would replace each other
 * for ever. Refuses a process that was started before the known one, while that one is alive: its
 * registration is late. Accepts a restarted node: at once if it has the old address or the old
 * process has left, else when the old process has missed two heartbeats. */
static ps_status check_twin(const ps_nodes *nodes, const ps_node_entry *node,
                            const Psgd__V1__RegisterNodeRequest *req, int64_t now_us)
{
    bool is_older = req->incarnation < node->incarnation && ps_node_is_alive(nodes, node, now_us);
    bool is_twin = req->incarnation != node->incarnation &&
                   strcmp(req->address, node->address) != 0 &&
                   ps_node_missed(nodes, node, now_us) < 2;

    if (node->has_left || (!is_older && !is_twin)) {
        return ps_ok();
    }
    return ps_fail(PS_FAILED_PRECONDITION, "%s has the node id %s%s; --node-id gives another",
                   node->address, PS_SHORT(req->node_id, 64),
                   is_older ? " and was started later" : " and lives");
}

ps_status ps_nodes_register(ps_nodes *nodes, const Psgd__V1__RegisterNodeRequest *req,
                            const char *host, int64_t now_us, int64_t wall_us, ps_node_entry **out,
                            bool *is_new)
{
    ps_status st = check(req);
    ps_node_entry *node;

    if (!ps_is_ok(&st)) {
        return st;
    }
    node = ps_nodes_find(nodes, req->node_id);
    st = node ? check_twin(nodes, node, req, now_us) : make_room(nodes, host, now_us);
    if (!ps_is_ok(&st)) {
        return st;
    }
    if (!node) {
        insert(nodes, req->node_id, &node);
    }
    *is_new = node->incarnation != req->incarnation;
    if (*is_new) {
        ps_node_mark_idle(node);
        ps_node_trust(node);
        node->has_beaten = false;
        node->is_stopping = false;
    }
    node->has_left = false;
    node->incarnation = req->incarnation;
    node->role = req->role;
    snprintf(node->host, sizeof node->host, "%s", host);
    snprintf(node->address, sizeof node->address, "%s", req->address);
    snprintf(node->version, sizeof node->version, "%.31s", req->version);
    snprintf(node->kernels, sizeof node->kernels, "%.159s", req->kernels);
    node->threads = req->threads;
    snprintf(node->loop, sizeof node->loop, "%s", req->loop);
    node->links = req->links;
    node->seen_us = now_us;
    node->seen_wall_us = wall_us;
    *out = node;
    return ps_ok();
}

/* Stores how much processor, memory and network the node reports to use. Discards a report in which
 * a share or rate is negative or not finite. */
static void note_load(ps_node_entry *node, const Psgd__V1__NodeLoad *load)
{
    node->has_load = load && load->cpu >= 0 && isfinite(load->cpu) &&
                     load->received_bytes_per_second >= 0 &&
                     isfinite(load->received_bytes_per_second) &&
                     load->sent_bytes_per_second >= 0 && isfinite(load->sent_bytes_per_second);
    if (node->has_load) {
        psgd__v1__node_load__init(&node->load);
        node->load.cpu = load->cpu;
        node->load.processors = load->processors;
        node->load.memory_bytes = load->memory_bytes;
        node->load.host_memory_bytes = load->host_memory_bytes;
        node->load.received_bytes_per_second = load->received_bytes_per_second;
        node->load.sent_bytes_per_second = load->sent_bytes_per_second;
    }
}

ps_status ps_nodes_beat(ps_nodes *nodes, const Psgd__V1__HeartbeatRequest *req, int64_t now_us,
                        int64_t wall_us, ps_node_entry **out)
{
    ps_node_entry *node = ps_nodes_find(nodes, req->node_id);

    if (!node || node->incarnation != req->incarnation) {
        return ps_fail(PS_NOT_FOUND, "node %s has to register", PS_SHORT(req->node_id, 64));
    }
    if (strlen(req->job_id) >= sizeof node->job_id) {
        return ps_fail(PS_INVALID_ARGUMENT, "job_id is too long");
    }
    node->seen_us = now_us;
    node->seen_wall_us = wall_us;
    node->has_beaten = true;
    node->has_left = req->leaving;
    node->is_stopping |= req->wants_checkpoint;
    node->phase = req->phase;
    snprintf(node->job_id, sizeof node->job_id, "%s", req->job_id);
    node->attempt = req->attempt;
    node->has_disk = req->disk != NULL;
    if (req->disk != NULL) {
        node->disk_free_bytes = req->disk->free_bytes;
        node->disk_needed_bytes = req->disk->needed_bytes;
        node->is_disk_low = req->disk->is_low;
    }
    note_load(node, req->load);
    *out = node;
    return ps_ok();
}

bool ps_node_is_alive(const ps_nodes *nodes, const ps_node_entry *node, int64_t now_us)
{
    return !node->has_left && now_us - node->seen_us < nodes->lease_us;
}

void ps_nodes_expel(const ps_nodes *nodes, ps_node_entry *node, int64_t now_us)
{
    node->seen_us = now_us - nodes->lease_us;
}

unsigned ps_node_missed(const ps_nodes *nodes, const ps_node_entry *node, int64_t now_us)
{
    int64_t late_us = now_us - node->seen_us - nodes->heartbeat_us / 2;

    return late_us < nodes->heartbeat_us ? 0 : (unsigned)(late_us / nodes->heartbeat_us);
}

bool ps_node_is_idle(const ps_node_entry *node)
{
    return node->holder[0] == '\0' && node->job_id[0] == '\0' &&
           node->phase == PSGD__V1__NODE_PHASE__NODE_PHASE_IDLE;
}

bool ps_node_may_be_chosen(const ps_nodes *nodes, const ps_node_entry *node, int64_t now_us)
{
    return ps_node_is_idle(node) && !node->is_suspect && !node->is_stopping &&
           !ps_node_lacks_room(node, now_us) && ps_node_is_alive(nodes, node, now_us) &&
           ps_node_missed(nodes, node, now_us) < MISSED_MAX;
}

void ps_node_set_full(ps_node_entry *node, int64_t now_us)
{
    node->full_until_us = now_us + full_us;
}

bool ps_node_lacks_room(const ps_node_entry *node, int64_t now_us)
{
    return node->is_disk_low || now_us < node->full_until_us;
}

void ps_node_set_short(ps_node_entry *node, int64_t now_us)
{
    node->short_until_us = now_us + short_us;
}

bool ps_node_is_short(const ps_node_entry *node, int64_t now_us)
{
    return now_us < node->short_until_us;
}

void ps_node_suspect(ps_node_entry *node)
{
    node->is_suspect = true;
}

void ps_node_trust(ps_node_entry *node)
{
    node->is_suspect = false;
}

void ps_node_mark_idle(ps_node_entry *node)
{
    node->phase = PSGD__V1__NODE_PHASE__NODE_PHASE_IDLE;
    node->job_id[0] = '\0';
    node->attempt = 0;
}

void ps_nodes_forget(ps_nodes *nodes, int64_t now_us)
{
    size_t kept = 0;

    for (size_t i = 0; i < nodes->count; i++) {
        ps_node_entry *node = nodes->entries[i];

        if (node->holder[0] == '\0' &&
            now_us - node->seen_us > (node->has_beaten ? forget_us : nodes->lease_us)) {
            free(node);
        } else {
            nodes->entries[kept++] = node;
        }
    }
    nodes->count = kept;
}
