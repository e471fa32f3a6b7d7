/* SPDX-License-Identifier: Apache-2.0 */
/* known_nodes.h - the nodes that have registered, and their leases.
 *
 * Pure; times are monotonic microseconds; wall_us is time of day, for people. A node without a job
 * is known until it has been silent for an hour, or less (ps_nodes_forget, ps_nodes_register).
 * After a restart of the coordinator, nodes register again by themselves. */
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
    Psgd__V1__LinkProtection links; /* protection of links, as registered */
    /* of a program that joined as a worker: title of the jobs that it joins; "": a node of psgd's
     * own */
    char loop[80];
    uint32_t threads; /* of a parameter server; 0: not known */
    uint64_t incarnation;
    char host[PS_NODES_HOST_MAX]; /* the client address from which the node was registered */
    /* serial number of the certificate of the node's last call; "" in plaintext */
    char credential[48];
    /* when that certificate ends, in seconds since 1970; 0: the node has none */
    int64_t certificate_ends_s;
    int64_t renewed_us; /* when the node was last given a new certificate; 0: never */
    /* the node's last heartbeat said that it leaves, and it has not registered since */
    bool has_left;
    /* the node was told to stop, and waits for a checkpoint of its job */
    bool is_stopping;
    bool has_beaten; /* the node has sent a heartbeat since it registered */

    /* What the node's last heartbeat reported; ps_node_mark_idle resets it. */
    Psgd__V1__NodePhase phase;
    char job_id[96]; /* id of the job that holds the node; "" when idle */
    uint32_t attempt;
    int64_t seen_us, seen_wall_us;

    /* The job to which the coordinator gave the node; "": none. The node is idle if its heartbeat
     * says so and no job holds it. */
    char holder[96];

    /* the node did not answer a call; it is not chosen for a job until it has answered one */
    bool is_suspect;
    /* The node's disk was full when a job was to begin: it is not chosen before this time, nor
     * while it reports that its disk is low. */
    int64_t full_until_us;
    /* The node lacked memory, processes or room for its last job: until then it is chosen only if
     * there are not enough others. */
    int64_t short_until_us;
    bool has_disk; /* the node has reported its free space */
    uint64_t disk_free_bytes, disk_needed_bytes;
    bool is_disk_low;
    bool has_load;           /* the node has reported what it uses */
    Psgd__V1__NodeLoad load; /* the load, if has_load */
} ps_node_entry;

typedef struct ps_nodes {
    /* sorted by id; a pointer to an entry is valid until the entry is dropped */
    ps_node_entry **entries;
    size_t count, cap;
    int64_t heartbeat_us, lease_us;
} ps_nodes;

void ps_nodes_init(ps_nodes *nodes, int64_t heartbeat_us, int64_t lease_us);
void ps_nodes_fini(ps_nodes *nodes);

/* Checks a registration from the client address `host` and adds or updates the node's entry, *out.
 * *is_new: the process has not registered before: the node is new, or was restarted. If there are
 * too many nodes, in all or from that address, drops the entry of a node without a job that is not
 * alive, or has sent no heartbeat for two intervals since it registered.
 *
 * INVALID_ARGUMENT     names the field
 * RESOURCE_EXHAUSTED   too many nodes
 * FAILED_PRECONDITION  the node is of another minor version; a process at another address has the
 *                      id and is alive: it has missed fewer than two heartbeats; or a process that
 *                      was started later has the id and still has its lease */
PS_MUST_USE ps_status ps_nodes_register(ps_nodes *nodes, const Psgd__V1__RegisterNodeRequest *req,
                                        const char *host, int64_t now_us, int64_t wall_us,
                                        ps_node_entry **out, bool *is_new);

/* Handles a heartbeat. Returns NOT_FOUND for an unknown node or a process that is not the
 * registered one, INVALID_ARGUMENT for a job_id that is too long. *out: the node. */
PS_MUST_USE ps_status ps_nodes_beat(ps_nodes *nodes, const Psgd__V1__HeartbeatRequest *req,
                                    int64_t now_us, int64_t wall_us, ps_node_entry **out);

/* Returns the node with this id; NULL: there is none. */
ps_node_entry *ps_nodes_find(const ps_nodes *nodes, const char *id);
/* Returns the node that is registered with this address and whose lease is valid; NULL: there is
 * none. */
ps_node_entry *ps_nodes_find_address(const ps_nodes *nodes, const char *address, int64_t now_us);

/* Returns whether the node's lease is valid: it has not left, and was heard of within lease_us. */
bool ps_node_is_alive(const ps_nodes *nodes, const ps_node_entry *node, int64_t now_us);
bool ps_node_is_idle(const ps_node_entry *node);

/* Returns how many heartbeats in a row the node has missed. A node that has just stopped still has
 * its lease, but should not be given a job. */
unsigned ps_node_missed(const ps_nodes *nodes, const ps_node_entry *node, int64_t now_us);

/* Sets is_suspect, because the node did not answer a call. */
void ps_node_suspect(ps_node_entry *node);
/* Clears is_suspect, because the node has answered a call. */
void ps_node_trust(ps_node_entry *node);

/* Notes that the node's disk was full when a job was to begin there. */
void ps_node_set_full(ps_node_entry *node, int64_t now_us);
/* Returns whether the node's disk has too little room for a job, as it reports or as
 * ps_node_set_full noted a short time ago. */
bool ps_node_lacks_room(const ps_node_entry *node, int64_t now_us);

/* Notes that the node gave up a job for want of memory, processes or room on its disk. */
void ps_node_set_short(ps_node_entry *node, int64_t now_us);
/* Returns whether ps_node_set_short noted that a short time ago. */
bool ps_node_is_short(const ps_node_entry *node, int64_t now_us);

/* Returns whether the node may be given a job now: it is alive, idle, not suspected and not about
 * to stop, has room on its disk, and has missed fewer than three heartbeats. */
bool ps_node_may_be_chosen(const ps_nodes *nodes, const ps_node_entry *node, int64_t now_us);

/* Notes that the node has answered Abort, so it is idle whatever its earlier heartbeats said. */
void ps_node_mark_idle(ps_node_entry *node);

/* Ends the lease of a node whose certificate was revoked. */
void ps_nodes_expel(const ps_nodes *nodes, ps_node_entry *node, int64_t now_us);

/* Drops nodes without a job that have been silent for an hour; if they have never sent a heartbeat,
 * for their lease. */
void ps_nodes_forget(ps_nodes *nodes, int64_t now_us);

const char *ps_role_name(Psgd__V1__NodeRole role); /* "worker", "pserver" */

#endif
