/* SPDX-License-Identifier: Apache-2.0 */
/* code_files.h - reads the files of code that a job brings along. */
#ifndef PS_CLIENTS_PSGD_CODE_FILES_H
#define PS_CLIENTS_PSGD_CODE_FILES_H

#include "common/base/option.h"
#include "common/base/status.h"

#include <jansson.h>

/* Replaces paths of files by their content: each string in `code` of the job is the path of a file,
 * relative to the folder of the job's file `beside`, and becomes an object {file, text}. Then
 * appends the files `more`, whose paths are relative to the current folder. Fails with the path of
 * a file that cannot be read, is too long, or is not text. */
PS_MUST_USE ps_status ps_code_files_read(json_t *job, const char *beside,
                                         const ps_option_list *more);

#endif
