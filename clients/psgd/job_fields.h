/* SPDX-License-Identifier: Apache-2.0 */
/* job_fields.h - lists the fields of a job, as `--set` and job files name them. */
#ifndef PSGD_JOB_FIELDS_H
#define PSGD_JOB_FIELDS_H

#include <jansson.h>

/* Prints a table of path and type. A repeated field ends in "[]", a map in "{}". */
void ps_job_fields_show(void);

/* Returns the table of ps_job_fields_show as a JSON list of {"path", "type"}. The caller releases
 * it. */
json_t *ps_job_fields_json(void);

#endif
