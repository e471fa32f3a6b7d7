/* SPDX-License-Identifier: Apache-2.0 */
/* tracked.h - a job and its trackers: what its messages say is told to each. One thread. */
#ifndef PS_COMMON_TRACKER_TRACKED_H
#define PS_COMMON_TRACKER_TRACKED_H

#include "common/tracker/tracker.h"

#include "psgd/v1/job.pb-c.h"

enum { PS_TRACKED_NOTE_BYTES = 1200 };

typedef struct ps_tracked {
    ps_track *tracks[PS_TRACKERS_MAX]; /* NULL: is not told */
    size_t count;
    int64_t told_us; /* when progress was sent last */
    uint64_t told_step;
} ps_tracked;

/* Writes the path of the file of a track: `note`, a dot and the index. */
void ps_tracked_note(const char *note, size_t index, char path[PS_TRACKED_NOTE_BYTES]);

/* Begins a track at each tracker of the job's specification, but those of `skipped` (bits). `note`:
 * as above; NULL: no files, so that no other process goes on with the job. Returns the first
 * failure; other trackers may be told. */
PS_MUST_USE ps_status ps_tracked_begin(ps_tracked *tracked, ps_tracker *tracker,
                                       const Psgd__V1__Job *job, const char *note,
                                       unsigned skipped);

/* Sends progress, at most once a second but for the last. */
void ps_tracked_progress(ps_tracked *tracked, const Psgd__V1__Progress *p, bool is_last);

/* Sends the result of an evaluation to `to`, or to all trackers of the job if it is NULL.
 * `sequence`: of its event; 0: none. */
void ps_tracked_result(const ps_tracked *tracked, ps_track *to, const Psgd__V1__Job *job,
                       uint64_t sequence, int64_t wall_ms);

/* Has the rest sent, with the files of the job in `folder`, and gives the tracks up. */
void ps_tracked_end(ps_tracked *tracked, const Psgd__V1__Job *job, const char *folder);

/* Returns a time in milliseconds; now if it is NULL. */
int64_t ps_tracked_ms(const Google__Protobuf__Timestamp *time);

#endif
