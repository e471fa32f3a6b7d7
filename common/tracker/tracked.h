/* SPDX-License-Identifier: Apache-2.0 */
/* tracked.h - passes what the messages of one job say to each of its trackers. One thread. */
#ifndef PS_COMMON_TRACKER_TRACKED_H
#define PS_COMMON_TRACKER_TRACKED_H

#include "common/tracker/tracker.h"

#include "psgd/v1/job.pb-c.h"

enum { PS_TRACKED_NOTE_BYTES = 1200 };

typedef struct ps_tracked {
    /* the tracks, in the order of the specification; NULL: nothing is sent to this tracker */
    ps_track *tracks[PS_TRACKERS_MAX];
    size_t count;
    int64_t told_us;    /* monotonic microseconds at which progress was last sent */
    uint64_t told_step; /* step of the progress that was last sent */
} ps_tracked;

/* Writes the path of the file of track number `index`: `note`, a dot and the index. */
void ps_tracked_note(const char *note, size_t index, char path[PS_TRACKED_NOTE_BYTES]);

/* Begins a track at each tracker of the job's specification, except those in `skipped` (a bit for
 * each index). `note`: beginning of the paths of the tracks' files (ps_tracked_note); NULL: no
 * files, because no other process goes on with the job. Stops at the first failure and returns it;
 * the tracks before it have begun. */
PS_MUST_USE ps_status ps_tracked_begin(ps_tracked *tracked, ps_tracker *tracker,
                                       const Psgd__V1__Job *job, const char *note,
                                       unsigned skipped);

/* Sends progress at most once a second; with is_last also sooner. Progress of the step that was
 * sent last is not sent again. */
void ps_tracked_progress(ps_tracked *tracked, const Psgd__V1__Progress *p, bool is_last);

/* Sends the result of an evaluation to the track `to`; NULL: to all tracks of the job. `sequence`:
 * number of the job's event with the result; 0: none. */
void ps_tracked_result(const ps_tracked *tracked, ps_track *to, const Psgd__V1__Job *job,
                       uint64_t sequence, int64_t wall_ms);

/* Ends the tracks: what is left is sent, with the job's files in `folder`. The caller must not use
 * the tracks any more. */
void ps_tracked_end(ps_tracked *tracked, const Psgd__V1__Job *job, const char *folder);

/* Returns a time in milliseconds since 1970; the present time if it is NULL. */
int64_t ps_tracked_ms(const Google__Protobuf__Timestamp *time);

#endif
