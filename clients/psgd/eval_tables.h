/* SPDX-License-Identifier: Apache-2.0 */
/* eval_tables.h - opens the rows of a model's sparse tables for psgd eval and psgd predict: from
 * the files that the user names, or from files beside the model. */
#ifndef PS_CLIENTS_PSGD_EVAL_TABLES_H
#define PS_CLIENTS_PSGD_EVAL_TABLES_H

#include "common/base/option.h"
#include "common/train/evaluation_rows.h"

/* Opens the rows in *out; NULL if the model has no sparse tables. `plan` must outlive them.
 *
 * INVALID_ARGUMENT  files are named, but the model has no sparse tables
 * NOT_FOUND         no file is named, and there is none beside the model
 * else as ps_evaluation_rows_open
 */
PS_MUST_USE ps_status ps_eval_tables(const ps_plan *plan, const char *model_path,
                                     const ps_option_list *named, ps_evaluation_rows **out);

#endif
