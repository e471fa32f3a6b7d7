/* SPDX-License-Identifier: Apache-2.0 */
/* check_conf.h - checks which data set a job takes: source, numbers, files and columns. For
 * common/job only. */
#ifndef PS_COMMON_JOB_CHECK_CONF_H
#define PS_COMMON_JOB_CHECK_CONF_H

#include "common/data/conf.h"
#include "common/job/check.h"

/* Checks the data set's specification (names, numbers, files and columns) and fills *conf. Returns
 * false after a report. */
bool ps_check_data_conf(ps_check *check, Psgd__V1__DataSpec *spec, ps_data_conf *conf);

#endif
