/* SPDX-License-Identifier: Apache-2.0 */
/* files.h - whole files, directories and paths.
 *
 * Errors are errno's (NOT_FOUND, PERMISSION_DENIED, ...) with the path's end in
 * the text. Any thread.
 */
#ifndef PS_COMMON_BASE_FILES_H
#define PS_COMMON_BASE_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"

enum {
    PS_NAME_MAX = 128, /* longest safe name */
    PS_PATH_MAX = 512  /* longest safe path */
};

/* Reads a file of at most max_bytes, RESOURCE_EXHAUSTED beyond. *bytes is the
 * caller's to free() and ends with a NUL that *n does not count. */
PS_MUST_USE ps_status ps_file_read(const char *path, size_t max_bytes, char **bytes, size_t *n);

/* Makes or replaces a file so that at any moment, also after a crash, there is
 * all of the old or all of the new one: temporary in the same directory, fsync,
 * rename, fsync of the directory. Mode 0644 under the umask. */
PS_MUST_USE ps_status ps_file_write(const char *path, const void *bytes, size_t n);

/* The same in pieces. After open: any number of adds, then commit or abandon,
 * which end it, commit also when it fails; after a failed add only abandon. */
typedef struct ps_file_writer {
    int fd;
    char *path;
    char *temporary;
} ps_file_writer;

PS_MUST_USE ps_status ps_file_writer_open(ps_file_writer *writer, const char *path);
PS_MUST_USE ps_status ps_file_writer_add(ps_file_writer *writer, const void *bytes, size_t n);
PS_MUST_USE ps_status ps_file_writer_commit(ps_file_writer *writer);
void ps_file_writer_abandon(ps_file_writer *writer); /* no trace is left; legal when ended */

/* Makes the complete file `from` durable and gives it the name `to`, in the same directory,
 * replacing what is there. `from` is left as it is after a failure. */
PS_MUST_USE ps_status ps_file_replace(const char *from, const char *to);

/* Adds to the end, making the file if there is none. Not synced. */
PS_MUST_USE ps_status ps_file_append(const char *path, const void *bytes, size_t n);

/* Makes a directory and those above it (mode 0755 under the umask). OK when it
 * is there. */
PS_MUST_USE ps_status ps_dir_make(const char *path);

/* Makes the directory that the file of this path lies in, as ps_dir_make. */
PS_MUST_USE ps_status ps_dir_make_for(const char *path);

/* How many bytes this process may still write to the file system of `path`. */
PS_MUST_USE ps_status ps_disk_free(const char *path, uint64_t *bytes);

/* Removes a file or a directory with all that is in it; symbolic links are
 * removed, not followed, and other file systems not entered. OK when there is
 * nothing. */
PS_MUST_USE ps_status ps_dir_remove(const char *path);

/* "dir/name" into out; OUT_OF_RANGE when it does not fit. An empty dir gives
 * the name alone. */
PS_MUST_USE ps_status ps_path_join(char *out, size_t cap, const char *dir, const char *name);

/* Can a peer's text be the name of a file? 1 to 128 of [A-Za-z0-9._()-], no
 * leading dot, no "..". */
bool ps_name_is_safe(const char *name);

/* The same of a file that may lie in a folder: a safe name, or two with a slash
 * between them, 128 characters together. */
bool ps_file_name_is_safe(const char *name);

/* The same of a path: up to 8 safe names with slashes between them, 512
 * characters together. */
bool ps_path_is_safe(const char *path);

/* Where the file `path`, a safe path, is below `dir`. INVALID_ARGUMENT if links lead
 * out of dir; NOT_FOUND and others as of opening it. */
PS_MUST_USE ps_status ps_path_below(char *out, size_t cap, const char *dir, const char *path);

/* The last 60 bytes at most, for messages: their end says why, and must fit. */
const char *ps_path_tail(const char *path);

#endif
