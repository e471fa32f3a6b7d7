/* SPDX-License-Identifier: Apache-2.0 */
/* download.c - psgd download JOB [NAME...]: fetches a job's files, verifies them, and writes each
 * whole or not at all.
 *
 * There is one stream for all files, or one stream after the other for each name. Files come one by
 * one. A file that a broken stream has begun is discarded and fetched again.
 */
#include "clients/psgd/reader.h"
#include "clients/psgd/show.h"
#include "clients/psgd/text_table.h"

#include "common/base/files.h"
#include "common/base/sha256.h"
#include "common/base/shorten.h"
#include "common/base/xalloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { PATH_BYTES = 4096, KINDS_MAX = 8 };

typedef struct saved {
    char *name;
    uint64_t size;
    char sha256[PS_SHA256_HEX_BYTES];
    bool is_verified; /* compared with the server's checksum */
} saved;

typedef struct download {
    ps_option_list kind_names;
    const char *output;
    ps_cli *cli;
    ps_reader reader;
    Psgd__V1__ReclaimLogsRequest request;
    Psgd__V1__ArtifactKind kinds[KINDS_MAX];
    size_t next_arg; /* index of the next name to ask for */
    uint8_t *scratch;
    /* The file that is being received. */
    bool is_open;
    ps_file_writer writer;
    ps_sha256 sha;
    char *name;
    uint64_t offset;
    /* The files that were saved. */
    saved *saved;
    size_t n_saved, cap;
    ps_status failure; /* why the download was given up */
    bool is_interrupted;
} download;

static const ps_option options[] = {
    PS_OPTION_STRING(download, output, .name = "output", .letter = 'o', .metavar = "DIR",
                     .help = "folder for the files, made if missing (default: the job's id)"),
    PS_OPTION_LIST(download, kind_names, .name = "kind", .letter = 'k',
                   .choices = "log|report|model|summary|events", .help = "only files of this kind"),
    PS_OPTION_END,
};

static void give_up(download *d, ps_status why)
{
    if (ps_is_ok(&d->failure)) {
        d->failure = why;
        ps_reader_cancel(&d->reader);
    }
}

static void abandon(download *d)
{
    if (d->is_open) {
        ps_file_writer_abandon(&d->writer);
        d->is_open = false;
    }
    ps_sha256_fini(&d->sha);
    free(d->name);
    d->name = NULL;
}

/* --- one file --------------------------------------------------------------------- */

