/* SPDX-License-Identifier: Apache-2.0 */
/* trace_file.h - the timeline of a job: TRACE-{title}.json.gz, for ui.perfetto.dev and other
 * programs that read Chrome's trace event format (JSON object form).
 *
 * Each process writes its part, with an event, a JSON object, on each line. When the job is over,
 * the parts become one file. Times are those of the monotonic clock of the coordinator, or of the
 * only process. */
#ifndef PS_COMMON_TRACE_TRACE_FILE_H
#define PS_COMMON_TRACE_TRACE_FILE_H

#include "common/base/status.h"
#include "common/trace/trace.h"
#include "common/trace/trace_clock.h"

/* A ring, and where the timeline shows its records. */
typedef struct ps_trace_track {
    ps_trace_ring *ring;
    uint32_t process;      /* number in the file, one for each process */
    uint32_t thread;       /* number in the process */
    char process_name[24]; /* such as "worker 0" */
    const char *thread_name;
    uint32_t rank;    /* the rank that the thread trains */
    uint32_t workers; /* number of workers of the job, for the arrows */
    uint32_t part;    /* of a server's thread: number of its part in the placement */
} ps_trace_track;

/* Most bytes that a part has for each track. Records beyond it count as lost. */
enum { PS_TRACE_TRACK_BYTES = 32 << 20 };

/* Returns the track of the thread that trains `rank`. */
ps_trace_track ps_trace_worker(ps_trace_ring *ring, uint32_t rank, uint32_t workers);

/* Writes a part with all records of the tracks' rings, and removes the records from the rings.
 * `alignment` converts times to the coordinator's clock, and the part says how wrong they may be;
 * NULL: times stay as recorded. A track whose ring lost records gets a mark. An arrow goes from a
 * worker's first message of a step to a server, to the server's last update in that step, and to
 * the last message with weights that the worker gets from it. Fails as writing files does. */
PS_MUST_USE ps_status ps_trace_write_part(const char *path, const ps_trace_track *tracks,
                                          size_t count, const ps_trace_alignment *alignment);

/* Writes the file from all parts, whole or not at all. A path without a file is ignored;
 * *is_written is false if there was no part at all. If a part says how wrong times may be, so does
 * the file. Lines that are no event are left out, counted and logged. Any thread. Fails as writing
 * files does. */
PS_MUST_USE ps_status ps_trace_merge(char *const *parts, size_t count, const char *path,
                                     bool *is_written);

/* Prefix and suffix of the file's name, for ps_artifact_name_of_job (common/artifact/report.h), and
 * the name of a part. */
#define PS_TRACE_PREFIX "TRACE"
#define PS_TRACE_SUFFIX ".json.gz"
#define PS_TRACE_PART "trace.part"

#endif
