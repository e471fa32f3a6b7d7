/* SPDX-License-Identifier: Apache-2.0 */
/* weights.h - the variables of a model as a safetensors file, and back.
 *
 * The file has one tensor a variable, of its name and shape; state (running
 * statistics) is among them. Variables are a model's or a layout's, the block is
 * where their `at` and `size` point.
 */
#ifndef PS_COMMON_ARTIFACT_WEIGHTS_H
#define PS_COMMON_ARTIFACT_WEIGHTS_H

#include "common/artifact/safetensors.h"
#include "common/nn/model.h"

/* Writes atomically; errors of ps_file_writer. */
PS_MUST_USE ps_status ps_weights_write(const char *path, const ps_variable *variables, size_t count,
                                       const float *block, const ps_meta *meta, size_t meta_count);

/* Does the file hold just these variables? Reads its header alone.
 * INVALID_ARGUMENT names the tensor, what is expected of it and what is found;
 * else as ps_safetensors_open. */
PS_MUST_USE ps_status ps_weights_check(const char *path, const ps_variable *variables,
                                       size_t count);

/* Checks the same, and that all values are finite numbers, and copies them into
 * the block, which is unchanged unless OK. */
PS_MUST_USE ps_status ps_weights_read(const char *path, const ps_variable *variables, size_t count,
                                      float *block);

#endif
