/* SPDX-License-Identifier: Apache-2.0 */
/* commit_world.h - an attempt (commit.h) on two workers and a server, whose events the test makes
 * one by one. */
#ifndef PS_TESTS_SUPPORT_COMMIT_WORLD_H
#define PS_TESTS_SUPPORT_COMMIT_WORLD_H

#include "services/coordinator/domain/commit.h"
#include "tests/support/cmocka_all.h"

#define STATE(name) PSGD__V1__JOB_STATE__JOB_STATE_##name
#define PHASE(name) PSGD__V1__NODE_PHASE__NODE_PHASE_##name
#define WORKER PSGD__V1__NODE_ROLE__NODE_ROLE_WORKER
#define PSERVER PSGD__V1__NODE_ROLE__NODE_ROLE_PSERVER

enum { NODES = 3, W0 = 0, W1 = 1, PS0 = 2, S = 1000000 };

extern const ps_commit_conf cm_conf;
extern const ps_member cm_nodes[NODES];
extern const ps_status cm_ok, cm_full;

/* A ps_commit with its time, and how often it has returned each action, for each node or in all. */
typedef struct cm_world {
    ps_commit c;
    int64_t now;
    unsigned asked[NODES], prepared[NODES], started[NODES], opened[NODES], collected[NODES],
        spared[NODES], released[NODES];
    unsigned changed, made, stored, rescued, saved, over;
    bool is_full; /* true: cm_take answers PS_COMMIT_SAVE with a full disk; false: with success */
} cm_world;

/* Takes all actions from ps_commit_next and counts them. Answers SAVE and MAKE at once; the test
 * answers the others. Every function below calls cm_take at its end. */
void cm_take(cm_world *w);
void cm_begin(cm_world *w, const ps_commit_conf *with);
void cm_reserve_all(cm_world *w);
void cm_prepare_all(cm_world *w);
void cm_ready_one(cm_world *w, size_t i);
void cm_beat(cm_world *w, size_t i, Psgd__V1__NodePhase phase);
void cm_run(cm_world *w, const ps_commit_conf *with);
void cm_finish_workers(cm_world *w);
void cm_collect_all(cm_world *w);
void cm_store(cm_world *w);
void cm_release_all(cm_world *w);
void cm_tick(cm_world *w, int64_t us);

#endif
