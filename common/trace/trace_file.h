/* SPDX-License-Identifier: Apache-2.0 */
/* trace_file.h - the timeline of a job: TRACE-{title}.json.gz, for ui.perfetto.dev and other
 * programs that read Chrome's trace event format (JSON object form).
 *
 * Each rank writes its part: an event, a JSON object, on each line. When the job is over, the parts
 * become one file. Times are of the monotonic clock of the process that recorded them.
 */
#ifndef PS_COMMON_TRACE_TRACE_FILE_H
#define PS_COMMON_TRACE_TRACE_FILE_H

#include "common/base/status.h"
#include "common/trace/trace.h"

/* Where the slices of a ring are shown. */
typedef struct ps_trace_track {
    uint32_t process;         /* number in the file, one for each process */
    uint32_t thread;          /* number in the process */
    const char *process_name; /* such as "worker 0" */
    const char *thread_name;
    uint32_t rank;    /* of the worker whose thread it is */
    uint32_t workers; /* of the job, for the arrows */
    uint32_t part;    /* of a server's thread: as in ps_placement (common/placement) */
} ps_trace_track;

/* Writes a part with all records of the ring, which are taken. Adds a mark if the ring lost some.
 * An arrow goes from a worker's first message of a step to a server, to the last update of the
 * server in that step, and to the last message with weights that the worker gets of it. Fails as
 * files do. */
PS_MUST_USE ps_status ps_trace_write_part(const char *path, ps_trace_ring *ring,
                                          const ps_trace_track *track);

/* Writes the file of all parts, whole or not at all. A path of no file is left out; *is_written is
 * false if there is none. Lines that are no event are left out, counted and logged. Any thread.
 * Fails as files do. */
PS_MUST_USE ps_status ps_trace_merge(char *const *parts, size_t count, const char *path,
                                     bool *is_written);

/* How the file is called, and the part of a rank: prefix and suffix for ps_artifact_name_of_job and
 * ps_artifact_name (common/artifact/report.h). */
#define PS_TRACE_PREFIX "TRACE"
#define PS_TRACE_SUFFIX ".json.gz"
#define PS_TRACE_PART_SUFFIX ".part"

#endif
