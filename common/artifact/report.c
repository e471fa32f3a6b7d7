/* SPDX-License-Identifier: Apache-2.0 */
/* report.c - see report.h. */
#include "common/artifact/report.h"

#include "common/artifact/number.h"
#include "common/base/files.h"
#include "common/base/train_columns.h"
#include "common/base/xalloc.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ps_report {
    ps_outlet out;
    size_t value_count; /* number of values in ps_train_row.values and ps_eval_row.values */
};

/* Opens a report and writes its header line: `first`, a column for each metric, `last`. */
static ps_status open_report(const char *path, const char *first, const char *const *metrics,
                             size_t metric_count, const char *last, ps_report **out)
{
    ps_report *report = ps_xcalloc(1, sizeof *report);
    ps_status st = ps_outlet_open(&report->out, path, false);

    if (!ps_is_ok(&st)) {
        free(report);
        return st;
    }
    ps_strbuf_puts(&report->out.rows, first);
    for (size_t i = 0; i < metric_count; i++) {
        ps_strbuf_printf(&report->out.rows, ",%s", metrics[i]);
    }
    ps_strbuf_printf(&report->out.rows, "%s\n", last);
    ps_outlet_flush(&report->out);
    report->value_count = metric_count;
    *out = report;
    return ps_ok();
}

ps_status ps_report_open_train(const char *path, const char *const *metrics, size_t metric_count,
                               ps_report **out)
{
    return open_report(path, ps_train_columns, metrics, metric_count, "", out);
}

ps_status ps_report_open_eval(const char *path, const char *const *metrics, size_t metric_count,
                              ps_report **out)
{
    return open_report(path, "epoch,step,loss", metrics, metric_count,
                       ",time_s,bytes_up,bytes_down", out);
}

static void put_values(ps_report *report, const double *values)
{
    char number[PS_NUMBER_BYTES];

    for (size_t i = 0; i < report->value_count; i++) {
        ps_strbuf_printf(&report->out.rows, ",%s", ps_number_text(values[i], number));
    }
}

void ps_report_train(ps_report *report, const ps_train_row *row)
{
    char time[PS_NUMBER_BYTES], loss[PS_NUMBER_BYTES], accuracy[PS_NUMBER_BYTES];
    char speed[PS_NUMBER_BYTES], wait[PS_NUMBER_BYTES];

    ps_strbuf_printf(&report->out.rows, "%s,%u,%llu,%llu,%s,%s,%s,%llu,%llu,%s",
                     ps_number_text(row->time_s, time), row->epoch, (unsigned long long)row->batch,
                     (unsigned long long)row->step, ps_number_text(row->loss, loss),
                     ps_number_text(row->accuracy, accuracy),
                     ps_number_text(row->samples_per_s, speed), (unsigned long long)row->bytes_up,
                     (unsigned long long)row->bytes_down, ps_number_text(row->wait_s, wait));
    put_values(report, row->values);
    ps_strbuf_putc(&report->out.rows, '\n');
    ps_outlet_row(&report->out, row->time_s);
}

void ps_report_eval(ps_report *report, const ps_eval_row *row)
{
    ps_strbuf *rows = &report->out.rows;
    char number[PS_NUMBER_BYTES];

    ps_strbuf_printf(rows, "%u,%llu,%s", row->epoch, (unsigned long long)row->step,
                     ps_number_text(row->loss, number));
    put_values(report, row->values);
    ps_strbuf_printf(rows, ",%s,%llu,%llu\n", ps_number_text(row->time_s, number),
                     (unsigned long long)row->bytes_up, (unsigned long long)row->bytes_down);
    ps_outlet_flush(&report->out); /* evaluations are rare, so each is written at once */
}

ps_status ps_report_flush(ps_report *report)
{
    return ps_outlet_flush(&report->out);
}

ps_outlet *ps_report_outlet(ps_report *report)
{
    return &report->out;
}

ps_status ps_report_close(ps_report *report)
{
    ps_status st = ps_outlet_close(&report->out);

    free(report);
    return st;
}

/* Appends at most max_bytes of `text`. A character that is not allowed in a safe name becomes '_',
 * and so does a dot behind a dot. */
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

static void take_name(char *name, size_t cap, ps_strbuf *text)
{
    assert(text->len < cap && ps_file_name_is_safe(text->data));
    memcpy(name, text->data, text->len + 1);
    ps_strbuf_fini(text);
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
    take_name(name, cap, &text);
}

void ps_artifact_name_of_job(char *name, size_t cap, const char *prefix, const char *title,
                             const char *suffix)
{
    ps_strbuf text = {0};

    ps_strbuf_printf(&text, "%s-", prefix);
    append_safe(&text, title, PS_NAME_MAX - strlen(prefix) - strlen("-") - strlen(suffix));
    ps_strbuf_puts(&text, suffix);
    take_name(name, cap, &text);
}
