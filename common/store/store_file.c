/* SPDX-License-Identifier: Apache-2.0 */
/* store_file.c - see store.h: writes a store to a file and reads it back. */
#include "common/store/store_impl.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#define MAGIC "PSGDSTO1"

enum { VERSION = 4, HEAD = 1, SLICES = 2, ROWS = 3 };

static const char *optim_name(const ps_store *store)
{
    return store->descent.optim != NULL ? store->descent.optim->name : "";
}

static uint32_t table_count(const ps_store *store)
{
    return store->rows != NULL ? store->rows->tables->table_count : 0;
}

/* Returns whether the store has rows of the virtual shard or can get some. */
static bool has_rows(const ps_store *store, uint32_t shard)
{
    for (uint32_t t = 0; t < table_count(store); t++) {
        if (ps_table_can_have_rows(store->rows->tables->tables[t], shard)) {
            return true;
        }
    }
    return false;
}

/* ---- Save ---- */

static void put_head(const ps_store *store, uint64_t clock, uint64_t base, ps_state_out *out)
{
    const ps_book *book = &store->book;

    ps_state_begin(out, HEAD, 0);
    ps_state_put_u64(out, store->job);
    ps_state_put_u64(out, clock);
    ps_state_put_u64(out, base);
    ps_state_put_text(out, book->policy->name);
    ps_state_put_text(out, optim_name(store));
    ps_state_put_u32(out, book->workers);
    ps_state_put_u32(out, book->contributors);
    ps_state_put_u32(out, store->descent.optim != NULL ? store->descent.optim->slots : 0);
    ps_state_put_u32(out, table_count(store));
    ps_state_put_u32(out, store->broadcasts);
    for (uint32_t w = 0; w < book->workers; w++) {
        uint8_t is_lost = book->worker[w].is_lost;

        ps_state_put(out, &is_lost, sizeof is_lost);
    }
    ps_state_finish(out);
}

void store_file_begin(const ps_store *store, ps_state_out *out, ps_state_write_fn *write, void *arg)
{
    ps_state_out_init(out, MAGIC, VERSION, write, arg);
    put_head(store, 0, 0, out);
}

void store_file_put_slices(const ps_store *store, uint32_t virtual_shard, ps_state_out *out)
{
    if (shard_count(store, virtual_shard) > 0) {
        ps_state_begin(out, SLICES, virtual_shard);
        shard_put(store, virtual_shard, out);
        ps_state_finish(out);
    }
}

ps_status ps_store_save_since(const ps_store *store, uint64_t clock, uint64_t base,
                              ps_state_write_fn *write, void *arg)
{
    uint32_t since = store_rows_mark_of(store, base);
    ps_state_out out;

    ps_state_out_init(&out, MAGIC, VERSION, write, arg);
    put_head(store, clock, since > 0 ? base : 0, &out);
    for (uint32_t i = 0; i < PS_SHARDS && ps_is_ok(&out.status); i++) {
        store_file_put_slices(store, i, &out);
        if (has_rows(store, i)) {
            ps_state_begin(&out, ROWS, i);
            ps_state_put_u32(&out, table_count(store));
            store_rows_put(store, i, since, &out);
            ps_state_finish(&out);
        }
    }
    return ps_state_out_end(&out);
}

ps_status ps_store_save(const ps_store *store, ps_state_write_fn *write, void *arg)
{
    return ps_store_save_since(store, 0, 0, write, arg);
}

ps_status ps_store_save_at(const ps_store *store, uint64_t clock, ps_state_write_fn *write,
                           void *arg)
{
    ps_state_out out;

    assert(ps_store_has_at(store, clock));
    store_file_begin(store, &out, write, arg);
    for (uint32_t i = 0; i < PS_SHARDS && ps_is_ok(&out.status); i++) {
        if (shard_count(store, i) > 0) {
            ps_state_begin(&out, SLICES, i);
            shard_put_at(store, i, clock, &out);
            ps_state_finish(&out);
        }
        if (has_rows(store, i)) {
            ps_state_begin(&out, ROWS, i);
            ps_state_put_u32(&out, table_count(store));
            store_rows_put_at(store, i, clock, &out);
            ps_state_finish(&out);
        }
    }
    return ps_state_out_end(&out);
}

/* ---- Load ---- */

static ps_status other(const char *what, const char *theirs, const char *mine)
{
    return ps_fail(PS_FAILED_PRECONDITION, "%s: \"%s\"; this job has \"%s\"", what, theirs, mine);
}

