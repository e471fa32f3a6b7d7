/* SPDX-License-Identifier: Apache-2.0 */
/* assets.c - the files of the page, which the assembler includes in the program. */
#include "services/coordinator/web/web_impl.h"

#include "common/base/xalloc.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

/* Includes a file between two symbols. PS_WEB_PAGE and PS_WEB_CHARTS are folders, by the build. */
#define INCLUDE(name, path)                                                                        \
    __asm__(".section .rodata\n"                                                                   \
            ".global ps_web_" #name "\n.global ps_web_" #name "_end\n"                             \
            "ps_web_" #name ":\n.incbin \"" path "\"\n"                                            \
            "ps_web_" #name "_end:\n.byte 0\n.previous\n");                                        \
    extern const unsigned char ps_web_##name[], ps_web_##name##_end[]

#define HTML "text/html; charset=utf-8"
#define SCRIPT "text/javascript; charset=utf-8"
#define STYLE "text/css; charset=utf-8"
#define PICTURE "image/svg+xml"

/* X(name, path of a request, type, file) */
#define ASSETS(X)                                                                                  \
    X(index, "/", HTML, PS_WEB_PAGE "/index.html")                                                 \
    X(style, "/style.css", STYLE, PS_WEB_PAGE "/style.css")                                        \
    X(icon, "/icon.svg", PICTURE, PS_WEB_PAGE "/icon.svg")                                         \
    X(app, "/app.js", SCRIPT, PS_WEB_PAGE "/app.js")                                               \
    X(api, "/api.js", SCRIPT, PS_WEB_PAGE "/api.js")                                               \
    X(dom, "/dom.js", SCRIPT, PS_WEB_PAGE "/dom.js")                                               \
    X(chart, "/chart.js", SCRIPT, PS_WEB_PAGE "/chart.js")                                         \
    X(jobs, "/jobs.js", SCRIPT, PS_WEB_PAGE "/jobs.js")                                            \
    X(job, "/job.js", SCRIPT, PS_WEB_PAGE "/job.js")                                               \
    X(curves, "/curves.js", SCRIPT, PS_WEB_PAGE "/curves.js")                                      \
    X(ranks, "/ranks.js", SCRIPT, PS_WEB_PAGE "/ranks.js")                                         \
    X(explain, "/explain.js", SCRIPT, PS_WEB_PAGE "/explain.js")                                   \
    X(timeline, "/timeline.js", SCRIPT, PS_WEB_PAGE "/timeline.js")                                \
    X(compare, "/compare.js", SCRIPT, PS_WEB_PAGE "/compare.js")                                   \
    X(nodes, "/nodes.js", SCRIPT, PS_WEB_PAGE "/nodes.js")                                         \
    X(submit, "/submit.js", SCRIPT, PS_WEB_PAGE "/submit.js")                                      \
    X(dygraph, "/dygraph.js", SCRIPT, PS_WEB_CHARTS "/dygraph.min.js")                             \
    X(dygraph_style, "/dygraph.css", STYLE, PS_WEB_CHARTS "/dygraph.min.css")

#define AS_INCLUDE(name, path, type, file) INCLUDE(name, file);
ASSETS(AS_INCLUDE)

#define AS_ASSET(name, at, kind, file)                                                             \
    {.path = at, .type = kind, .start = ps_web_##name, .end = ps_web_##name##_end},
static ps_web_asset assets[] = {ASSETS(AS_ASSET)};

enum { COUNT = sizeof assets / sizeof assets[0], GZIP_WINDOW = 15 + 16 };

static void pack(ps_web_asset *a)
{
    uLong size = (uLong)(a->end - a->start), room = compressBound(size) + 32;
    z_stream z = {.next_in = (Bytef *)(uintptr_t)a->start, .avail_in = (uInt)size};

    snprintf(a->tag, sizeof a->tag, "\"%08lx\"", crc32(0, a->start, (uInt)size));
    if (deflateInit2(&z, Z_BEST_COMPRESSION, Z_DEFLATED, GZIP_WINDOW, 9, Z_DEFAULT_STRATEGY) !=
        Z_OK) {
        return;
    }
    a->packed = ps_xmalloc(room);
    z.next_out = a->packed;
    z.avail_out = (uInt)room;
    if (deflate(&z, Z_FINISH) == Z_STREAM_END && z.total_out < size) {
        a->packed_size = z.total_out;
        a->packed = ps_xrealloc(a->packed, a->packed_size);
    } else {
        free(a->packed);
        a->packed = NULL;
    }
    deflateEnd(&z);
}

static void pack_all(void)
{
    for (size_t i = 0; i < COUNT; i++) {
        pack(&assets[i]);
    }
}

void ps_web_assets_pack(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, pack_all);
}

const ps_web_asset *ps_web_asset_find(const char *path)
{
    for (size_t i = 0; i < COUNT; i++) {
        if (strcmp(assets[i].path, path) == 0) {
            return &assets[i];
        }
    }
    return NULL;
}
