/* SPDX-License-Identifier: Apache-2.0 */
/* download.c - psgd download JOB [NAME...]: fetches a job's files, verifies them, and writes each
 * whole or not at all.
 *
 * Without names one stream brings all files; with names each name has a stream of its own, one
 * after the other.
 */
#include "clients/psgd/fetch.h"
#include "clients/psgd/show.h"
#include "clients/psgd/text_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_BYTES = 4096 };

typedef struct download {
    ps_option_list kind_names;
    const char *output;
    ps_cli *cli;
    ps_fetch fetch;
    size_t next_arg; /* index in config->args of the next name to ask for */
} download;

static const ps_option options[] = {
    PS_OPTION_STRING(download, output, .name = "output", .letter = 'o', .metavar = "DIR",
                     .help = "folder for the files, made if missing (default: the job's id)"),
    PS_OPTION_LIST(download, kind_names, .name = "kind", .letter = 'k',
                   .choices = "log|report|model|summary|events", .help = "only files of this kind"),
    PS_OPTION_END,
};

/* --- the end ------------------------------------------------------------------------ */

static void show_files(const download *d)
{
    static const char *const head[] = {"FILE", "SIZE", "SHA-256"};
    ps_text_table table = {.n_columns = sizeof head / sizeof head[0]};
    char text[PS_SHOW_BYTES];

    for (size_t i = 0; i < table.n_columns; i++) {
        ps_text_table_add(&table, head[i]);
    }
    for (size_t i = 0; i < d->fetch.n_files; i++) {
        ps_text_table_add(&table, d->fetch.files[i].name);
        ps_text_table_add(&table, ps_show_size(d->fetch.files[i].size, text));
        ps_text_table_add(&table, d->fetch.files[i].is_verified ? d->fetch.files[i].sha256
                                                                : "(still growing)");
    }
    ps_text_table_print(&table);
    ps_text_table_fini(&table);
    printf("%zu file%s in %s\n", d->fetch.n_files, d->fetch.n_files == 1 ? "" : "s", d->output);
}

static int by_name(const void *a, const void *b)
{
    const ps_fetched *x = a, *y = b;

    return strcmp(x->name, y->name);
}

static void show(const download *d)
{
    json_t *list;

    if (d->fetch.n_files > 0) {
        qsort(d->fetch.files, d->fetch.n_files, sizeof *d->fetch.files, by_name);
    }
    if (d->cli->format == PS_FORMAT_TEXT && d->fetch.n_files > 0) {
        show_files(d);
    }
    if (d->cli->format == PS_FORMAT_TEXT) {
        return;
    }
    list = json_array();
    for (size_t i = 0; i < d->fetch.n_files; i++) {
        const ps_fetched *s = &d->fetch.files[i];
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

static void open_next(download *d)
{
    const ps_config *config = d->cli->config;

    ps_fetch_start(&d->fetch, d->next_arg < config->n_args ? config->args[d->next_arg++] : NULL);
}

static void on_done(void *arg, const ps_error *error)
{
    download *d = arg;

    if (d->fetch.is_cancelled) {
        ps_cli_end(d->cli, PS_EXIT_INTERRUPTED);
    } else if (!ps_is_ok(&d->fetch.failure)) {
        ps_cli_error(error);
        ps_cli_end(d->cli, PS_EXIT_SERVER);
    } else if (!ps_is_ok(&error->status)) {
        ps_cli_fail(d->cli, error);
    } else if (d->next_arg < d->cli->config->n_args) {
        open_next(d);
    } else {
        if (d->fetch.n_files == 0) {
            fputs("psgd: the job has no such files yet\n", stderr);
        }
        show(d);
        ps_cli_end(d->cli, PS_EXIT_OK);
    }
}

static void on_interrupt(void *arg)
{
    ps_fetch_cancel(&((download *)arg)->fetch);
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
    Psgd__V1__ArtifactKind kinds[PS_FETCH_KINDS_MAX];
    download *d = arg;
    size_t n_kinds = 0;
    ps_status st = ps_dir_make(d->output);

    if (!ps_is_ok(&st)) {
        ps_cli_status(&st);
        ps_cli_end(cli, PS_EXIT_ARGUMENTS);
        return;
    }
    for (size_t i = 0; i < d->kind_names.n && i < PS_FETCH_KINDS_MAX; i++) {
        kinds[n_kinds++] = kind_of(d->kind_names.items[i]);
    }
    ps_fetch_init(&d->fetch, cli, cli->config->args[0], d->output, kinds, n_kinds, on_done, d);
    d->next_arg = 1;
    cli->on_interrupt = on_interrupt;
    cli->arg = d;
    open_next(d);
}

static void fini(void *arg)
{
    ps_fetch_fini(&((download *)arg)->fetch);
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
