/* SPDX-License-Identifier: Apache-2.0 */
/* plot_report.c - see plot_report.h. */
#include "clients/psgd/plot_report.h"

#include "common/base/config.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { WORKERS_MAX = 64, GAP = 16, KEY_LINE = 22 };

static const char page_style[] =
    ":root{color-scheme:light dark}"
    "*{box-sizing:border-box}"
    "body{margin:0;background:#f6f8fa;color:#1f2328;font:15px/1.5 -apple-system,'Segoe "
    "UI',Helvetica,"
    "Arial,'Liberation Sans','DejaVu Sans',sans-serif}"
    "main{max-width:1400px;margin:0 auto;padding:24px 16px 48px}"
    "h1{font-size:24px;line-height:1.25;margin:0 0 4px;overflow-wrap:anywhere}"
    "h2{font-size:17px;margin:32px 0 10px}"
    "p{margin:0 0 8px}.quiet{color:#59636e}"
    ".tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(132px,1fr));gap:10px;margin:"
    "18px 0}"
    ".tile{background:#fff;border:1px solid #d9dfe5;border-radius:10px;padding:10px 14px}"
    ".tile b{display:block;font-size:20px;font-weight:600;line-height:1.3}"
    ".tile span{color:#59636e;font-size:13px}"
    ".charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,400px),1fr));gap:"
    "14px}"
    ".chart{background:#fff;border:1px solid #d9dfe5;border-radius:10px;padding:4px;min-width:0}"
    ".chart svg{display:block;width:100%;height:auto}"
    ".key{list-style:none;margin:12px 0 16px;padding:0;display:flex;flex-wrap:wrap;gap:6px 22px}"
    ".key li{display:flex;align-items:center;gap:8px;overflow-wrap:anywhere}"
    ".key svg{flex:none}"
    ".wide{overflow-x:auto;background:#fff;border:1px solid #d9dfe5;border-radius:10px}"
    "table{border-collapse:collapse;width:100%;font-size:14px}"
    "th,td{padding:6px 12px;text-align:left;vertical-align:top;border-top:1px solid #e9edf1;"
    "overflow-wrap:anywhere}"
    ".kv th{width:32%}"
    "thead th,tr:first-child th,tr:first-child td{border-top:0}th{font-weight:600}"
    ".n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}"
    "details{margin:10px 0}summary{cursor:pointer;font-weight:600;padding:4px 0}"
    "footer{margin-top:32px;font-size:13px}"
    "@media(prefers-color-scheme:dark){body{background:#010409;color:#e6edf3}"
    ".quiet,.tile span{color:#9198a1}"
    ".tile,.chart,.wide{background:#0d1117;border-color:#2a323d}th,td{border-color:#222a34}}"
    "@media print{body{background:#fff}.chart,.tile{break-inside:avoid}}";

/* --- pieces ---------------------------------------------------------------------------- */

static void put(ps_strbuf *out, const char *text)
{
    ps_plot_svg_text(out, text);
}

static void put_tile(ps_strbuf *out, const char *value, const char *name)
{
    ps_strbuf_puts(out, "<div class=\"tile\"><b>");
    put(out, value);
    ps_strbuf_puts(out, "</b><span>");
    put(out, name);
    ps_strbuf_puts(out, "</span></div>\n");
}

static void put_cell(ps_strbuf *out, const char *tag, bool is_number, const char *text)
{
    ps_strbuf_printf(out, is_number ? "<%s class=\"n\">" : "<%s>", tag);
    put(out, text);
    ps_strbuf_printf(out, "</%s>", tag);
}

static double number(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);

    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

static const char *text_of(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));

    return text != NULL ? text : "";
}

/* Writes a number of bytes in a suitable unit; "" if it is NAN, negative or 1e18 or more. */
static const char *size_text(double bytes, char text[PS_SHOW_BYTES])
{
    text[0] = '\0';
    return bytes >= 0 && bytes < 1e18 ? ps_show_size((uint64_t)bytes, text) : text;
}

static const char *number_text(double value, int digits, char text[PS_SHOW_BYTES])
{
    text[0] = '\0';
    return isfinite(value) ? ps_show_number(value, digits, text) : text;
}

