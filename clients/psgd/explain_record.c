/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/psgd/explain_record.h"

#include "clients/psgd/show.h"

#include "common/base/strbuf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

/* a timeline of a few steps; a larger one is refused */
enum { STEPS = 10, PIECE = 1 << 16, TEXT_MAX = 256 << 20 };

static ps_status unpack(const char *path, ps_strbuf *text)
{
    gzFile in = gzopen(path, "rbe");
    char piece[PIECE];
    int got = 0;

    if (in == NULL) {
        return ps_fail(PS_NOT_FOUND, "%s cannot be opened", path);
    }
    while (text->len <= TEXT_MAX && (got = gzread(in, piece, PIECE)) > 0) {
        ps_strbuf_append(text, piece, (size_t)got);
    }
    if (gzclose_r(in) != Z_OK || got < 0) {
        return ps_fail(PS_DATA_LOSS, "the timeline cannot be unpacked");
    }
    return text->len <= TEXT_MAX ? ps_ok()
                                 : ps_fail(PS_RESOURCE_EXHAUSTED,
                                           "the timeline has more than %d MiB", TEXT_MAX >> 20);
}

static ps_status look(const char *path, ps_explain_steps *steps)
{
    ps_strbuf text = {0};
    ps_status st = unpack(path, &text);
    json_t *root = ps_is_ok(&st) ? json_loadb(ps_strbuf_text(&text), text.len, 0, NULL) : NULL;

    if (ps_is_ok(&st)) {
        st = ps_explain_timeline(root, steps);
    }
    json_decref(root);
    ps_strbuf_fini(&text);
    return st;
}

static void end(ps_explain_record *r, ps_status st)
{
    r->status = st;
    ps_fetch_fini(&r->fetch);
    if (r->folder[0] != '\0') {
        rmdir(r->folder);
    }
    r->done(r->arg);
}

static void on_fetched(void *arg, const ps_error *error)
{
    ps_explain_record *r = arg;
    ps_status st = ps_is_ok(&r->fetch.failure) ? error->status : r->fetch.failure;
    char path[sizeof r->folder + PS_NAME_MAX + 2];

    for (size_t i = 0; i < r->fetch.n_files; i++) {
        ps_status joined = ps_path_join(path, sizeof path, r->folder, r->fetch.files[i].name);

        if (ps_is_ok(&st) && ps_is_ok(&joined)) {
            st = look(path, &r->steps);
        }
        if (ps_is_ok(&joined)) {
            unlink(path);
        }
    }
    end(r, st);
}

static void on_answer(void *arg, const ps_error *error, const ProtobufCMessage *reply)
{
    const Psgd__V1__TraceJobResponse *answer = (const Psgd__V1__TraceJobResponse *)reply;
    ps_explain_record *r = arg;

    if (!ps_is_ok(&error->status)) {
        end(r, error->status);
        return;
    }
    snprintf(r->folder, sizeof r->folder, "/tmp/psgd-explain-XXXXXX");
    if (mkdtemp(r->folder) == NULL) {
        r->folder[0] = '\0';
        end(r, ps_fail(PS_UNAVAILABLE, "no folder can be made in /tmp"));
        return;
    }
    ps_fetch_init(&r->fetch, r->cli, r->id, r->folder, NULL, 0, on_fetched, r);
    ps_fetch_start(&r->fetch, answer->name);
}

void ps_explain_record_start(ps_explain_record *r)
{
    Psgd__V1__TraceJobRequest request = PSGD__V1__TRACE_JOB_REQUEST__INIT;

    request.job_id = (char *)r->id;
    request.steps = STEPS;
    r->cli->general.timeout_us = r->within_us;
    ps_cli_call(r->cli, "TraceJob", &request.base, on_answer, r);
}
