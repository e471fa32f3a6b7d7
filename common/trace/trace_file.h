/* SPDX-License-Identifier: Apache-2.0 */
/* trace_file.h - the timeline of a job: TRACE-{title}.json.gz, for ui.perfetto.dev and other
 * programs that read Chrome's trace event format (JSON object form).
 *
 * Each process writes its part: an event, a JSON object, on each line. When the job is over, the
 * parts become one file. Times are of a monotonic clock: the coordinator's, or that of the only
 * process.
 */
#ifndef PS_COMMON_TRACE_TRACE_FILE_H
#define PS_COMMON_TRACE_TRACE_FILE_H

#include "common/base/status.h"
#include "common/trace/trace.h"
#include "common/trace/trace_clock.h"

/* A ring, and where its slices are shown. */
typedef struct ps_trace_track {
    ps_trace_ring *ring;
    uint32_t process;      /* number in the file, one for each process */
    uint32_t thread;       /* number in the process */
    char process_name[24]; /* such as "worker 0" */
    const char *thread_name;
    uint32_t rank;    /* of the worker whose thread it is */
    uint32_t workers; /* of the job, for the arrows */
    uint32_t part;    /* of a server's thread: as in ps_placement (common/placement) */
} ps_trace_track;

/* Most bytes that a part has of each track. What would be more counts as lost. */
enum { PS_TRACE_TRACK_BYTES = 32 << 20 };

/* Returns the track of the thread that trains `rank`. */
ps_trace_track ps_trace_worker(ps_trace_ring *ring, uint32_t rank, uint32_t workers);

/* Writes a part with all records of the tracks' rings, which are taken. Times are those of the
 * other clock by `alignment`, and the part says how wrong they may be; NULL: times as they were
 * recorded. Adds a mark to a track whose ring lost some. An arrow goes from a worker's first
 * message of a step to a server, to the last update of the server in that step, and to the last
 * message with weights that the worker gets of it. Fails as files do. */
PS_MUST_USE ps_status ps_trace_write_part(const char *path, const ps_trace_track *tracks,
                                          size_t count, const ps_trace_alignment *alignment);

/* Writes the file of all parts, whole or not at all. A path of no file is left out; *is_written is
 * false if there is none. The file says how wrong times may be, if a part does. Lines that are no
 * event are left out, counted and logged. Any thread. Fails as files do. */
PS_MUST_USE ps_status ps_trace_merge(char *const *parts, size_t count, const char *path,
                                     bool *is_written);

/* How the file is called: prefix and suffix for ps_artifact_name_of_job (common/artifact/report.h);
 * and the part of a process. */
#define PS_TRACE_PREFIX "TRACE"
#define PS_TRACE_SUFFIX ".json.gz"
#define PS_TRACE_PART "trace.part"

#endif
