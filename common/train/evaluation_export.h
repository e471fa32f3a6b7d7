/* SPDX-License-Identifier: Apache-2.0 */
/* evaluation_export.h - writes a model with sparse tables as one file without sparse tables: each
 * embedding becomes a matrix with a row for every id, in the order of ids.
 *
 * The row of an id has the values that an evaluation reads for the id (evaluation_rows.h). The
 * description in the file is that of the job without model.table, so the file is read like any
 * other model. */
#ifndef PS_COMMON_TRAIN_EVALUATION_EXPORT_H
#define PS_COMMON_TRAIN_EVALUATION_EXPORT_H

#include "common/train/evaluation_rows.h"

/* Writes the model of a plan with tables to `path`: as ONNX if the path ends in ".onnx", else as
 * safetensors. `weights` is the model's block of weights, `rows` the rows of its tables. Returns
 * RESOURCE_EXHAUSTED if there is no memory for all rows; else fails as ps_plan_create,
 * ps_weights_write or ps_onnx_write does. */
PS_MUST_USE ps_status ps_evaluation_export(const ps_plan *plan, const float *weights,
                                           const ps_evaluation_rows *rows, const char *path);

#endif
