/* SPDX-License-Identifier: Apache-2.0 */
/* clocks.c - see clocks.h.
 *
 * Each minimum is kept with the number of entries that equal it. A push decrements this number;
 * only the last push of a clock searches for the next minimum.
 */
#include "common/store/clocks.h"

#include "common/base/xalloc.h"

#include <assert.h>
#include <stdlib.h>

/* ---- Create ---- */

static void create_workers(ps_book *book, const ps_book_conf *conf)
{
    book->worker = ps_xcalloc(conf->workers, sizeof *book->worker);
    for (uint32_t w = 0; w < conf->workers; w++) {
        ps_book_worker *worker = &book->worker[w];

        worker->held_count = conf->held != NULL ? conf->held_count[w] : 1;
        worker->held = ps_xcalloc(worker->held_count, sizeof *worker->held);
        for (uint32_t i = 0; i < worker->held_count; i++) {
            worker->held[i] = conf->held != NULL ? conf->held[w][i] : w;
            assert(worker->held[i] < conf->contributors);
        }
    }
}

/* Lists the holders of each contributor, from the workers' lists of what they hold. */
static void create_holders(ps_book *book)
{
    uint32_t *at = ps_xcalloc((size_t)book->contributors + 1, sizeof *at);
    uint32_t *filled = ps_xcalloc(book->contributors, sizeof *filled);

    for (uint32_t w = 0; w < book->workers; w++) {
        for (uint32_t i = 0; i < book->worker[w].held_count; i++) {
            at[book->worker[w].held[i] + 1]++;
        }
    }
    for (uint32_t k = 0; k < book->contributors; k++) {
        assert(at[k + 1] > 0);
        at[k + 1] += at[k];
    }
    book->holder_at = at;
    book->holder = ps_xcalloc(at[book->contributors], sizeof *book->holder);
    for (uint32_t w = 0; w < book->workers; w++) {
        for (uint32_t i = 0; i < book->worker[w].held_count; i++) {
            uint32_t k = book->worker[w].held[i];

            book->holder[at[k] + filled[k]++] = w;
        }
    }
    free(filled);
}

static void create_policy(ps_book *book, const ps_book_conf *conf)
{
    const ps_consistency *policy = conf->policy;

    assert(!policy->has_rounds || policy->closes != NULL);
    assert(!policy->leaves_behind || policy->has_rounds);
    /* sums in the order of contributors would wait for ever for the turn of one that is lost */
    assert(!policy->is_deterministic || !policy->survives_loss);
    book->policy = policy;
    book->policy_params = conf->policy_params;
    book->buffers = policy->closes != NULL;
    book->in_order = book->buffers && policy->is_deterministic;
    book->word_count = policy->words == NULL ? 0 : policy->words(conf->workers, conf->contributors);
    book->words = ps_xcalloc(book->word_count * conf->columns, sizeof *book->words);
    for (uint32_t c = 0; c < conf->columns && book->word_count > 0; c++) {
        book->column[c].words = book->words + book->word_count * c;
    }
    for (uint32_t k = 0; policy->leaves_behind && k < conf->contributors; k++) {
        assert(book->holder_at[k + 1] - book->holder_at[k] == 1);
    }
}

void ps_book_init(ps_book *book, const ps_book_conf *conf)
{
    size_t by_worker = (size_t)conf->columns * conf->workers;

    assert(conf->workers > 0 && conf->contributors > 0);
    *book = (ps_book){
        .counters = conf->counters,
        .columns = conf->columns,
        .workers = conf->workers,
        .contributors = conf->contributors,
        .column = ps_xcalloc(conf->columns, sizeof *book->column),
        .next = ps_xcalloc((size_t)conf->contributors * conf->columns, sizeof *book->next),
        .done = ps_xcalloc(by_worker, sizeof *book->done),
        .pending = ps_xcalloc(by_worker, sizeof *book->pending),
        .given = ps_xcalloc(by_worker, sizeof *book->given),
        .whole = ps_xcalloc(conf->contributors, sizeof *book->whole),
        .left = ps_xcalloc(conf->contributors, sizeof *book->left),
    };
    for (uint32_t c = 0; c < conf->columns; c++) {
        book->column[c].weight = 1;
    }
    create_workers(book, conf);
    create_holders(book);
    create_policy(book, conf);
    ps_book_settle(book);
}

