/* SPDX-License-Identifier: Apache-2.0 */
/* job.h - a job that is not over: its record, its events, its attempt.
 *
 * Loop thread. A change on the way is stored when there is room for it: a full disk
 * must not end a job. How an attempt ends is stored before it is so (ps_live_store).
 */
#ifndef PS_COORDINATOR_JOB_H
#define PS_COORDINATOR_JOB_H

#include "services/coordinator/commit.h"
#include "services/coordinator/registry.h"

typedef struct ps_coordinator ps_coordinator;
typedef struct ps_attempt ps_attempt;

typedef struct ps_live ps_live;
struct ps_live {
    ps_coordinator *c;
    ps_record record;
    uint64_t sequence;          /* last number given to an event */
    uint64_t stored_sequence;   /* last number of a stored event */
    uint64_t progress_sequence; /* of the newest progress event; 0: superseded */
    int64_t progress_us;        /* when it was published */
    bool is_unsaved;            /* a change is in memory alone: ps_live_save tries again */
    int64_t told_us;            /* when it was last said what it waits for in the queue */
    ps_attempt *attempt;        /* NULL: QUEUED */
    ps_live *prev, *next;
};

/* Takes what the record holds. */
ps_live *ps_live_create(ps_coordinator *c, const ps_record *record);
void ps_live_destroy(ps_live *job); /* no attempt */

/* Stores the job and, for STATE and METRICS, the event; tells the watchers. What could
 * not be stored is logged once and stored later (is_unsaved): the job goes on. */
void ps_live_publish(ps_live *job, Psgd__V1__JobEventKind kind);

/* Publishes a progress event, at most every 250 ms. */
void ps_live_progress(ps_live *job, int64_t now_us);

/* State, reason and message at once; publishes if anything is new. */
void ps_live_set_state(ps_live *job, Psgd__V1__JobState state, const char *reason,
                       const char *message);

/* Stores state and outcome with their reason, then tells the watchers. A failure of the store
 * leaves the job as it was. */
PS_MUST_USE ps_status ps_live_store(ps_live *job, Psgd__V1__JobState state,
                                    Psgd__V1__JobState outcome, const char *reason,
                                    const char *message);

/* Shows reason and message without storing them: what a job waits for while nothing can be
 * stored. */
void ps_live_tell(ps_live *job, const char *reason, const char *message);

/* What a QUEUED job waits for; as ps_live_set_state, but cheap: no wait for the
 * disk. True if it was news. */
bool ps_live_set_waiting(ps_live *job, const char *reason, const char *message);

/* Stores without an event. Returns whether that worked. */
bool ps_live_save(ps_live *job);

#endif
