/* SPDX-License-Identifier: Apache-2.0 */
/* live_job.h - a job that is not over: its record, its events, its attempt.
 *
 * Pure. Every change is published to the observers of `board`. Changes to be stored are published
 * as PS_JOB_TO_STORE, in order; the observer that stores them calls ps_live_stored. An event is
 * shown to watchers when it is stored. A change that cannot be stored while the job runs is
 * stored later, because a full disk must not end a job. The beginning and the end of an attempt
 * take effect only when they are stored (ps_live_store).
 */
#ifndef PS_COORDINATOR_LIVE_JOB_H
#define PS_COORDINATOR_LIVE_JOB_H

#include "common/base/status.h"
#include "services/coordinator/domain/job_board.h"
#include "services/coordinator/domain/job_record.h"

typedef struct ps_attempt ps_attempt;
typedef struct ps_live_change ps_live_change;

/* Receives the result of ps_live_store. */
typedef void ps_live_stored_fn(void *arg, const ps_status *result);

struct ps_live {
    ps_job_board *board; /* of the list that it is in */
    ps_record record;
    uint64_t sequence;          /* number of the newest event */
    uint64_t reserved;          /* record.sequence as it was stored last */
    uint64_t stored_sequence;   /* number of the newest stored event */
    uint64_t progress_sequence; /* number of the newest progress event; 0: superseded */
    int64_t progress_us;        /* when that event was published */
    ps_live_change *to_store;   /* the change that PS_JOB_TO_STORE publishes; NULL: none */
    unsigned writes;            /* changes that are being stored */
    unsigned events, decisions; /* of these: changes with an event; changes by ps_live_store */
    /* By kind: whether an event is to be published after the decisions. */
    bool later[PSGD__V1__JOB_EVENT_KIND__JOB_EVENT_KIND_METRICS + 1];
    bool is_unsaved; /* the last change could not be stored: ps_live_save tries again */
    ps_status unsaved_why;
    bool is_over;          /* freed when its last change is stored */
    bool returns;          /* has left its nodes to go on with others at once */
    bool is_active;        /* has an attempt, and is in ps_jobs.active */
    uint64_t memory_bytes; /* memory of its package; 0: not known yet */
    int64_t told_us;       /* when it was last told what it waits for in the queue */
    int64_t lost_us;       /* since when it waits for nodes after a loss; 0: it does not */
    int64_t not_before_us; /* its next attempt begins not before */
    int64_t pause_us;      /* between its last attempts, which were lost before they trained */
    bool carries_on;       /* its ranks go on where they were when it was lost */
    int64_t state_us;      /* since when it is in its state, as metrics saw it; 0: not known */
    Psgd__V1__JobState state_seen; /* that state */
    int64_t checkpoint_wall_us;    /* when the last checkpoint was stored; 0: not known */
    ps_attempt *attempt;           /* NULL: the job is in the queue */
    ps_live *prev, *next;          /* the neighbours in the list of jobs.h */
    ps_live *active_prev, *active_next, *same_bucket;
};

/* A change that is being stored. */
struct ps_live_change {
    ps_live *job;
    ps_record record; /* the record to be stored, with a copy of the job */
    bool has_event;
    bool is_relaxed;   /* need not survive a crash of the host */
    uint64_t sequence; /* number of the event */
    Psgd__V1__JobEventKind kind;
    ps_live_stored_fn *then; /* the callback of ps_live_store; else NULL */
    void *arg;
};

/* Creates a job. Takes the members of *record. ps_jobs_append then adds it to the list of jobs. */
ps_live *ps_live_create(const ps_record *record);

/* Frees the job, which has no attempt: at once, or when its last change is stored. */
void ps_live_destroy(ps_live *job);

/* Returns the change that PS_JOB_TO_STORE announces. The caller answers it by ps_live_stored. */
ps_live_change *ps_live_take_change(ps_live *job);

/* Reports whether the change is durable. Frees it. May free the job. */
void ps_live_stored(ps_live_change *change, const ps_status *result);

/* Publishes the job's present message as an event of this kind; a STATE or METRICS event is shown
 * when it is stored. An event that cannot be stored is logged once, shown as progress, and stored
 * later (is_unsaved); the job goes on. */
void ps_live_publish(ps_live *job, Psgd__V1__JobEventKind kind);

/* Publishes a progress event, at most every 250 ms. */
void ps_live_progress(ps_live *job, int64_t now_us);

/* Sets state, reason and message at once; publishes if anything is new. */
void ps_live_set_state(ps_live *job, Psgd__V1__JobState state, const char *reason,
                       const char *message);

/* Stores state and outcome with their reason. If this succeeds, they become the job's, and watchers
 * are informed; else the job stays as it was. Then calls `then` once, on the loop. */
void ps_live_store(ps_live *job, Psgd__V1__JobState state, Psgd__V1__JobState outcome,
                   const char *reason, const char *message, ps_live_stored_fn *then, void *arg);

/* Shows reason and message without storing them: what a job waits for while nothing can be
 * stored. */
void ps_live_tell(ps_live *job, const char *reason, const char *message);

/* Sets what a QUEUED job waits for, with the ids of nodes that do not answer ("": none). Publishes
 * it if it has changed. The change need not survive a crash of the host. Returns whether it has
 * changed. */
bool ps_live_set_waiting(ps_live *job, const char *reason, const char *message,
                         const char *waiting_for);

/* Stores the job as it is, without an event. */
void ps_live_save(ps_live *job);

#endif
