/* SPDX-License-Identifier: Apache-2.0 */
/* replay.h - computes the state of lost servers anew. It begins with the state of the last
 * checkpoint or of the beginning of the job, and applies the contributions that ranks have kept
 * (common/wire/kept_pushes.h). The result has the same bits that the servers had. Waits for the
 * disk, and computes: not on the loop's thread. */
#ifndef PS_COORDINATOR_REPLAY_H
#define PS_COORDINATOR_REPLAY_H

#include "common/job/plan.h"
#include "common/placement/placement.h"
#include "services/coordinator/io/artifacts.h"
#include "services/coordinator/io/attempt_package.h"

/* All pointers are borrowed. */
typedef struct ps_replay_conf {
    const ps_plan *plan;
    const ps_placement *placement;
    /* package of the attempt; NULL: the beginning of the job is not known */
    const ps_package *package;
    const char *job_folder; /* folder with the checkpoints */
    /* folder with the contributions that ranks have kept, as files, which ps_replay removes; it
     * writes the new states there */
    const char *folder;
    const uint32_t *servers; /* (server_count >= 1): the servers to compute */
    size_t server_count;
    uint64_t until; /* clock at whose beginning the state is needed */
    /* (shrink_count): clocks at which the sparse tables have shrunk (ps_tables_shrink_at) */
    const uint64_t *shrinks;
    size_t shrink_count;
} ps_replay_conf;

/* Writes the states and weights of the servers, as files of a collected checkpoint; also files of
 * ranks (rank-RANK.state), if a lost server had kept the reports of ranks (rank_reports.h). *clock
 * becomes `until`, or the first clock before it to which a contribution is missing; the states are
 * of its beginning. Sets *files (*count), which the caller frees.
 *
 * NOT_FOUND  there is no state to begin with
 * DATA_LOSS  a file is damaged */
PS_MUST_USE ps_status ps_replay(const ps_replay_conf *conf, uint64_t *clock, ps_intake_file **files,
                                size_t *count);

#endif
