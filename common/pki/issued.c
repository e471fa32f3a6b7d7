/* SPDX-License-Identifier: Apache-2.0 */
/* issued.c - see issued.h. */
#include "common/pki/issued.h"

#include "common/base/files.h"
#include "common/base/shorten.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SWEEP_EVERY_S = 86400 };

static ps_status path_of(char path[PS_PATH_MAX], const char *dir, const char *name)
{
    char relative[PS_NAME_MAX + 16];

    snprintf(relative, sizeof relative, "issued/%.*s", PS_NAME_MAX, name);
    return ps_path_join(path, PS_PATH_MAX, dir, relative);
}

static ps_status read_at(const char *path, ps_certificate *out)
{
    char *pem = NULL;
    size_t n = 0;
    ps_status st = ps_file_read(path, PS_PKI_FILE_MAX, &pem, &n);

    if (ps_is_ok(&st)) {
        st = ps_certificate_read(PS_PATH_SHOWN(path), pem, n, out);
    }
    free(pem);
    return st;
}

/* Returns the name of the next file in `folder` that ends with .pem, and so has a certificate.
 * Returns NULL at the end. */
static const char *next_name(DIR *folder)
{
    const struct dirent *entry;

    while ((entry = readdir(folder)) != NULL) {
        size_t len = strlen(entry->d_name);

        if (ps_name_is_safe(entry->d_name) && len > 4 &&
            strcmp(entry->d_name + len - 4, ".pem") == 0) {
            return entry->d_name;
        }
    }
    return NULL;
}

/* Sets the file's time of modification to the certificate's end, by which a sweep chooses files to
 * read. If this fails, a sweep reads the file once more. */
static void stamp(int folder, const char *path, const ps_certificate *facts)
{
    const struct timespec end = {.tv_sec = (time_t)facts->not_after};

    (void)utimensat(folder, path, (const struct timespec[2]){end, end}, AT_SYMLINK_NOFOLLOW);
}

ps_status ps_issued_store(const char *dir, const ps_certificate *facts, const ps_strbuf *pem)
{
    char name[PS_PKI_SERIAL_BYTES + 8], path[PS_PATH_MAX];
    ps_status st;

    snprintf(name, sizeof name, "%s.pem", facts->serial);
    st = path_of(path, dir, name);
    if (ps_is_ok(&st)) {
        st = ps_dir_make_for(path);
    }
    if (ps_is_ok(&st)) {
        st = ps_file_write_private(path, pem->data, pem->len);
    }
    if (ps_is_ok(&st)) {
        stamp(AT_FDCWD, path, facts);
    }
    return st;
}

ps_status ps_issued_find(const char *dir, const char *serial, ps_certificate *out)
{
    char name[PS_PKI_SERIAL_BYTES + 8], path[PS_PATH_MAX];
    ps_status st;

    if (serial[0] == '\0' || strspn(serial, "0123456789ABCDEF") != strlen(serial) ||
        strlen(serial) >= PS_PKI_SERIAL_BYTES) {
        return ps_fail(PS_INVALID_ARGUMENT, "\"%s\" is no serial number", PS_SHORT(serial, 48));
    }
    snprintf(name, sizeof name, "%s.pem", serial);
    st = path_of(path, dir, name);
    if (ps_is_ok(&st)) {
        st = read_at(path, out);
    }
    return st.code == PS_NOT_FOUND
               ? ps_fail(PS_NOT_FOUND, "the certificate %s was not issued by the authority here",
                         serial)
               : st;
}

ps_status ps_issued_each(const char *dir, ps_issued_fn *fn, void *arg)
{
    char path[PS_PATH_MAX];
    const char *name;
    ps_status st = ps_path_join(path, sizeof path, dir, "issued");
    DIR *folder = ps_is_ok(&st) ? opendir(path) : NULL;

    if (folder == NULL) {
        return ps_is_ok(&st) && errno != ENOENT
                   ? ps_fail_errno(errno, "open %s", PS_PATH_SHOWN(path))
                   : st;
    }
    while (ps_is_ok(&st) && (name = next_name(folder)) != NULL) {
        ps_certificate facts;

        st = path_of(path, dir, name);
        if (ps_is_ok(&st)) {
            st = read_at(path, &facts);
        }
        if (ps_is_ok(&st)) {
            st = fn(arg, &facts);
        }
    }
    closedir(folder);
    return st;
}

/* Removes the file `name` of `folder`, with its certificate, if the certificate ended before
 * `end_s`. Reads no file whose time of modification is later than `end_s`: it is the end of the
 * certificate (see stamp) or the time when the file was written. Returns 1 if the file was removed,
 * else 0. *read counts the files that were read. */
static size_t remove_if_old(DIR *folder, const char *dir, const char *name, int64_t end_s,
                            size_t *read)
{
    char path[PS_PATH_MAX];
    struct stat what;
    ps_certificate facts;
    ps_status st;

    if (fstatat(dirfd(folder), name, &what, AT_SYMLINK_NOFOLLOW) != 0 ||
        (int64_t)what.st_mtime > end_s) {
        return 0;
    }
    ++*read;
    st = path_of(path, dir, name);
    if (ps_is_ok(&st)) {
        st = read_at(path, &facts);
    }
    if (ps_is_ok(&st) && facts.not_after >= end_s) {
        stamp(dirfd(folder), name, &facts);
        return 0;
    }
    return ps_is_ok(&st) && unlinkat(dirfd(folder), name, 0) == 0;
}

size_t ps_issued_sweep(const char *dir, int64_t now_s)
{
    char swept[PS_PATH_MAX], path[PS_PATH_MAX];
    const char *name = NULL;
    size_t removed = 0, read = 0;
    struct stat last;
    ps_status st = ps_path_join(swept, sizeof swept, dir, "swept");
    DIR *folder;

    if (!ps_is_ok(&st) ||
        (stat(swept, &last) == 0 && (int64_t)last.st_mtime > now_s - SWEEP_EVERY_S &&
         (int64_t)last.st_mtime <= now_s + SWEEP_EVERY_S)) {
        return 0;
    }
    st = ps_path_join(path, sizeof path, dir, "issued");
    folder = ps_is_ok(&st) ? opendir(path) : NULL;
    if (folder == NULL) {
        return 0;
    }
    while (read < PS_ISSUED_SWEPT_MAX && (name = next_name(folder)) != NULL) {
        removed += remove_if_old(folder, dir, name, now_s - PS_ISSUED_KEPT_S, &read);
    }
    closedir(folder);
    if (name == NULL) { /* all files were seen; otherwise the next call sweeps the rest */
        st = ps_file_write_private(swept, "", 0);
        (void)st; /* without the file the next call sweeps again */
    }
    return removed;
}
