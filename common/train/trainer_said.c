/* SPDX-License-Identifier: Apache-2.0 */
/* trainer_said.c - what a rank without state of its own reports to servers with its contributions
 * (`say` in exchange.h). If another process continues the rank, its report files are complete by
 * this. With each contribution goes the row of its step; with the one after an evaluation goes that
 * evaluation; with the first ones go pieces of the reports with which the rank began.
 *
 * Records follow each other: u32 kind, u32 number of bytes, the bytes.
 *   kind 1  a piece of the reports as ps_trainer_copy_reports returns them
 *   kind 2  a step: f64 time, u32 epoch, u64 batch, step, f64 loss, accuracy, samples a second,
 *           u64 bytes up, down, f64 waits, f64 values of the metrics
 *   kind 3  an evaluation: u32 epoch, u64 step, f64 loss, time, u64 bytes up, down, f64 values
 */
#include "common/train/trainer_impl.h"

#include "common/base/log.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { PIECE = 1, STEP = 2, EVALUATION = 3, HEAD_BYTES = 8 };

/* ---- Reporting to servers ---- */

static void put_head(ps_strbuf *to, uint32_t kind, size_t len)
{
    uint32_t head[2] = {kind, (uint32_t)len};

    ps_strbuf_append(to, head, sizeof head);
}

/* Calls fn for each member of the record of a step, in the order of the record. */
static void each_of_step(ps_train_row *row, double *values, size_t count, trainer_member_fn *fn,
                         void *arg)
{
    trainer_each_of_row(row, fn, arg);
    fn(arg, values, count * sizeof *values);
}

/* Calls fn for each member of the record of an evaluation, in the order of the record. */
static void each_of_evaluation(ps_eval_row *row, double *values, size_t count,
                               trainer_member_fn *fn, void *arg)
{
    fn(arg, &row->epoch, sizeof row->epoch);
    fn(arg, &row->step, sizeof row->step);
    fn(arg, &row->loss, sizeof row->loss);
    fn(arg, &row->time_s, sizeof row->time_s);
    fn(arg, &row->bytes_up, sizeof row->bytes_up);
    fn(arg, &row->bytes_down, sizeof row->bytes_down);
    fn(arg, values, count * sizeof *values);
}

static void put_member(void *arg, void *member, size_t bytes)
{
    ps_strbuf_append(arg, member, bytes);
}

static void put_piece(trainer_said *said, ps_strbuf *to)
{
    size_t n;

    if (said->base == NULL) {
        return;
    }
    n = said->base->len - said->base_at < PS_REPORT_PIECE ? said->base->len - said->base_at
                                                          : PS_REPORT_PIECE;
    put_head(to, PIECE, n);
    ps_strbuf_append(to, said->base->data + said->base_at, n);
    said->base_at += n;
    if (said->base_at == said->base->len) {
        ps_buf_unref(said->base);
        said->base = NULL;
    }
}

bool ps_trainer_begin_said(ps_trainer *t)
{
    trainer_said *said = &t->said;
    uint64_t per_epoch = t->plan->batches_per_epoch;

    if (said->evaluates_first &&
        (t->clock % per_epoch == 0 || t->clock == t->plan->total_steps ||
         ps_trainer_is_due(t, t->step - 1, t->step)) &&
        !ps_trainer_evaluate(t, (uint32_t)((t->clock - 1) / per_epoch))) {
        return false;
    }
    if (t->conf.saved == NULL || !ps_plan_can_rescue(t->plan) || t->exchange->ops->say == NULL) {
        return true;
    }
    if (t->clock > 0) {
        said->base = ps_trainer_copy_reports(t);
    }
    said->is_on = t->clock == 0 || said->base != NULL;
    return true;
}

void ps_trainer_say(ps_trainer *t)
{
    trainer_said *said = &t->said;
    uint32_t per_epoch = t->plan->batches_per_epoch;
    ps_strbuf record = {0}, all = {0};
    ps_train_row row;
    ps_buf *report;

    if (!said->is_on || !said->is_last_block || said->clock == t->clock + 1) {
        return;
    }
    said->clock = t->clock + 1;
    put_piece(said, &all);
    ps_strbuf_append(&all, said->evaluations.data, said->evaluations.len);
    ps_strbuf_clear(&said->evaluations);
    row = ps_trainer_row(t, (uint32_t)(t->clock / per_epoch), (uint32_t)(t->clock % per_epoch),
                         t->clock + 1);
    each_of_step(&row, t->step_metrics.values, t->step_metrics.count, put_member, &record);
    put_head(&all, STEP, record.len);
    ps_strbuf_append(&all, record.data, record.len);
    report = ps_buf_create(all.len);
    memcpy(report->data, all.data, all.len);
    report->len = all.len;
    ps_strbuf_fini(&record);
    ps_strbuf_fini(&all);
    t->exchange->ops->say(t->exchange, report, said->base != NULL);
}

