/* SPDX-License-Identifier: Apache-2.0 */
/* schedule_world.h - jobs, model nodes and the messages between them and the coordinator, for
 * schedules that a seed decides.
 *
 * A model node is what an agent of common/node does, as far as the coordinator sees it. Everything
 * that is drawn follows from the seed.
 */
#ifndef PS_TESTS_SUPPORT_SCHEDULE_WORLD_H
#define PS_TESTS_SUPPORT_SCHEDULE_WORLD_H

#include "services/coordinator/domain/known_nodes.h"
#include "tests/support/commit_world.h"

enum {
    SW_WORKERS = 3,
    SW_NODES = SW_WORKERS + 2,
    SW_JOBS = 3,
    SW_STEPS = 12,
    SW_ATTEMPTS = 400,
    SW_FLIGHT = 4000,
    SW_BEAT_US = S / 4
};

typedef enum kind {
    ASK, /* from here on, messages to nodes */
    PREPARE,
    START,
    OPEN,
    COLLECT,
    ABORT,
    DROP,
    REGISTER_AGAIN,
    TO_NODES,
    RESERVED, /* from here on, messages to the coordinator */
    BUSY,
    PREPARED,
    UNRESERVED,
    READY,
    FILES,
    RELEASED,
    BEAT,
    REGISTER,
    GONE,
    FROM_NODES,
    STORED_START, /* from here on, results of the coordinator's disk */
    STORED_STATE,
    STORED_SAVE
} kind;

typedef struct message {
    kind kind;
    unsigned node, job, attempt;
    uint64_t incarnation;
    int holds; /* the job that the node holds; -1: none */
    Psgd__V1__NodePhase phase;
    uint64_t step;
    unsigned number;   /* of a change to be stored: its number in the order of the changes */
    unsigned restarts; /* Job.restarts, as it is to be stored */
    Psgd__V1__JobState state, outcome;
} message;

typedef struct model_node {
    char id[16], address[16];
    Psgd__V1__NodeRole role;
    bool is_up, is_hurt; /* it was killed or frozen, since the schedule began */
    int64_t frozen_until, up_at, next_beat;
    uint64_t incarnation;
    int job; /* index of the job that the node holds; -1: none */
    unsigned attempt, newest[SW_JOBS];
    Psgd__V1__NodePhase phase;
} model_node;

typedef struct model_job {
    Psgd__V1__Job *msg;
    bool is_acknowledged, is_live, is_over;
    ps_commit commit;
    unsigned attempt, ended; /* ended: how often the job's state became final */
    unsigned counts[SW_ATTEMPTS], files[SW_ATTEMPTS];
    uint64_t steps[SW_ATTEMPTS], firsts[SW_ATTEMPTS];
    uint64_t checkpoint; /* step of the newest checkpoint; 0: none */
    /* what the coordinator's disk has of the job */
    unsigned number, stored_number, stored_attempt, stored_restarts;
    Psgd__V1__JobState state, stored_state, stored_outcome;
    ps_member members[SW_NODES];
    size_t count;
} model_job;

typedef struct world {
    uint64_t seed, drawn;
    int64_t now;
    /* drops: messages get lost; dropped: some were lost; is_up: the coordinator runs */
    bool drops, dropped, is_up;
    int64_t up_at;
    ps_nodes nodes;
    model_node node[SW_NODES];
    model_job job[SW_JOBS];
    message flight[SW_FLIGHT];
    size_t n;
} world;

#define MUST(what)                                                                                 \
    if (!(what))                                                                                   \
    fail_msg("seed %llu, %.3f s: not so: %s", (unsigned long long)w->seed, (double)w->now / S,     \
             #what)

/* Returns a number below `below`. */
uint32_t sw_draw(world *w, uint32_t below);

/* Puts a message on its way. */
void sw_post(world *w, message m);

/* Handles a message to a node. */
void sw_node_takes(world *w, const message *m);

/* Sends a heartbeat of node i, if none is under way. */
void sw_node_beats(world *w, unsigned i);

/* Forgets the job of a node. */
void sw_node_lets_go(model_node *n);

/* Makes a step of each attempt all of whose nodes train. */
void sw_work(world *w);

#endif
