/* SPDX-License-Identifier: Apache-2.0 */
/* trainer_earlier.c - the reports of a rank as a part of its checkpoint (trainer.h). If the same
 * job goes on from the checkpoint, its report files begin with what they had at the checkpoint. So
 * they become those of a whole run, wherever the files of the attempt before are. */
#include "common/train/trainer_impl.h"

#include "common/base/clock.h"
#include "common/base/log.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { TOTALS = 3, REPORT = 4 }; /* kinds of sections */

/* Fills `out` with the outlets of the rank's report files, in the order of their sections in a
 * checkpoint. All files must be open. */
static void list_outlets(ps_trainer *t, ps_outlet *out[PS_TRAINER_FILES])
{
    out[0] = ps_report_outlet(t->train_report);
    out[1] = ps_report_outlet(t->eval_report);
    out[2] = ps_rounds_outlet(t->record.file);
    out[3] = ps_events_outlet(t->events);
}

ps_exchange_stats ps_trainer_all_stats(const ps_trainer *t)
{
    ps_exchange_stats stats = ps_exchange_get_stats(t->exchange);

    stats.bytes_up += t->earlier.bytes_up;
    stats.bytes_down += t->earlier.bytes_down;
    return stats;
}

void trainer_each_of_row(ps_train_row *row, trainer_member_fn *fn, void *arg)
{
    fn(arg, &row->time_s, sizeof row->time_s);
    fn(arg, &row->epoch, sizeof row->epoch);
    fn(arg, &row->batch, sizeof row->batch);
    fn(arg, &row->step, sizeof row->step);
    fn(arg, &row->loss, sizeof row->loss);
    fn(arg, &row->accuracy, sizeof row->accuracy);
    fn(arg, &row->samples_per_s, sizeof row->samples_per_s);
    fn(arg, &row->bytes_up, sizeof row->bytes_up);
    fn(arg, &row->bytes_down, sizeof row->bytes_down);
    fn(arg, &row->wait_s, sizeof row->wait_s);
}

static void each_of_row(trainer_curve_row *kept, trainer_member_fn *fn, void *arg)
{
    trainer_each_of_row(&kept->row, fn, arg);
    fn(arg, kept->values, sizeof kept->values);
    fn(arg, &kept->wall_s, sizeof kept->wall_s);
}

/* Calls fn for each member of the curve that is needed to go on with its thinning, in the order of
 * the file. */
static void each_of_curve(trainer_curve *c, trainer_member_fn *fn, void *arg)
{
    fn(arg, &c->thin.doublings, sizeof c->thin.doublings);
    fn(arg, &c->thin.kept, sizeof c->thin.kept);
    fn(arg, &c->thin.rows, sizeof c->thin.rows);
    fn(arg, &c->thin.least, sizeof c->thin.least);
    fn(arg, &c->thin.greatest, sizeof c->thin.greatest);
    fn(arg, &c->written, sizeof c->written);
    each_of_row(&c->least, fn, arg);
    each_of_row(&c->greatest, fn, arg);
    each_of_row(&c->last, fn, arg);
}

static void put_member(void *arg, void *member, size_t bytes)
{
    ps_state_put(arg, member, bytes);
}

static void take_member(void *arg, void *member, size_t bytes)
{
    ps_state_take(arg, member, bytes);
}

static void put_totals(ps_trainer *t, ps_state_out *out)
{
    ps_exchange_stats stats = ps_trainer_all_stats(t);
    double seconds = (double)(ps_clock_us() - t->began_us) * 1e-6;
    double wait_s = (double)ps_gate_waited_ns(t->gate) * 1e-9 + t->earlier.wait_s;

    ps_state_begin(out, TOTALS, 0);
    ps_state_put(out, &seconds, sizeof seconds);
    ps_state_put(out, &wait_s, sizeof wait_s);
    ps_state_put_u64(out, stats.bytes_up);
    ps_state_put_u64(out, stats.bytes_down);
    each_of_curve(&t->curve, put_member, out);
    ps_state_finish(out);
}

/* Completes the lines of the reports up to now, locks the files and opens what they have. */
static void lock_reports(ps_trainer *t)
{
    ps_outlet *files[PS_TRAINER_FILES];

    pthread_mutex_lock(&t->files_mutex);
    ps_rounds_settle(t->record.file);
    list_outlets(t, files);
    for (uint32_t i = 0; i < PS_TRAINER_FILES; i++) {
        ps_status st = ps_outlet_look(files[i], &t->held[i]);

        t->has_held[i] = ps_is_ok(&st);
        if (!ps_is_ok(
                &st)) { /* the checkpoint is stored without the report rather than not at all */
            ps_log(PS_LOG_WARN, "trainer", "a checkpoint without a report: %s", st.text);
        }
    }
}

static void unlock_reports(ps_trainer *t)
{
    for (uint32_t i = 0; i < PS_TRAINER_FILES; i++) {
        ps_outlet_past_close(&t->held[i]);
        t->has_held[i] = false;
    }
    pthread_mutex_unlock(&t->files_mutex);
}