void ps_book_fini(ps_book *book)
{
    for (uint32_t w = 0; w < book->workers; w++) {
        free(book->worker[w].held);
    }
    free(book->column);
    free(book->worker);
    free(book->holder_at);
    free(book->holder);
    free(book->words);
    free(book->next);
    free(book->done);
    free(book->pending);
    free(book->given);
    free(book->whole);
    free(book->left);
    *book = (ps_book){0};
}

/* ---- Least clocks ---- */

static void find_least(ps_book *book, uint32_t c)
{
    const uint64_t *done = book->done + (size_t)c * book->workers;
    uint64_t least = UINT64_MAX;

    for (uint32_t w = 0; w < book->workers; w++) {
        least = done[w] < least ? done[w] : least;
    }
    book->column[c].least = least;
}

/* Computes, for worker w in column c, `done`: the least next clock of the contributors that w
 * holds, and `pending`: how many of these are at it. A worker that holds nothing gets UINT64_MAX
 * and 0. */
static void find_done(ps_book *book, uint32_t c, uint32_t w)
{
    const ps_book_worker *worker = &book->worker[w];
    uint64_t done = UINT64_MAX;
    uint32_t pending = 0;

    for (uint32_t i = 0; i < worker->held_count; i++) {
        uint64_t next = ps_book_next(book, c, worker->held[i]);

        if (next < done) {
            done = next;
            pending = 0;
        }
        pending += next == done;
    }
    book->done[(size_t)c * book->workers + w] = done;
    book->pending[(size_t)c * book->workers + w] = pending;
}

/* Notes that one more contributor of worker w has gone beyond w's `done`. After the last of them
 * computes w's next `done`. */
static void mark_worker(ps_book *book, uint32_t c, uint32_t w)
{
    size_t at = (size_t)c * book->workers + w;
    bool was_least = book->done[at] == book->column[c].least;

    assert(book->pending[at] > 0);
    if (--book->pending[at] > 0) {
        return;
    }
    find_done(book, c, w);
    if (was_least) {
        find_least(book, c);
    }
}

static void find_whole(ps_book *book, uint32_t k)
{
    const uint64_t *next = book->next + (size_t)k * book->columns;

    book->whole[k] = UINT64_MAX;
    book->left[k] = 0;
    for (uint32_t c = 0; c < book->columns; c++) {
        if (next[c] < book->whole[k]) {
            book->whole[k] = next[c];
            book->left[k] = 0;
        }
        book->left[k] += next[c] == book->whole[k];
    }
}

/* Returns whether a worker that is not lost holds contributor k. */
static bool is_live(const ps_book *book, uint32_t k)
{
    for (uint32_t i = book->holder_at[k]; i < book->holder_at[k + 1]; i++) {
        if (!book->worker[book->holder[i]].is_lost) {
            return true;
        }
    }
    return false;
}

static void count_live(ps_book *book)
{
    book->live = 0;
    for (uint32_t k = 0; k < book->contributors; k++) {
        book->live += is_live(book, k);
    }
}

void ps_book_settle(ps_book *book)
{
    count_live(book);
    for (uint32_t c = 0; c < book->columns; c++) {
        for (uint32_t w = 0; w < book->workers; w++) {
            find_done(book, c, w);
            if (book->worker[w].is_lost) {
                book->done[(size_t)c * book->workers + w] = UINT64_MAX;
            }
        }
        find_least(book, c);
    }
    for (uint32_t k = 0; k < book->contributors; k++) {
        find_whole(book, k);
    }
}

/* ---- A contribution comes ---- */

static ps_clocks clocks_of(const ps_book *book, uint32_t c)
{
    const ps_book_column *column = &book->column[c];

    return (ps_clocks){
        .workers = book->workers,
        .contributors = book->contributors,
        .live = book->live,
        .done = book->done + (size_t)c * book->workers,
        .least = column->least,
        .clock = ps_book_open_clock(book, c),
        .version = column->version,
        .in = column->in,
        .due = column->due,
        .now_us = book->now_us - column->behind_us,
        .first_us = column->first_us,
        .state = column->words,
    };
}

