/* SPDX-License-Identifier: Apache-2.0 */
#include "services/coordinator/io/explain_files.h"

#include "common/base/files.h"
#include "common/base/strbuf.h"
#include "services/coordinator/io/artifacts.h"

#include <stdlib.h>
#include <zlib.h>

/* TEXT_MAX: most bytes of an unpacked timeline. Parsed, it takes about ten times as much memory. */
enum { PIECE = 1 << 16, TEXT_MAX = 32 << 20 };

static ps_status unpack(const char *path, ps_strbuf *text)
{
    gzFile in = gzopen(path, "rbe");
    char piece[PIECE];
    int got = 0;

    if (in == NULL) {
        return ps_fail(PS_NOT_FOUND, "the timeline cannot be opened");
    }
    while (text->len <= TEXT_MAX && (got = gzread(in, piece, PIECE)) > 0) {
        ps_strbuf_append(text, piece, (size_t)got);
    }
    if (gzclose_r(in) != Z_OK || got < 0) {
        return ps_fail(PS_DATA_LOSS, "the timeline cannot be unpacked");
    }
    return text->len <= TEXT_MAX ? ps_ok()
                                 : ps_fail(PS_RESOURCE_EXHAUSTED,
                                           "its timeline has more than %d MiB; open it at "
                                           "ui.perfetto.dev",
                                           TEXT_MAX >> 20);
}

ps_status ps_explain_read_timeline(const char *folder, const char *name, ps_explain_steps *steps,
                                   ps_explain_times *times, size_t n)
{
    char path[PS_FOLDER_MAX + PS_NAME_MAX];
    ps_status st = ps_path_join(path, sizeof path, folder, name);
    ps_strbuf text = {0};
    json_t *root = NULL;

    if (ps_is_ok(&st)) {
        st = unpack(path, &text);
    }
    if (ps_is_ok(&st)) {
        root = json_loadb(ps_strbuf_text(&text), text.len, 0, NULL);
        st = ps_explain_timeline(root, steps);
    }
    ps_strbuf_fini(&text);
    if (ps_is_ok(&st)) {
        ps_explain_times_read(root, times, n);
    }
    json_decref(root);
    return st;
}
