/* SPDX-License-Identifier: Apache-2.0 */
/* packed.c - zlib's gzFile with our errors; gzFile reads plain files unchanged. */
#include "common/data/packed.h"

#include "common/base/files.h"
#include "common/base/strbuf.h"
#include "common/base/xalloc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

enum { BUFFER_BYTES_MIN = 8 * 1024, BUFFER_BYTES_MAX = 256 * 1024 };

/* limit of ps_packed_set_limit (0: none), and the flag that sets it, for messages */
static uint64_t limit_bytes;
static const char *limit_flag = "";

struct ps_packed {
    const char *name;
    gzFile gz;
    uint64_t offset; /* offset of the next byte to read, in the unpacked content */
};

static ps_status open_either(const char *folder, const char *name, int *fd, struct stat *facts)
{
    ps_status st = ps_file_open_below(folder, name, fd, facts);
    ps_strbuf packed = {0};

    if (st.code == PS_NOT_FOUND) {
        ps_strbuf_printf(&packed, "%s.gz", name);
        st = ps_file_open_below(folder, packed.data, fd, facts);
        ps_strbuf_fini(&packed);
    }
    return st.code == PS_NOT_FOUND
               ? ps_fail(PS_NOT_FOUND, "no %s (or .gz) in %s", name, PS_PATH_SHOWN(folder))
               : ps_wrap(st, "%s", PS_PATH_SHOWN(folder));
}

ps_status ps_packed_open(const char *folder, const char *name, ps_packed **out, struct stat *facts)
{
    struct stat held;
    gzFile gz = NULL;
    int fd = -1;
    ps_status st = open_either(folder, name, &fd, &held);

    if (!ps_is_ok(&st)) {
        return st;
    }
    gz = gzdopen(fd, "rb"); /* on success closing gz closes fd */
    if (gz == NULL) {
        close(fd);
        return ps_fail(PS_RESOURCE_EXHAUSTED, "%s: no memory to unpack it", name);
    }
    gzbuffer(gz, held.st_size < BUFFER_BYTES_MIN   ? BUFFER_BYTES_MIN
                 : held.st_size < BUFFER_BYTES_MAX ? (unsigned)held.st_size
                                                   : BUFFER_BYTES_MAX);
    *out = ps_xcalloc(1, sizeof **out);
    **out = (ps_packed){.name = name, .gz = gz};
    if (facts != NULL) {
        *facts = held;
    }
    return ps_ok();
}

void ps_packed_set_limit(uint64_t bytes, const char *flag)
{
    limit_bytes = bytes;
    limit_flag = flag;
}

/* limit of one gzread, which counts in int */
enum { READ_BYTES_MAX = 1 << 30 };

ps_status ps_packed_read(ps_packed *file, void *bytes, size_t n, size_t *got)
{
    size_t done = 0;

    while (done < n) {
        size_t ask = n - done < READ_BYTES_MAX ? n - done : READ_BYTES_MAX;
        int count = gzread(file->gz, (uint8_t *)bytes + done, (unsigned)ask);
        int code = Z_OK;
        const char *why = gzerror(file->gz, &code);

        if (count < 0 || (code != Z_OK && code != Z_STREAM_END)) {
            uint64_t at = file->offset + done + (count > 0 ? (uint64_t)count : 0);
            const char *name_end = strstr(why, ">: "); /* zlib's text is "<fd:3>: what it is" */

            why = name_end != NULL ? name_end + 3 : why;
            return code == Z_ERRNO
                       ? ps_fail_errno(errno, "%s: offset %llu", file->name, (unsigned long long)at)
                       : ps_fail(PS_DATA_LOSS,
                                 "%s.gz: damaged or truncated after unpacked offset %llu: %s",
                                 file->name, (unsigned long long)at, why);
        }
        if (count == 0) {
            break;
        }
        done += (size_t)count;
        if (limit_bytes > 0 && file->offset + done > limit_bytes) {
            return ps_fail(PS_RESOURCE_EXHAUSTED,
                           "%s: has more than %llu bytes unpacked, which are allowed (%s)",
                           file->name, (unsigned long long)limit_bytes, limit_flag);
        }
    }
    file->offset += done;
    *got = done;
    return ps_ok();
}

void ps_packed_close(ps_packed *file)
{
    if (file == NULL) {
        return;
    }
    (void)gzclose_r(file->gz); /* a failure loses nothing: the file was only read */
    free(file);
}
