/* SPDX-License-Identifier: Apache-2.0 */
/* round_record.c - see round_record.h. */
#include "common/artifact/round_record.h"

#include "common/artifact/number.h"
#include "common/artifact/report.h"
#include "common/artifact/thin.h"
#include "common/base/bytes.h"
#include "common/base/files.h"
#include "common/base/log.h"
#include "common/base/xalloc.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAGIC "PSGDRND1"

enum { FIXED_WORDS = 11, ROW_BYTES_KEPT = 1 << 16 };

struct ps_rounds {
    ps_outlet out;
    size_t metric_count;
    ps_round_entry waiting; /* stands for rounds whose last one is still to come; round 0: none */
};

size_t ps_round_entry_bytes(size_t metric_count)
{
    return (FIXED_WORDS + metric_count) * sizeof(uint64_t);
}

/* ---- A part ---- */

static void put_u64(ps_strbuf *out, uint64_t x)
{
    uint8_t bytes[8];

    ps_put_u64(bytes, x);
    ps_strbuf_append(out, bytes, sizeof bytes);
}

static void put_real(ps_strbuf *out, double x)
{
    uint8_t bytes[8];

    ps_put_f64(bytes, x);
    ps_strbuf_append(out, bytes, sizeof bytes);
}

ps_status ps_rounds_open(const char *path, size_t metric_count, ps_rounds **out)
{
    ps_rounds *rounds = ps_xcalloc(1, sizeof *rounds);
    ps_status st = ps_outlet_open(&rounds->out, path, false);

    assert(metric_count <= PS_ROUND_METRICS_MAX);
    if (!ps_is_ok(&st)) {
        free(rounds);
        return st;
    }
    rounds->metric_count = metric_count;
    ps_strbuf_puts(&rounds->out.rows, MAGIC);
    put_u64(&rounds->out.rows, metric_count);
    ps_outlet_flush(&rounds->out);
    *out = rounds;
    return ps_ok();
}

/* Returns the last round of the entry that stands for `round`. An entry stands for one round at
 * first, and for twice as many after each PS_THIN_ROWS entries, up to a limit. */
static uint64_t last_of(uint64_t round)
{
    uint64_t first = 0, rounds = 1; /* entries after round `first` have `rounds` rounds each */

    while (round - first > PS_THIN_ROWS * rounds && rounds < (uint64_t)1 << PS_THIN_DOUBLINGS_MAX / 2) {
        first += PS_THIN_ROWS * rounds;
        rounds *= 2;
    }
    return first + (round - first + rounds - 1) / rounds * rounds;
}

/* Returns a + b, where NaN stands for a time that was not measured and adds nothing; NaN if both
 * are. */
static double sum_of(double a, double b)
{
    return isnan(a) ? b : isnan(b) ? a : a + b;
}

/* Joins the later entry `e` to *all, which then stands for the rounds of both: adds counts and
 * durations, and takes the mean loss over all steps, the last time_s and the last evaluation. */
static void join(ps_round_entry *all, const ps_round_entry *e)
{
    if (e->steps > 0) {
        all->loss = all->steps > 0
                        ? (all->loss * (double)all->steps + e->loss * (double)e->steps) /
                              (double)(all->steps + e->steps)
                        : e->loss;
    }
    all->round = e->round;
    all->steps += e->steps;
    all->bytes_up += e->bytes_up;
    all->bytes_down += e->bytes_down;
    all->time_s = isnan(e->time_s) ? all->time_s : e->time_s;
    all->compute_s = sum_of(all->compute_s, e->compute_s);
    all->exchange_s = sum_of(all->exchange_s, e->exchange_s);
    all->wait_s = sum_of(all->wait_s, e->wait_s);
    if (e->is_evaluated) {
        all->is_evaluated = true;
        all->test_loss = e->test_loss;
        memcpy(all->values, e->values, sizeof all->values);
    }
}

