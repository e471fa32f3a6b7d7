/* SPDX-License-Identifier: Apache-2.0 */
/* library.h - shared libraries that are loaded when they are needed. They stay loaded. */
#ifndef PS_COMMON_BASE_LIBRARY_H
#define PS_COMMON_BASE_LIBRARY_H

#include "common/base/status.h"

/* A function of a library: its name, and where the pointer to the function is written. */
typedef struct ps_library_function {
    const char *name;
    void *at;
} ps_library_function;

/* Loads the library `file` and sets the pointers to its functions; `functions` ends with an entry
 * whose name is NULL. Fails with FAILED_PRECONDITION; the text begins with `flag` and names the
 * Debian `package`. */
PS_MUST_USE ps_status ps_library_load(const char *flag, const char *file, const char *package,
                                      const ps_library_function *functions);

#endif
