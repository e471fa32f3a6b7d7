/* SPDX-License-Identifier: Apache-2.0 */
/* library.c - see library.h. */
#include "common/base/library.h"

#include "common/base/shorten.h"

#include <dlfcn.h>
#include <string.h>

ps_status ps_library_load(const char *flag, const char *file, const char *package,
                          const ps_library_function *functions)
{
    void *loaded = dlopen(file, RTLD_NOW | RTLD_LOCAL);

    for (const ps_library_function *f = functions; loaded != NULL && f->name != NULL; f++) {
        void *found = dlsym(loaded, f->name);

        if (found == NULL) {
            loaded = NULL;
        } else {
            memcpy(f->at, &found, sizeof found);
        }
    }
    return loaded != NULL ? ps_ok()
                          : ps_fail(PS_FAILED_PRECONDITION, "%s: %s; Debian has it in %s", flag,
                                    PS_SHORT(dlerror(), 160), package);
}