static const char *seconds_text(double seconds, char text[PS_SHOW_BYTES])
{
    if (!(seconds >= 0 && seconds < 1e12)) {
        text[0] = '\0';
    } else if (seconds < 120) {
        snprintf(text, PS_SHOW_BYTES, "%.1f s", seconds);
    } else if (seconds < 7200) {
        snprintf(text, PS_SHOW_BYTES, "%.1f min", seconds / 60);
    } else {
        snprintf(text, PS_SHOW_BYTES, "%.1f h", seconds / 3600);
    }
    return text;
}

/* Returns the state in the job's summary without its prefix, such as "DONE". Returns "not over" if
 * there is no state, as without a summary. */
static const char *state_of(const ps_plot_job *job)
{
    const char *state = text_of(job->summary, "state");

    return state[0] == '\0'                        ? "not over"
           : strncmp(state, "JOB_STATE_", 10) == 0 ? state + 10
                                                   : state;
}

static const json_t *progress_of(const ps_plot_job *job)
{
    return json_object_get(job->summary, "progress");
}

/* --- the page -------------------------------------------------------------------------- */

static void put_tiles(ps_strbuf *out, const ps_plot_job *job)
{
    const json_t *progress = progress_of(job), *value;
    double bytes = number(progress, "bytes_up") + number(progress, "bytes_down");
    double plain = number(progress, "bytes_up_float32") + number(progress, "bytes_down_float32");
    char text[PS_SHOW_BYTES], less[64] = "bytes, up and down";
    const char *name;

    ps_strbuf_puts(out, "<div class=\"tiles\">\n");
    json_object_foreach(json_object_get(job->summary, "result"), name, value)
    {
        char title[80];

        snprintf(title, sizeof title, "test %.60s", name);
        put_tile(out, number_text(json_number_value(value), 4, text), title);
    }
    if (isfinite(number(progress, "step"))) {
        snprintf(text, sizeof text, "%.0f", number(progress, "step"));
        put_tile(out, text, "steps");
    }
    if (isfinite(number(job->summary, "seconds"))) {
        put_tile(out, seconds_text(number(job->summary, "seconds"), text), "duration");
    }
    if (bytes > 0) {
        if (plain > 1.05 * bytes) {
            snprintf(less, sizeof less, "bytes, %.1f times less than float32", plain / bytes);
        }
        put_tile(out, size_text(bytes, text), less);
    }
    if (isfinite(number(progress, "seconds_waiting"))) {
        put_tile(out, seconds_text(number(progress, "seconds_waiting"), text),
                 "waiting, mean of workers");
    }
    ps_strbuf_puts(out, "</div>\n");
}

/* Appends the short coloured line that stands for job `j` in a page of several jobs. */
static void put_swatch(ps_strbuf *out, size_t j)
{
    ps_strbuf_printf(
        out,
        "<svg width=\"26\" height=\"10\" aria-hidden=\"true\"><line class=\"ln s%zu%s\" "
        "x1=\"2\" y1=\"5\" x2=\"24\" y2=\"5\"/></svg>",
        j % PS_PLOT_COLOURS, j >= PS_PLOT_COLOURS ? " da" : "");
}

static void put_key(ps_strbuf *out, const ps_plot_set *set)
{
    ps_strbuf_puts(out, "<ul class=\"key\">\n");
    for (size_t j = 0; j < set->n; j++) {
        ps_strbuf_puts(out, "<li>");
        put_swatch(out, j);
        ps_strbuf_puts(out, "<span>");
        put(out, set->labels[j]);
        ps_strbuf_puts(out, "</span></li>\n");
    }
    ps_strbuf_puts(out, "</ul>\n<p class=\"quiet\">Thick: test set. Thin: training.</p>\n");
}

static void put_charts(ps_strbuf *out, const ps_plot_set *set)
{
    ps_strbuf charts[PS_PLOT_CHARTS_MAX] = {0};
    size_t n = ps_plot_charts_draw(set, charts);

    ps_strbuf_puts(out, "<div class=\"charts\">\n");
    for (size_t i = 0; i < n; i++) {
        ps_strbuf_printf(out,
                         "<div class=\"chart\"><svg viewBox=\"0 0 %d %d\" role=\"img\" "
                         "xmlns=\"http://www.w3.org/2000/svg\">\n%s</svg></div>\n",
                         PS_PLOT_WIDTH, PS_PLOT_HEIGHT, ps_strbuf_text(&charts[i]));
        ps_strbuf_fini(&charts[i]);
    }
    ps_strbuf_puts(out, "</div>\n");
}