/* Writes a section for each report as it was at lock_reports. Uses no lock, because a copy of the
 * process calls it too. */
static ps_status put_files(ps_trainer *t, ps_state_out *out)
{
    ps_outlet *files[PS_TRAINER_FILES];
    ps_status st = ps_ok();

    list_outlets(t, files);
    for (uint32_t i = 0; i < PS_TRAINER_FILES && ps_is_ok(&st); i++) {
        ps_strbuf bytes = {0};

        if (t->has_held[i]) {
            st = ps_outlet_copy(files[i], &t->held[i], &bytes);
        }
        if (t->has_held[i] && ps_is_ok(&st)) {
            ps_state_begin(out, REPORT, i);
            ps_state_put(out, bytes.data, bytes.len);
            ps_state_finish(out);
        }
        ps_strbuf_fini(&bytes);
    }
    return st;
}

static ps_status put_reports(ps_trainer *t, ps_state_out *out)
{
    ps_status st;

    ps_trainer_put_held_line(t);
    ps_trainer_record_finish(t);
    put_totals(t, out);
    lock_reports(t);
    st = put_files(t, out);
    unlock_reports(t);
    return st;
}

void ps_trainer_drop_reports(ps_trainer *t)
{
    ps_buf_unref(t->reports);
    t->reports = NULL;
    t->report_sections = 0;
}

/* Has `put` write sections to t->reports. If that fails, there are none: the checkpoint is stored
 * without reports rather than not at all. */
static void keep(ps_trainer *t, ps_status (*put)(ps_trainer *t, ps_state_out *out))
{
    ps_state_out out;
    ps_status st, end;

    ps_trainer_drop_reports(t);
    ps_state_out_init(&out, "PSGDPART", 1, ps_state_write_buf, &t->reports);
    st = put(t, &out);
    t->report_sections = out.sections;
    end = ps_state_out_part(&out);
    st = ps_is_ok(&st) ? end : st;
    if (!ps_is_ok(&st)) {
        ps_log(PS_LOG_WARN, "trainer", "a checkpoint without reports: %s", st.text);
        ps_trainer_drop_reports(t);
    }
}

void ps_trainer_keep_reports(ps_trainer *t)
{
    if (t->events != NULL) { /* all reports are open: events are opened last */
        keep(t, put_reports);
    }
}

static ps_status put_only_totals(ps_trainer *t, ps_state_out *out)
{
    put_totals(t, out);
    return ps_ok();
}

uint64_t ps_trainer_hold_reports(ps_trainer *t)
{
    uint64_t bytes = 0;

    if (t->events == NULL) {
        return 0;
    }
    ps_trainer_put_held_line(t);
    ps_trainer_record_finish(t);
    keep(t, put_only_totals);
    lock_reports(t);
    t->holds_reports = true;
    for (uint32_t i = 0; i < PS_TRAINER_FILES; i++) {
        bytes += t->held[i].bytes;
    }
    return bytes;
}

void ps_trainer_release_reports(ps_trainer *t)
{
    if (t->holds_reports) {
        t->holds_reports = false;
        unlock_reports(t);
    }
    ps_trainer_drop_reports(t);
}

#define REPORTS_MAGIC "PSGDREP1"

ps_buf *ps_trainer_copy_reports(ps_trainer *t)
{
    ps_state_out out;
    ps_buf *copy = NULL;
    ps_status st, end;

    ps_state_out_init(&out, REPORTS_MAGIC, 1, ps_state_write_buf, &copy);
    st = put_reports(t, &out);
    end = ps_state_out_end(&out);
    st = ps_is_ok(&st) ? end : st;
    if (!ps_is_ok(&st)) {
        ps_log(PS_LOG_WARN, "trainer", "the reports are not copied: %s", st.text);
        ps_buf_unref(copy);
        return NULL;
    }
    return copy;
}

ps_status ps_trainer_put_earlier(ps_trainer *t, ps_state_out *out)
{
    if (t->reports != NULL) {
        ps_state_put_part(out, t->reports->data, t->reports->len, t->report_sections);
    }
    return t->holds_reports ? put_files(t, out) : ps_ok();
}

bool ps_trainer_is_own(const ps_trainer *t)
{
    char job[PS_CHECKPOINT_JOB_MAX];
    uint64_t step;

    return ps_init_from_checkpoint(t->plan->spec->init_from, job, &step) &&
           strcmp(job, t->conf.job_id) == 0;
}

