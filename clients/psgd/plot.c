/* SPDX-License-Identifier: Apache-2.0 */
/* plot.c - psgd plot JOB...: draws the curves of jobs into one file, which needs nothing else.
 *
 * A JOB is a folder that psgd train or psgd download has left, or the id or title of a job of the
 * coordinator, whose reports are fetched into a temporary folder.
 */
#include "clients/psgd/fetch.h"
#include "clients/psgd/plot_report.h"
#include "clients/psgd/show.h"

#include "common/base/shorten.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { ROWS_MAX = 2 << 20, PATH_BYTES = 4096, LISTED = 1000, ID_BYTES = 256 };

typedef struct plot {
    const char *x, *output;
    ps_cli *cli;
    ps_plot_set set;
    size_t next; /* index of the next argument */
    ps_fetch fetch;
    bool is_fetching, by_title;            /* the id was looked up by its title */
    char id[ID_BYTES], folder[PATH_BYTES]; /* of the job that is being fetched */
} plot;

static const ps_option options[] = {
    PS_OPTION_STRING(plot, x, .name = "x-axis", .letter = 'x', .value = "step",
                     .choices = "step|time|bytes", .help = "what curves are drawn against"),
    PS_OPTION_STRING(plot, output, .name = "output", .letter = 'o', .metavar = "FILE",
                     .value = "report.html",
                     .help = "file to write: an HTML page (.html) or a picture (.svg)"),
    PS_OPTION_END,
};

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);

    return n > m && strcmp(text + n - m, end) == 0;
}

static bool is_folder(const char *path)
{
    struct stat facts;

    return stat(path, &facts) == 0 && S_ISDIR(facts.st_mode);
}

static bool prepare(ps_cli *cli, void *arg)
{
    plot *p = arg;

    p->cli = cli;
    p->set.x = p->x[0] == 's'   ? PS_PLOT_BY_STEP
               : p->x[0] == 't' ? PS_PLOT_BY_TIME
                                : PS_PLOT_BY_BYTES;
    if (!ends_with(p->output, ".html") && !ends_with(p->output, ".svg")) {
        fprintf(stderr, "psgd: --output '%s': its name must end with .html or .svg\n",
                PS_SHORT(p->output, 200));
        return false;
    }
    cli->is_local = true;
    for (size_t i = 0; i < cli->config->n_args; i++) {
        cli->is_local = cli->is_local && is_folder(cli->config->args[i]);
    }
    return true;
}

/* Writes the file and ends the program. */
static void finish(plot *p)
{
    ps_strbuf out = {0};
    ps_status st;

    ps_plot_set_compare(&p->set);
    if (ends_with(p->output, ".svg")) {
        ps_plot_report_svg(&out, &p->set);
    } else {
        ps_plot_report_html(&out, &p->set);
    }
    st = ps_file_write(p->output, out.data, out.len);
    if (ps_is_ok(&st) && p->cli->format == PS_FORMAT_TEXT) {
        printf("%s of %zu job%s in %s\n", ends_with(p->output, ".svg") ? "curves" : "report",
               p->set.n, p->set.n == 1 ? "" : "s", p->output);
    } else if (ps_is_ok(&st)) {
        json_t *json = json_pack("{s:s, s:I, s:I}", "path", p->output, "size", (json_int_t)out.len,
                                 "jobs", (json_int_t)p->set.n);

        ps_cli_json_value(p->cli, json);
        json_decref(json);
    }
    ps_strbuf_fini(&out);
    ps_cli_end(p->cli, ps_is_ok(&st) ? PS_EXIT_OK : ps_cli_status(&st));
}

static void end_with_status(plot *p, const ps_status *st)
{
    ps_cli_status(st);
    ps_cli_end(p->cli, PS_EXIT_SERVER);
}

static ps_status read_folder(plot *p, const char *path)
{
    return ps_plot_job_read(&p->set.jobs[p->set.n++], path, ROWS_MAX / p->cli->config->n_args);
}

/* Removes the files that were fetched. */
static void discard(plot *p)
{
    if (p->is_fetching) {
        ps_status st = ps_dir_remove(p->folder);

        (void)st; /* a temporary folder */
        ps_fetch_fini(&p->fetch);
        p->is_fetching = false;
        p->cli->on_interrupt = NULL;
    }
}

static void read_next(plot *p);
static void fetch_job(plot *p);

/* Takes the newest job with this title. */
static void on_list(void *arg, const ps_error *error, const ProtobufCMessage *reply)
{
    const Psgd__V1__ListJobsResponse *answer = (const Psgd__V1__ListJobsResponse *)reply;
    plot *p = arg;

    if (!ps_is_ok(&error->status)) {
        ps_cli_fail(p->cli, error);
        return;
    }
    for (size_t i = 0; i < answer->n_jobs; i++) {
        const Psgd__V1__Job *job = answer->jobs[i];

        if (job->spec != NULL && strcmp(job->spec->title, p->id) == 0) {
            snprintf(p->id, sizeof p->id, "%s", job->id);
            fetch_job(p);
            return;
        }
    }
    fprintf(stderr,
            "psgd: '%s' is no folder, and no id or title of the newest %d jobs; psgd list shows "
            "them\n",
            PS_PLAIN(p->id, 128), LISTED);
    ps_cli_end(p->cli, PS_EXIT_SERVER);
}