/* Appends the table of results in a page of several jobs, with a line for each job. */
static void put_results(ps_strbuf *out, const ps_plot_set *set)
{
    static const char *const head[] = {"Job",      "State", "Result", "Steps",
                                       "Duration", "Bytes", "Waiting"};

    ps_strbuf_puts(out, "<h2>Results</h2>\n<div class=\"wide\"><table><thead><tr>");
    for (size_t i = 0; i < sizeof head / sizeof head[0]; i++) {
        put_cell(out, "th", i > 2, head[i]);
    }
    ps_strbuf_puts(out, "</tr></thead>\n");
    for (size_t j = 0; j < set->n; j++) {
        const ps_plot_job *job = &set->jobs[j];
        const json_t *progress = progress_of(job), *value;
        char text[PS_SHOW_BYTES], result[256] = "";
        const char *name;
        size_t n = 0;

        json_object_foreach(json_object_get(job->summary, "result"), name, value)
        {
            if (n < sizeof result) {
                n +=
                    (size_t)snprintf(result + n, sizeof result - n, "%s%.40s %s", n > 0 ? ", " : "",
                                     name, number_text(json_number_value(value), 4, text));
            }
        }
        ps_strbuf_puts(out, "<tr>");
        put_cell(out, "td", false, job->id);
        put_cell(out, "td", false, state_of(job));
        put_cell(out, "td", false, result);
        put_cell(out, "td", true, number_text(number(progress, "step"), 0, text));
        put_cell(out, "td", true, seconds_text(number(job->summary, "seconds"), text));
        put_cell(out, "td", true,
                 size_text(number(progress, "bytes_up") + number(progress, "bytes_down"), text));
        put_cell(out, "td", true, seconds_text(number(progress, "seconds_waiting"), text));
        ps_strbuf_puts(out, "</tr>\n");
    }
    ps_strbuf_puts(out, "</table></div>\n");
}

static void put_differences(ps_strbuf *out, const ps_plot_set *set)
{
    if (set->differing.n == 0) {
        return;
    }
    ps_strbuf_puts(out,
                   "<h2>What differs</h2>\n<div class=\"wide\"><table><thead><tr><th>Field</th>");
    for (size_t j = 0; j < set->n; j++) {
        ps_strbuf_puts(out, "<th>");
        put_swatch(out, j);
        ps_strbuf_puts(out, " ");
        put(out, set->jobs[j].id);
        ps_strbuf_puts(out, "</th>");
    }
    ps_strbuf_puts(out, "</tr></thead>\n");
    for (size_t i = 0; i < set->differing.n; i++) {
        const char *path = set->differing.at[i].path;

        ps_strbuf_puts(out, "<tr>");
        put_cell(out, "th", false, path);
        for (size_t j = 0; j < set->n; j++) {
            const char *value = ps_plot_facts_get(&set->facts[j], path);

            put_cell(out, "td", false, value != NULL ? value : "–");
        }
        ps_strbuf_puts(out, "</tr>\n");
    }
    ps_strbuf_puts(out, "</table></div>\n");
}

static void put_worker(ps_strbuf *out, size_t rank, const ps_plot_rows *rows)
{
    const double *last = rows->values + (rows->n - 1) * rows->stride;
    char text[PS_SHOW_BYTES];

    ps_strbuf_puts(out, "<tr>");
    snprintf(text, sizeof text, "%zu", rank);
    put_cell(out, "td", true, text);
    put_cell(out, "td", true, number_text(last[PS_PLOT_STEP], 0, text));
    put_cell(out, "td", true, seconds_text(last[PS_PLOT_TIME], text));
    put_cell(out, "td", true, seconds_text(last[PS_PLOT_WAIT], text));
    text[0] = '\0';
    if (last[PS_PLOT_TIME] > 0 && isfinite(last[PS_PLOT_WAIT])) {
        snprintf(text, sizeof text, "%.0f %%", 100 * last[PS_PLOT_WAIT] / last[PS_PLOT_TIME]);
    }
    put_cell(out, "td", true, text);
    put_cell(out, "td", true, size_text(last[PS_PLOT_UP], text));
    put_cell(out, "td", true, size_text(last[PS_PLOT_DOWN], text));
    ps_strbuf_puts(out, "</tr>\n");
}

