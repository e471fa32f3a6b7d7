/* SPDX-License-Identifier: Apache-2.0 */
/* plot.c - psgd plot JOB...: draws the curves of jobs into one file that refers to no other
 * files. */
#include "clients/psgd/plot_read.h"
#include "clients/psgd/plot_report.h"

#include "common/base/shorten.h"

#include <stdio.h>
#include <string.h>

enum { ROWS_MAX = 2 << 20 };

typedef struct plot {
    const char *x, *output;
    ps_cli *cli;
    ps_plot_set set;
    ps_plot_read read;
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
    cli->is_local = ps_plot_read_is_local(cli);
    return true;
}

/* Writes the report (.html) or the curves alone (.svg) of all jobs that were read to the output
 * file, and ends the subcommand. */
static void finish(void *arg)
{
    plot *p = arg;
    ps_strbuf out = {0};
    ps_status st;

    p->set.n = p->read.n;
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

static void start(ps_cli *cli, void *arg)
{
    plot *p = arg;

    p->read = (ps_plot_read){
        .cli = cli, .jobs = p->set.jobs, .rows_max = ROWS_MAX, .done = finish, .arg = p};
    ps_plot_read_start(&p->read);
}

static void fini(void *arg)
{
    plot *p = arg;

    ps_plot_read_fini(&p->read);
    p->set.n = p->read.n;
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
