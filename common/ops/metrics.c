/* SPDX-License-Identifier: Apache-2.0 */
/* metrics.c - see metrics.h. */
#include "common/ops/metrics.h"

#include "common/base/clock.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

void ps_metrics_begin(ps_strbuf *out, const char *name, const char *type, const char *help)
{
    ps_strbuf_printf(out, "# HELP %s ", name);
    for (; *help != '\0'; help++) {
        ps_strbuf_puts(out, *help == '\\'   ? "\\\\"
                            : *help == '\n' ? "\\n"
                                            : (const char[]){*help, '\0'});
    }
    ps_strbuf_printf(out, "\n# TYPE %s %s\n", name, type);
}

static void add_labels(ps_strbuf *out, const ps_label *labels)
{
    char before = '{';

    for (; labels->name != NULL; labels++, before = ',') {
        ps_strbuf_printf(out, "%c%s=\"", before, labels->name);
        for (const char *c = labels->value; *c != '\0'; c++) {
            ps_strbuf_puts(out, *c == '\\'   ? "\\\\"
                                : *c == '"'  ? "\\\""
                                : *c == '\n' ? "\\n"
                                             : (const char[]){*c, '\0'});
        }
        ps_strbuf_putc(out, '"');
    }
    if (before == ',') {
        ps_strbuf_putc(out, '}');
    }
}

void ps_metrics_add(ps_strbuf *out, const char *name, const ps_label *labels, double value)
{
    ps_strbuf_puts(out, name);
    if (labels != NULL) {
        add_labels(out, labels);
    }
    if (isnan(value)) {
        ps_strbuf_puts(out, " NaN\n");
    } else if (isinf(value)) {
        ps_strbuf_puts(out, value > 0 ? " +Inf\n" : " -Inf\n");
    } else {
        ps_strbuf_printf(out, " %.17g\n", value);
    }
}

void ps_metrics_one(ps_strbuf *out, const char *name, const char *type, const char *help,
                    double value)
{
    ps_metrics_begin(out, name, type, help);
    ps_metrics_add(out, name, NULL, value);
}

void ps_metrics_histogram(ps_strbuf *out, const char *name, const ps_label *labels,
                          const ps_histogram *histogram)
{
    enum { LABELS = 4, NAME_BYTES = 96 };
    ps_label with[LABELS + 2] = {{NULL, NULL}};
    char line[NAME_BYTES], edge[24];
    uint64_t sum = 0;
    size_t n = 0;

    for (; labels != NULL && n < LABELS && labels[n].name != NULL; n++) {
        with[n] = labels[n];
    }
    with[n] = (ps_label){"le", edge};
    snprintf(line, sizeof line, "%s_bucket", name);
    for (int i = 0; i <= PS_HISTOGRAM_EDGES; i++) {
        sum += atomic_load_explicit(&histogram->counts[i], memory_order_relaxed);
        if (i < PS_HISTOGRAM_EDGES) {
            snprintf(edge, sizeof edge, "%g", (double)ps_histogram_edges_us[i] / 1e6);
        } else {
            snprintf(edge, sizeof edge, "+Inf");
        }
        ps_metrics_add(out, line, with, (double)sum);
    }
    snprintf(line, sizeof line, "%s_sum", name);
    ps_metrics_add(out, line, labels,
                   (double)atomic_load_explicit(&histogram->sum_us, memory_order_relaxed) / 1e6);
    snprintf(line, sizeof line, "%s_count", name);
    ps_metrics_add(out, line, labels, (double)sum);
}

/* --- the table of counters --------------------------------------------------------- */

static const char total[] = "_total";

/* Writes the metric's name for a counter of a worker, server or job (`of`). Returns whether the
 * metric is a counter for Prometheus, which only grows: its name ends with "_total". Else it is a
 * gauge. A metric of a job is a gauge always, and has its name without "_total". */
