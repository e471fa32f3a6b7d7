/* SPDX-License-Identifier: Apache-2.0 */
/* file_stamp.h - which state of a file was read, for files that are read again when they change. */
#ifndef PS_COMMON_BASE_FILE_STAMP_H
#define PS_COMMON_BASE_FILE_STAMP_H

#include <stdbool.h>
#include <sys/stat.h>

/* Time of the last modification, inode and size of a file. A file that replaces another has another
 * inode, even within the same tick of the clock. All 0: no file. */
typedef struct ps_file_stamp {
    struct timespec time;
    ino_t inode;
    off_t size;
} ps_file_stamp;

/* Returns whether both stamps are equal. */
bool ps_file_stamp_is(const ps_file_stamp *a, const ps_file_stamp *b);

/* Writes the stamp of the file at `path` to *now and returns whether it differs from `read`. A file
 * that cannot be found counts as unchanged, and *now is not set. */
bool ps_file_has_changed(const char *path, const ps_file_stamp *read, ps_file_stamp *now);

#endif
