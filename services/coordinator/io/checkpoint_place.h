/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_place.h - the folder of --checkpoint-path, in which jobs keep their checkpoints on
 * another disk than their other files.
 *
 * The checkpoints of a job are in DIR/ID, and `checkpoints` in the job's folder is a link to it. So
 * whoever reads them needs not know of DIR, and those of earlier jobs are found whatever
 * --checkpoint-path is now. Waits for the disk: not on the loop's thread.
 */
#ifndef PS_COORDINATOR_CHECKPOINT_PLACE_H
#define PS_COORDINATOR_CHECKPOINT_PLACE_H

#include "common/base/status.h"

#define PS_CHECKPOINTS_NAME "checkpoints" /* in the folder of a job */

/* Checks that `dir` is a folder in which files can be made, outside of data_dir, which exists.
 * Writes its real path to *out, which the caller frees. Holds the folder's lock until *lock, -1
 * before, is closed; lock NULL: several coordinators share the folder. Fails with UNAVAILABLE if
 * another process holds it. */
PS_MUST_USE ps_status ps_checkpoint_place_open(const char *dir, const char *data_dir, char **out,
                                               int *lock);

/* Has the job whose folder this is keep its checkpoints in dir/job_id, if it has none yet; dir
 * NULL: in its folder. Fails with NOT_FOUND if it has a link and there is nothing at its end. */
PS_MUST_USE ps_status ps_checkpoint_place_give(const char *dir, const char *job_folder,
                                               const char *job_id);

/* Removes the folder of the job, and its checkpoints wherever they are. */
PS_MUST_USE ps_status ps_checkpoint_place_remove(const char *job_folder, const char *job_id);

#endif