ps_status ps_book_check_worker(const ps_book *book, uint32_t worker, uint32_t contributor)
{
    if (worker >= book->workers) {
        return ps_fail(PS_INVALID_ARGUMENT, "worker %u of %u", worker, book->workers);
    }
    if (contributor >= book->contributors) {
        return ps_fail(PS_INVALID_ARGUMENT, "contributor %u of %u", contributor,
                       book->contributors);
    }
    if (book->worker[worker].is_lost) {
        return ps_fail(PS_FAILED_PRECONDITION, "worker %u is lost", worker);
    }
    for (uint32_t i = book->holder_at[contributor]; i < book->holder_at[contributor + 1]; i++) {
        if (book->holder[i] == worker) {
            return ps_ok();
        }
    }
    return ps_fail(PS_PERMISSION_DENIED, "worker %u does not hold contributor %u", worker,
                   contributor);
}

ps_status ps_book_check_clock(const ps_book *book, uint32_t column, uint32_t contributor,
                              uint64_t clock, bool *is_in)
{
    const ps_book_column *at = &book->column[column];
    uint64_t next = ps_book_next(book, column, contributor);
    uint64_t base = ps_book_open_clock(book, column);

    *is_in = clock < next;
    if (*is_in) {
        return ps_ok();
    }
    if (clock > next && !(book->policy->has_rounds && clock <= at->clock)) {
        return ps_fail(PS_OUT_OF_RANGE, "clock %llu of contributor %u, %llu is next",
                       (unsigned long long)clock, contributor, (unsigned long long)next);
    }
    if (clock > base && clock - base > book->policy->lead(&book->policy_params)) {
        return ps_fail(PS_OUT_OF_RANGE, "clock %llu is too far ahead, clock %llu is not complete",
                       (unsigned long long)clock, (unsigned long long)base);
    }
    return ps_ok();
}

/* Returns the bin of a staleness: 0 for 0, i for 2^(i - 1) to 2^i - 1. The last bin has all larger
 * ones too. */
static size_t bin_of(uint64_t staleness)
{
    size_t bin = staleness == 0 ? 0 : 64 - (size_t)__builtin_clzll(staleness);

    return bin < PS_STALENESS_BINS ? bin : PS_STALENESS_BINS - 1;
}

static void count_applied(ps_book *book, const ps_arrival *a, bool is_late, uint32_t weight)
{
    ps_store_counters *c = book->counters;

    c->applied += weight;
    c->late += is_late ? weight : 0;
    c->staleness_max = a->staleness > c->staleness_max ? a->staleness : c->staleness_max;
    c->staleness_sum += a->staleness * weight;
    c->staleness_count += weight;
    c->staleness_bins[bin_of(a->staleness)] += weight;
    book->worker[a->worker].share.applied += weight;
}

static void count_left_out(ps_book *book, uint32_t worker, uint64_t count)
{
    book->counters->left_out += count;
    book->worker[worker].share.left_out += count;
}

ps_verdict ps_book_arrive(ps_book *book, uint32_t column, uint32_t worker, uint32_t contributor,
                          uint64_t clock, float *scale, bool *is_late)
{
    ps_clocks clocks = clocks_of(book, column);
    ps_arrival a = {
        .worker = worker,
        .contributor = contributor,
        .clock = clock,
        .staleness = clocks.version - book->given[(size_t)column * book->workers + worker],
    };
    uint32_t weight = book->column[column].weight;
    ps_verdict verdict;

    *scale = 1.0f;
    verdict = book->policy->on_push(&book->policy_params, &clocks, &a, scale);
    *is_late = verdict == PS_BUFFER && book->policy->has_rounds && clock < clocks.clock;
    assert(verdict == PS_DROP || book->buffers == (verdict == PS_BUFFER));
    if (verdict == PS_DROP) {
        book->counters->dropped += weight;
        book->worker[worker].share.dropped += weight;
    } else {
        count_applied(book, &a, *is_late, weight);
        book->column[column].ledger.count++;
        book->column[column].ledger.hash += ps_book_hash(clock, contributor);
    }
    count_left_out(book, worker, (clock - ps_book_next(book, column, contributor)) * weight);
    return verdict;
}

void ps_book_add(ps_book *book, uint32_t column, bool is_late)
{
    ps_book_column *at = &book->column[column];

    at->in++;
    if (!is_late && at->due++ == 0) {
        at->first_us = book->now_us - at->behind_us;
    }
}