static void put_workers(ps_strbuf *out, const ps_plot_job *job)
{
    static const char *const head[] = {"Worker", "Steps", "Time", "Waited", "Share", "Up", "Down"};

    ps_strbuf_puts(out, "<div class=\"wide\"><table><thead><tr>");
    for (size_t i = 0; i < sizeof head / sizeof head[0]; i++) {
        put_cell(out, "th", true, head[i]);
    }
    ps_strbuf_puts(out, "</tr></thead>\n");
    for (size_t r = 0; r < job->n_ranks && r < WORKERS_MAX; r++) {
        if (job->ranks[r].train.n > 0) {
            put_worker(out, r, &job->ranks[r].train);
        }
    }
    ps_strbuf_puts(out, "</table></div>\n");
    if (job->n_ranks > WORKERS_MAX) {
        ps_strbuf_printf(out, "<p class=\"quiet\">The first %d of %zu workers.</p>\n", WORKERS_MAX,
                         job->n_ranks);
    }
}

static void put_row(ps_strbuf *out, const char *name, const char *text)
{
    if (text[0] != '\0') {
        ps_strbuf_puts(out, "<tr>");
        put_cell(out, "th", false, name);
        put_cell(out, "td", false, text);
        ps_strbuf_puts(out, "</tr>\n");
    }
}

static void put_environment(ps_strbuf *out, const ps_plot_job *job)
{
    const json_t *nodes = json_object_get(job->summary, "nodes"), *one;
    char text[PS_SHOW_BYTES], line[512];
    bool has_addresses = false;
    size_t i;

    ps_strbuf_puts(out, "<div class=\"wide kv\"><table>\n");
    put_row(out, "Job", job->id);
    put_row(out, "Created", text_of(job->summary, "create_time"));
    put_row(out, "Trained from", text_of(job->summary, "start_time"));
    put_row(out, "To", text_of(job->summary, "end_time"));
    put_row(out, "Reason", text_of(job->summary, "message"));
    put_row(out, "Owner", text_of(job->summary, "owner"));
    put_row(out, "Memory at most", size_text(number(job->summary, "peak_memory_bytes"), text));
    json_array_foreach(nodes, i, one)
    {
        const char *version = text_of(one, "version");

        if (text_of(one, "address")[0] != '\0') {
            snprintf(line, sizeof line, "%.20s %.0f at %.200s%s%.60s", text_of(one, "role"),
                     isfinite(number(one, "rank")) ? number(one, "rank") : 0,
                     text_of(one, "address"), version[0] != '\0' ? ", version " : "", version);
            put_row(out, text_of(one, "node_id"), line);
            has_addresses = true;
        }
    }
    if (!has_addresses && json_array_size(nodes) > 0) {
        put_row(out, "Where", "in one process (psgd train)");
    }
    ps_strbuf_puts(out, "</table></div>\n");
}

static void put_specification(ps_strbuf *out, const ps_plot_facts *facts)
{
    ps_strbuf_puts(out,
                   "<details><summary>Specification</summary><div class=\"wide kv\"><table>\n");
    for (size_t i = 0; i < facts->n; i++) {
        put_row(out, facts->at[i].path, facts->at[i].text);
    }
    ps_strbuf_puts(out, "</table></div></details>\n");
}

/* Appends the page's title: "TITLE" for one job, "TITLE and 2 more" for three. */
static void put_title(ps_strbuf *out, const ps_plot_set *set)
{
    put(out, set->jobs[0].title);
    if (set->n > 1) {
        ps_strbuf_printf(out, " and %zu more", set->n - 1);
    }
}

