/* SPDX-License-Identifier: Apache-2.0 */
/* onnx.h - writes a model with its weights as an ONNX file: opset 13, IR version 7.
 *
 * The graph has an input "input" (N, shape of a sample) and an output "logits" (N, shape of the
 * last layer). N is a symbolic dimension, and all values are float32. The graph computes what
 * ps_model_predict does: dropout is left out, batch norm uses its running statistics, and there is
 * no softmax unless the model has it as a layer. Weights are initializers with the names of their
 * variables. Layout: proto/onnx/onnx.proto. Operators: onnx/docs/Operators.md as of version 13.
 */
#ifndef PS_COMMON_ARTIFACT_ONNX_H
#define PS_COMMON_ARTIFACT_ONNX_H

#include "common/artifact/safetensors.h"
#include "common/nn/model.h"

/* Returns whether layers of this kind can be written. A test checks that every kind in
 * common/nn/list.h can. */
bool ps_onnx_has_layer(const char *kind);

/* Writes the file atomically. `title` becomes the graph's name, `meta` metadata_props.
 *
 *   FAILED_PRECONDITION  a layer of this kind cannot be written
 *   OUT_OF_RANGE         the file would be larger than the 2 GiB that the format allows
 *   else                 those of ps_file_writer
 */
PS_MUST_USE ps_status ps_onnx_write(const char *path, const ps_model *model, const float *block,
                                    const char *title, const ps_meta *meta, size_t meta_count);

#endif
