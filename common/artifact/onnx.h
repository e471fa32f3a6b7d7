/* SPDX-License-Identifier: Apache-2.0 */
/* onnx.h - a model with its weights as an ONNX file: opset 13, IR version 7.
 *
 * The graph has an input "input" (N, shape of a sample) and an output "logits" (N,
 * shape of the last layer), N a symbolic dimension, all float32. It computes what
 * ps_model_predict does: dropout is left out, batch norm takes its running
 * statistics, and there is no softmax unless the model has one as a layer. Weights
 * are initializers under their variables' names. Layout: proto/onnx/onnx.proto, operators:
 * onnx/docs/Operators.md as of version 13.
 */
#ifndef PS_COMMON_ARTIFACT_ONNX_H
#define PS_COMMON_ARTIFACT_ONNX_H

#include "common/artifact/safetensors.h"
#include "common/nn/model.h"

/* Is there a way to write layers of that kind? A test sees to it that there is for
 * each in common/nn/list.h. */
bool ps_onnx_has_layer(const char *kind);

/* Writes atomically. `title` is the graph's name; meta becomes metadata_props.
 *
 * FAILED_PRECONDITION  there is no way to write a layer of this kind
 * OUT_OF_RANGE         the file would be larger than the 2 GiB that the format allows
 * else                 those of ps_file_writer */
PS_MUST_USE ps_status ps_onnx_write(const char *path, const ps_model *model, const float *block,
                                    const char *title, const ps_meta *meta, size_t meta_count);

#endif
