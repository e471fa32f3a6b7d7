/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_store_impl.h - what the files that implement checkpoint_store.h share. */
#ifndef PS_COORDINATOR_CHECKPOINT_STORE_IMPL_H
#define PS_COORDINATOR_CHECKPOINT_STORE_IMPL_H

#include "services/coordinator/io/checkpoint_store.h"

enum { PS_STEP_DIGITS = 13 };

/* Writes the name of the folder of the checkpoint at `step`. */
void ps_checkpoint_step_name(char out[PS_STEP_DIGITS + 1], uint64_t step);

/* Writes the path of `name` in the folder with the job's checkpoints. */
PS_MUST_USE ps_status ps_checkpoint_path(char out[PS_FOLDER_MAX], const char *job_folder,
                                         const char *name);

/* checkpoint_retain.c */

/* Has LATEST name the checkpoint with this name. */
PS_MUST_USE ps_status ps_checkpoint_set_latest(const char *job_folder, const char *name);

/* Removes the checkpoint at `step`. */
void ps_checkpoint_forget(const char *job_folder, uint64_t step);

/* Removes the checkpoints that spec.checkpoint does not keep, and each passing one that is not the
 * newest, but none that a kept one needs. Damaged checkpoints do not count, and are not removed. */
void ps_checkpoint_retain(const ps_checkpoint_conf *conf);

#endif