void ps_book_mark(ps_book *book, uint32_t column, uint32_t contributor, uint64_t to)
{
    uint64_t *next = &book->next[(size_t)contributor * book->columns + column];
    uint64_t clock = *next;

    assert(to > clock);
    *next = to;
    for (uint32_t i = book->holder_at[contributor]; i < book->holder_at[contributor + 1]; i++) {
        uint32_t w = book->holder[i];

        if (clock == book->done[(size_t)column * book->workers + w]) {
            mark_worker(book, column, w);
        }
    }
    if (clock == book->whole[contributor] && --book->left[contributor] == 0) {
        find_whole(book, contributor);
    }
}

bool ps_book_leave_out(ps_book *book, uint32_t column, uint32_t worker, uint32_t contributor,
                       uint64_t to)
{
    uint64_t next = ps_book_next(book, column, contributor);

    if (next >= to) {
        return false;
    }
    count_left_out(book, worker, (to - next) * book->column[column].weight);
    ps_book_mark(book, column, contributor, to);
    return true;
}

bool ps_book_is_whole(const ps_book *book, uint32_t column, float *scale)
{
    ps_clocks clocks = clocks_of(book, column);

    *scale = 1.0f;
    if (clocks.least == UINT64_MAX ||
        (clocks.in == 0 && !(book->policy->has_rounds && clocks.least > clocks.clock))) {
        /* no worker is left; or nothing is in the open sum, and (with rounds) somebody may still
         * contribute to it */
        return false;
    }
    return book->policy->closes(&book->policy_params, &clocks, scale);
}

void ps_book_close(ps_book *book, uint32_t column)
{
    book->column[column].in = 0;
    book->column[column].due = 0;
    book->column[column].clock++;
}