void ps_trainer_said_evaluation(ps_trainer *t, const ps_eval_row *row)
{
    ps_eval_row copy = *row;
    double values[PS_METRICS_MAX];
    ps_strbuf record = {0};

    if (t->said.is_on) {
        memcpy(values, row->values, t->plan->metric_count * sizeof *values);
        each_of_evaluation(&copy, values, t->plan->metric_count, put_member, &record);
        put_head(&t->said.evaluations, EVALUATION, record.len);
        ps_strbuf_append(&t->said.evaluations, record.data, record.len);
        ps_strbuf_fini(&record);
    }
}

/* ---- Continuing a rank ---- */

/* A position in the records that a rank has reported (format at the top of this file). next() moves
 * it. */
typedef struct records {
    const uint8_t *at, *end;
    uint32_t kind;
    const uint8_t *bytes; /* (len): the record in hand */
    size_t len;
    bool is_bad;
} records;

/* Moves to the next record. Returns false at the end, and also, with is_bad set, if the bytes are
 * not a whole record. */
static bool next(records *r)
{
    uint32_t head[2];

    if (r->at == r->end || r->is_bad) {
        return false;
    }
    if ((size_t)(r->end - r->at) < HEAD_BYTES) {
        r->is_bad = true;
        return false;
    }
    memcpy(head, r->at, sizeof head);
    r->is_bad = head[1] > (size_t)(r->end - r->at) - HEAD_BYTES;
    r->kind = head[0];
    r->bytes = r->at + HEAD_BYTES;
    r->len = head[1];
    r->at = r->is_bad ? r->end : r->bytes + r->len;
    return !r->is_bad;
}

static void take_member(void *arg, void *member, size_t bytes)
{
    records *r = arg;

    if (r->len < bytes) {
        r->is_bad = true;
        memset(member, 0, bytes);
        return;
    }
    memcpy(member, r->bytes, bytes);
    r->bytes += bytes;
    r->len -= bytes;
}

static bool has_times(const ps_train_row *row)
{
    return row->time_s >= 0 && row->time_s <= 1e9 && row->wait_s >= 0 && row->wait_s <= 1e9;
}

/* Reads the record of a step, and makes the job's totals (time, waits, bytes) go on from those of
 * that step. *last becomes the step. If the step is not later than *last, or is later than t->step,
 * or its times are out of range, sets is_bad instead. */
static void note_step(ps_trainer *t, records *r, uint64_t *last)
{
    double values[PS_METRICS_MAX];
    ps_train_row row = {0};

    each_of_step(&row, values, t->step_metrics.count, take_member, r);
    if (!r->is_bad && row.step > *last && row.step <= t->step && has_times(&row)) {
        *last = row.step;
        t->earlier.seconds = row.time_s;
        t->earlier.wait_s = row.wait_s;
        t->earlier.bytes_up = row.bytes_up;
        t->earlier.bytes_down = row.bytes_down;
    } else {
        r->is_bad = true;
    }
}

/* Appends the pieces of the reports among these records to `to`. Returns false if the bytes are not
 * whole records. */
static bool join_pieces(const uint8_t *bytes, size_t len, ps_strbuf *to)
{
    records r = {.at = bytes, .end = bytes + len};

    while (next(&r)) {
        if (r.kind == PIECE) {
            ps_strbuf_append(to, r.bytes, r.len);
        }
    }
    return !r.is_bad;
}

ps_status ps_trainer_take_said(ps_trainer *t, ps_state_in *in, bool is_own)
{
    size_t n = in->end - in->at;
    const uint8_t *bytes = ps_state_view(in, n);
    records r = {.at = bytes, .end = bytes + n};
    ps_strbuf base = {0};
    ps_status st = ps_ok();
    uint64_t last = 0;

    if (bytes == NULL || !is_own || t->said.before != NULL) {
        return ps_state_done(in);
    }
    r.is_bad = !join_pieces(bytes, n, &base);
    if (base.len > 0) {
        st = ps_trainer_take_reports(t, (const uint8_t *)base.data, base.len);
    }
    ps_strbuf_fini(&base);
    while (next(&r)) {
        if (r.kind == STEP) {
            note_step(t, &r, &last);
        }
    }
    if (r.is_bad) {
        ps_state_fail(in, "what the rank has said has no such records");
    }
    if (!ps_is_ok(&st) || !ps_state_is_ok(in)) {
        return ps_is_ok(&st) ? in->status : st;
    }
    t->said.evaluates_first = t->clock > 0;
    t->said.before = ps_buf_create(n + 1);
    memcpy(t->said.before->data, bytes, n);
    t->said.before->len = n;
    return ps_state_done(in);
}

/* ---- Checking ---- */

static void add_bytes(void *arg, void *member, size_t bytes)
{
    (void)member;
    *(size_t *)arg += bytes;
}

/* Returns whether the record is one of step `step`. */
static bool is_step(records r, const ps_plan *plan, uint64_t step)
{
    size_t columns = ps_step_metrics_columns(plan), needed = 0;
    double values[PS_METRICS_MAX];
    ps_train_row row = {0};

    each_of_step(&row, values, columns, add_bytes, &needed);
    if (r.len != needed) {
        return false;
    }
    each_of_step(&row, values, columns, take_member, &r);
    return row.step == step && has_times(&row);
}

