/* SPDX-License-Identifier: Apache-2.0 */
/* trainer_files.c - see trainer.h: reports, curves and the model files. */
#include "common/train/trainer_impl.h"

#include "common/artifact/onnx.h"
#include "common/artifact/weights.h"
#include "common/base/clock.h"
#include "common/base/files.h"
#include "common/base/log.h"
#include "common/base/strbuf.h"
#include "common/job/describe.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int64_t first_pause_us = 250000, longest_pause_us = 5000000;

static double wall_s(void)
{
    return (double)ps_clock_wall_us() * 1e-6;
}

static ps_status path_of(const ps_trainer *t, const char *prefix, const char *suffix, char *path,
                         size_t cap)
{
    char name[160], rank[16];

    snprintf(rank, sizeof rank, "%u", t->conf.rank);
    ps_artifact_name(name, sizeof name, prefix, t->plan->spec->title, rank, suffix);
    if ((size_t)snprintf(path, cap, "%s/%s", t->conf.folder, name) >= cap) {
        return ps_fail(PS_INVALID_ARGUMENT, "path too long: %s", name);
    }
    return ps_ok();
}

/* Opens the event file in a folder of its own, because viewers show each folder as one run. */
static ps_status open_events(ps_trainer *t)
{
    char path[768];
    ps_events *events = NULL;
    ps_status st = path_of(t, "TB", "/" PS_EVENTS_NAME, path, sizeof path);

    if (ps_is_ok(&st)) {
        st = ps_events_open(path, wall_s(), &events);
    }
    if (ps_is_ok(&st)) {
        pthread_mutex_lock(&t->files_mutex);
        t->events = events;
        pthread_mutex_unlock(&t->files_mutex);
    }
    return st;
}

static void names_of(const ps_plan *plan, const char *names[PS_METRICS_MAX])
{
    for (size_t i = 0; i < plan->metric_count; i++) {
        names[i] = plan->metrics[i].metric->name;
    }
}

/* On rank 0, if the data set has words, writes them in the order of their ids. */
static ps_status write_words(const ps_trainer *t)
{
    char path[768];
    size_t bytes = 0;
    const char *words = ps_feed_words(t->feed, &bytes);
    ps_status st = path_of(t, "VOCAB", ".txt", path, sizeof path);

    return ps_is_ok(&st) && words != NULL && t->conf.rank == 0 ? ps_file_write(path, words, bytes)
                                                               : st;
}

ps_status ps_trainer_open_reports(ps_trainer *t)
{
    char path[768];
    ps_status st = write_words(t);

    if (ps_is_ok(&st)) {
        st = path_of(t, "TR", ".csv", path, sizeof path);
    }
    if (ps_is_ok(&st)) {
        st = ps_report_open_train(path, t->step_metrics.names, t->step_metrics.count,
                                  &t->train_report);
    }
    if (ps_is_ok(&st)) {
        st = path_of(t, "EV", ".csv", path, sizeof path);
    }
    if (ps_is_ok(&st)) {
        const char *names[PS_METRICS_MAX];

        names_of(t->plan, names);
        st = ps_report_open_eval(path, names, t->plan->metric_count, &t->eval_report);
    }
    if (ps_is_ok(&st)) {
        st = path_of(t, PS_ROUNDS_PREFIX, PS_ROUNDS_SUFFIX, path, sizeof path);
    }
    if (ps_is_ok(&st)) {
        st = ps_rounds_open(path, t->plan->metric_count, &t->record.file);
    }
    return ps_is_ok(&st) ? open_events(t) : st;
}

/* Writes a row to the report and to the curves. The caller holds files_mutex. */
static void write_train(ps_trainer *t, const trainer_curve_row *kept)
{
    const ps_train_row *row = &kept->row;
    ps_scalar curves[6 + PS_METRICS_MAX] = {
        {"train/loss", row->loss},
        {"speed/samples_per_s", row->samples_per_s},
        {"speed/wait_s", row->wait_s},
        {"wire/bytes_up", (double)row->bytes_up},
        {"wire/bytes_down", (double)row->bytes_down},
    };
    char tags[PS_METRICS_MAX][64];
    size_t count = 5;

    if (!isnan(row->accuracy)) {
        curves[count++] = (ps_scalar){"train/accuracy", row->accuracy};
    }
    for (size_t i = 0; i < t->step_metrics.count; i++) {
        snprintf(tags[i], sizeof tags[i], "train/%s", t->step_metrics.names[i]);
        if (!isnan(row->values[i])) {
            curves[count++] = (ps_scalar){tags[i], row->values[i]};
        }
    }
    ps_report_train(t->train_report, row);
    ps_events_add(t->events, kept->wall_s, row->step, curves, count);
    t->curve.written = row->step;
}

/* Writes the two rows of the present window that have the least and the greatest loss, in the order
 * of their steps; only one if they are the same row. The caller holds files_mutex. */
