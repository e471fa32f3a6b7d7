/* SPDX-License-Identifier: Apache-2.0 */
/* files.h - reads and writes whole files, makes directories, checks paths.
 *
 * Errors have the code of their errno (NOT_FOUND, PERMISSION_DENIED, ...) and the path in the text,
 * shortened if it is long. Any thread.
 */
#ifndef PS_COMMON_BASE_FILES_H
#define PS_COMMON_BASE_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "common/base/shorten.h"
#include "common/base/status.h"

enum {
    PS_NAME_MAX = 128, /* bytes of the longest safe name */
    PS_PATH_MAX = 512  /* bytes of the longest safe path */
};

/* Reads a file of at most `max_bytes`; fails with RESOURCE_EXHAUSTED if it is longer. The caller
 * frees *bytes, which ends with a NUL that *n does not count. */
PS_MUST_USE ps_status ps_file_read(const char *path, size_t max_bytes, char **bytes, size_t *n);

/* Creates or replaces a file atomically: at any moment, also after a crash, the file is whole,
 * old or new. Writes a temporary in the same directory, then fsync, rename and fsync of the
 * directory. Mode 0644 under the umask, which services set (ps_files_private). */
PS_MUST_USE ps_status ps_file_write(const char *path, const void *bytes, size_t n);

/* Writes a file as ps_file_write does, with mode 0600 from the first byte on, for what only its
 * owner may read. */
PS_MUST_USE ps_status ps_file_write_private(const char *path, const void *bytes, size_t n);

/* Writes a file in pieces, with the guarantee of ps_file_write. After open come any number of
 * adds, then commit or abandon. Commit ends the writer even if it fails. After a failed add only
 * abandon is allowed. */
typedef struct ps_file_writer {
    int fd;
    bool is_passing; /* nothing is synced */
    /* bytes that add was given, and how many of them the kernel was told to write to the disk */
    uint64_t added, started;
    char *path;
    char *temporary;
} ps_file_writer;

/* Creates the temporary file. */
PS_MUST_USE ps_status ps_file_writer_open(ps_file_writer *writer, const char *path);

/* Creates the temporary file of a file that nobody needs after a crash: no byte is synced, and
 * commit only renames it. */
PS_MUST_USE ps_status ps_file_writer_open_passing(ps_file_writer *writer, const char *path);

/* Appends n bytes to the temporary file. The kernel begins to write a long file to the disk while
 * more is added, so that commit has less to wait for. */
PS_MUST_USE ps_status ps_file_writer_add(ps_file_writer *writer, const void *bytes, size_t n);

/* Makes the file durable under its name and ends the writer. */
PS_MUST_USE ps_status ps_file_writer_commit(ps_file_writer *writer);

/* Removes the temporary file and ends the writer. Does nothing if the writer has ended. */
void ps_file_writer_abandon(ps_file_writer *writer);

/* Copies a regular file, with the guarantee of ps_file_write. */
PS_MUST_USE ps_status ps_file_copy(const char *from, const char *to);

/* Makes the complete file `from` durable and renames it to `to` in the same directory, replacing
 * an old one. `from` stays as it is after a failure, unless only the directory could not be
 * synced. */
PS_MUST_USE ps_status ps_file_replace(const char *from, const char *to);

/* Appends n bytes to a file; creates it if there is none. Not synced. */
PS_MUST_USE ps_status ps_file_append(const char *path, const void *bytes, size_t n);

/* Restricts all that the process creates from now on to its user: folders 0700, files 0600. Call it
 * in main, before any thread. */
void ps_files_private(void);

/* Makes a data directory and locks it; *fd holds the lock until it is closed. Older programs let
 * other users open the lock and the entries `names` (NULL-terminated) of the directory; this
 * removes their permission. Fails with UNAVAILABLE if another process has the lock. */
PS_MUST_USE ps_status ps_dir_lock(const char *path, const char *const *names, int *fd);

/* Makes a directory and its parents (mode 0755 under the umask). Succeeds if it exists. */
PS_MUST_USE ps_status ps_dir_make(const char *path);

/* Makes the parent directory of the file `path`, as ps_dir_make does. */
PS_MUST_USE ps_status ps_dir_make_for(const char *path);

/* Writes to *bytes how many bytes this process may still write to the file system of `path`. */
PS_MUST_USE ps_status ps_disk_free(const char *path, uint64_t *bytes);

/* Removes a file or a directory tree. Removes symbolic links without following them, and does
 * not enter other file systems. Succeeds if nothing is there. */
PS_MUST_USE ps_status ps_dir_remove(const char *path);

/* Removes all entries of a folder whose names begin with a dot and end with .tmp: what processes
 * that were killed had begun to write. Nobody may be writing there. A failure only costs disk
 * space, so it is not reported. */
void ps_dir_sweep(const char *dir);

/* Writes "dir/name" to `out`; an empty `dir` gives the name alone. Fails with OUT_OF_RANGE if
 * `cap` bytes are too few. */
PS_MUST_USE ps_status ps_path_join(char *out, size_t cap, const char *dir, const char *name);

/* Returns whether a text from outside may name a file: 1 to 128 of [A-Za-z0-9._()-], no leading
 * dot, no "..". */
bool ps_name_is_safe(const char *name);

/* Returns whether a text is a safe name, or two safe names with a slash between them, at most
 * 128 bytes in all. */
bool ps_file_name_is_safe(const char *name);

/* Returns whether a text is 1 to 8 safe names with slashes between them, at most 512 bytes in
 * all. */
bool ps_path_is_safe(const char *path);

/* Writes the real path of `path` below `dir` to `out`. Fails with INVALID_ARGUMENT if links or ".."
 * lead out of `dir`, with OUT_OF_RANGE if `cap` bytes are too few, else with the errors of opening
 * the file. */
PS_MUST_USE ps_status ps_path_below(char *out, size_t cap, const char *dir, const char *path);

/* Opens a regular file for reading, without waiting for anybody: a FIFO, a device or a directory is
 * refused with INVALID_ARGUMENT. Follows links. `facts` (optional) receives its stat. The caller
 * closes *fd. */
PS_MUST_USE ps_status ps_file_open(const char *path, int *fd, struct stat *facts);

/* Opens the file `path` below the folder `dir` as ps_file_open does. Refuses with INVALID_ARGUMENT
 * a path that leads out of `dir` by links or "..". Fails too if somebody puts a link there during
 * the call. */
PS_MUST_USE ps_status ps_file_open_below(const char *dir, const char *path, int *fd,
                                         struct stat *facts);

/* The text of a path for a message: shortened, so that the reason behind it fits. No file can be
 * opened by this text. */
#define PS_PATH_SHOWN(path) PS_SHORT((path), 160)

#endif
