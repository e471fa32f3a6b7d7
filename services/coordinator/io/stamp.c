/* SPDX-License-Identifier: Apache-2.0 */
/* stamp.c - the file that says which database a data directory was last used with. */
#include "services/coordinator/io/stamp.h"

#include "common/base/files.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    PATH_BYTES = 4096,
    STAMP_MAX = 512,
    COUNT_BYTES = 21 /* the 20 digits of the count of changes, and the newline */
};

/* Writes the stamp's text. The count has a fixed width and comes last, so that it can be
 * overwritten in place. */
static int format(char text[STAMP_MAX], const ps_stamp *stamp)
{
    return snprintf(text, STAMP_MAX, "psgd jobs.db\nid %s\ncreated %s\nchanges %020" PRIu64 "\n",
                    stamp->id, stamp->created, stamp->changes);
}

ps_status ps_stamp_read(const char *folder, ps_stamp *out)
{
    char path[PATH_BYTES], again[STAMP_MAX], *text = NULL;
    ps_stamp stamp = {0};
    size_t n = 0;
    ps_status st = ps_path_join(path, sizeof path, folder, PS_STAMP_FILE);

    if (ps_is_ok(&st)) {
        st = ps_file_read(path, STAMP_MAX, &text, &n);
    }
    if (!ps_is_ok(&st)) {
        return st;
    }
    if (sscanf(text, "psgd jobs.db\nid %32[0-9a-f]\ncreated %23[0-9TZ:-]\nchanges %20" SCNu64,
               stamp.id, stamp.created, &stamp.changes) == 3 &&
        format(again, &stamp) > 0 && strcmp(again, text) == 0) {
        *out = stamp;
    } else {
        st = ps_fail(PS_DATA_LOSS, "%s is damaged", PS_PATH_SHOWN(path));
    }
    free(text);
    return st;
}

ps_status ps_stamp_write(const char *folder, const ps_stamp *stamp, int *fd)
{
    char path[PATH_BYTES], text[STAMP_MAX];
    int n = format(text, stamp);
    ps_status st = ps_path_join(path, sizeof path, folder, PS_STAMP_FILE);

    if (ps_is_ok(&st)) {
        st = ps_file_write(path, text, (size_t)n);
    }
    if (!ps_is_ok(&st)) {
        return st;
    }
    *fd = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    return *fd >= 0 ? ps_ok() : ps_fail_errno(errno, "open %s", PS_PATH_SHOWN(path));
}

void ps_stamp_advance(int fd, uint64_t changes)
{
    char text[COUNT_BYTES + 1];
    off_t end = lseek(fd, 0, SEEK_END);
    ssize_t written = 0;

    snprintf(text, sizeof text, "%020" PRIu64 "\n", changes);
    if (end > COUNT_BYTES) {
        written = pwrite(fd, text, COUNT_BYTES, end - COUNT_BYTES);
    }
    (void)written;
}