static bool name_of(const ps_counter *counter, unsigned of, char *name, size_t cap)
{
    const char *role = of == PS_OF_WORKER ? "worker" : of == PS_OF_SERVER ? "server" : "job";
    size_t n = strlen(counter->metric), ends = sizeof total - 1;
    bool is_total = n > ends && strcmp(counter->metric + n - ends, total) == 0;

    if (is_total && of == PS_OF_JOB) {
        n -= ends;
    }
    snprintf(name, cap, "psgd_%s_%.*s", role, (int)n, counter->metric);
    return is_total && of != PS_OF_JOB;
}

void ps_metrics_counts(ps_strbuf *out, unsigned of, const ps_metrics_of *list, size_t n)
{
    for (size_t k = 0; n > 0 && k < PS_COUNTERS; k++) {
        const ps_counter *counter = &ps_counters[k];
        char name[96];
        bool is_counter;

        if ((counter->of & of) == 0 || counter->metric == NULL) {
            continue;
        }
        is_counter = name_of(counter, of, name, sizeof name);
        ps_metrics_begin(out, name, is_counter ? "counter" : "gauge", counter->help);
        for (size_t i = 0; i < n; i++) {
            ps_metrics_add(out, name, list[i].labels, list[i].counts->v[k]);
        }
    }
}

/* --- the process ------------------------------------------------------------------- */

static double resident_bytes(void)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");

    if (file != NULL) {
        if (fscanf(file, "%*s %ld", &pages) != 1) {
            pages = 0;
        }
        fclose(file);
    }
    return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

static double open_files(void)
{
    DIR *dir = opendir("/proc/self/fd");
    double count = -3; /* not counted: ".", ".." and the descriptor of the folder itself */

    while (dir != NULL && readdir(dir) != NULL) {
        count++;
    }
    if (dir != NULL) {
        closedir(dir);
    }
    return count < 0 ? 0 : count;
}

/* Returns when the process began, in seconds since 1970; 0 if the system does not tell. */
static double start_time(void)
{
    static double found; /* kept after the first call, since it does not change */
    unsigned long long ticks = 0;
    struct timespec up;
    char text[1024] = "";
    const char *at;
    FILE *file;

    if (found > 0) {
        return found;
    }
    file = fopen("/proc/self/stat", "re");
    if (file != NULL) {
        size_t n = fread(text, 1, sizeof text - 1, file);

        text[n] = '\0';
        fclose(file);
    }
    /* The program's name, in brackets, may have spaces. The 20th field behind it is the start. */
    at = strrchr(text, ')');
    for (int field = 0; at != NULL && field < 20; field++) {
        at = strchr(at + 1, ' ');
    }
    if (at != NULL && sscanf(at, "%llu", &ticks) == 1 && clock_gettime(CLOCK_BOOTTIME, &up) == 0) {
        double now = (double)ps_clock_wall_us() / 1e6;

        found = now - ((double)up.tv_sec + (double)up.tv_nsec / 1e9) +
                (double)ticks / (double)sysconf(_SC_CLK_TCK);
    }
    return found;
}

void ps_metrics_process(ps_strbuf *out)
{
    struct rusage used = {0};

    getrusage(RUSAGE_SELF, &used);
    ps_metrics_begin(out, "psgd_build_info", "gauge", "the version of psgd; always 1");
    ps_metrics_add(out, "psgd_build_info", PS_LABELS({"version", PS_VERSION}), 1);
    ps_metrics_one(out, "process_cpu_seconds_total", "counter", "processor time of this process",
                   (double)used.ru_utime.tv_sec + (double)used.ru_stime.tv_sec +
                       (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6);
    ps_metrics_one(out, "process_resident_memory_bytes", "gauge", "memory that is resident",
                   resident_bytes());
    ps_metrics_one(out, "process_open_fds", "gauge", "open file descriptors", open_files());
    ps_metrics_one(out, "process_start_time_seconds", "gauge",
                   "when this process began, in seconds since 1970", start_time());
}
