/* SPDX-License-Identifier: Apache-2.0 */
/* outlet.c - see outlet.h. */
#include "common/artifact/outlet.h"

#include "common/base/files.h"
#include "common/base/log.h"
#include "common/base/xalloc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BUFFER_BYTES = 64 * 1024 };

static ps_status make_file(ps_outlet *outlet)
{
    ps_status st = outlet->makes_folder ? ps_dir_make_for(outlet->path) : ps_ok();

    if (!ps_is_ok(&st)) {
        return st;
    }
    outlet->fd = open(outlet->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    return outlet->fd < 0 ? ps_fail_errno(errno, "open %s", PS_PATH_SHOWN(outlet->path)) : ps_ok();
}

ps_status ps_outlet_open(ps_outlet *outlet, const char *path, bool makes_folder)
{
    *outlet = (ps_outlet){.fd = -1, .path = ps_xstrdup(path), .makes_folder = makes_folder};
    outlet->st = make_file(outlet);
    if (!ps_is_ok(&outlet->st) && outlet->st.code != PS_RESOURCE_EXHAUSTED) {
        free(outlet->path);
        return outlet->st;
    }
    return ps_ok();
}

/* Counts the line that was appended last as complete, or drops it if more than
 * PS_OUTLET_WAITING_MAX bytes wait. */
static void take_row(ps_outlet *outlet)
{
    if (outlet->rows.len > PS_OUTLET_WAITING_MAX) {
        ps_strbuf_truncate(&outlet->rows, outlet->whole);
        outlet->lost++;
    }
    outlet->whole = outlet->rows.len;
}

static void write_rows(ps_outlet *outlet)
{
    size_t done = 0;

    outlet->st = outlet->fd < 0 ? make_file(outlet) : ps_ok();
    while (done < outlet->rows.len && ps_is_ok(&outlet->st)) {
        ssize_t n = write(outlet->fd, outlet->rows.data + done, outlet->rows.len - done);

        if (n >= 0) {
            done += (size_t)n;
        } else if (errno != EINTR) {
            outlet->st = ps_fail_errno(errno, "write %s", PS_PATH_SHOWN(outlet->path));
        }
    }
    if (done > 0) {
        memmove(outlet->rows.data, outlet->rows.data + done, outlet->rows.len - done);
        ps_strbuf_truncate(&outlet->rows, outlet->rows.len - done);
        outlet->whole = outlet->rows.len;
    }
}

ps_status ps_outlet_flush(ps_outlet *outlet)
{
    take_row(outlet);
    write_rows(outlet);
    return outlet->st;
}

ps_status ps_outlet_look(const ps_outlet *outlet, ps_outlet_past *past)
{
    struct stat at;

    *past = (ps_outlet_past){.fd = -1};
    if (outlet->fd < 0) {
        return ps_ok();
    }
    past->fd = open(outlet->path, O_RDONLY | O_CLOEXEC);
    if (past->fd < 0 || fstat(past->fd, &at) != 0) {
        return ps_fail_errno(errno, "open %s", PS_PATH_SHOWN(outlet->path));
    }
    past->bytes = (uint64_t)at.st_size;
    return ps_ok();
}

void ps_outlet_past_close(ps_outlet_past *past)
{
    if (past->fd >= 0) {
        close(past->fd);
    }
    *past = (ps_outlet_past){.fd = -1};
}

ps_status ps_outlet_copy(const ps_outlet *outlet, const ps_outlet_past *past, ps_strbuf *out)
{
    uint64_t done = 0;
    char piece[BUFFER_BYTES];

    while (done < past->bytes) {
        uint64_t left = past->bytes - done;
        ssize_t n =
            pread(past->fd, piece, left < sizeof piece ? (size_t)left : sizeof piece, (off_t)done);

        if (n > 0) {
            ps_strbuf_append(out, piece, (size_t)n);
            done += (uint64_t)n;
        } else if (n == 0 || errno != EINTR) {
            return ps_fail_errno(n == 0 ? EIO : errno, "read %s", PS_PATH_SHOWN(outlet->path));
        }
    }
    ps_strbuf_append(out, outlet->rows.data, outlet->whole);
    return ps_ok();
}

void ps_outlet_replace(ps_outlet *outlet, const void *bytes, size_t len)
{
    if (outlet->fd >= 0) {
        close(outlet->fd);
        outlet->fd = -1; /* so that the next write makes the file anew, empty */
    }
    ps_strbuf_clear(&outlet->rows);
    ps_strbuf_append(&outlet->rows, bytes, len);
    outlet->whole = len;
    write_rows(outlet);
}

void ps_outlet_row(ps_outlet *outlet, double time_s)
{
    take_row(outlet);
    if (time_s - outlet->flushed_s >= 1.0 ||
        (outlet->rows.len >= BUFFER_BYTES && ps_is_ok(&outlet->st))) {
        ps_outlet_flush(outlet);
        outlet->flushed_s = time_s;
    }
}

ps_status ps_outlet_close(ps_outlet *outlet)
{
    ps_status st = ps_outlet_flush(outlet);

    if (outlet->lost > 0) {
        ps_log(PS_LOG_WARN, "files",
               "%s: %llu lines were dropped, because they could not be written in time",
               PS_PATH_SHOWN(outlet->path), (unsigned long long)outlet->lost);
    }
    if (outlet->fd >= 0 && close(outlet->fd) != 0 && ps_is_ok(&st)) {
        st = ps_fail_errno(errno, "close %s", PS_PATH_SHOWN(outlet->path));
    }
    ps_strbuf_fini(&outlet->rows);
    free(outlet->path);
    *outlet = (ps_outlet){.fd = -1};
    return st;
}