static ps_status other_count(const char *what, uint32_t theirs, uint32_t mine)
{
    return ps_fail(PS_FAILED_PRECONDITION, "%s: %" PRIu32 "; this job has %" PRIu32, what, theirs,
                   mine);
}

/* A file that is being read. */
typedef struct reading {
    ps_state_in in;
    /* clock: the one that the file was written for; base: that from which its rows count
     * (ps_store_save_since) */
    uint64_t clock, base;
    bool is_earlier; /* the file is older than the clock that is loaded: only rows are read */
} reading;

static ps_status take_lost(ps_store *store, reading *f)
{
    const ps_book *book = &store->book;
    ps_state_in *in = &f->in;

    for (uint32_t w = 0; w < book->workers; w++) {
        uint8_t is_lost;

        ps_state_take(in, &is_lost, sizeof is_lost);
        if (is_lost > 1 || (is_lost == 1 && !book->policy->survives_loss)) {
            ps_state_fail(in, "worker %" PRIu32 " is lost; %s does not go on without one", w,
                          book->policy->name);
        }
        store->is_lost[w] = store->is_lost[w] || (is_lost == 1 && !f->is_earlier);
    }
    return ps_state_done(in);
}

/* Reads the head of a file for a store that is loaded at `clock`. */
static ps_status take_head(ps_store *store, uint64_t clock, reading *f)
{
    const ps_book *book = &store->book;
    ps_state_in *in = &f->in;
    uint32_t slots = store->descent.optim != NULL ? store->descent.optim->slots : 0;
    char policy[PS_STATE_TEXT + 1], optim[PS_STATE_TEXT + 1];
    uint64_t job = ps_state_take_u64(in);
    /* index of the number of tables, which may be 0: a server or thread may have no tables */
    enum { TABLES = 3 };
    uint32_t counts[5];
    const struct {
        const char *what;
        uint32_t mine;
    } wants[5] = {{"workers", book->workers},
                  {"contributors", book->contributors},
                  {"floats of optimizer state", slots},
                  {"sparse tables", table_count(store)},
                  {"broadcasts", store->broadcasts}};

    f->clock = ps_state_take_u64(in);
    f->base = ps_state_take_u64(in);
    f->is_earlier = f->clock > 0 && f->clock < clock;
    ps_state_take_text(in, policy);
    ps_state_take_text(in, optim);
    ps_state_take(in, counts, sizeof counts);
    if (!ps_state_is_ok(in)) {
        return in->status;
    }
    if (job != store->job) {
        return ps_fail(PS_FAILED_PRECONDITION, "job: %016" PRIx64 "; this one computes %016" PRIx64,
                       job, store->job);
    }
    if (strcmp(policy, book->policy->name) != 0) {
        return other("policy", policy, book->policy->name);
    }
    if (strcmp(optim, optim_name(store)) != 0) {
        return other("optimizer", optim, optim_name(store));
    }
    for (size_t i = 0; i < sizeof wants / sizeof wants[0]; i++) {
        bool may_lack = i == TABLES && (counts[i] == 0 || wants[i].mine == 0);

        if (counts[i] != wants[i].mine && !may_lack) {
            return other_count(wants[i].what, counts[i], wants[i].mine);
        }
    }
    if (f->base > 0 && f->base >= f->clock) {
        ps_state_fail(in, "clock %" PRIu64 " counts from %" PRIu64, f->clock, f->base);
    }
    return take_lost(store, f);
}

/* Reads the rows of a virtual shard. If the file does not have all of them, the rows of the clock
 * that it counts from must have been read before. */
static ps_status take_rows(ps_store *store, uint32_t shard, reading *f)
{
    uint32_t tables;

    if (f->base > 0 && store->rows_clock[shard] != f->base) {
        return ps_fail(PS_FAILED_PRECONDITION,
                       "rows of virtual shard %" PRIu32 " are what has changed since clock %" PRIu64
                       "; no file of that clock came before",
                       shard, f->base);
    }
    store->rows_clock[shard] = f->clock;
    tables = ps_state_take_u32(&f->in);
    if (ps_state_is_ok(&f->in) && tables != table_count(store)) {
        ps_state_fail(&f->in, "%" PRIu32 " sparse tables of virtual shard %" PRIu32, tables, shard);
    }
    if (ps_state_is_ok(&f->in)) {
        (f->is_earlier ? store_rows_take_earlier : store_rows_take)(store, shard, f->base == 0,
                                                                    &f->in);
    }
    return ps_state_done(&f->in);
}

