/* SPDX-License-Identifier: Apache-2.0 */
/* session.h - an attempt on a node, as its packages describe it. */
#ifndef PS_COMMON_NODE_SESSION_H
#define PS_COMMON_NODE_SESSION_H

#include "common/base/buf.h"
#include "common/job/plan.h"
#include "common/node/agent.h"
#include "common/placement/placement.h"
#include "common/store/tables.h"
#include "common/wire/identity.h"

#include "psgd/v1/node.pb-c.h"

#include <stdlib.h>

/* An attempt as the packages of PreCommit describe it. The node owns it from prepare to release. */
typedef struct ps_session {
    char job_id[PS_JOB_ID_MAX];
    uint32_t attempt;
    uint32_t rank;       /* number of a server; of a worker, the first of its ranks */
    uint32_t *ranks;     /* (rank_count): the ranks that a worker carries, ascending */
    uint32_t rank_count; /* 0 on a server */
    ps_plan *plan;
    /* Initial weights as float32: a worker's whole block (param_count), a
     * server's own slices one after the other in ascending order. */
    float *weights;
    size_t weight_count;
    /* Sparse tables of a server whose rows come from files: element 0 has the tables of its own
     * shards, element 1 those of the shards of which it has copies. NULL: there are no files, so
     * all rows begin anew; or the server has no copies. A role that takes tables sets NULL here. */
    ps_tables *tables[PS_REPLICAS_MAX];
    /* (shrink_count): clocks, ascending, at which a server's sparse tables shrink, as they did in
     * an earlier attempt (ps_tables_shrink_at) */
    uint64_t *shrinks;
    size_t shrink_count;
    /* Files of the checkpoint from which the job goes on. A worker has one for each of its ranks,
     * in their order; a server has the files of all servers. */
    ps_buf **states;        /* (state_count) */
    uint32_t state_count;   /* 0: the job begins at step 0 */
    uint64_t first_clock;   /* clock of that checkpoint; 0: the job begins anew */
    ps_dataset *data;       /* NULL on a parameter server; owned by the node's cache */
    ps_placement placement; /* placement of the plan's layout on all servers and ranks */
    char folder[512]; /* folder of the attempt's files; ps_node_keep says which are collected */
} ps_session;

/* Returns the attempt as streams between nodes identify it. Borrows the job's id. */
static inline ps_wire_attempt ps_session_attempt(const ps_session *session)
{
    return (ps_wire_attempt){.job_id = session->job_id,
                             .attempt = session->attempt,
                             .worker_count = session->placement.rank_count,
                             .layout_hash = session->plan->layout.hash};
}

/* Frees the files of the checkpoint: the role has read them. */
static inline void ps_session_drop_states(ps_session *session)
{
    for (uint32_t i = 0; i < session->state_count; i++) {
        ps_buf_unref(session->states[i]);
    }
    free(session->states);
    session->states = NULL;
    session->state_count = 0;
}

#endif
