/* SPDX-License-Identifier: Apache-2.0 */
/* weights.h - writes the variables of a model as a safetensors file, and reads them back.
 *
 * The file has one tensor a variable, with its name and shape. State of layers (running statistics)
 * is included. The variables are those of a model or a layout; `at` and `size` of a variable say
 * where its values lie in the block, in floats.
 */
#ifndef PS_COMMON_ARTIFACT_WEIGHTS_H
#define PS_COMMON_ARTIFACT_WEIGHTS_H

#include "common/artifact/safetensors.h"
#include "common/nn/model.h"

/* Writes the file atomically. Errors are those of ps_file_writer. */
PS_MUST_USE ps_status ps_weights_write(const char *path, const ps_variable *variables, size_t count,
                                       const float *block, const ps_meta *meta, size_t meta_count);

/* Writes the file as ps_weights_write does, with values that `source` gives in the order of the
 * variables. Sets *written to its size and digest. Errors are those of
 * ps_safetensors_write_from. */
PS_MUST_USE ps_status ps_weights_write_from(const char *path, const ps_variable *variables,
                                            size_t count, const ps_meta *meta, size_t meta_count,
                                            const ps_tensor_source *source, ps_written *written);

/* Checks that all values are finite. Returns INTERNAL with the first one that is not. */
PS_MUST_USE ps_status ps_weights_check_finite(const ps_variable *variables, size_t count,
                                              const float *block);

/* Checks that the file holds exactly these variables; reads only its header. Fails with
 * INVALID_ARGUMENT, which names the tensor, what is expected and what was found, else as
 * ps_safetensors_open. */
PS_MUST_USE ps_status ps_weights_check(const char *path, const ps_variable *variables,
                                       size_t count);

/* Checks the file as ps_weights_check does, and that all values are finite; then copies them into
 * `block`. After a failure `block` is unchanged. */
PS_MUST_USE ps_status ps_weights_read(const char *path, const ps_variable *variables, size_t count,
                                      float *block);

#endif
