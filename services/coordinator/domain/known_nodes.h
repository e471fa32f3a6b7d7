/* SPDX-License-Identifier: Apache-2.0 */
/* known_nodes.h - the nodes that have presented themselves, and their leases.
 *
 * Pure; times are monotonic microseconds, wall_us is for people. A node is
 * known until it has been silent for an hour; after a restart of the
 * coordinator nodes register again by themselves.
 */
#ifndef PS_COORDINATOR_KNOWN_NODES_H
#define PS_COORDINATOR_KNOWN_NODES_H

#include "common/base/status.h"

#include "psgd/v1/coordinator.pb-c.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PS_NODES_MAX = 4096,
    PS_NODES_OF_HOST_MAX = 2048, /* registered from one host */
    PS_NODES_ID_MAX = 80,
    PS_NODES_ADDRESS_MAX = 160,
    PS_NODES_HOST_MAX = 64
};

typedef struct ps_node_entry {
    char id[PS_NODES_ID_MAX];
    Psgd__V1__NodeRole role;
    char address[PS_NODES_ADDRESS_MAX];
    char version[32];
    char kernels[160];
    uint32_t threads; /* of a parameter server; 0: not said */
    uint64_t incarnation;
    char host[PS_NODES_HOST_MAX]; /* the host that registered it */
    bool has_left;                /* has said so, and not registered since */
    bool has_beaten;              /* has sent a heartbeat since it registered */

    /* As its last heartbeat says. */
    Psgd__V1__NodePhase phase;
    char job_id[96]; /* "" when idle */
    uint32_t attempt;
    int64_t seen_us, seen_wall_us;

    /* The coordinator's: the job it was given to; "" for none. It counts as
     * idle when it says so and no job has it. */
    char holder[96];

    bool is_suspect; /* it did not answer a call: chosen again when it has */
    /* Its disk was full when a job was to begin: not chosen before that time, and not while it says
     * itself that its disk is low. */
    int64_t full_until_us;
    bool has_disk; /* it has said how much room there is: */
    uint64_t disk_free_bytes, disk_needed_bytes;
    bool is_disk_low;
} ps_node_entry;

typedef struct ps_nodes {
    ps_node_entry **entries; /* by id; a pointer stays valid until the entry is forgotten */
    size_t count, cap;
    int64_t heartbeat_us, lease_us;
} ps_nodes;

void ps_nodes_init(ps_nodes *nodes, int64_t heartbeat_us, int64_t lease_us);
void ps_nodes_fini(ps_nodes *nodes);

/* Checks the request of the host `host` and takes it in; *out is the entry, *is_new says whether
 * the process is another than before. If there are too many nodes, in all or of that host, one that
 * has never sent a heartbeat or is silent for longer than its lease gives way.
 *
 * INVALID_ARGUMENT     names the field
 * RESOURCE_EXHAUSTED   too many nodes
 * FAILED_PRECONDITION  a process at another address has the id and lives: it has missed fewer than
 *                      two heartbeats; or one that was started later has its lease */
PS_MUST_USE ps_status ps_nodes_register(ps_nodes *nodes, const Psgd__V1__RegisterNodeRequest *req,
                                        const char *host, int64_t now_us, int64_t wall_us,
                                        ps_node_entry **out, bool *is_new);

/* Notes what a heartbeat says. NOT_FOUND: an unknown node, or an older process. */
PS_MUST_USE ps_status ps_nodes_beat(ps_nodes *nodes, const Psgd__V1__HeartbeatRequest *req,
                                    int64_t now_us, int64_t wall_us, ps_node_entry **out);

ps_node_entry *ps_nodes_find(const ps_nodes *nodes, const char *id); /* or NULL */
ps_node_entry *ps_nodes_find_address(const ps_nodes *nodes, const char *address, int64_t now_us);

bool ps_node_is_alive(const ps_nodes *nodes, const ps_node_entry *node, int64_t now_us);
bool ps_node_is_idle(const ps_node_entry *node);

/* Heartbeats that it has missed in a row: a node that was just stopped still
 * has its lease, but should be given no job. */
unsigned ps_node_missed(const ps_nodes *nodes, const ps_node_entry *node, int64_t now_us);

/* The node did not answer a call, or has answered one since. */
void ps_node_suspect(ps_node_entry *node);
void ps_node_trust(ps_node_entry *node);

/* Notes that the disk of the node was full when a job was to begin. */
void ps_node_set_full(ps_node_entry *node, int64_t now_us);
/* Returns whether the node has no room for a job. */
bool ps_node_lacks_room(const ps_node_entry *node, int64_t now_us);

/* Returns whether the node may be given a job now: alive, idle, not suspected, with room on its
 * disk, and it has missed fewer than three heartbeats. */
bool ps_node_may_be_chosen(const ps_nodes *nodes, const ps_node_entry *node, int64_t now_us);

/* The node answered Abort: what it said before no longer counts. */
void ps_node_mark_idle(ps_node_entry *node);

/* Drops nodes that hold nothing and have been silent for an hour, or for their lease if they have
 * never sent a heartbeat. */
void ps_nodes_forget(ps_nodes *nodes, int64_t now_us);

const char *ps_role_name(Psgd__V1__NodeRole role); /* "worker", "pserver" */

#endif