static void on_fetched(void *arg, const ps_error *error)
{
    plot *p = arg;
    ps_status st = ps_ok();
    bool is_cancelled = p->fetch.is_cancelled, has_files = p->fetch.n_files > 0;

    if (ps_is_ok(&error->status) && has_files) {
        st = read_folder(p, p->folder);
        if (ps_is_ok(&st) && json_object_size(p->set.jobs[p->set.n - 1].summary) == 0) {
            st = ps_fail(PS_DATA_LOSS, "job %s: its files have no summary.json",
                         PS_SHORT(p->id, 128));
        }
    }
    discard(p);
    if (is_cancelled) {
        ps_cli_end(p->cli, PS_EXIT_INTERRUPTED);
    } else if (error->status.code == PS_NOT_FOUND && !p->by_title) {
        Psgd__V1__ListJobsRequest request = PSGD__V1__LIST_JOBS_REQUEST__INIT;

        p->by_title = true;
        request.page_size = LISTED;
        ps_cli_call(p->cli, "ListJobs", &request.base, on_list, p);
    } else if (!ps_is_ok(&error->status)) {
        ps_cli_fail(p->cli, error);
    } else if (!has_files) {
        fprintf(stderr,
                "psgd: job %s has no reports yet; they are collected when it ends. 'psgd watch "
                "--curves' draws a job that trains\n",
                PS_PLAIN(p->id, 128));
        ps_cli_end(p->cli, PS_EXIT_SERVER);
    } else if (!ps_is_ok(&st)) {
        end_with_status(p, &st);
    } else {
        read_next(p);
    }
}

static void on_interrupt(void *arg)
{
    ps_fetch_cancel(&((plot *)arg)->fetch);
}

static void fetch_job(plot *p)
{
    static const Psgd__V1__ArtifactKind kinds[] = {PSGD__V1__ARTIFACT_KIND__ARTIFACT_KIND_REPORT,
                                                   PSGD__V1__ARTIFACT_KIND__ARTIFACT_KIND_SUMMARY};
    const char *root = getenv("TMPDIR");

    snprintf(p->folder, sizeof p->folder, "%s/psgd-plot-XXXXXX",
             root != NULL && root[0] == '/' ? root : "/tmp");
    if (mkdtemp(p->folder) == NULL) {
        ps_status st = ps_fail_errno(errno, "%s", PS_PATH_SHOWN(p->folder));

        end_with_status(p, &st);
        return;
    }
    p->is_fetching = true;
    p->cli->on_interrupt = on_interrupt; /* removes the folder */
    p->cli->arg = p;
    ps_fetch_init(&p->fetch, p->cli, p->id, p->folder, kinds, sizeof kinds / sizeof kinds[0],
                  on_fetched, p);
    ps_fetch_start(&p->fetch, NULL);
}

/* Reads folders until a job has to be fetched, or all are read. */
static void read_next(plot *p)
{
    const ps_config *config = p->cli->config;

    while (p->next < config->n_args) {
        const char *name = config->args[p->next++];
        ps_status st;

        if (!is_folder(name)) {
            snprintf(p->id, sizeof p->id, "%s", name);
            p->by_title = false;
            fetch_job(p);
            return;
        }
        st = read_folder(p, name);
        if (!ps_is_ok(&st)) {
            ps_cli_end(p->cli, ps_cli_status(&st));
            return;
        }
    }
    finish(p);
}

static void start(ps_cli *cli, void *arg)
{
    (void)cli;
    read_next(arg);
}

static void fini(void *arg)
{
    plot *p = arg;

    discard(p);
    ps_plot_set_fini(&p->set);
}

const ps_subcommand ps_subcommand_plot = {
    .command =
        {.name = "psgd plot",
         .summary =
             "Draws the curves of jobs that are over into one file: loss and metrics, bytes, "
             "speed and waits, with results, specification and environment. A JOB is an id "
             "or title, or a folder that psgd train or psgd download has left. The file "
             "needs no script and no network.",
         .usage = "[options] JOB...",
         .args_min = 1,
         .args_max = PS_PLOT_JOBS_MAX,
         .examples = "psgd plot JOB\n"
                     "psgd plot JOB1 JOB2 -x bytes -o curves.svg\n"
                     "psgd train job.yaml --out run1 && psgd plot run1"},
    .options = options,
    .options_size = sizeof(plot),
    .prepare = prepare,
    .start = start,
    .fini = fini,
};