static void write_window(ps_trainer *t)
{
    trainer_curve *c = &t->curve;
    bool falls = c->greatest.row.step < c->least.row.step;

    write_train(t, falls ? &c->greatest : &c->least);
    if (c->least.row.step != c->greatest.row.step) {
        write_train(t, falls ? &c->least : &c->greatest);
    }
}

static void keep(const ps_trainer *t, const ps_train_row *row, double now_s, trainer_curve_row *out)
{
    out->row = *row;
    out->wall_s = now_s;
    out->row.values = out->values;
    if (t->step_metrics.count > 0) {
        memcpy(out->values, row->values, t->step_metrics.count * sizeof *out->values);
    }
}

/* Copies to row `to` the values that it lacks and the row `from` of its window has. So a value that
 * a program reports only now and then is not lost with the rows that are left out. */
static void fill(const ps_trainer *t, const trainer_curve_row *from, trainer_curve_row *to)
{
    for (size_t i = 0; i < t->step_metrics.count; i++) {
        to->values[i] = isnan(to->values[i]) ? from->values[i] : to->values[i];
    }
    if (isnan(to->row.accuracy)) {
        to->row.accuracy = from->row.accuracy;
    }
}

/* If is_kept, makes the row of the newest step its window's row with the least or greatest loss,
 * *out. begins: it is the first row of the window. */
static void take(const ps_trainer *t, bool is_kept, bool begins, trainer_curve_row *out)
{
    const trainer_curve_row *last = &t->curve.last;
    trainer_curve_row before = *out;

    if (is_kept) {
        keep(t, &last->row, last->wall_s, out);
    }
    if (!begins) {
        fill(t, is_kept ? &before : last, out);
    }
}

void ps_trainer_put_train(ps_trainer *t, const ps_train_row *row)
{
    trainer_curve *c = &t->curve;
    double now_s = wall_s();
    bool begins;
    unsigned what;

    pthread_mutex_lock(&t->files_mutex);
    begins = c->thin.rows == 0;
    what = ps_thin_add(&c->thin, row->loss);
    keep(t, row, now_s, &c->last);
    take(t, what & PS_THIN_LEAST, begins, &c->least);
    take(t, what & PS_THIN_GREATEST, begins, &c->greatest);
    if (what & PS_THIN_END) {
        write_window(t);
    }
    pthread_mutex_unlock(&t->files_mutex);
}

void ps_trainer_end_train(ps_trainer *t)
{
    trainer_curve *c = &t->curve;

    pthread_mutex_lock(&t->files_mutex);
    if (c->thin.rows > 0) {
        write_window(t);
    }
    if (c->last.row.step > c->written) {
        write_train(t, &c->last);
    }
    pthread_mutex_unlock(&t->files_mutex);
}

void ps_trainer_write_eval(ps_trainer *t, const ps_eval_row *row)
{
    const ps_plan *plan = t->plan;
    ps_scalar curves[1 + PS_METRICS_MAX] = {{"test/loss", row->loss}};
    char tags[PS_METRICS_MAX][64];

    for (size_t i = 0; i < plan->metric_count; i++) {
        snprintf(tags[i], sizeof tags[i], "test/%s", plan->metrics[i].metric->name);
        curves[1 + i] = (ps_scalar){tags[i], row->values[i]};
    }
    pthread_mutex_lock(&t->files_mutex);
    ps_report_eval(t->eval_report, row);
    ps_events_add(t->events, wall_s(), row->step, curves, 1 + plan->metric_count);
    pthread_mutex_unlock(&t->files_mutex);
}

void ps_trainer_put_eval(ps_trainer *t, const ps_eval_row *row, int64_t began_us)
{
    const ps_plan *plan = t->plan;
    ps_strbuf said = {0};

    for (size_t i = 0; i < plan->metric_count; i++) {
        ps_strbuf_printf(&said, ", %s %.4f", plan->metrics[i].metric->name, row->values[i]);
    }
    ps_trainer_write_eval(t, row);
    ps_log(PS_LOG_INFO, "trainer",
           "epoch %u of %u, step %llu: test loss %.4f%s; evaluated from %.3f s to %.3f s",
           row->epoch, plan->spec->epochs, (unsigned long long)row->step, row->loss,
           ps_strbuf_text(&said), (double)(began_us - t->began_us) * 1e-6,
           (double)(ps_clock_us() - t->began_us) * 1e-6);
    ps_strbuf_fini(&said);
}

static ps_status first_failure(const ps_status *st, size_t count)
{
    size_t i = 0;

    while (i + 1 < count && ps_is_ok(&st[i])) {
        i++;
    }
    return st[i];
}

