/* SPDX-License-Identifier: Apache-2.0 */
/* last_error.h - keeps the text of a thread's last error, which psgd_last_error returns. */
#ifndef PSGD_LAST_ERROR_H
#define PSGD_LAST_ERROR_H

#include "common/base/status.h"

/* Keeps the text of a failure as this thread's last error, printable and in one line. Returns the
 * failure's code. */
int library_tell(const ps_status *st);

#endif
