/* SPDX-License-Identifier: Apache-2.0 */
/* evaluation_export.h - a model with sparse tables as one file: its embeddings have a row for
 * every id, in the order of ids.
 *
 * A row is what an evaluation reads for its id (evaluation_rows.h): of one that has none, its
 * first values, or zeros. So the file is the model that the job would have left without
 * model.table, and says so.
 */
#ifndef PS_COMMON_TRAIN_EVALUATION_EXPORT_H
#define PS_COMMON_TRAIN_EVALUATION_EXPORT_H

#include "common/train/evaluation_rows.h"

/* Of a plan with tables, its block of weights and its rows. An ONNX file where the path ends in
 * ".onnx", else safetensors. RESOURCE_EXHAUSTED without memory for all rows; else as
 * ps_plan_create, ps_weights_write and ps_onnx_write. */
PS_MUST_USE ps_status ps_evaluation_export(const ps_plan *plan, const float *weights,
                                           const ps_evaluation_rows *rows, const char *path);

#endif
