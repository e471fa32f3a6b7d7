/* SPDX-License-Identifier: Apache-2.0 */
/* file_stamp.c - see file_stamp.h. */
#include "common/base/file_stamp.h"

bool ps_file_stamp_is(const ps_file_stamp *a, const ps_file_stamp *b)
{
    return a->time.tv_sec == b->time.tv_sec && a->time.tv_nsec == b->time.tv_nsec &&
           a->inode == b->inode && a->size == b->size;
}

bool ps_file_has_changed(const char *path, const ps_file_stamp *read, ps_file_stamp *now)
{
    struct stat facts;

    if (stat(path, &facts) != 0) {
        return false;
    }
    *now = (ps_file_stamp){facts.st_mtim, facts.st_ino, facts.st_size};
    return !ps_file_stamp_is(now, read);
}
