/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_plot.c - any bytes as the folder of a job that is plotted (libFuzzer).
 *
 * Bytes 0 part the input into TR, EV, ROUND and summary.json. What is refused says which file; what
 * is accepted becomes pages whose coordinates are numbers, and whose text has no mark-up.
 */
#include "clients/psgd/plot_report.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char folder[] = "/tmp/psgd-fuzz-plot-XXXXXX";
static const char *const names[] = {"TR-t-N(0).csv", "EV-t-N(0).csv", "ROUND-t.csv",
                                    "summary.json"};

enum { NAMES = sizeof names / sizeof names[0], PATH_BYTES = 128 };

static void remove_folder(void)
{
    char path[PATH_BYTES];

    for (size_t i = 0; i < NAMES; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        unlink(path);
    }
    rmdir(folder);
}

static void write_files(const uint8_t *data, size_t size)
{
    if (strstr(folder, "XXXXXX") != NULL) {
        if (mkdtemp(folder) == NULL) {
            abort();
        }
        atexit(remove_folder);
    }
    for (size_t i = 0; i < NAMES; i++) {
        const uint8_t *end = i + 1 < NAMES && size > 0 ? memchr(data, 0, size) : NULL;
        size_t n = end != NULL ? (size_t)(end - data) : size;
        char path[PATH_BYTES];
        FILE *file;

        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        unlink(path);
        if (n > 0) {
            file = fopen(path, "wb");
            if (file == NULL || fwrite(data, 1, n, file) != n || fclose(file) != 0) {
                abort();
            }
        }
        n += end != NULL;
        data += n;
        size -= n;
    }
}

/* Aborts if a path or a coordinate has something other than numbers. Quotes of text are escaped, so
 * that these are attributes. */
static void check(const char *page)
{
    static const char *const attributes[] = {" d=\"", " x=\"", " y=\"", " cx=\"", " width=\""};

    for (size_t i = 0; i < sizeof attributes / sizeof attributes[0]; i++) {
        for (const char *at = strstr(page, attributes[i]); at != NULL;
             at = strstr(at + 1, attributes[i])) {
            const char *value = at + strlen(attributes[i]);

            if (strspn(value, "0123456789.-MLZ %") != strcspn(value, "\"")) {
                abort();
            }
        }
    }
    if (strstr(page, "<script") != NULL || strstr(page, "<img") != NULL) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static ps_plot_set set;
    ps_strbuf out = {0};
    ps_status st;

    write_files(data, size);
    memset(&set, 0, sizeof set);
    st = ps_plot_job_read(&set.jobs[0], folder, 4096);
    set.n = 1;
    if (!ps_is_ok(&st)) {
        if (strstr(st.text, folder + 5) == NULL) {
            abort();
        }
    } else {
        ps_plot_set_compare(&set);
        for (int x = PS_PLOT_BY_STEP; x <= PS_PLOT_BY_BYTES; x++) {
            set.x = (ps_plot_x)x;
            ps_plot_report_html(&out, &set);
            ps_plot_report_svg(&out, &set);
        }
        check(ps_strbuf_text(&out));
    }
    ps_strbuf_fini(&out);
    ps_plot_set_fini(&set);
    return 0;
}
