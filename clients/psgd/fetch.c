/* SPDX-License-Identifier: Apache-2.0 */
/* fetch.c - see fetch.h.
 *
 * Files come one by one on a stream. After a broken stream is opened again, the file that was
 * incomplete is discarded and fetched from its start.
 */
#include "clients/psgd/fetch.h"

#include "common/base/shorten.h"
#include "common/base/xalloc.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { PATH_BYTES = 4096 };

static void give_up(ps_fetch *f, ps_status why)
{
    if (ps_is_ok(&f->failure)) {
        f->failure = why;
        ps_reader_cancel(&f->reader);
    }
}

static void abandon(ps_fetch *f)
{
    if (f->is_open) {
        ps_file_writer_abandon(&f->writer);
        f->is_open = false;
    }
    ps_sha256_fini(&f->sha);
    free(f->name);
    f->name = NULL;
}

static bool is_saved(const ps_fetch *f, const char *name)
{
    for (size_t i = 0; i < f->n_files; i++) {
        if (strcmp(f->files[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

static ps_status begin(ps_fetch *f, const Psgd__V1__Artifact *artifact)
{
    char path[PATH_BYTES];
    ps_status st = ps_path_join(path, sizeof path, f->folder, artifact->name);

    if (ps_is_ok(&st)) {
        st = ps_dir_make_for(path);
    }
    if (ps_is_ok(&st)) {
        st = ps_file_writer_open(&f->writer, path);
    }
    if (!ps_is_ok(&st)) {
        return st;
    }
    f->is_open = true;
    f->name = ps_xstrdup(artifact->name);
    f->offset = 0;
    ps_sha256_init(&f->sha);
    return ps_ok();
}

static ps_status finish(ps_fetch *f, const Psgd__V1__Artifact *artifact)
{
    ps_fetched *s;
    ps_status st;

    if (f->n_files == f->cap) {
        f->cap = f->cap == 0 ? 32 : f->cap * 2;
        f->files = ps_xrealloc(f->files, f->cap * sizeof *f->files);
    }
    s = &f->files[f->n_files];
    *s = (ps_fetched){.name = f->name, .size = f->offset};
    ps_sha256_finish(&f->sha, s->sha256);
    s->is_verified = artifact->sha256[0] != '\0';
    if (s->is_verified && strcmp(s->sha256, artifact->sha256) != 0) {
        return ps_fail(PS_DATA_LOSS, "%s: its SHA-256 is not the announced one",
                       PS_SHORT(f->name, 60));
    }
    if (s->is_verified && f->offset != artifact->size) {
        return ps_fail(PS_DATA_LOSS, "%s: received %llu bytes, %llu were announced",
                       PS_SHORT(f->name, 60), (unsigned long long)f->offset,
                       (unsigned long long)artifact->size);
    }
    f->is_open = false;
    st = ps_file_writer_commit(&f->writer);
    if (ps_is_ok(&st)) {
        f->name = NULL; /* the list of files owns the name now */
        f->n_files++;
    }
    return st;
}

static ps_status take_chunk(ps_fetch *f, const Psgd__V1__ReclaimLogsResponse *chunk,
                            ps_payload *payload)
{
    const Psgd__V1__Artifact *artifact = chunk->artifact;
    size_t n = ps_payload_len(payload);
    const uint8_t *bytes;
    ps_status st = ps_ok();

    if (artifact == NULL || !ps_file_name_is_safe(artifact->name)) {
        return ps_fail(PS_DATA_LOSS, "the name '%s' is not safe for a file",
                       PS_SHORT(artifact == NULL ? "" : artifact->name, 60));
    }
    if (is_saved(f, artifact->name)) {
        return ps_ok(); /* saved before the stream broke; the new one sends the file again */
    }
    if (f->name == NULL) {
        st = begin(f, artifact);
    }
    if (!ps_is_ok(&st)) {
        return st;
    }
    if (strcmp(f->name, artifact->name) != 0 || chunk->offset != f->offset) {
        return ps_fail(PS_DATA_LOSS, "%s: a chunk of it is missing at byte %llu",
                       PS_SHORT(f->name, 40), (unsigned long long)f->offset);
    }
    bytes = ps_payload_view(payload, 0, n, f->scratch);
    if (crc32(0, bytes, (uInt)n) != chunk->crc32) {
        return ps_fail(PS_DATA_LOSS, "%s: wrong CRC-32 at byte %llu", PS_SHORT(f->name, 60),
                       (unsigned long long)f->offset);
    }
    ps_sha256_add(&f->sha, bytes, n);
    f->offset += n;
    st = ps_file_writer_add(&f->writer, bytes, n);
    return ps_is_ok(&st) && chunk->last ? finish(f, artifact) : st;
}

static void on_chunk(void *arg, const ProtobufCMessage *head, ps_payload *payload)
{
    ps_fetch *f = arg;
    ps_status st = take_chunk(f, (const Psgd__V1__ReclaimLogsResponse *)head, payload);

    if (!ps_is_ok(&st)) {
        give_up(f, st);
    }
}

static void on_end(void *arg, const ps_error *error)
{
    ps_fetch *f = arg;
    bool is_cut = f->name != NULL;
    ps_error own;

    abandon(f);
    if (!ps_is_ok(&f->failure)) {
        ps_error_init(&own, f->failure, NULL);
        error = &own;
    } else if (ps_is_ok(&error->status) && is_cut) {
        ps_error_init(&own, ps_fail(PS_DATA_LOSS, "the last file is incomplete"), NULL);
        error = &own;
    }
    f->done(f->arg, error);
}

static const ProtobufCMessage *on_open(void *arg)
{
    ps_fetch *f = arg;

    abandon(f); /* the incomplete file of a broken stream is sent again from its start */
    return &f->request.base;
}

void ps_fetch_init(ps_fetch *fetch, ps_cli *cli, const char *job_id, const char *folder,
                   const Psgd__V1__ArtifactKind *kinds, size_t n_kinds, ps_fetch_done_fn *done,
                   void *arg)
{
    assert(n_kinds <= PS_FETCH_KINDS_MAX);
    *fetch = (ps_fetch){.cli = cli, .folder = folder, .done = done, .arg = arg};
    psgd__v1__reclaim_logs_request__init(&fetch->request);
    memcpy(fetch->kinds, kinds, n_kinds * sizeof *kinds);
    fetch->request.job_id = (char *)job_id;
    fetch->request.kinds = fetch->kinds;
    fetch->request.n_kinds = n_kinds;
    fetch->scratch = ps_xmalloc(PS_PAYLOAD_MAX);
}

void ps_fetch_start(ps_fetch *fetch, const char *name)
{
    static const ps_reader_events events = {on_open, on_chunk, on_end};

    if (name != NULL) {
        fetch->request.name = (char *)name;
    }
    ps_reader_open(&fetch->reader, fetch->cli, "ReclaimLogs", fetch->request.job_id, 0, &events,
                   fetch);
}

void ps_fetch_cancel(ps_fetch *fetch)
{
    if (!fetch->is_cancelled) {
        fetch->is_cancelled = true;
        ps_reader_cancel(&fetch->reader);
    }
}

void ps_fetch_fini(ps_fetch *fetch)
{
    for (size_t i = 0; i < fetch->n_files; i++) {
        free(fetch->files[i].name);
    }
    free(fetch->files);
    free(fetch->scratch);
}