ps_status ps_trainer_flush(ps_trainer *t)
{
    ps_status st[] = {ps_ok(), ps_ok(), ps_ok(), ps_ok()};

    pthread_mutex_lock(&t->files_mutex);
    if (t->events != NULL) { /* all files are open: events are opened last */
        st[0] = ps_report_flush(t->train_report);
        st[1] = ps_report_flush(t->eval_report);
        st[2] = ps_rounds_flush(t->record.file);
        st[3] = ps_events_flush(t->events);
    }
    pthread_mutex_unlock(&t->files_mutex);
    return first_failure(st, sizeof st / sizeof st[0]);
}

static void set_waiting_for(ps_trainer *t, const char *text)
{
    pthread_mutex_lock(&t->mutex);
    snprintf(t->progress.waiting_for, sizeof t->progress.waiting_for, "%s", text);
    pthread_mutex_unlock(&t->mutex);
}

ps_status ps_trainer_write_patiently(ps_trainer *t, ps_status (*write)(ps_trainer *t))
{
    int64_t pause_us = first_pause_us;
    bool has_waited = false;
    ps_status st;

    while ((st = write(t)).code == PS_RESOURCE_EXHAUSTED) {
        if (!has_waited) {
            ps_log(PS_LOG_WARN, "trainer", "waits for room on the disk: %s", st.text);
            set_waiting_for(t, st.text);
            has_waited = true;
        }
        if (!ps_gate_pause(t->gate, pause_us)) {
            break;
        }
        pause_us = 2 * pause_us < longest_pause_us ? 2 * pause_us : longest_pause_us;
    }
    if (has_waited) {
        set_waiting_for(t, "");
    }
    return st;
}

static ps_status close_report(ps_report **report)
{
    ps_report *r = *report;

    *report = NULL;
    return r == NULL ? ps_ok() : ps_report_close(r);
}

ps_status ps_trainer_close_reports(ps_trainer *t)
{
    ps_status st[4];

    pthread_mutex_lock(&t->files_mutex);
    st[0] = close_report(&t->train_report);
    st[1] = close_report(&t->eval_report);
    st[2] = t->record.file == NULL ? ps_ok() : ps_rounds_close(t->record.file);
    t->record.file = NULL;
    st[3] = t->events == NULL ? ps_ok() : ps_events_close(t->events);
    t->events = NULL;
    pthread_mutex_unlock(&t->files_mutex);
    return first_failure(st, sizeof st / sizeof st[0]);
}

/* Writes the model as ONNX, for other programs. If ONNX cannot express the model, logs that and
 * returns OK. */
static ps_status write_onnx(const ps_trainer *t, const ps_meta *meta, size_t meta_count)
{
    char path[768];
    ps_status st = path_of(t, "MODEL", ".onnx", path, sizeof path);

    if (ps_plan_is_foreign(t->plan)) { /* psgd does not know the layers of a program's model */
        return ps_ok();
    }
    if (ps_is_ok(&st)) {
        st = ps_onnx_write(path, t->model, t->weights, t->plan->spec->title, meta, meta_count);
    }
    if (st.code == PS_FAILED_PRECONDITION || st.code == PS_OUT_OF_RANGE) {
        ps_log(PS_LOG_WARN, "trainer", "no ONNX file: %s", st.text);
        return ps_ok();
    }
    return st;
}

/* Writes the weights as safetensors and, if has_onnx, also as ONNX. */
static ps_status write_model(const ps_trainer *t, const float *weights, uint64_t step,
                             bool has_onnx)
{
    const ps_layout *layout = &t->plan->layout;
    char path[768], step_text[24], *spec = ps_plan_describe(t->plan);
    const ps_meta meta[] = {{"job", t->conf.job_id},
                            {"step", step_text},
                            {"title", t->plan->spec->title},
                            {PS_DESCRIPTION_KEY, spec}};
    const size_t meta_count = sizeof meta / sizeof meta[0];
    ps_status st = path_of(t, "MODEL", ".safetensors", path, sizeof path);

    snprintf(step_text, sizeof step_text, "%llu", (unsigned long long)step);
    if (ps_is_ok(&st)) {
        st = ps_weights_check_finite(layout->stored, layout->stored_count, weights);
    }
    if (ps_is_ok(&st)) {
        st =
            ps_weights_write(path, layout->stored, layout->stored_count, weights, meta, meta_count);
    }
    if (ps_is_ok(&st) && has_onnx && ps_plan_table_files(t->plan) > 0) {
        ps_log(PS_LOG_WARN, "trainer", "no ONNX file: rows of sparse tables are on the servers");
    } else if (ps_is_ok(&st) && has_onnx) {
        st = write_onnx(t, meta, meta_count);
    }
    free(spec);
    return st;
}

ps_status ps_trainer_write_model(ps_trainer *t)
{
    return write_model(t, t->weights, t->step, true);
}

ps_status ps_trainer_write_copy(const ps_trainer *t, const float *weights, uint64_t step)
{
    return write_model(t, weights, step, false);
}
