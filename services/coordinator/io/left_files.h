/* SPDX-License-Identifier: Apache-2.0 */
/* left_files.h - which files a node may leave of an attempt: their names and sizes.
 *
 * A node's files become artifacts of the job. A file with the name of another rank would replace
 * that rank's result, and a file without a bound would fill the disk. So both are checked before a
 * byte is stored. Pure; any thread, while plan and placement exist. */
#ifndef PS_COORDINATOR_LEFT_FILES_H
#define PS_COORDINATOR_LEFT_FILES_H

#include "common/job/plan.h"
#include "common/placement/placement.h"

#include "psgd/v1/node.pb-c.h"

/* The name under which a server leaves its slices, in their order. */
#define PS_WEIGHTS_FILE "weights.f32"

/* The node that leaves files. */
typedef struct ps_leaver {
    const ps_plan *plan;           /* kept */
    const ps_placement *placement; /* kept */
    bool is_server;
    uint32_t rank;       /* a server's rank; the first rank of a worker */
    uint32_t rank_count; /* number of the worker's ranks */
    bool is_checkpoint;  /* it leaves the files of a checkpoint, not of the attempt */
    /* it leaves the contributions that its ranks have kept, the state of its ranks if they have
     * some, and nothing else */
    bool is_kept;
    /* it leaves its part of a timeline that a client has asked for, and nothing else */
    bool is_trace;
} ps_leaver;

/* Checks name, kind and size of a file that the node offers. A node's log may have any name.
 *
 * INVALID_ARGUMENT  no node of that role and rank leaves it, or it is larger than it can be */
PS_MUST_USE ps_status ps_left_file_check(const ps_leaver *who, const char *name,
                                         Psgd__V1__ArtifactKind kind, uint64_t size);

/* Returns whether this is the name under which a rank of the worker leaves its part of the record
 * of rounds (common/artifact/round_record.h), and sets *rank. */
bool ps_left_file_is_rounds(const ps_leaver *who, const char *name, uint32_t *rank);

/* Returns whether this is the name of the node's part of the timeline (common/trace/trace_file.h).
 */
bool ps_left_file_is_trace(const ps_leaver *who, const char *name);

#endif