void ps_plot_report_html(ps_strbuf *out, const ps_plot_set *set)
{
    ps_strbuf_puts(out, "<!DOCTYPE html>\n"
                        "<html xmlns=\"http://www.w3.org/1999/xhtml\" lang=\"en\"><head>\n"
                        "<meta charset=\"utf-8\"/>\n"
                        "<meta http-equiv=\"Content-Security-Policy\" "
                        "content=\"default-src 'none'; style-src 'unsafe-inline'\"/>\n"
                        "<meta name=\"viewport\" content=\"width=device-width, "
                        "initial-scale=1\"/>\n<title>");
    put_title(out, set);
    ps_strbuf_puts(out, "</title>\n<style>");
    ps_strbuf_puts(out, page_style);
    ps_plot_svg_style(out);
    ps_strbuf_puts(out, "</style>\n</head><body><main>\n<h1>");
    put_title(out, set);
    ps_strbuf_puts(out, "</h1>\n");
    if (set->n == 1) {
        ps_strbuf_puts(out, "<p class=\"quiet\">");
        put(out, set->jobs[0].id);
        ps_strbuf_puts(out, " · ");
        put(out, state_of(&set->jobs[0]));
        ps_strbuf_puts(out, "</p>\n");
        put_tiles(out, &set->jobs[0]);
    } else {
        put_key(out, set);
    }
    put_charts(out, set);
    if (set->n > 1) {
        put_results(out, set);
        put_differences(out, set);
    }
    for (size_t j = 0; j < set->n; j++) {
        ps_strbuf_puts(out, "<h2>");
        put(out, set->n > 1 ? set->jobs[j].id : "Workers");
        ps_strbuf_puts(out, "</h2>\n");
        put_workers(out, &set->jobs[j]);
        ps_strbuf_puts(out, set->n == 1 ? "<h2>Environment</h2>\n" : "<p></p>\n");
        put_environment(out, &set->jobs[j]);
        put_specification(out, &set->facts[j]);
    }
    ps_strbuf_puts(out,
                   "<footer class=\"quiet\">Bands reach from the least to the greatest value of "
                   "a step. Drawn by psgd " PS_VERSION ".</footer>\n</main></body></html>\n");
}

void ps_plot_report_svg(ps_strbuf *out, const ps_plot_set *set)
{
    ps_strbuf charts[PS_PLOT_CHARTS_MAX] = {0};
    size_t n = ps_plot_charts_draw(set, charts), columns = n > 1 ? 2 : 1;
    size_t lines = set->n > 1 ? set->n : 0, rows = (n + columns - 1) / columns;
    size_t top = 52 + lines * KEY_LINE, width = columns * PS_PLOT_WIDTH + (columns + 1) * GAP;
    size_t height = top + rows * (PS_PLOT_HEIGHT + GAP);

    ps_strbuf_printf(out,
                     "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %zu %zu\" "
                     "width=\"%zu\" height=\"%zu\" role=\"img\">\n<title>",
                     width, height, width, height);
    put_title(out, set);
    ps_strbuf_puts(out, "</title>\n<style>");
    ps_plot_svg_style(out);
    ps_strbuf_printf(out,
                     "</style>\n<rect class=\"pg\" width=\"%zu\" height=\"%zu\" rx=\"8\"/>\n"
                     "<text class=\"pt ph\" x=\"28\" y=\"34\">",
                     width, height);
    put_title(out, set);
    ps_strbuf_puts(out, "</text>\n");
    for (size_t j = 0; j < lines; j++) {
        size_t y = 58 + j * KEY_LINE;

        ps_strbuf_printf(out,
                         "<line class=\"ln s%zu%s\" x1=\"28\" y1=\"%zu\" x2=\"52\" y2=\"%zu\"/>\n"
                         "<text class=\"pt\" x=\"60\" y=\"%zu\">",
                         j % PS_PLOT_COLOURS, j >= PS_PLOT_COLOURS ? " da" : "", y - 4, y - 4, y);
        put(out, set->labels[j]);
        ps_strbuf_puts(out, "</text>\n");
    }
    for (size_t i = 0; i < n; i++) {
        ps_strbuf_printf(out, "<g transform=\"translate(%zu %zu)\">\n%s</g>\n",
                         GAP + i % columns * (PS_PLOT_WIDTH + GAP),
                         top + i / columns * (PS_PLOT_HEIGHT + GAP), ps_strbuf_text(&charts[i]));
        ps_strbuf_fini(&charts[i]);
    }
    ps_strbuf_puts(out, "</svg>\n");
}
