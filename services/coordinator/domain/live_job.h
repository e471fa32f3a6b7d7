/* SPDX-License-Identifier: Apache-2.0 */
/* live_job.h - a job that is not over: its record, its events, its attempt.
 *
 * Pure. Every change is published to the observers of `jobs`. What is to be stored is handed to one
 * of them, in order (PS_JOB_TO_STORE), which answers by ps_live_stored; an event is shown when it
 * is stored. A change on the way is stored when there is room for it: a full disk must not end a
 * job. How an attempt begins and ends is stored before it is so (ps_live_store).
 */
#ifndef PS_COORDINATOR_LIVE_JOB_H
#define PS_COORDINATOR_LIVE_JOB_H

#include "common/base/status.h"
#include "services/coordinator/domain/job_record.h"
#include "services/coordinator/domain/jobs.h"

typedef struct ps_attempt ps_attempt;
typedef struct ps_live_change ps_live_change;

/* Receives what became of ps_live_store. */
typedef void ps_live_stored_fn(void *arg, const ps_status *result);

struct ps_live {
    ps_jobs *jobs; /* that it is one of */
    ps_record record;
    uint64_t sequence;            /* last number given to an event */
    uint64_t reserved;            /* record.sequence as it is stored */
    uint64_t stored_sequence;     /* last number of a stored event */
    uint64_t progress_sequence;   /* of the newest progress event; 0: superseded */
    int64_t progress_us;          /* when it was published */
    ps_live_change *to_store;     /* not taken yet */
    unsigned writes;              /* changes that are being stored; of these: */
    unsigned events, decisions;   /* with an event; by ps_live_store */
    Psgd__V1__JobEventKind later; /* to be published after the decisions; 0: nothing */
    bool is_unsaved;              /* a change is only in memory: ps_live_save tries again */
    ps_status unsaved_why;
    bool is_over;          /* freed when its last change is stored */
    bool is_active;        /* has an attempt, and is in jobs->active */
    uint64_t memory_bytes; /* that its package takes; 0: not known yet */
    int64_t told_us;       /* when it was last published what it waits for in the queue */
    ps_attempt *attempt;   /* NULL: QUEUED */
    ps_live *prev, *next;  /* of `jobs`, as are */
    ps_live *active_prev, *active_next, *same_bucket;
};

/* A change on its way to the registry. */
struct ps_live_change {
    ps_live *job;
    ps_record record; /* as it is stored: a copy */
    bool has_event;
    bool is_relaxed;   /* need not survive a crash of the host */
    uint64_t sequence; /* of the event */
    Psgd__V1__JobEventKind kind;
    ps_live_stored_fn *then; /* of ps_live_store; else NULL */
    void *arg;
};

/* Creates a job. Takes the members of *record. ps_jobs_append then adds it to the list of jobs. */
ps_live *ps_live_create(const ps_record *record);

/* Frees the job, which has no attempt, now or when its last change is stored. */
void ps_live_destroy(ps_live *job);

/* Returns the change that PS_JOB_TO_STORE is about. The caller answers it by ps_live_stored. */
ps_live_change *ps_live_take_change(ps_live *job);

/* Reports whether the change is durable. Frees it. May free the job. */
void ps_live_stored(ps_live_change *change, const ps_status *result);

/* Shows the job to the watchers as it is now, for STATE and METRICS when that is stored. What
 * cannot be stored is logged once, shown as progress and stored later (is_unsaved): the job goes
 * on. */
void ps_live_publish(ps_live *job, Psgd__V1__JobEventKind kind);

/* Publishes a progress event, at most every 250 ms. */
void ps_live_progress(ps_live *job, int64_t now_us);

/* Sets state, reason and message at once; publishes if anything is new. */
void ps_live_set_state(ps_live *job, Psgd__V1__JobState state, const char *reason,
                       const char *message);

/* Stores state and outcome with their reason. Then, if that worked, they become the job's and the
 * watchers are told, else the job stays as it was; then `then` is called, once, from the loop. */
void ps_live_store(ps_live *job, Psgd__V1__JobState state, Psgd__V1__JobState outcome,
                   const char *reason, const char *message, ps_live_stored_fn *then, void *arg);

/* Shows reason and message without storing them: what a job waits for while nothing can be
 * stored. */
void ps_live_tell(ps_live *job, const char *reason, const char *message);

/* Sets what a QUEUED job waits for, with the ids of nodes that do not answer ("": none), and
 * publishes it if it is news. The change need not survive a
 * crash of the host. Returns whether it was news. */
bool ps_live_set_waiting(ps_live *job, const char *reason, const char *message,
                         const char *waiting_for);

/* Stores the job as it is, without an event. */
void ps_live_save(ps_live *job);

#endif
