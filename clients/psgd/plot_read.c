/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/psgd/plot_read.h"

#include "clients/psgd/show.h"

#include "common/base/shorten.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { LISTED = 1000 };

static bool is_folder(const char *path)
{
    struct stat facts;

    return stat(path, &facts) == 0 && S_ISDIR(facts.st_mode);
}

bool ps_plot_read_is_local(const ps_cli *cli)
{
    bool is_local = true;

    for (size_t i = 0; i < cli->config->n_args; i++) {
        is_local = is_local && is_folder(cli->config->args[i]);
    }
    return is_local;
}

static void end_with_status(ps_plot_read *p, const ps_status *st)
{
    ps_cli_status(st);
    ps_cli_end(p->cli, PS_EXIT_SERVER);
}

static ps_status read_folder(ps_plot_read *p, const char *path)
{
    return ps_plot_job_read(&p->jobs[p->n++], path, p->rows_max / p->cli->config->n_args);
}

void ps_plot_read_fini(ps_plot_read *p)
{
    if (p->is_fetching) {
        ps_status st = ps_dir_remove(p->folder);

        (void)st; /* a failure does not matter: the folder is a temporary one */
        ps_fetch_fini(&p->fetch);
        p->is_fetching = false;
        p->cli->on_interrupt = NULL;
    }
}

static void read_next(ps_plot_read *p);
static void fetch_job(ps_plot_read *p);

void ps_plot_read_list(ps_cli *cli, ps_reply_fn *on_list, void *arg)
{
    Psgd__V1__ListJobsRequest request = PSGD__V1__LIST_JOBS_REQUEST__INIT;

    request.page_size = LISTED;
    ps_cli_call(cli, "ListJobs", &request.base, on_list, arg);
}

bool ps_plot_read_newest(char *id, size_t cap, const Psgd__V1__ListJobsResponse *jobs)
{
    for (size_t i = 0; i < jobs->n_jobs; i++) {
        const Psgd__V1__Job *job = jobs->jobs[i];

        if (job->spec != NULL && strcmp(job->spec->title, id) == 0) {
            snprintf(id, cap, "%s", job->id);
            return true;
        }
    }
    fprintf(stderr,
            "psgd: '%s' is no folder, and no id or title of the newest %d jobs; psgd list shows "
            "them\n",
            PS_PLAIN(id, 128), LISTED);
    return false;
}

/* Fetches the newest job with the title that the user gave. Ends the program if there is none. */
static void on_list(void *arg, const ps_error *error, const ProtobufCMessage *reply)
{
    ps_plot_read *p = arg;

    if (!ps_is_ok(&error->status)) {
        ps_cli_fail(p->cli, error);
    } else if (ps_plot_read_newest(p->id, sizeof p->id, (const void *)reply)) {
        fetch_job(p);
    } else {
        ps_cli_end(p->cli, PS_EXIT_SERVER);
    }
}

/* Returns whether a training report is among the files. A job that trains has none; it may have
 * timelines. */
static bool has_reports(const ps_fetch *fetch)
{
    bool has = false;

    for (size_t i = 0; i < fetch->n_files && !has; i++) {
        has = strncmp(fetch->files[i].name, "TR-", 3) == 0;
    }
    return has;
}

static void on_fetched(void *arg, const ps_error *error)
{
    ps_plot_read *p = arg;
    ps_status st = ps_ok();
    bool is_cancelled = p->fetch.is_cancelled, has_any = has_reports(&p->fetch);

    if (ps_is_ok(&error->status) && has_any) {
        st = read_folder(p, p->folder);
        if (ps_is_ok(&st) && json_object_size(p->jobs[p->n - 1].summary) == 0) {
            st = ps_fail(PS_DATA_LOSS, "job %s: its files have no summary.json",
                         PS_SHORT(p->id, 128));
        }
    }
    ps_plot_read_fini(p);
    if (is_cancelled) {
        ps_cli_end(p->cli, PS_EXIT_INTERRUPTED);
    } else if (error->status.code == PS_NOT_FOUND && !p->by_title) {
        p->by_title = true;
        ps_plot_read_list(p->cli, on_list, p);
    } else if (!ps_is_ok(&error->status)) {
        ps_cli_fail(p->cli, error);
    } else if (!has_any) {
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
    ps_fetch_cancel(&((ps_plot_read *)arg)->fetch);
}

static void fetch_job(ps_plot_read *p)
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
    p->cli->on_interrupt = on_interrupt; /* so that Ctrl-C removes the folder */
    p->cli->arg = p;
    ps_fetch_init(&p->fetch, p->cli, p->id, p->folder, kinds, sizeof kinds / sizeof kinds[0],
                  on_fetched, p);
    ps_fetch_start(&p->fetch, NULL);
}

/* Reads the folders that the next arguments name. At an argument that names no folder, begins to
 * fetch that job from the coordinator; on_fetched goes on. After the last argument calls
 * p->done. */
static void read_next(ps_plot_read *p)
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
    p->done(p->arg);
}

void ps_plot_read_start(ps_plot_read *read)
{
    read_next(read);
}
