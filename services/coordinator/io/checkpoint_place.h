/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_place.h - the folder of --checkpoint-path, in which jobs keep their checkpoints on
 * another disk than their other files.
 *
 * The checkpoints of a job are in DIR/ID, and `checkpoints` in the job's folder is a link to it. So
 * readers of checkpoints need not know DIR, and checkpoints of earlier jobs are found whatever
 * --checkpoint-path is now. Waits for the disk: not on the loop's thread. */
#ifndef PS_COORDINATOR_CHECKPOINT_PLACE_H
#define PS_COORDINATOR_CHECKPOINT_PLACE_H

#include "common/base/status.h"

#define PS_CHECKPOINTS_NAME "checkpoints" /* in the folder of a job */

/* Checks that `dir` is a folder in which files can be created, and that it is outside of data_dir,
 * which must exist. Writes its real path to *out, which the caller frees. Locks the folder until
 * the caller closes *lock; lock NULL: several coordinators share the folder, so it is not locked.
 * Returns UNAVAILABLE if another process holds the lock. */
PS_MUST_USE ps_status ps_checkpoint_place_open(const char *dir, const char *data_dir, char **out,
                                               int *lock);

/* Makes the job with this folder keep its checkpoints in dir/job_id, unless the job has a place for
 * them already. dir NULL: in the job's folder. If dir/job_id cannot be made, logs that, and the
 * checkpoints will be in the job's folder. Returns NOT_FOUND if the job's folder has a link that
 * leads nowhere. */
PS_MUST_USE ps_status ps_checkpoint_place_give(const char *dir, const char *job_folder,
                                               const char *job_id);

/* Removes the folder of the job, and its checkpoints wherever ps_checkpoint_place_give has put
 * them. */
PS_MUST_USE ps_status ps_checkpoint_place_remove(const char *job_folder, const char *job_id);

#endif
