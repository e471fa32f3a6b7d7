/* SPDX-License-Identifier: Apache-2.0 */
/* replay.h - computes the state of lost servers anew: that of the last checkpoint, or of the
 * beginning of the job, and after it the contributions that ranks have kept
 * (common/wire/kept_pushes.h). It has the bits that the servers had. Waits for the disk, and
 * computes: not on the loop's thread.
 */
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
    const ps_package *package; /* of the attempt; NULL: it is not known how the job began */
    const char *job_folder;    /* has the checkpoints */
    const char *folder;        /* has the files of ranks, which are removed; gets the states */
    const uint32_t *servers;   /* (server_count >= 1) */
    size_t server_count;
    uint64_t until; /* the clock at whose beginning the state is wanted */
} ps_replay_conf;

/* Writes the states and weights of the servers, as a collected checkpoint has them, and the files
 * of ranks if one of the servers had kept them. *clock is `until`, or the last clock before of
 * which all contributions are there. Sets files (*count), which the caller frees.
 *
 * NOT_FOUND  there is no state to begin with
 * DATA_LOSS  a file is damaged */
PS_MUST_USE ps_status ps_replay(const ps_replay_conf *conf, uint64_t *clock, ps_intake_file **files,
                                size_t *count);

#endif
