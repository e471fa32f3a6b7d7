/* SPDX-License-Identifier: Apache-2.0 */
/* temp_dir.h - a temporary directory for one test. */
#ifndef PS_TESTS_SUPPORT_TEMP_DIR_H
#define PS_TESTS_SUPPORT_TEMP_DIR_H

#include "common/base/files.h"

#include "tests/support/cmocka_all.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct temp_dir {
    char path[64];
} temp_dir;

static inline temp_dir temp_dir_create(void)
{
    temp_dir dir = {"/tmp/psgd-test-XXXXXX"};

    assert_non_null(mkdtemp(dir.path));
    return dir;
}

static inline void temp_dir_destroy(const temp_dir *dir)
{
    ps_status st = ps_dir_remove(dir->path);

    assert_string_equal(st.text, "");
}

/* Returns the path "dir/name". It is valid until the fourth call after this one. */
static inline const char *temp_dir_file(const temp_dir *dir, const char *name)
{
    static char paths[4][256];
    static size_t next;
    char *path = paths[next++ % 4];

    snprintf(path, sizeof paths[0], "%s/%s", dir->path, name);
    return path;
}

#endif
