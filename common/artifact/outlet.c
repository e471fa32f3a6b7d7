/* SPDX-License-Identifier: Apache-2.0 */
/* outlet.c - see outlet.h. */
#include "common/artifact/outlet.h"

#include "common/base/files.h"
#include "common/base/xalloc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

enum { BUFFER_BYTES = 64 * 1024 };

ps_status ps_outlet_open(ps_outlet *outlet, const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

    if (fd < 0) {
        return ps_fail_errno(errno, "open %s", ps_path_tail(path));
    }
    *outlet = (ps_outlet){.fd = fd, .path = ps_xstrdup(path), .st = ps_ok()};
    return ps_ok();
}

void ps_outlet_flush(ps_outlet *outlet)
{
    const char *text = ps_strbuf_text(&outlet->rows);
    size_t left = outlet->rows.len;

    while (left > 0 && ps_is_ok(&outlet->st)) {
        ssize_t done = write(outlet->fd, text, left);

        if (done >= 0) {
            text += done;
            left -= (size_t)done;
        } else if (errno != EINTR) {
            outlet->st = ps_fail_errno(errno, "write %s", ps_path_tail(outlet->path));
        }
    }
    ps_strbuf_clear(&outlet->rows);
}

void ps_outlet_row(ps_outlet *outlet, double time_s)
{
    if (time_s - outlet->flushed_s >= 1.0 || outlet->rows.len >= BUFFER_BYTES) {
        ps_outlet_flush(outlet);
        outlet->flushed_s = time_s;
    }
}

ps_status ps_outlet_close(ps_outlet *outlet)
{
    ps_status st;

    ps_outlet_flush(outlet);
    if (close(outlet->fd) != 0 && ps_is_ok(&outlet->st)) {
        outlet->st = ps_fail_errno(errno, "close %s", ps_path_tail(outlet->path));
    }
    st = outlet->st;
    ps_strbuf_fini(&outlet->rows);
    free(outlet->path);
    *outlet = (ps_outlet){.fd = -1};
    return st;
}
