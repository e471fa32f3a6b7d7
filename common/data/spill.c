/* SPDX-License-Identifier: Apache-2.0 */
/* spill.c - see spill.h. Reads use pread and not a mapping: mapped pages would count as memory
 * of the process, and a disk failure would be a signal. */
#include "common/data/spill.h"

#include "common/base/files.h"
#include "common/base/strbuf.h"
#include "common/base/xalloc.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef __linux__
#include <linux/mman.h> /* MADV_COLLAPSE, which glibc 2.36 does not know yet */
#endif

enum { BUFFER_BYTES = 256 * 1024 };

struct ps_spill {
    const char *scratch;
    size_t memory_max;
    int fd;           /* -1: everything is in memory */
    uint8_t *memory;  /* all bytes, or with a file those that are not written to it yet */
    size_t held, cap; /* bytes of `memory` that are used; that are allocated */
    uint64_t written; /* bytes in the file */
    bool is_ended;
};

ps_spill *ps_spill_create(const char *scratch, size_t memory_max)
{
    ps_spill *spill = ps_xcalloc(1, sizeof *spill);

    spill->scratch = scratch != NULL ? scratch : "/var/tmp";
    spill->memory_max = memory_max;
    spill->fd = -1;
    return spill;
}

void ps_spill_destroy(ps_spill *spill)
{
    if (spill == NULL) {
        return;
    }
    if (spill->fd >= 0) {
        close(spill->fd);
    }
    free(spill->memory);
    free(spill);
}

static ps_status flush(ps_spill *spill)
{
    size_t done = 0;

    while (done < spill->held) {
        ssize_t n = write(spill->fd, spill->memory + done, spill->held - done);

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return ps_fail_errno(errno, "write a data set to a file in %s",
                                 PS_PATH_SHOWN(spill->scratch));
        }
        done += (size_t)n;
    }
    spill->written += spill->held;
    spill->held = 0;
    return ps_ok();
}

/* Moves the bytes from memory to an unlinked file, which disappears when it is closed, so also with
 * the process. */
static ps_status move_out(ps_spill *spill)
{
    ps_strbuf path = {0};
    ps_status st = ps_ok();

    ps_strbuf_printf(&path, "%s/psgd-data-XXXXXX", spill->scratch);
    spill->fd = mkostemp(path.data, O_CLOEXEC);
    if (spill->fd < 0) {
        st = ps_fail_errno(errno, "create a file for a data set in %s",
                           PS_PATH_SHOWN(spill->scratch));
    } else if (unlink(path.data) != 0) {
        st = ps_fail_errno(errno, "unlink in %s", PS_PATH_SHOWN(spill->scratch));
    }
    ps_strbuf_fini(&path);
    if (ps_is_ok(&st)) {
        st = flush(spill);
    }
    if (ps_is_ok(&st)) {
        free(spill->memory);
        spill->cap = BUFFER_BYTES;
        spill->memory = ps_xmalloc(spill->cap);
    }
    return st;
}

static ps_status add_to_file(ps_spill *spill, const uint8_t *bytes, size_t n)
{
    ps_status st = ps_ok();

    while (n > 0 && ps_is_ok(&st)) {
        size_t some = spill->cap - spill->held < n ? spill->cap - spill->held : n;

        memcpy(spill->memory + spill->held, bytes, some);
        spill->held += some;
        bytes += some;
        n -= some;
        if (spill->held == spill->cap) {
            st = flush(spill);
        }
    }
    return st;
}

ps_status ps_spill_add(ps_spill *spill, const void *bytes, size_t n)
{
    ps_status st = ps_ok();

    assert(!spill->is_ended);
    if (spill->fd < 0 && n > spill->memory_max - spill->held) {
        st = move_out(spill);
    }
    if (!ps_is_ok(&st)) {
        return st;
    }
    if (spill->fd >= 0) {
        return add_to_file(spill, bytes, n);
    }
    if (n > spill->cap - spill->held) {
        size_t cap = spill->cap == 0 ? 4096 : spill->cap;
        uint8_t *more;

        while (cap - spill->held < n) {
            cap *= 2;
        }
        cap = cap < spill->memory_max ? cap : spill->memory_max;
        more = realloc(spill->memory, cap);
        if (more == NULL) {
            return ps_fail(PS_RESOURCE_EXHAUSTED, "no memory for %zu bytes of a data set", cap);
        }
        spill->memory = more;
        spill->cap = cap;
    }
    if (n > 0) {
        memcpy(spill->memory + spill->held, bytes, n);
        spill->held += n;
    }
    return ps_ok();
}

/* Asks for pages of 2 MiB. Samples are read in random order. With small pages, TLB misses made it
 * as slow to find the samples of a block as to turn them into floats (spread.h). Systems without
 * large pages ignore the request. */
static void take_large_pages(const ps_spill *spill)
{
#ifdef MADV_COLLAPSE
    const uintptr_t page = (uintptr_t)2 << 20;
    uintptr_t from = ((uintptr_t)spill->memory + page - 1) / page * page;
    uintptr_t to = ((uintptr_t)spill->memory + spill->held) / page * page;

    if (from < to) {
        (void)madvise((void *)from, to - from, MADV_COLLAPSE);
    }
#else
    (void)spill;
#endif
}

ps_status ps_spill_end(ps_spill *spill)
{
    ps_status st = ps_ok();

    assert(!spill->is_ended);
    spill->is_ended = true;
    if (spill->fd >= 0) {
        st = flush(spill);
        free(spill->memory);
        spill->memory = NULL;
    } else if (spill->held > 0) {
        uint8_t *less = realloc(spill->memory, spill->held);

        spill->memory = less != NULL ? less : spill->memory;
        take_large_pages(spill);
    }
    return st;
}

uint64_t ps_spill_bytes(const ps_spill *spill)
{
    return spill->written + spill->held;
}

bool ps_spill_is_in_file(const ps_spill *spill)
{
    return spill->fd >= 0;
}

bool ps_spill_read(const ps_spill *spill, uint64_t at, size_t n, void *out)
{
    size_t done = 0;

    assert(spill->is_ended && at <= ps_spill_bytes(spill) && n <= ps_spill_bytes(spill) - at);
    if (spill->fd < 0) {
        if (n > 0) {
            memcpy(out, spill->memory + at, n);
        }
        return true;
    }
    while (done < n) {
        ssize_t got = pread(spill->fd, (uint8_t *)out + done, n - done, (off_t)(at + done));

        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            return false;
        }
        done += (size_t)got;
    }
    return true;
}

const void *ps_spill_at(const ps_spill *spill, uint64_t at, size_t n, void *room)
{
    if (spill->fd < 0) {
        assert(at <= ps_spill_bytes(spill) && n <= ps_spill_bytes(spill) - at);
        return n > 0 ? spill->memory + at : room;
    }
    return ps_spill_read(spill, at, n, room) ? room : NULL;
}