/* Reads and checks the section TOTALS. */
static void read_totals(ps_state_in *in, trainer_earlier *e, trainer_curve *curve)
{
    ps_state_take(in, &e->seconds, sizeof e->seconds);
    ps_state_take(in, &e->wait_s, sizeof e->wait_s);
    e->bytes_up = ps_state_take_u64(in);
    e->bytes_down = ps_state_take_u64(in);
    each_of_curve(curve, take_member, in);
    if (curve->thin.doublings > PS_THIN_DOUBLINGS_MAX) {
        ps_state_fail(in, "windows of rows that doubled %u times; 0 to %d are allowed",
                      curve->thin.doublings, PS_THIN_DOUBLINGS_MAX);
    }
    if (!(e->seconds >= 0 && e->seconds <= 1e9 && e->wait_s >= 0 && e->wait_s <= 1e9)) {
        ps_state_fail(in, "%g s of training, %g s of waits; 0 to 1e9 are allowed", e->seconds,
                      e->wait_s);
    }
}

static ps_status take_totals(ps_trainer *t, ps_state_in *in, bool is_own)
{
    trainer_earlier e = {0};
    trainer_curve curve = {0};

    read_totals(in, &e, &curve);
    if (ps_state_is_ok(in) && is_own) {
        memcpy(e.files, t->earlier.files, sizeof e.files);
        t->earlier = e;
        t->curve = curve;
        t->curve.least.row.values = t->curve.least.values;
        t->curve.greatest.row.values = t->curve.greatest.values;
        t->curve.last.row.values = t->curve.last.values;
    }
    return ps_state_done(in);
}

static ps_status take_report(ps_trainer *t, ps_state_in *in, uint32_t index, bool is_own)
{
    size_t n = in->end - in->at;
    const uint8_t *bytes = ps_state_view(in, n);

    if (bytes != NULL && is_own && t->earlier.files[index] == NULL) {
        t->earlier.files[index] = ps_buf_try_create(n + 1);
        if (t->earlier.files[index] == NULL) {
            return ps_fail(PS_RESOURCE_EXHAUSTED, "no memory for a report of %zu bytes", n);
        }
        memcpy(t->earlier.files[index]->data, bytes, n);
        t->earlier.files[index]->len = n;
    }
    return ps_state_done(in);
}

ps_status ps_trainer_take_earlier(ps_trainer *t, ps_state_in *in, uint32_t kind, uint32_t index,
                                  bool is_own)
{
    if (kind == TOTALS && index == 0) {
        return take_totals(t, in, is_own);
    }
    if (kind == REPORT && index < PS_TRAINER_FILES) {
        return take_report(t, in, index, is_own);
    }
    ps_state_fail(in, "section %" PRIu32 " of kind %" PRIu32 ", which there is not", index, kind);
    return in->status;
}

typedef ps_status section_fn(ps_trainer *t, ps_state_in *in, uint32_t kind, uint32_t index,
                             bool is_own);

/* Has fn read each section of a file of reports. `t` is for fn. */
static ps_status each_section(const uint8_t *bytes, size_t len, section_fn *fn, ps_trainer *t)
{
    uint32_t kind = TOTALS, index = 0;
    ps_state_in in;
    ps_status st = ps_state_open(&in, REPORTS_MAGIC, 1, TOTALS, bytes, len);

    while (ps_is_ok(&st) && kind != 0) {
        st = fn(t, &in, kind, index, true);
        if (ps_is_ok(&st)) {
            st = ps_state_next(&in, true, &kind, &index);
        }
    }
    return st;
}

ps_status ps_trainer_take_reports(ps_trainer *t, const uint8_t *bytes, size_t len)
{
    return each_section(bytes, len, ps_trainer_take_earlier, t);
}

static ps_status check_section(ps_trainer *t, ps_state_in *in, uint32_t kind, uint32_t index,
                               bool is_own)
{
    trainer_earlier e = {0};
    trainer_curve curve = {0};

    (void)t;
    (void)is_own;
    if (kind == TOTALS && index == 0) {
        read_totals(in, &e, &curve);
    } else if (kind == REPORT && index < PS_TRAINER_FILES) {
        (void)ps_state_view(in, in->end - in->at);
    } else {
        ps_state_fail(in, "section %" PRIu32 " of kind %" PRIu32 ", which there is not", index,
                      kind);
        return in->status;
    }
    return ps_state_done(in);
}

ps_status ps_trainer_check_reports(const uint8_t *bytes, size_t len)
{
    return each_section(bytes, len, check_section, NULL);
}

void ps_trainer_restore_reports(ps_trainer *t)
{
    ps_outlet *files[PS_TRAINER_FILES];

    pthread_mutex_lock(&t->files_mutex);
    list_outlets(t, files);
    for (uint32_t i = 0; i < PS_TRAINER_FILES; i++) {
        const ps_buf *kept = t->earlier.files[i];

        if (kept != NULL) {
            ps_outlet_replace(files[i], kept->data, kept->len);
        }
    }
    pthread_mutex_unlock(&t->files_mutex);
    ps_trainer_fini_earlier(t);
    ps_trainer_restore_said(t);
}

void ps_trainer_fini_earlier(ps_trainer *t)
{
    for (uint32_t i = 0; i < PS_TRAINER_FILES; i++) {
        ps_buf_unref(t->earlier.files[i]);
        t->earlier.files[i] = NULL;
    }
}
