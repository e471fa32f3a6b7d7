/* SPDX-License-Identifier: Apache-2.0 */
/* train_columns.h - the columns that each TR file has (common/artifact/report.h), whatever the
 * job's metrics are; those of metrics follow. */
#ifndef PS_COMMON_BASE_TRAIN_COLUMNS_H
#define PS_COMMON_BASE_TRAIN_COLUMNS_H

#include <stdbool.h>

/* The names of these columns in the order of the file, with commas between. */
extern const char ps_train_columns[];

/* Returns whether one of these columns has this name. */
bool ps_train_columns_have(const char *name);

#endif