static void put_entry(ps_rounds *rounds, const ps_round_entry *e)
{
    ps_strbuf *out = &rounds->out.rows;

    put_u64(out, e->round);
    put_u64(out, e->steps);
    put_u64(out, e->bytes_up);
    put_u64(out, e->bytes_down);
    put_real(out, e->time_s);
    put_real(out, e->loss);
    put_real(out, e->compute_s);
    put_real(out, e->exchange_s);
    put_real(out, e->wait_s);
    put_u64(out, e->is_evaluated);
    put_real(out, e->test_loss);
    for (size_t m = 0; m < rounds->metric_count; m++) {
        put_real(out, e->values[m]);
    }
    ps_outlet_row(&rounds->out, isnan(e->time_s) ? rounds->out.flushed_s : e->time_s);
}

void ps_rounds_settle(ps_rounds *rounds)
{
    if (rounds->waiting.round > 0) {
        put_entry(rounds, &rounds->waiting);
        rounds->waiting = (ps_round_entry){0};
    }
}

void ps_rounds_add(ps_rounds *rounds, const ps_round_entry *e)
{
    uint64_t last = last_of(e->round);

    if (rounds->waiting.round > 0 && last_of(rounds->waiting.round) != last) {
        ps_rounds_settle(rounds);
    }
    if (rounds->waiting.round == 0) {
        rounds->waiting = *e;
    } else {
        join(&rounds->waiting, e);
    }
    if (e->round == last) {
        ps_rounds_settle(rounds);
    }
}

ps_status ps_rounds_flush(ps_rounds *rounds)
{
    return ps_outlet_flush(&rounds->out);
}

ps_outlet *ps_rounds_outlet(ps_rounds *rounds)
{
    return &rounds->out;
}

ps_status ps_rounds_close(ps_rounds *rounds)
{
    ps_status st;

    ps_rounds_settle(rounds);
    st = ps_outlet_close(&rounds->out);
    free(rounds);
    return st;
}

/* ---- All parts ---- */

/* A part that is being read. While `file` is not NULL, `next` is its next entry. */
typedef struct reader {
    FILE *file; /* NULL: the part does not exist, or has ended */
    ps_round_entry next;
} reader;

typedef struct merging {
    const ps_rounds_parts *parts;
    reader *readers; /* (ranks) */
    ps_file_writer writer;
    ps_strbuf rows; /* lines that are not written yet */
    uint64_t iterations;
} merging;

static uint64_t u64_at(const uint8_t *bytes, size_t word)
{
    uint64_t x = 0;

    for (int i = 0; i < 8; i++) {
        x |= (uint64_t)bytes[word * 8 + (size_t)i] << 8 * i;
    }
    return x;
}

static double real_at(const uint8_t *bytes, size_t word)
{
    uint64_t bits = u64_at(bytes, word);
    double x;

    memcpy(&x, &bits, sizeof x);
    return x;
}

static void end_reading(merging *m, uint32_t rank, const char *why)
{
    if (why != NULL) {
        ps_log(PS_LOG_WARN, "files", "record of rounds: rank %u: %s; the rest is left out", rank,
               why);
    }
    fclose(m->readers[rank].file);
    m->readers[rank].file = NULL;
}

/* Reads the next entry of a rank; closes the rank's part if it has ended or is damaged. */
static void advance(merging *m, uint32_t rank)
{
    reader *r = &m->readers[rank];
    uint8_t bytes[(FIXED_WORDS + PS_ROUND_METRICS_MAX) * 8];
    size_t want = ps_round_entry_bytes(m->parts->metric_count);
    uint64_t before = r->next.round;
    size_t got = fread(bytes, 1, want, r->file);

    if (got != want) {
        end_reading(m, rank, got == 0 && !ferror(r->file) ? NULL : "an entry is cut");
        return;
    }
    r->next = (ps_round_entry){
        .round = u64_at(bytes, 0),
        .steps = u64_at(bytes, 1),
        .bytes_up = u64_at(bytes, 2),
        .bytes_down = u64_at(bytes, 3),
        .time_s = real_at(bytes, 4),
        .loss = real_at(bytes, 5),
        .compute_s = real_at(bytes, 6),
        .exchange_s = real_at(bytes, 7),
        .wait_s = real_at(bytes, 8),
        .is_evaluated = u64_at(bytes, 9) == 1,
        .test_loss = real_at(bytes, 10),
    };
    for (size_t k = 0; k < m->parts->metric_count; k++) {
        r->next.values[k] = real_at(bytes, FIXED_WORDS + k);
    }
    if (r->next.round <= before) {
        end_reading(m, rank, "rounds do not ascend");
    }
}

