/* SPDX-License-Identifier: Apache-2.0 */
/* live_job.h - a job that is not over: its record, its events, its attempt.
 *
 * Pure. Changes are published to the observers of `board`. Changes that have to be stored are
 * published as PS_JOB_TO_STORE, in order; the observer that stores them calls ps_live_stored. A
 * progress event is shown to watchers at once, another event when it is stored, or as progress if
 * it cannot be. If a change cannot be stored while the job runs, it is stored later, because a full
 * disk must not end a job. The beginning and the end of an attempt take effect only when they are
 * stored (ps_live_store). */
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
    ps_job_board *board; /* board of the list (jobs.h) that has the job */
    ps_record record;
    uint64_t sequence;        /* number of the newest event */
    uint64_t reserved;        /* the value of record.sequence that was stored last */
    uint64_t stored_sequence; /* number of the newest stored event */
    /* number of the newest event, if that is a progress event, which is not stored; 0: a later
     * event has replaced it */
    uint64_t progress_sequence;
    int64_t progress_us;      /* when the last progress event was published */
    ps_live_change *to_store; /* the change that PS_JOB_TO_STORE publishes; NULL: none */
    unsigned writes;          /* number of changes that are being stored */
    /* how many of `writes` are changes with an event, and how many were made by ps_live_store */
    unsigned events, decisions;
    /* For each kind of event: whether one has to be published when the changes of ps_live_store are
     * stored. */
    bool later[PSGD__V1__JOB_EVENT_KIND__JOB_EVENT_KIND_METRICS + 1];
    /* the last change (not of ps_live_store) could not be stored; ps_live_save has to try again */
    bool is_unsaved;
    ps_status unsaved_why;
    bool is_over;          /* the job is freed when its last change is stored */
    bool returns;          /* the job has left its nodes in order to go on with others at once */
    bool is_active;        /* the job has an attempt, and is in ps_jobs.active */
    uint64_t memory_bytes; /* memory of its package; 0: not known yet */
    /* when the job's message last got what the job waits for in the queue; 0: never
     */
    int64_t told_us;
    int64_t lost_us;       /* since when the job waits for nodes after a loss; 0: it does not */
    int64_t not_before_us; /* the job's next attempt does not begin before this time */
    /* pause between the job's last attempts, which were lost before they trained */
    int64_t pause_us;
    /* in the next attempt, ranks go on where they were when the last attempt was lost */
    bool carries_on;
    int64_t state_us; /* since when the job is in `state_seen`, for metrics; 0: not known */
    Psgd__V1__JobState state_seen; /* the state in which metrics saw the job last */
    /* when the job's last checkpoint was stored, in microseconds since 1970; 0: not known */
    int64_t checkpoint_wall_us;
    ps_attempt *attempt;  /* NULL: the job is in the queue */
    ps_live *prev, *next; /* the neighbours in the list of jobs.h */
    ps_live *active_prev, *active_next, *same_bucket;
};

/* A change that is being stored. */
struct ps_live_change {
    ps_live *job;
    ps_record record; /* the record to store, with a copy of the job */
    bool has_event;
    bool is_relaxed;   /* the change may be lost if the host crashes */
    uint64_t sequence; /* number of the event */
    Psgd__V1__JobEventKind kind;
    ps_live_stored_fn *then; /* the callback given to ps_live_store; NULL for other changes */
    void *arg;
};

/* Creates a job. Takes what *record owns. The caller adds it to the list by ps_jobs_append or
 * ps_jobs_prepend. */
ps_live *ps_live_create(const ps_record *record);

/* Frees a job without an attempt: at once, or when its last change is stored. */
void ps_live_destroy(ps_live *job);

/* Returns the change that PS_JOB_TO_STORE announces. The caller answers it by ps_live_stored. */
ps_live_change *ps_live_take_change(ps_live *job);

/* Notes that the change is durable, or why it could not be stored. Frees the change, and perhaps
 * the job. */
void ps_live_stored(ps_live_change *change, const ps_status *result);

/* Publishes the job's present message as an event of this kind, STATE or METRICS, which is shown
 * when it is stored. While a change of ps_live_store is being stored, the event waits. An event
 * that cannot be stored is shown as progress, as is a METRICS event while many wait for the disk.
 * After a failure, which is logged once, the job goes on, and is stored later without an event
 * (is_unsaved). */
void ps_live_publish(ps_live *job, Psgd__V1__JobEventKind kind);

/* Publishes a progress event, at most every 250 ms. */
void ps_live_progress(ps_live *job, int64_t now_us);

/* Sets state, reason and message without waiting until they are stored. Publishes a STATE event if
 * one of them has changed. */
void ps_live_set_state(ps_live *job, Psgd__V1__JobState state, const char *reason,
                       const char *message);

/* Stores state and outcome with reason and message. If that succeeds, they become the job's, and
 * watchers see them; else the job stays as it was. Calls `then` once at the end, on the loop's
 * thread. */
void ps_live_store(ps_live *job, Psgd__V1__JobState state, Psgd__V1__JobState outcome,
                   const char *reason, const char *message, ps_live_stored_fn *then, void *arg);

/* Shows reason and message without storing them. For what a job waits for while nothing can be
 * stored. */
void ps_live_tell(ps_live *job, const char *reason, const char *message);

/* Sets what a QUEUED job waits for, with the ids of nodes that do not answer ("": none). If that is
 * a change, publishes it, as one that may be lost if the host crashes, and returns true. */
bool ps_live_set_waiting(ps_live *job, const char *reason, const char *message,
                         const char *waiting_for);

/* Stores the job as it is, without an event. */
void ps_live_save(ps_live *job);

#endif