static ps_status take_shard(ps_store *store, uint32_t kind, uint32_t shard, reading *f)
{
    bool *has_come = kind == SLICES ? store->slices_came : store->rows_came;

    if (has_come[shard] || (kind == ROWS && f->clock > 0 && store->rows_clock[shard] >= f->clock)) {
        return ps_fail(PS_FAILED_PRECONDITION, "virtual shard %" PRIu32 " has come before", shard);
    }
    has_come[shard] = !f->is_earlier;
    if (kind == SLICES) {
        shard_take(store, shard, &f->in);
        return ps_state_done(&f->in);
    }
    return take_rows(store, shard, f);
}

/* Returns whether a section is to be read: the store has slices or rows of its virtual shard. Of an
 * earlier file only sections of rows are. */
static bool is_wanted(const ps_store *store, uint32_t kind, uint32_t shard, const reading *f)
{
    return kind == ROWS ? has_rows(store, shard) : !f->is_earlier && shard_count(store, shard) > 0;
}

/* Reads the sections of virtual shards, which follow the head, up to the end of the file. */
static ps_status take_shards(ps_store *store, reading *f)
{
    ps_state_in *in = &f->in;
    uint32_t kind, index;
    ps_status st = ps_ok();

    for (;;) {
        /* Virtual shards of other servers are skipped unchecked; their servers check them. */
        st = ps_state_next(in, false, &kind, &index);
        if (!ps_is_ok(&st) || kind == 0) {
            return st;
        }
        if ((kind != SLICES && kind != ROWS) || index >= PS_SHARDS) {
            ps_state_fail(in, "section %" PRIu32 " of kind %" PRIu32, index, kind);
            return in->status;
        }
        if (!is_wanted(store, kind, index, f)) {
            ps_state_skip(in);
            continue;
        }
        st = ps_state_check(in);
        if (ps_is_ok(&st)) {
            st = take_shard(store, kind, index, f);
        }
        if (!ps_is_ok(&st)) {
            return st;
        }
    }
}

ps_status ps_store_load_of(ps_store *store, uint64_t clock, const uint8_t *bytes, size_t len)
{
    reading f;
    ps_status st = ps_state_open(&f.in, MAGIC, VERSION, HEAD, bytes, len);

    if (ps_is_ok(&st)) {
        st = take_head(store, clock, &f);
    }
    return ps_is_ok(&st) ? take_shards(store, &f) : st;
}

ps_status ps_store_load(ps_store *store, const uint8_t *bytes, size_t len)
{
    return ps_store_load_of(store, 0, bytes, len);
}

ps_status ps_store_file_clocks(const uint8_t *bytes, size_t len, uint64_t *clock, uint64_t *base)
{
    ps_state_in in;
    ps_status st = ps_state_open(&in, MAGIC, VERSION, HEAD, bytes, len);

    if (ps_is_ok(&st)) {
        (void)ps_state_take_u64(&in); /* job */
        *clock = ps_state_take_u64(&in);
        *base = ps_state_take_u64(&in);
        st = in.status;
    }
    return st;
}

void ps_store_find_workers(ps_store *store)
{
    memset(store->is_lost, 0, store->book.workers * sizeof *store->is_lost);
}

ps_status ps_store_load_end(ps_store *store)
{
    ps_status st = ps_ok();

    for (uint32_t i = 0; i < PS_SHARDS; i++) {
        if (shard_count(store, i) > 0 && !store->slices_came[i]) {
            return ps_fail(PS_FAILED_PRECONDITION,
                           "no file has the slices of virtual shard %" PRIu32, i);
        }
        if (has_rows(store, i) && !store->rows_came[i]) {
            return ps_fail(PS_FAILED_PRECONDITION, "no file has the rows of virtual shard %" PRIu32,
                           i);
        }
    }
    for (uint32_t w = 0; w < store->book.workers; w++) {
        if (store->is_lost[w]) {
            ps_book_set_lost(&store->book, w);
        }
    }
    st = store->rows != NULL ? store_rows_join(store) : ps_ok();
    if (!ps_is_ok(&st)) {
        return st;
    }
    ps_book_settle(&store->book);
    shard_settle(store);
    for (uint32_t w = 0;
         store->rows != NULL && !store->workers_have_rows && w < store->book.workers; w++) {
        store->rows->way->changed_all(store, w);
    }
    return store->rows != NULL ? store_rows_settle(store) : ps_ok();
}
