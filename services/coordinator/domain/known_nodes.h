/* SPDX-License-Identifier: Apache-2.0 */
/* known_nodes.h - the nodes that have registered, and their leases.
 *
 * Pure; times are monotonic microseconds, wall_us is for people. A node is known until it has
 * been silent for an hour. After a restart of the coordinator nodes register again by themselves.
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
    PS_NODES_OF_HOST_MAX = 2048, /* most nodes registered from one host */
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
    Psgd__V1__LinkProtection links; /* as registered */
    char loop[80];                  /* of a worker: as registered */
    uint32_t threads;               /* of a parameter server; 0: not known */
    uint64_t incarnation;
    char host[PS_NODES_HOST_MAX]; /* the host that registered it */
    char credential[48]; /* serial number of the certificate of its last call; "" in plaintext */
    int64_t certificate_ends_s; /* seconds since 1970; 0: it has none */
    int64_t renewed_us;         /* when it was last given another; 0: never */
    bool has_left;              /* the node has said that it leaves, and has not registered since */
    bool is_stopping;           /* it was told to stop, and waits for a checkpoint of its job */
    bool has_beaten;            /* has sent a heartbeat since it registered */

    /* What its last heartbeat reported. */
    Psgd__V1__NodePhase phase;
    char job_id[96]; /* "" when idle */
    uint32_t attempt;
    int64_t seen_us, seen_wall_us;

    /* The job to which the coordinator gave the node; "": none. The node is idle if it reports so
     * and no job holds it. */
    char holder[96];

    /* the node did not answer a call; it is not chosen until it has answered one */
    bool is_suspect;
    /* The node's disk was full when a job was to begin: it is not chosen before this time, nor
     * while it reports that its disk is low. */
    int64_t full_until_us;
    bool has_disk; /* the node has reported its free space */
    uint64_t disk_free_bytes, disk_needed_bytes;
    bool is_disk_low;
    bool has_load;           /* the node has reported what it uses */
    Psgd__V1__NodeLoad load; /* if so */
} ps_node_entry;

typedef struct ps_nodes {
    ps_node_entry **entries; /* sorted by id; a pointer is valid until the entry is forgotten */
    size_t count, cap;
    int64_t heartbeat_us, lease_us;
} ps_nodes;

void ps_nodes_init(ps_nodes *nodes, int64_t heartbeat_us, int64_t lease_us);
void ps_nodes_fini(ps_nodes *nodes);

/* Checks a registration from `host` and adds or updates the entry *out. *is_new: it is another
 * process than before. If there are too many nodes, in all or of that host, an entry is dropped
 * that never sent a heartbeat or has been silent for longer than its lease.
 *
 * INVALID_ARGUMENT     names the field
 * RESOURCE_EXHAUSTED   too many nodes
 * FAILED_PRECONDITION  a process at another address has the id and is alive: it has missed
 *                      fewer than two heartbeats; or a process that was started later has its
 *                      lease
 */
PS_MUST_USE ps_status ps_nodes_register(ps_nodes *nodes, const Psgd__V1__RegisterNodeRequest *req,
                                        const char *host, int64_t now_us, int64_t wall_us,
                                        ps_node_entry **out, bool *is_new);

/* Handles a heartbeat. Returns NOT_FOUND for an unknown node or an older process. */
PS_MUST_USE ps_status ps_nodes_beat(ps_nodes *nodes, const Psgd__V1__HeartbeatRequest *req,
                                    int64_t now_us, int64_t wall_us, ps_node_entry **out);

ps_node_entry *ps_nodes_find(const ps_nodes *nodes, const char *id); /* or NULL */
ps_node_entry *ps_nodes_find_address(const ps_nodes *nodes, const char *address, int64_t now_us);

bool ps_node_is_alive(const ps_nodes *nodes, const ps_node_entry *node, int64_t now_us);
bool ps_node_is_idle(const ps_node_entry *node);

/* Returns how many heartbeats in a row the node has missed. A node that was just stopped still has
 * its lease, but should not be given a job. */
unsigned ps_node_missed(const ps_nodes *nodes, const ps_node_entry *node, int64_t now_us);

/* Note that the node did not answer a call, and that it has answered one. */
void ps_node_suspect(ps_node_entry *node);
void ps_node_trust(ps_node_entry *node);

/* Notes that the disk of the node was full when a job was to begin. */
void ps_node_set_full(ps_node_entry *node, int64_t now_us);
/* Returns whether the node has no room for a job. */
bool ps_node_lacks_room(const ps_node_entry *node, int64_t now_us);

/* Returns whether the node may be given a job now: alive, idle, not suspected, not about to stop,
 * with room on its disk, and it has missed fewer than three heartbeats. */
bool ps_node_may_be_chosen(const ps_nodes *nodes, const ps_node_entry *node, int64_t now_us);

/* Notes that the node answered Abort, so that its earlier heartbeats no longer count. */
void ps_node_mark_idle(ps_node_entry *node);

/* Ends the lease of a node whose certificate was revoked. */
void ps_nodes_expel(const ps_nodes *nodes, ps_node_entry *node, int64_t now_us);

/* Drops nodes that hold nothing and have been silent for an hour, or for their lease if they have
 * never sent a heartbeat. */
void ps_nodes_forget(ps_nodes *nodes, int64_t now_us);

const char *ps_role_name(Psgd__V1__NodeRole role); /* "worker", "pserver" */

#endif
