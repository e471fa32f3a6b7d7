/* SPDX-License-Identifier: Apache-2.0 */
/* attempt.h - what the files of the driver share; see driver.h. */
#ifndef PS_COORDINATOR_ATTEMPT_H
#define PS_COORDINATOR_ATTEMPT_H

#include "common/job/plan.h"
#include "common/placement/placement.h"
#include "common/rpc/client.h"
#include "services/coordinator/coordinator.h"
#include "services/coordinator/domain/job_message.h"
#include "services/coordinator/driver.h"
#include "services/coordinator/io/artifacts.h"
#include "services/coordinator/io/attempt_package.h"
#include "services/coordinator/io/init_from.h"
#include "services/coordinator/io/room.h"

#include "psgd/v1/node.pb-c.h"

typedef struct ps_prepare ps_prepare; /* a running PreCommit; driver_prepare.c */
typedef struct ps_collect ps_collect; /* a running Collect; driver_collect.c */

/* A member as the driver sees it. */
typedef struct ps_peer {
    ps_attempt *a;
    size_t index; /* in commit.members */
    ps_channel *channel;
    ps_unary *asking; /* CanCommit or DoCommit */
    ps_unary *aborting;
    ps_prepare *prepare;
    ps_collect *collect;
    ps_call *ready;      /* stands at the barrier */
    bool logs_known;     /* log_name is made */
    ps_strand files;     /* what tasks write of it: its log, its files */
    bool log_waits;      /* its log could not be stored the last time */
    bool log_busy;       /* some of its log is being stored */
    bool log_known;      /* log_stored is what there is */
    uint64_t log_stored; /* bytes */
    char log_name[PS_NAME_MAX + 1];
    Psgd__V1__ServerCounters *counters; /* at the end; a server's */
} ps_peer;

/* What was last told of a rank. */
typedef struct ps_told {
    size_t member;                      /* that carries it */
    Psgd__V1__WorkerProgress *progress; /* without its part */
    Psgd__V1__EvaluationPart *part;
} ps_told;

struct ps_attempt {
    ps_live *job; /* NULL: over, or dropped; only calls are left */
    ps_coordinator *c;
    ps_commit commit;
    uint32_t number;
    char job_id[96];
    char folder[PS_FOLDER_MAX];
    ps_plan *plan;
    ps_placement placement; /* which server has which shard; nodes are commit's members */
    ps_package *package;    /* NULL: of an attempt that was taken up again */
    ps_strand archiving;    /* the last files are written one try after the other */
    uint64_t memory_bytes;  /* taken from the coordinator's budget for the package */
    bool is_stored;         /* its start is, */
    bool is_found;          /* and what the package is made of is found */
    ps_peer *peers;         /* (commit.count) */
    ps_told *told;          /* (placement.rank_count), by rank */
    ps_timer timer;         /* commit's deadline */
    bool is_pumping;
    char waits[PS_COMMIT_WAITS_MAX]; /* as it was last told: commit.waits */
    size_t logging;                  /* peers whose log is being stored */
    bool store_waits;                /* for them: PS_COMMIT_STORE */
    size_t pending;                  /* calls and tasks that will still come back */

    uint32_t evaluations; /* that every live worker has done */
    struct {
        int64_t us;
        uint64_t samples, step;
    } rate[2]; /* two points, about a second apart */
};

static inline ps_member *ps_peer_member(const ps_peer *p)
{
    return &p->a->commit.members[p->index];
}

/* Takes the actions that are due, and sets the timer. */
void ps_attempt_pump(ps_attempt *a);

/* Something that was counted in `pending` has come back. May free the attempt. */
void ps_attempt_settle(ps_attempt *a);

/* The short calls; their answers go to the commit. */
void ps_peer_ask(ps_peer *p);     /* CanCommit */
void ps_peer_start(ps_peer *p);   /* DoCommit */
void ps_peer_release(ps_peer *p); /* lets go, then Abort */

/* Tells the commit that PreCommit or DoCommit has failed. */
void ps_peer_refused(ps_peer *p, const ps_error *error);

/* Answers its Ready, if it waits: goes, or fails with *why_not. */
void ps_peer_answer_ready(ps_peer *p, const ps_status *why_not);

/* Stops whatever runs with the node, but for its Abort. */
void ps_peer_let_go(ps_peer *p, const char *why);

/* PreCommit with one node: tells the commit prepared or refused, unless stopped. */
void ps_prepare_start(ps_peer *peer);
void ps_prepare_stop(ps_prepare *prepare);

/* GetStatus, then Collect, again and again until it succeeds or is stopped;
 * tells the commit of success and of failures that no repetition mends. */
void ps_collect_start(ps_peer *peer);
void ps_collect_stop(ps_collect *collect);

/* Returns whether the process that carries the rank is lost. */
bool ps_rank_is_lost(const ps_attempt *a, uint32_t rank);

/* Sums up what workers told: Progress and result of the job, and their events. */
void ps_progress_take(ps_attempt *a, ps_peer *peer, Psgd__V1__WorkerProgress *const *progress,
                      size_t count, int64_t now_us);

/* Makes the job's result of what the workers found in their shares of that
 * evaluation. False while not everybody's part is of it. A part that is none
 * is logged, and the result stays as it was. */
bool ps_evaluation_parts_merge(ps_attempt *a, uint32_t evaluation);

/* Returns the name under which the node's log is stored; "" while its id is not known. */
const char *ps_peer_log_name(ps_peer *p);

/* Stores what a heartbeat brings of the node's log, if none of it is being stored, and says in
 * `answer` how much there is. */
void ps_peer_take_log(ps_peer *p, const Psgd__V1__HeartbeatRequest *beat,
                      Psgd__V1__HeartbeatResponse *answer);

/* Writes MODEL of the servers, summary and manifest; tells the commit. */
void ps_archive_start(ps_attempt *a);

#endif