/* Mixes the bits of a number (splitmix64). */
static uint64_t mix(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

uint64_t ps_book_hash(uint64_t clock, uint32_t contributor)
{
    return mix(mix(clock) + contributor);
}

uint32_t ps_book_ledger(const ps_book *book, bool *is_first, ps_ledger *ledger)
{
    uint32_t differ = 0;

    for (uint32_t c = 0; c < book->columns; c++) {
        const ps_ledger *l = &book->column[c].ledger;

        if (*is_first) {
            *is_first = false;
            *ledger = *l;
        }
        differ += l->count != ledger->count || l->hash != ledger->hash;
    }
    return differ;
}

/* ---- A worker's requests ---- */

bool ps_book_admits(const ps_book *book, uint32_t column, uint32_t worker, uint64_t clock)
{
    ps_clocks clocks = clocks_of(book, column);

    return book->policy->admit(&book->policy_params, &clocks, worker, clock);
}

bool ps_book_may_pull(const ps_book *book, uint32_t column, uint32_t worker, uint64_t clock)
{
    ps_clocks clocks = clocks_of(book, column);

    return book->policy->admit(&book->policy_params, &clocks, worker, clock) &&
           book->policy->on_pull(&book->policy_params, &clocks, worker, clock);
}

void ps_book_gave(ps_book *book, uint32_t column, uint32_t worker)
{
    book->given[(size_t)column * book->workers + worker] = book->column[column].version;
}

/* ---- Progress ---- */

bool ps_book_is_in(const ps_book *book, uint64_t clock, uint32_t contributor)
{
    return contributor < book->contributors &&
           (book->columns == 0 || book->whole[contributor] > clock);
}

uint64_t ps_book_open_clock(const ps_book *book, uint32_t column)
{
    const ps_book_column *at = &book->column[column];

    return book->policy->has_rounds ? at->clock : at->least;
}

uint64_t ps_book_clock_of(const ps_book *book, uint32_t column)
{
    return book->column[column].least == UINT64_MAX ? UINT64_MAX : ps_book_open_clock(book, column);
}

uint64_t ps_book_clock(const ps_book *book)
{
    uint64_t least = UINT64_MAX;

    for (uint32_t c = 0; c < book->columns; c++) {
        uint64_t clock = ps_book_clock_of(book, c);

        least = clock < least ? clock : least;
    }
    return least;
}

/* Returns whether the worker has not contributed `clock`, the oldest clock of the book, to some
 * column that is still at it. */
static bool is_missing(const ps_book *book, uint32_t worker, uint64_t clock)
{
    for (uint32_t c = 0; c < book->columns; c++) {
        if (ps_book_clock_of(book, c) == clock &&
            book->done[(size_t)c * book->workers + worker] <= clock) {
            return true;
        }
    }
    return false;
}

uint32_t ps_book_waits_for(const ps_book *book, uint32_t *workers, uint32_t cap)
{
    uint64_t clock = ps_book_clock(book);
    uint32_t count = 0;

    for (uint32_t w = 0; clock != UINT64_MAX && w < book->workers; w++) {
        if (is_missing(book, w, clock)) {
            if (count < cap) {
                workers[count] = w;
            }
            count++;
        }
    }
    return count;
}

/* Returns the time, as in now_us, from which a column's sum may close although nothing arrives;
 * INT64_MAX: never. */
static int64_t due_us(const ps_book *book, uint32_t c)
{
    ps_clocks clocks = clocks_of(book, c);
    int64_t at;

    if (book->policy->closes_at == NULL || clocks.least == UINT64_MAX) {
        return INT64_MAX;
    }
    at = book->policy->closes_at(&book->policy_params, &clocks);
    return at == INT64_MAX ? at : at + book->column[c].behind_us;
}

bool ps_book_is_due(const ps_book *book, uint32_t column)
{
    return due_us(book, column) <= book->now_us;
}

int64_t ps_book_deadline(const ps_book *book)
{
    int64_t soonest = INT64_MAX;

    for (uint32_t c = 0; book->policy->closes_at != NULL && c < book->columns; c++) {
        int64_t at = due_us(book, c);

        soonest = at < soonest ? at : soonest;
    }
    return soonest;
}

uint64_t ps_book_open(const ps_book *book)
{
    uint64_t in = 0;

    for (uint32_t c = 0; c < book->columns; c++) {
        in += book->column[c].in;
    }
    return in;
}

ps_status ps_book_lose(ps_book *book, uint32_t worker)
{
    if (worker >= book->workers) {
        return ps_fail(PS_INVALID_ARGUMENT, "worker %u of %u", worker, book->workers);
    }
    if (!book->policy->survives_loss) {
        return ps_fail(PS_FAILED_PRECONDITION, "%s does not go on without worker %u",
                       book->policy->name, worker);
    }
    if (!book->worker[worker].is_lost) {
        book->worker[worker].is_lost = true;
        count_live(book);
        for (uint32_t c = 0; c < book->columns; c++) {
            book->done[(size_t)c * book->workers + worker] = UINT64_MAX;
            find_least(book, c);
        }
    }
    return ps_ok();
}

/* ---- Save and load ---- */

/* A bound on clocks that are read from files, far above those of any job, so that sums with a clock
 * cannot overflow. */
#define CLOCK_MAX (UINT64_C(1) << 48)

void ps_book_put(const ps_book *book, uint32_t column, ps_state_out *out)
{
    const ps_book_column *at = &book->column[column];

    ps_state_put_u64(out, at->version);
    ps_state_put_u64(out, at->clock);
    ps_state_put_u32(out, at->in);
    ps_state_put_u32(out, at->due);
    ps_state_put_u64(out, (uint64_t)(book->now_us - at->behind_us));
    ps_state_put_u64(out, (uint64_t)at->first_us);
    ps_state_put_u64(out, at->ledger.count);
    ps_state_put_u64(out, at->ledger.hash);
    ps_state_put(out, at->words, book->word_count * sizeof *at->words);
    for (uint32_t k = 0; k < book->contributors; k++) {
        ps_state_put_u64(out, ps_book_next(book, column, k));
    }
    ps_state_put(out, book->given + (size_t)column * book->workers,
                 book->workers * sizeof *book->given);
}

void ps_book_put_at(const ps_book *book, uint32_t column, uint64_t clock, uint64_t version,
                    ps_state_out *out)
{
    const ps_book_column *at = &book->column[column];
    ps_ledger ledger = at->ledger;

    assert(book->policy->is_deterministic && book->word_count == 0);
    for (uint32_t k = 0; k < book->contributors; k++) {
        for (uint64_t of = clock; of < ps_book_next(book, column, k); of++) {
            ledger.count--;
            ledger.hash -= ps_book_hash(of, k);
        }
    }
    ps_state_put_u64(out, version);
    ps_state_put_u64(out, clock);
    ps_state_put_u32(out, 0);
    ps_state_put_u32(out, 0);
    ps_state_put_u64(out, (uint64_t)(book->now_us - at->behind_us));
    ps_state_put_u64(out, 0);
    ps_state_put_u64(out, ledger.count);
    ps_state_put_u64(out, ledger.hash);
    for (uint32_t k = 0; k < book->contributors; k++) {
        ps_state_put_u64(out, clock);
    }
    for (uint32_t w = 0; w < book->workers; w++) {
        ps_state_put_u64(out, version);
    }
}

size_t ps_book_bytes(const ps_book *book)
{
    return 2 * sizeof(uint32_t) +
           (6 + book->word_count + book->contributors + book->workers) * sizeof(uint64_t);
}

/* Checks the clocks that were read. None may be above CLOCK_MAX. With rounds, no contributor may be
 * further ahead of the open round than the policy allows, and not all contributors may have
 * contributed to the open round; so loops over clocks are no longer than in the store that was
 * saved. If sums are formed in the order of contributors, no contributor may be behind the open
 * round, because each contributes to a round once. */
static void check_next(const ps_book *book, uint32_t column, ps_state_in *in)
{
    const ps_book_column *at = &book->column[column];
    uint64_t lead = book->policy->lead(&book->policy_params), least = UINT64_MAX;

    for (uint32_t k = 0; k < book->contributors; k++) {
        uint64_t next = ps_book_next(book, column, k);

        least = next < least ? next : least;
        if (next > CLOCK_MAX || (book->in_order && next < at->clock) ||
            (book->policy->has_rounds && next > at->clock && next - at->clock - 1 > lead)) {
            ps_state_fail(in, "clock %llu of contributor %u, where %llu is open",
                          (unsigned long long)next, k, (unsigned long long)at->clock);
            return;
        }
    }
    if (book->policy->has_rounds && least > at->clock) {
        ps_state_fail(in, "clock %llu is open, and all have brought it",
                      (unsigned long long)at->clock);
    }
}

void ps_book_take(ps_book *book, uint32_t column, ps_state_in *in)
{
    ps_book_column *at = &book->column[column];
    uint64_t *given = book->given + (size_t)column * book->workers;
    int64_t policy_us;

    at->version = ps_state_take_u64(in);
    at->clock = ps_state_take_u64(in);
    at->in = ps_state_take_u32(in);
    at->due = ps_state_take_u32(in);
    policy_us = (int64_t)ps_state_take_u64(in);
    at->first_us = (int64_t)ps_state_take_u64(in);
    at->ledger.count = ps_state_take_u64(in);
    at->ledger.hash = ps_state_take_u64(in);
    ps_state_take(in, at->words, book->word_count * sizeof *at->words);
    for (uint32_t k = 0; k < book->contributors; k++) {
        book->next[(size_t)k * book->columns + column] = ps_state_take_u64(in);
    }
    ps_state_take(in, given, book->workers * sizeof *given);
    if (!ps_state_is_ok(in)) {
        return;
    }
    if (at->version > CLOCK_MAX * UINT32_MAX || at->clock > CLOCK_MAX || at->due > at->in ||
        policy_us < 0 || policy_us > (int64_t)CLOCK_MAX * 1000 || at->first_us < 0 ||
        at->first_us > policy_us || (at->in > 0 && !book->buffers)) {
        ps_state_fail(in, "version %llu, clock %llu, %u and %u in the open sum: cannot be",
                      (unsigned long long)at->version, (unsigned long long)at->clock, at->in,
                      at->due);
        return;
    }
    at->behind_us = book->now_us - policy_us;
    check_next(book, column, in);
    for (uint32_t w = 0; ps_state_is_ok(in) && w < book->workers; w++) {
        if (given[w] > at->version) {
            ps_state_fail(in, "version %llu was given to worker %u; it is %llu",
                          (unsigned long long)given[w], w, (unsigned long long)at->version);
        }
    }
}

void ps_book_take_back(ps_book *book, uint32_t column, uint32_t contributor, uint64_t to)
{
    ps_ledger *ledger = &book->column[column].ledger;
    uint64_t *next = &book->next[(size_t)contributor * book->columns + column];

    for (; *next > to; --*next) {
        ledger->count--;
        ledger->hash -= ps_book_hash(*next - 1, contributor);
    }
}

void ps_book_set_lost(ps_book *book, uint32_t worker)
{
    book->worker[worker].is_lost = true;
}
