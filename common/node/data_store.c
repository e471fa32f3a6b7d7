/* SPDX-License-Identifier: Apache-2.0 */
/* data_store.c - see data_store.h. */
#include "common/node/data_store.h"

#include "common/base/files.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Creates the next file of the set in the temporary folder. */
static ps_status open_next(ps_data_store *store)
{
    char path[640];
    ps_status st =
        ps_path_join(path, sizeof path, store->temporary, store->files->at[store->file].name);

    if (ps_is_ok(&st)) {
        st = ps_dir_make_for(path); /* a file name may contain a folder */
    }
    if (!ps_is_ok(&st)) {
        return st;
    }
    store->fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (store->fd < 0) {
        return ps_fail_errno(errno, "create %s", PS_PATH_SHOWN(path));
    }
    store->at = 0;
    ps_sha256_init(&store->sha);
    return ps_ok();
}

ps_status ps_data_store_open(ps_data_store *store, const char *folder, const ps_data_files *files)
{
    ps_status st;
    char above[sizeof store->folder];
    char *slash;
    int n;

    assert(files->count > 0);
    memset(store, 0, sizeof *store);
    store->fd = -1;
    n = snprintf(store->folder, sizeof store->folder, "%s", folder);
    if (n < 0 || (size_t)n + sizeof ".XXXXXX" > sizeof store->temporary) {
        return ps_fail(PS_OUT_OF_RANGE, "the path of the data set is too long");
    }
    store->files = files;
    snprintf(above, sizeof above, "%s", folder);
    slash = strrchr(above, '/');
    if (slash != NULL) {
        *slash = '\0';
        st = ps_dir_make(above);
        if (!ps_is_ok(&st)) {
            return st;
        }
    }
    memcpy(store->temporary, store->folder, (size_t)n);
    memcpy(store->temporary + n, ".XXXXXX", sizeof ".XXXXXX");
    if (mkdtemp(store->temporary) == NULL) {
        store->temporary[0] = '\0';
        return ps_fail_errno(errno, "make a folder beside %s", PS_PATH_SHOWN(folder));
    }
    st = open_next(store);
    if (!ps_is_ok(&st)) {
        ps_data_store_abandon(store);
    }
    return st;
}

static ps_status write_all(int fd, const uint8_t *bytes, size_t n)
{
    while (n > 0) {
        ssize_t written = write(fd, bytes, n);

        if (written < 0 && errno != EINTR) {
            return ps_fail_errno(errno, "write a data file");
        }
        if (written > 0) {
            bytes += written;
            n -= (size_t)written;
        }
    }
    return ps_ok();
}

/* Closes a complete file, compares its checksum with the announced one, and creates the next file
 * if there is one. */
static ps_status end_file(ps_data_store *store)
{
    const ps_data_file *file = &store->files->at[store->file];
    char hex[PS_SHA256_HEX_BYTES];
    int fd = store->fd;

    store->fd = -1;
    if (close(fd) != 0) {
        return ps_fail_errno(errno, "close %s", file->name);
    }
    ps_sha256_finish(&store->sha, hex);
    if (strcmp(hex, file->sha256) != 0) {
        return ps_fail(PS_DATA_LOSS, "%s has sha256 %.16s.., %.16s.. was announced", file->name,
                       hex, file->sha256);
    }
    store->file++;
    return store->file < store->files->count ? open_next(store) : ps_ok();
}

ps_status ps_data_store_add(ps_data_store *store, uint32_t file, uint64_t offset, const void *bytes,
                            size_t n, bool *is_complete)
{
    const ps_data_file *now = &store->files->at[store->file];
    ps_status st;

    *is_complete = false;
    if (store->file >= store->files->count || file != store->file || offset != store->at ||
        n > now->size - store->at) {
        return ps_fail(PS_OUT_OF_RANGE,
                       "%zu bytes at %" PRIu64 " of file %u; file %zu is wanted from %" PRIu64, n,
                       offset, file, store->file, store->at);
    }
    st = write_all(store->fd, bytes, n);
    if (!ps_is_ok(&st)) {
        return st;
    }
    ps_sha256_add(&store->sha, bytes, n);
    store->at += n;
    if (store->at < now->size) {
        return ps_ok();
    }
    st = end_file(store);
    *is_complete = ps_is_ok(&st);
    return st;
}

bool ps_data_store_has_all(const ps_data_store *store)
{
    return store->files != NULL && store->file == store->files->count;
}

ps_status ps_data_store_commit(ps_data_store *store)
{
    assert(ps_data_store_has_all(store));
    /* The rename fails if the final folder exists with files. It is replaced: if it had the files
     * that its name says, they would not have been sent. */
    if (rename(store->temporary, store->folder) != 0) {
        ps_status st = ps_dir_remove(store->folder);

        if (!ps_is_ok(&st) || rename(store->temporary, store->folder) != 0) {
            st = ps_fail_errno(errno, "name the data set %s", PS_PATH_SHOWN(store->folder));
            ps_data_store_abandon(store);
            return st;
        }
    }
    store->temporary[0] = '\0';
    return ps_ok();
}

void ps_data_store_abandon(ps_data_store *store)
{
    if (store->temporary[0] == '\0') {
        return;
    }
    if (store->fd >= 0) {
        close(store->fd);
        store->fd = -1;
    }
    ps_sha256_fini(&store->sha);
    {
        ps_status st = ps_dir_remove(store->temporary);

        (void)st; /* a folder that could not be removed is removed at the node's next start */
    }
    store->temporary[0] = '\0';
}
