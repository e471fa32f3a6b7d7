/* SPDX-License-Identifier: Apache-2.0 */
/* report.c - rows collected and written to a file about once a second.
 *
 * A failed write is kept and told at close: a full disk must not end a training
 * that still can answer with its weights.
 */
#include "common/artifact/report.h"

#include "common/artifact/number.h"
#include "common/base/files.h"
#include "common/base/strbuf.h"
#include "common/base/xalloc.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BUFFER_BYTES = 64 * 1024 };

struct ps_report {
    int fd;
    char *path;
    ps_strbuf rows;   /* not written yet */
    double flushed_s; /* time of the row that was last when rows were written */
    ps_status st;     /* the first failure */
};

static void flush(ps_report *report)
{
    const char *text = ps_strbuf_text(&report->rows);
    size_t left = report->rows.len;

    while (left > 0 && ps_is_ok(&report->st)) {
        ssize_t done = write(report->fd, text, left);

        if (done >= 0) {
            text += done;
            left -= (size_t)done;
        } else if (errno != EINTR) {
            report->st = ps_fail_errno(errno, "write %s", ps_path_tail(report->path));
        }
    }
    ps_strbuf_clear(&report->rows);
}

static ps_status open_report(const char *path, const char *header, ps_report **out)
{
    ps_report *report = NULL;
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

    if (fd < 0) {
        return ps_fail_errno(errno, "open %s", ps_path_tail(path));
    }
    report = ps_xcalloc(1, sizeof *report);
    report->fd = fd;
    report->path = ps_xstrdup(path);
    report->st = ps_ok();
    ps_strbuf_puts(&report->rows, header);
    flush(report);
    *out = report;
    return ps_ok();
}

ps_status ps_report_open_train(const char *path, ps_report **out)
{
    return open_report(path,
                       "time_s,epoch,batch,step,loss,accuracy,samples_per_s,bytes_up,bytes_down,"
                       "wait_s\n",
                       out);
}

ps_status ps_report_open_eval(const char *path, ps_report **out)
{
    return open_report(path, "epoch,step,loss,accuracy\n", out);
}

void ps_report_train(ps_report *report, const ps_train_row *row)
{
    char time[PS_NUMBER_BYTES], loss[PS_NUMBER_BYTES], accuracy[PS_NUMBER_BYTES];
    char speed[PS_NUMBER_BYTES], wait[PS_NUMBER_BYTES];

    ps_strbuf_printf(&report->rows, "%s,%u,%llu,%llu,%s,%s,%s,%llu,%llu,%s\n",
                     ps_number_text(row->time_s, time), row->epoch, (unsigned long long)row->batch,
                     (unsigned long long)row->step, ps_number_text(row->loss, loss),
                     ps_number_text(row->accuracy, accuracy),
                     ps_number_text(row->samples_per_s, speed), (unsigned long long)row->bytes_up,
                     (unsigned long long)row->bytes_down, ps_number_text(row->wait_s, wait));
    if (row->time_s - report->flushed_s >= 1.0 || report->rows.len >= BUFFER_BYTES) {
        flush(report);
        report->flushed_s = row->time_s;
    }
}

void ps_report_eval(ps_report *report, const ps_eval_row *row)
{
    char loss[PS_NUMBER_BYTES], accuracy[PS_NUMBER_BYTES];

    ps_strbuf_printf(&report->rows, "%u,%llu,%s,%s\n", row->epoch, (unsigned long long)row->step,
                     ps_number_text(row->loss, loss), ps_number_text(row->accuracy, accuracy));
    flush(report); /* one an epoch */
}

ps_status ps_report_close(ps_report *report)
{
    ps_status st;

    flush(report);
    if (close(report->fd) != 0 && ps_is_ok(&report->st)) {
        report->st = ps_fail_errno(errno, "close %s", ps_path_tail(report->path));
    }
    st = report->st;
    ps_strbuf_fini(&report->rows);
    free(report->path);
    free(report);
    return st;
}

/* What cannot stand in a safe name becomes '_'. */
static void append_safe(ps_strbuf *name, const char *text, size_t max_bytes)
{
    for (size_t i = 0; text[i] != '\0' && i < max_bytes; i++) {
        bool is_safe = strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
                              "_()-.",
                              text[i]) != NULL;
        bool is_second_dot = text[i] == '.' && name->len > 0 && name->data[name->len - 1] == '.';

        ps_strbuf_putc(name, is_safe && !is_second_dot ? text[i] : '_');
    }
}

void ps_artifact_name(char *name, size_t cap, const char *prefix, const char *title, const char *id,
                      const char *suffix)
{
    size_t frame = strlen(prefix) + strlen("--N()") + strlen(id) + strlen(suffix);
    ps_strbuf text = {0};

    assert(frame < PS_NAME_MAX);
    ps_strbuf_printf(&text, "%s-", prefix);
    append_safe(&text, title, PS_NAME_MAX - frame);
    ps_strbuf_puts(&text, "-N(");
    append_safe(&text, id, PS_NAME_MAX);
    ps_strbuf_printf(&text, ")%s", suffix);
    assert(text.len < cap && ps_name_is_safe(text.data));
    memcpy(name, text.data, text.len + 1);
    ps_strbuf_fini(&text);
}