static bool is_evaluation(const records *r, const ps_plan *plan)
{
    double values[PS_METRICS_MAX];
    ps_eval_row row = {0};
    size_t needed = 0;

    each_of_evaluation(&row, values, plan->metric_count, add_bytes, &needed);
    return r->len == needed;
}

/* Checks the reports of which `said` has the last piece. */
static ps_status check_pieces(const ps_said *before, const ps_said *said)
{
    ps_strbuf base = {0};
    ps_status st = ps_ok();

    if (join_pieces(before->bytes, before->len, &base) &&
        join_pieces(said->bytes, said->len, &base)) {
        st = ps_trainer_check_reports((const uint8_t *)base.data, base.len);
    }
    ps_strbuf_fini(&base);
    return ps_is_ok(&st) ? st : ps_fail(PS_INVALID_ARGUMENT, "its earlier reports: %s", st.text);
}

ps_status ps_said_check(const ps_plan *plan, const ps_said *before, uint64_t clock,
                        const ps_said *said)
{
    records r = {.at = said->bytes, .end = said->bytes + said->len};
    bool may_have_pieces = before->len == 0 || before->is_partial;
    uint32_t pieces = 0, steps = 0, count = 0;

    while (next(&r)) {
        bool is_fine = (r.kind == PIECE && may_have_pieces) ||
                       (r.kind == STEP && is_step(r, plan, clock + 1)) ||
                       (r.kind == EVALUATION && is_evaluation(&r, plan));

        if (!is_fine) {
            return ps_fail(PS_INVALID_ARGUMENT,
                           "record %" PRIu32 " of kind %" PRIu32
                           ", %zu bytes: not one of step %" PRIu64,
                           count, r.kind, r.len, clock + 1);
        }
        count++;
        pieces += r.kind == PIECE;
        steps += r.kind == STEP;
    }
    if (r.is_bad || steps != 1) {
        return ps_fail(PS_INVALID_ARGUMENT,
                       "%zu bytes with %" PRIu32 " whole records, %" PRIu32
                       " of steps; whole ones are allowed, 1 of a step",
                       said->len, count, steps);
    }
    return !said->is_partial && (pieces > 0 || before->is_partial) ? check_pieces(before, said)
                                                                   : ps_ok();
}

/* ---- The next attempt ---- */

/* Writes the entry that waits for its evaluation to the record of rounds. Makes the entry of the
 * step `row` the one that waits: if an evaluation follows, it is added to this entry. */
static void put_round(ps_trainer *t, const ps_train_row *row, const ps_train_row *last)
{
    ps_round_entry *e = &t->record.before;

    if (e->round > 0) {
        pthread_mutex_lock(&t->files_mutex);
        ps_rounds_add(t->record.file, e);
        pthread_mutex_unlock(&t->files_mutex);
    }
    *e = (ps_round_entry){.round = row->step,
                          .steps = 1,
                          .bytes_up = row->bytes_up - last->bytes_up,
                          .bytes_down = row->bytes_down - last->bytes_down,
                          .time_s = row->time_s,
                          .loss = row->loss,
                          .compute_s = row->time_s - last->time_s - (row->wait_s - last->wait_s),
                          .exchange_s = (double)NAN,
                          .wait_s = row->wait_s - last->wait_s};
}

static void restore_evaluation(ps_trainer *t, records *r)
{
    double values[PS_METRICS_MAX];
    ps_eval_row row = {.values = values};

    each_of_evaluation(&row, values, t->plan->metric_count, take_member, r);
    if (r->is_bad) {
        return;
    }
    ps_trainer_write_eval(t, &row);
    if (t->record.before.round == row.step) {
        t->record.before.is_evaluated = true;
        t->record.before.test_loss = row.loss;
        memcpy(t->record.before.values, values, t->plan->metric_count * sizeof *values);
    }
    if (row.step == t->step) {
        t->said.evaluates_first = false;
    }
}

void ps_trainer_restore_said(ps_trainer *t)
{
    ps_buf *before = t->said.before;
    ps_train_row last = {0};
    double values[PS_METRICS_MAX];
    records r;

    if (before == NULL) {
        return;
    }
    for (r = (records){.at = before->data, .end = before->data + before->len}; next(&r);) {
        ps_train_row row = {.values = values};

        if (r.kind == EVALUATION) {
            restore_evaluation(t, &r);
        } else if (r.kind == STEP) {
            each_of_step(&row, values, t->step_metrics.count, take_member, &r);
            ps_trainer_put_train(t, &row);
            put_round(t, &row, last.step > 0 ? &last : &row);
            last = row;
        }
    }
    if (r.is_bad) {
        ps_log(PS_LOG_WARN, "trainer", "the reports of the attempt before are not whole");
    }
    ps_buf_unref(before);
    t->said.before = NULL;
}

void ps_trainer_fini_said(ps_trainer *t)
{
    ps_strbuf_fini(&t->said.evaluations);
    ps_buf_unref(t->said.base);
    ps_buf_unref(t->said.before);
}