static void open_part(merging *m, uint32_t rank)
{
    reader *r = &m->readers[rank];
    uint8_t head[PS_ROUND_HEAD_BYTES];

    r->file = m->parts->paths[rank] == NULL ? NULL : fopen(m->parts->paths[rank], "rbe");
    if (r->file == NULL) {
        if (m->parts->paths[rank] != NULL && errno != ENOENT) {
            ps_log(PS_LOG_WARN, "files", "record of rounds: rank %u: %s", rank, strerror(errno));
        }
        return;
    }
    if (fread(head, 1, sizeof head, r->file) != sizeof head || memcmp(head, MAGIC, 8) != 0 ||
        u64_at(head, 1) != m->parts->metric_count) {
        end_reading(m, rank, "its head is not one");
        return;
    }
    advance(m, rank);
}

/* Appends a cell: ",7" if `has` and x is 7, "," if not `has` or x is NaN. */
static void put_cell(merging *m, bool has, double x)
{
    char text[PS_NUMBER_BYTES];

    ps_strbuf_printf(&m->rows, ",%s", has && !isnan(x) ? ps_number_text(x, text) : "");
}

static void put_count(merging *m, bool has, uint64_t x)
{
    ps_strbuf_putc(&m->rows, ',');
    if (has) {
        ps_strbuf_printf(&m->rows, "%llu", (unsigned long long)x);
    }
}

static void put_header(merging *m)
{
    static const char *const of_rank[] = {"steps",  "loss",     "compute_s", "exchange_s",
                                          "wait_s", "bytes_up", "bytes_down"};

    ps_strbuf_puts(&m->rows, "round,iterations,time_s,steps,loss,compute_s,exchange_s,wait_s,"
                             "bytes_up,bytes_down,test_loss");
    for (size_t k = 0; k < m->parts->metric_count; k++) {
        ps_strbuf_printf(&m->rows, ",test_%s", m->parts->metrics[k]);
    }
    for (uint32_t rank = 0; rank < m->parts->ranks; rank++) {
        for (size_t k = 0; k < sizeof of_rank / sizeof of_rank[0]; k++) {
            ps_strbuf_printf(&m->rows, ",%s_%u", of_rank[k], rank);
        }
    }
    ps_strbuf_putc(&m->rows, '\n');
}

static bool is_in(const merging *m, uint32_t rank, uint64_t round)
{
    return m->readers[rank].file != NULL && m->readers[rank].next.round == round;
}

/* Sums over the ranks of a round. */
typedef struct totals {
    uint64_t steps, bytes_up, bytes_down;
    double time_s; /* the latest of the ranks */
    double loss_sum, compute_s, exchange_s, wait_s, test_loss, values[PS_ROUND_METRICS_MAX];
    uint32_t ranks, exchanged, evaluated;
} totals;

static totals sum_up(const merging *m, uint64_t round)
{
    totals sum = {.time_s = NAN};

    for (uint32_t rank = 0; rank < m->parts->ranks; rank++) {
        const ps_round_entry *e = &m->readers[rank].next;

        if (!is_in(m, rank, round)) {
            continue;
        }
        sum.ranks++;
        sum.steps += e->steps;
        sum.bytes_up += e->bytes_up;
        sum.bytes_down += e->bytes_down;
        sum.time_s = fmax(sum.time_s, e->time_s); /* fmax ignores a NaN */
        sum.loss_sum += e->steps > 0 ? e->loss * (double)e->steps : 0;
        sum.compute_s += e->compute_s;
        sum.wait_s += e->wait_s;
        if (!isnan(e->exchange_s)) {
            sum.exchanged++;
            sum.exchange_s += e->exchange_s;
        }
        if (e->is_evaluated && !m->parts->has_shares) {
            sum.evaluated++;
            sum.test_loss += e->test_loss;
            for (size_t k = 0; k < m->parts->metric_count; k++) {
                sum.values[k] += e->values[k];
            }
        }
    }
    return sum;
}