static bool is_saved(const download *d, const char *name)
{
    for (size_t i = 0; i < d->n_saved; i++) {
        if (strcmp(d->saved[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

static ps_status begin(download *d, const Psgd__V1__Artifact *artifact)
{
    char path[PATH_BYTES];
    ps_status st = ps_path_join(path, sizeof path, d->output, artifact->name);

    if (ps_is_ok(&st)) {
        st = ps_dir_make_for(path);
    }
    if (ps_is_ok(&st)) {
        st = ps_file_writer_open(&d->writer, path);
    }
    if (!ps_is_ok(&st)) {
        return st;
    }
    d->is_open = true;
    d->name = ps_xstrdup(artifact->name);
    d->offset = 0;
    ps_sha256_init(&d->sha);
    return ps_ok();
}

static ps_status finish(download *d, const Psgd__V1__Artifact *artifact)
{
    saved *s;
    ps_status st;

    if (d->n_saved == d->cap) {
        d->cap = d->cap == 0 ? 32 : d->cap * 2;
        d->saved = ps_xrealloc(d->saved, d->cap * sizeof *d->saved);
    }
    s = &d->saved[d->n_saved];
    *s = (saved){.name = d->name, .size = d->offset};
    ps_sha256_finish(&d->sha, s->sha256);
    s->is_verified = artifact->sha256[0] != '\0';
    if (s->is_verified && strcmp(s->sha256, artifact->sha256) != 0) {
        return ps_fail(PS_DATA_LOSS, "%s: its SHA-256 is not the announced one",
                       PS_SHORT(d->name, 60));
    }
    if (s->is_verified && d->offset != artifact->size) {
        return ps_fail(PS_DATA_LOSS, "%s: received %llu bytes, %llu were announced",
                       PS_SHORT(d->name, 60), (unsigned long long)d->offset,
                       (unsigned long long)artifact->size);
    }
    d->is_open = false;
    st = ps_file_writer_commit(&d->writer);
    if (ps_is_ok(&st)) {
        d->name = NULL; /* the list owns it now */
        d->n_saved++;
    }
    return st;
}

static ps_status take_chunk(download *d, const Psgd__V1__ReclaimLogsResponse *chunk,
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
    if (is_saved(d, artifact->name)) {
        return ps_ok(); /* sent again after a broken stream */
    }
    if (d->name == NULL) {
        st = begin(d, artifact);
    }
    if (!ps_is_ok(&st)) {
        return st;
    }
    if (strcmp(d->name, artifact->name) != 0 || chunk->offset != d->offset) {
        return ps_fail(PS_DATA_LOSS, "%s: a chunk of it is missing at byte %llu",
                       PS_SHORT(d->name, 40), (unsigned long long)d->offset);
    }
    bytes = ps_payload_view(payload, 0, n, d->scratch);
    if (crc32(0, bytes, (uInt)n) != chunk->crc32) {
        return ps_fail(PS_DATA_LOSS, "%s: wrong CRC-32 at byte %llu", PS_SHORT(d->name, 60),
                       (unsigned long long)d->offset);
    }
    ps_sha256_add(&d->sha, bytes, n);
    d->offset += n;
    st = ps_file_writer_add(&d->writer, bytes, n);
    return ps_is_ok(&st) && chunk->last ? finish(d, artifact) : st;
}

static void on_chunk(void *arg, const ProtobufCMessage *head, ps_payload *payload)
{
    download *d = arg;
    ps_status st = take_chunk(d, (const Psgd__V1__ReclaimLogsResponse *)head, payload);

    if (!ps_is_ok(&st)) {
        give_up(d, st);
    }
}

/* --- the end ------------------------------------------------------------------------ */

static void show_files(const download *d)
{
    static const char *const head[] = {"FILE", "SIZE", "SHA-256"};
    ps_text_table table = {.n_columns = sizeof head / sizeof head[0]};
    char text[PS_SHOW_BYTES];

    for (size_t i = 0; i < table.n_columns; i++) {
        ps_text_table_add(&table, head[i]);
    }
    for (size_t i = 0; i < d->n_saved; i++) {
        ps_text_table_add(&table, d->saved[i].name);
        ps_text_table_add(&table, ps_show_size(d->saved[i].size, text));
        ps_text_table_add(&table, d->saved[i].is_verified ? d->saved[i].sha256 : "(still growing)");
    }
    ps_text_table_print(&table);
    ps_text_table_fini(&table);
    printf("%zu file%s in %s\n", d->n_saved, d->n_saved == 1 ? "" : "s", d->output);
}

static int by_name(const void *a, const void *b)
{
    const saved *x = a, *y = b;

    return strcmp(x->name, y->name);
}

static void show(const download *d)
{
    json_t *list;

    if (d->n_saved > 0) {
        qsort(d->saved, d->n_saved, sizeof *d->saved, by_name);
    }
    if (d->cli->format == PS_FORMAT_TEXT && d->n_saved > 0) {
        show_files(d);
    }
    if (d->cli->format == PS_FORMAT_TEXT) {
        return;
    }
    list = json_array();
    for (size_t i = 0; i < d->n_saved; i++) {
        const saved *s = &d->saved[i];
        char path[PATH_BYTES] = "";
        ps_status st = ps_path_join(path, sizeof path, d->output, s->name);
        json_t *one = json_pack("{s:s, s:s, s:I, s:s, s:b}", "name", s->name, "path",
                                ps_is_ok(&st) ? path : s->name, "size", (json_int_t)s->size,
                                "sha256", s->sha256, "verified", (int)s->is_verified);

        if (d->cli->format == PS_FORMAT_JSONL) {
            ps_cli_json_value(d->cli, one);
        }
        json_array_append_new(list, one);
    }
    if (d->cli->format == PS_FORMAT_JSON) {
        ps_cli_json_value(d->cli, list);
    }
    json_decref(list);
}

static void open_next(download *d);

static void on_end(void *arg, const ps_error *error)
{
    download *d = arg;
    bool is_cut = d->name != NULL;

    abandon(d);
    if (d->is_interrupted) {
        ps_cli_end(d->cli, PS_EXIT_INTERRUPTED);
    } else if (!ps_is_ok(&d->failure)) {
        ps_cli_status(&d->failure);
        ps_cli_end(d->cli, PS_EXIT_SERVER);
    } else if (!ps_is_ok(&error->status)) {
        ps_cli_fail(d->cli, error);
    } else if (is_cut) {
        fputs("psgd: the last file is incomplete\n", stderr);
        ps_cli_end(d->cli, PS_EXIT_SERVER);
    } else if (d->next_arg < d->cli->config->n_args) {
        open_next(d);
    } else {
        if (d->n_saved == 0) {
            fputs("psgd: the job has no such files yet\n", stderr);
        }
        show(d);
        ps_cli_end(d->cli, PS_EXIT_OK);
    }
}

static const ProtobufCMessage *on_open(void *arg)
{
    download *d = arg;

    abandon(d); /* after a loss the server sends it again */
    return &d->request.base;
}

static void open_next(download *d)
{
    static const ps_reader_events events = {on_open, on_chunk, on_end};

    if (d->next_arg < d->cli->config->n_args) {
        d->request.name = (char *)d->cli->config->args[d->next_arg++];
    }
    ps_reader_open(&d->reader, d->cli, "ReclaimLogs", d->request.job_id, 0, &events, d);
}

static void on_interrupt(void *arg)
{
    download *d = arg;

    if (!d->is_interrupted) {
        d->is_interrupted = true;
        ps_reader_cancel(&d->reader);
    }
}

/* --- the beginning -------------------------------------------------------------------- */

static Psgd__V1__ArtifactKind kind_of(const char *name)
{
    return strcmp(name, "log") == 0      ? PSGD__V1__ARTIFACT_KIND__ARTIFACT_KIND_LOG
           : strcmp(name, "report") == 0 ? PSGD__V1__ARTIFACT_KIND__ARTIFACT_KIND_REPORT
           : strcmp(name, "model") == 0  ? PSGD__V1__ARTIFACT_KIND__ARTIFACT_KIND_MODEL
           : strcmp(name, "events") == 0 ? PSGD__V1__ARTIFACT_KIND__ARTIFACT_KIND_EVENTS
                                         : PSGD__V1__ARTIFACT_KIND__ARTIFACT_KIND_SUMMARY;
}

static bool prepare(ps_cli *cli, void *arg)
{
    download *d = arg;
    const char *job_id = cli->config->args[0];

    d->cli = cli;
    for (size_t i = 0; i < d->kind_names.n && i < KINDS_MAX; i++) {
        d->kinds[d->request.n_kinds++] = kind_of(d->kind_names.items[i]);
    }
    if (d->output == NULL && !ps_name_is_safe(job_id)) {
        fprintf(stderr, "psgd: '%s' cannot be the name of a folder; give one by --output\n",
                job_id);
        return false;
    }
    if (d->output == NULL) {
        d->output = job_id;
    }
    return true;
}

static void start(ps_cli *cli, void *arg)
{
    download *d = arg;
    size_t n_kinds = d->request.n_kinds;
    ps_status st = ps_dir_make(d->output);

    if (!ps_is_ok(&st)) {
        ps_cli_status(&st);
        ps_cli_end(cli, PS_EXIT_ARGUMENTS);
        return;
    }
    psgd__v1__reclaim_logs_request__init(&d->request);
    d->request.job_id = (char *)cli->config->args[0];
    d->request.kinds = d->kinds;
    d->request.n_kinds = n_kinds;
    d->scratch = ps_xmalloc(PS_PAYLOAD_MAX);
    d->next_arg = 1;
    cli->on_interrupt = on_interrupt;
    cli->arg = d;
    open_next(d);
}

static void fini(void *arg)
{
    download *d = arg;

    for (size_t i = 0; i < d->n_saved; i++) {
        free(d->saved[i].name);
    }
    free(d->saved);
    free(d->scratch);
}

const ps_subcommand ps_subcommand_download = {
    .command = {.name = "psgd download",
                .summary = "Downloads all files of a job, or those named, and verifies them: "
                           "CRC-32 of each chunk, SHA-256 of each file. Logs can be downloaded "
                           "while the job runs.",
                .usage = "[options] JOB [NAME...]",
                .args_min = 1,
                .args_max = 64,
                .examples = "psgd download JOB --output results\n"
                            "psgd download JOB --kind model --kind report"},
    .options = options,
    .options_size = sizeof(download),
    .prepare = prepare,
    .start = start,
    .fini = fini,
};