static void put_row(merging *m, uint64_t round)
{
    totals sum = sum_up(m, round);
    double ranks = sum.ranks, evaluated = sum.evaluated;

    m->iterations += sum.steps;
    ps_strbuf_printf(&m->rows, "%llu,%llu", (unsigned long long)round,
                     (unsigned long long)m->iterations);
    put_cell(m, true, sum.time_s);
    put_count(m, true, sum.steps);
    put_cell(m, sum.steps > 0, sum.loss_sum / (double)sum.steps);
    put_cell(m, true, sum.compute_s / ranks);
    put_cell(m, sum.exchanged > 0, sum.exchange_s / (double)sum.exchanged);
    put_cell(m, true, sum.wait_s / ranks);
    put_count(m, true, sum.bytes_up);
    put_count(m, true, sum.bytes_down);
    put_cell(m, evaluated > 0, sum.test_loss / evaluated);
    for (size_t k = 0; k < m->parts->metric_count; k++) {
        put_cell(m, evaluated > 0, sum.values[k] / evaluated);
    }
    for (uint32_t rank = 0; rank < m->parts->ranks; rank++) {
        const ps_round_entry *e = &m->readers[rank].next;
        bool has = is_in(m, rank, round);

        put_count(m, has, e->steps);
        put_cell(m, has && e->steps > 0, e->loss);
        put_cell(m, has, e->compute_s);
        put_cell(m, has, e->exchange_s);
        put_cell(m, has, e->wait_s);
        put_count(m, has, e->bytes_up);
        put_count(m, has, e->bytes_down);
    }
    ps_strbuf_putc(&m->rows, '\n');
}

/* Returns the least round of the entries that are next at the ranks; 0: all parts have ended. */
static uint64_t next_round(const merging *m)
{
    uint64_t least = 0;

    for (uint32_t rank = 0; rank < m->parts->ranks; rank++) {
        const reader *r = &m->readers[rank];

        if (r->file != NULL && (least == 0 || r->next.round < least)) {
            least = r->next.round;
        }
    }
    return least;
}

static ps_status write_rows(merging *m)
{
    ps_status st = ps_file_writer_add(&m->writer, m->rows.data, m->rows.len);

    ps_strbuf_clear(&m->rows);
    return st;
}

static ps_status merge(merging *m)
{
    ps_status st = ps_ok();
    uint64_t round;

    put_header(m);
    while (ps_is_ok(&st) && (round = next_round(m)) != 0) {
        put_row(m, round);
        for (uint32_t rank = 0; rank < m->parts->ranks; rank++) {
            if (is_in(m, rank, round)) {
                advance(m, rank);
            }
        }
        if (m->rows.len >= ROW_BYTES_KEPT) {
            st = write_rows(m);
        }
    }
    if (ps_is_ok(&st) && m->rows.len > 0) {
        st = write_rows(m);
    }
    return st;
}

ps_status ps_rounds_merge(const ps_rounds_parts *parts, const char *path, bool *is_written)
{
    merging m = {.parts = parts, .readers = ps_xcalloc(parts->ranks, sizeof *m.readers)};
    ps_status st = ps_ok();

    assert(parts->metric_count <= PS_ROUND_METRICS_MAX);
    for (uint32_t rank = 0; rank < parts->ranks; rank++) {
        open_part(&m, rank);
    }
    *is_written = next_round(&m) != 0;
    if (*is_written) {
        st = ps_file_writer_open(&m.writer, path);
        if (ps_is_ok(&st)) {
            st = merge(&m);
            if (ps_is_ok(&st)) {
                st = ps_file_writer_commit(&m.writer);
            } else {
                ps_file_writer_abandon(&m.writer);
            }
        }
    }
    for (uint32_t rank = 0; rank < parts->ranks; rank++) {
        if (m.readers[rank].file != NULL) {
            fclose(m.readers[rank].file);
        }
    }
    free(m.readers);
    ps_strbuf_fini(&m.rows);
    return st;
}

void ps_rounds_name(char *name, size_t cap, const char *title)
{
    ps_artifact_name_of_job(name, cap, PS_ROUNDS_PREFIX, title, ".csv");
}
