/* SPDX-License-Identifier: Apache-2.0 */
/* registry_sqlite.c - the registry in the file jobs.db, by SQLite.
 *
 * A job is a row. It has columns for what is searched, the packed message for the rest, and the
 * specification in a column of its own because it never changes.
 */
#include "services/coordinator/io/registry_sqlite.h"

#include "common/base/container_of.h"
#include "common/base/draw.h"
#include "common/base/log.h"
#include "common/base/shorten.h"
#include "common/base/xalloc.h"
#include "common/rpc/wire.h"
#include "services/coordinator/domain/job_message.h"
#include "services/coordinator/io/database_query.h"
#include "services/coordinator/io/row.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

// clang-format off
#define STATEMENTS(X)                                                                        \
    X(BEGIN, "BEGIN IMMEDIATE")                                                              \
    X(COMMIT, "COMMIT")                                                                      \
    X(ROLLBACK, "ROLLBACK")                                                                  \
    X(CHANGED, "UPDATE identity SET changes = changes + 1")                                    \
    X(META_GET, "SELECT value FROM meta WHERE key = ?1")                                     \
    X(META_PUT, "INSERT OR REPLACE INTO meta (key, value) VALUES (?1, ?2)")                  \
    X(HAS_ID, "SELECT 1 FROM jobs WHERE id = ?1")                                            \
    X(LAST, "SELECT seq FROM sqlite_sequence WHERE name = 'jobs'")                           \
    X(ADD, "INSERT INTO jobs (number, id, request_id, content, state, outcome, sequence,"    \
           " spec, spec_sum, detail, detail_sum)"                                            \
           " VALUES (?1, ?2, ?3, ?4, ?5, 0, ?6, ?7, ?8, ?9, ?10)")                           \
    X(REPLACE, "UPDATE jobs SET state = ?2, outcome = ?3, sequence = ?4, detail = ?5,"       \
               " detail_sum = ?6, spec = ?7, spec_sum = ?8 WHERE number = ?1")               \
    X(FIND, "SELECT number, max(sequence, (SELECT coalesce(max(sequence), 0) FROM events"    \
            " WHERE events.number = jobs.number)) FROM jobs WHERE id = ?1")                  \
    X(FIND_REQUEST, "SELECT id, content FROM jobs WHERE request_id = ?1")                    \
    X(SAVE, "UPDATE jobs SET state = ?2, outcome = ?3, sequence = ?4, detail = ?5,"          \
            " detail_sum = ?6 WHERE number = ?1")                                            \
    X(LOAD, "SELECT " PS_ROW_COLUMNS " FROM jobs WHERE id = ?1")                             \
    X(EACH, "SELECT " PS_ROW_COLUMNS " FROM jobs WHERE number < ?1"                          \
            " AND ((1 << state) & ?2 OR state NOT BETWEEN 0 AND 31) ORDER BY number DESC")   \
    X(REMOVE, "DELETE FROM jobs WHERE id = ?1")                                              \
    X(ADD_EVENT, "INSERT INTO events (number, sequence, time_us, kind, event)"               \
                 " VALUES (?1, ?2, ?3, ?4, ?5)")                                             \
    X(TRIM_EVENTS, "DELETE FROM events WHERE number = ?1 AND sequence <="                    \
                   " (SELECT sequence FROM events WHERE number = ?1"                         \
                   " ORDER BY sequence DESC LIMIT 1 OFFSET ?2)")                             \
    X(FIRST_EVENT, "SELECT coalesce(min(sequence), 0) FROM events WHERE number = ?1")        \
    X(HAS_NUMBER, "SELECT 1 FROM jobs WHERE number = ?1")                                    \
    X(NEXT_NUMBER, "SELECT number FROM jobs WHERE number > ?1 ORDER BY number LIMIT 1")      \
    X(REMOVE_NUMBER, "DELETE FROM jobs WHERE number = ?1")                                   \
    X(DROP_LAST, "DELETE FROM sqlite_sequence WHERE name = 'jobs'")                          \
    X(SET_LAST, "INSERT INTO sqlite_sequence (name, seq) VALUES ('jobs', ?1)")               \
    X(NEXT_EVENT, "SELECT event, sequence FROM events WHERE number = ?1 AND sequence > ?2"   \
                  " ORDER BY sequence")
// clang-format on

enum { REPORTED_MAX = 100 };

enum {
#define X(name, sql) SQL_##name,
    STATEMENTS(X)
#undef X
        SQL_COUNT
};

static const char *const statement_sql[SQL_COUNT] = {
#define X(name, sql) [SQL_##name] = (sql),
    STATEMENTS(X)
#undef X
};

typedef struct sqlite_registry {
    ps_registry base;
    char *folder;
    pthread_mutex_t reading; /* held by load, each and next_event, which any thread may call */
    ps_database file;
    sqlite3_stmt *statements[SQL_COUNT];
    uint64_t id_key;
    bool (*is_taken)(void *arg, const char *job_id); /* NULL: no id is taken by files */
    void *taken_arg;
    bool is_relaxed;
    uint64_t reported[REPORTED_MAX]; /* numbers of damaged rows that were logged */
    size_t reported_count;
    unsigned depth;   /* nesting depth of begin */
    ps_status failed; /* the first failure since the outermost begin */
} sqlite_registry;

static const ps_registry_type sqlite_type;

static sqlite_registry *sqlite_of(ps_registry *r)
{
    return PS_CONTAINER_OF(r, sqlite_registry, base);
}

static ps_status sql_failed(sqlite_registry *r, const char *what)
{
    return ps_database_failed(r->file.db, what);
}

static sqlite3_stmt *statement(sqlite_registry *r, int index)
{
    sqlite3_stmt *s = r->statements[index];

    sqlite3_reset(s);
    sqlite3_clear_bindings(s);
    return s;
}

/* Runs a bound statement that returns no rows, and resets it. `what` is for the error. */
static ps_status run(sqlite_registry *r, sqlite3_stmt *s, const char *what)
{
    int code = sqlite3_step(s);
    ps_status st = code == SQLITE_DONE ? ps_ok() : sql_failed(r, what);

    sqlite3_reset(s);
    return st;
}

static ps_status begin(sqlite_registry *r)
{
    ps_status st = ps_ok();

    if (r->depth == 0) {
        r->failed = ps_ok();
        st = run(r, statement(r, SQL_BEGIN), "begin");
    }
    if (ps_is_ok(&st)) {
        r->depth++;
    }
    return st;
}

/* Ends a transaction level, whose result is `st`. An inner level returns `st`. The outermost one
 * commits if no level has failed, else rolls back, and returns the first failure. */
static ps_status end(sqlite_registry *r, ps_status st)
{
    if (ps_is_ok(&r->failed)) {
        r->failed = st;
    }
    if (--r->depth > 0) {
        return st;
    }
    st = r->failed;
    if (ps_is_ok(&st)) {
        st = run(r, statement(r, SQL_CHANGED), "count the change");
    }
    if (ps_is_ok(&st)) {
        st = run(r, statement(r, SQL_COMMIT), "commit");
    }
    if (ps_is_ok(&st)) {
        ps_database_changed(&r->file, !r->is_relaxed);
    }
    if (!ps_is_ok(&st) && !sqlite3_get_autocommit(r->file.db)) {
        ps_status back = run(r, statement(r, SQL_ROLLBACK), "roll back");

        if (!ps_is_ok(&back)) {
            return ps_wrap(back, "%s; then", st.text);
        }
    }
    return st;
}

static ps_status sqlite_begin(ps_registry *base)
{
    return begin(sqlite_of(base));
}

static ps_status sqlite_end(ps_registry *base, const ps_status *st)
{
    return end(sqlite_of(base), *st);
}

static void sqlite_relax(ps_registry *base, bool relaxed)
{
    sqlite_registry *r = sqlite_of(base);
    int code = sqlite3_exec(r->file.db,
                            relaxed ? "PRAGMA synchronous = NORMAL" : "PRAGMA synchronous = FULL",
                            NULL, NULL, NULL);

    assert(code == SQLITE_OK || r->depth > 0); /* fails only within a transaction */
    (void)code;
    r->is_relaxed = relaxed;
}

static ps_status prepare_all(sqlite_registry *r)
{
    for (int i = 0; i < SQL_COUNT; i++) {
        if (sqlite3_prepare_v3(r->file.db, statement_sql[i], -1, SQLITE_PREPARE_PERSISTENT,
                               &r->statements[i], NULL) != SQLITE_OK) {
            return sql_failed(r, statement_sql[i]);
        }
    }
    return ps_ok();
}

/* Loads the key that scrambles ids, which is drawn once for each database. */
static ps_status load_key(sqlite_registry *r)
{
    sqlite3_stmt *s = statement(r, SQL_META_GET);
    uint64_t key = 0;

    sqlite3_bind_text(s, 1, "id_key", -1, SQLITE_STATIC);
    if (sqlite3_step(s) == SQLITE_ROW) {
        r->id_key = (uint64_t)sqlite3_column_int64(s, 0);
        sqlite3_reset(s);
        return ps_ok();
    }
    sqlite3_reset(s);
    if (getrandom(&key, sizeof key, 0) != sizeof key) {
        return ps_fail_errno(errno, "draw a key");
    }
    s = statement(r, SQL_META_PUT);
    sqlite3_bind_text(s, 1, "id_key", -1, SQLITE_STATIC);
    sqlite3_bind_int64(s, 2, (sqlite3_int64)key);
    r->id_key = key;
    return run(r, s, "store the key of ids");
}

static sqlite_registry *create(const char *folder)
{
    sqlite_registry *r = ps_xcalloc(1, sizeof *r);

    r->base.type = &sqlite_type;
    r->base.database = &r->file;
    r->folder = ps_xstrdup(folder);
    pthread_mutex_init(&r->reading, NULL);
    return r;
}

ps_status ps_registry_open_sqlite(const char *folder, ps_registry **out)
{
    sqlite_registry *r = create(folder);
    ps_status st = ps_database_open(folder, &r->file);

    if (ps_is_ok(&st)) {
        st = prepare_all(r);
    }
    if (ps_is_ok(&st)) {
        st = load_key(r);
    }
    if (ps_is_ok(&st)) {
        *out = &r->base;
    } else {
        ps_registry_close(&r->base);
    }
    return st;
}

static ps_status sqlite_open_reader(ps_registry *base, ps_registry **out)
{
    const sqlite_registry *of = sqlite_of(base);
    sqlite_registry *r = create(of->folder);
    ps_status st = ps_database_open_reader(of->folder, &r->file);

    memcpy(r->reported, of->reported, sizeof r->reported);
    r->reported_count = of->reported_count;
    if (ps_is_ok(&st)) {
        st = prepare_all(r);
    }
    if (ps_is_ok(&st)) {
        *out = &r->base;
    } else {
        ps_registry_close(&r->base);
    }
    return st;
}

static void sqlite_close(ps_registry *base)
{
    sqlite_registry *r = sqlite_of(base);

    for (int i = 0; i < SQL_COUNT; i++) {
        sqlite3_finalize(r->statements[i]);
    }
    ps_database_close(&r->file);
    pthread_mutex_destroy(&r->reading);
    free(r->folder);
    free(r);
}

/* Writes a number below 2^40 as eight of a-z and 2-7. This is a permutation (four Feistel rounds on
 * 20 + 20 bits), so ids do not repeat and do not show the number of jobs. */
static void scramble(uint64_t key, uint64_t number, char out[9])
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz234567";
    const uint32_t mask = (1u << 20) - 1;
    uint32_t left = (uint32_t)(number >> 20) & mask, right = (uint32_t)number & mask;
    uint64_t bits;

    for (unsigned round = 0; round < 4; round++) {
        uint32_t f = (uint32_t)(ps_draw_u64(key + round, right) >> 44) & mask;
        uint32_t next = left ^ f;

        left = right;
        right = next;
    }
    bits = (uint64_t)left << 20 | right;
    for (unsigned i = 0; i < 8; i++) {
        out[i] = letters[bits >> (35 - 5 * i) & 31];
    }
    out[8] = '\0';
}

static void sqlite_avoid(ps_registry *base, bool (*is_taken)(void *arg, const char *job_id),
                         void *arg)
{
    sqlite_registry *r = sqlite_of(base);
    r->is_taken = is_taken;
    r->taken_arg = arg;
}

static bool is_taken(sqlite_registry *r, const char *id)
{
    sqlite3_stmt *s = statement(r, SQL_HAS_ID);
    bool is_there;

    sqlite3_bind_text(s, 1, id, -1, SQLITE_TRANSIENT);
    is_there = sqlite3_step(s) == SQLITE_ROW;
    sqlite3_reset(s);
    return is_there || (r->is_taken && r->is_taken(r->taken_arg, id));
}

/* Returns the next number for a job whose id is not taken, and writes that id. A restored database
 * would give numbers, and so ids, a second time. */
static uint64_t next_number(sqlite_registry *r, const char *title, char id[128])
{
    sqlite3_stmt *s = statement(r, SQL_LAST);
    uint64_t number = sqlite3_step(s) == SQLITE_ROW ? (uint64_t)sqlite3_column_int64(s, 0) : 0;
    char scrambled[9];

    sqlite3_reset(s);
    do {
        scramble(r->id_key, ++number, scrambled);
        snprintf(id, 128, "%s-%s", title, scrambled);
    } while (is_taken(r, id));
    return number;
}

static ps_status insert_as(sqlite_registry *r, const ps_record *record, const char *request_id,
                           const char *content)
{
    sqlite3_stmt *s = statement(r, SQL_ADD);
    const Psgd__V1__Job *job = record->job;

    sqlite3_bind_int64(s, 1, (sqlite3_int64)record->number);
    sqlite3_bind_text(s, 2, job->id, -1, SQLITE_TRANSIENT);
    if (request_id[0] != '\0') {
        sqlite3_bind_text(s, 3, request_id, -1, SQLITE_TRANSIENT);
    }
    sqlite3_bind_text(s, 4, content, -1, SQLITE_TRANSIENT);
    sqlite3_bind_int(s, 5, (int)job->state);
    sqlite3_bind_int64(s, 6, (sqlite3_int64)record->sequence);
    ps_row_bind_spec(s, 7, job);
    ps_row_bind_detail(s, 9, job);
    return run(r, s, "store the job");
}

static ps_status insert(sqlite_registry *r, ps_record *record, const char *title,
                        const char *request_id, const char *content)
{
    char id[128];

    record->number = next_number(r, title, id);
    ps_text_set(&record->job->id, id);
    return insert_as(r, record, request_id, content);
}

static ps_status sqlite_add(ps_registry *base, ps_record *record, const char *title,
                            const char *request_id, const char *content)
{
    sqlite_registry *r = sqlite_of(base);
    ps_status st = begin(r);

    return ps_is_ok(&st) ? end(r, insert(r, record, title, request_id, content)) : st;
}

static ps_status sqlite_find_request(ps_registry *base, const char *request_id, char *job_id,
                                     size_t cap, char content[PS_CONTENT_HASH_BYTES])
{
    sqlite_registry *r = sqlite_of(base);
    sqlite3_stmt *s = statement(r, SQL_FIND_REQUEST);
    ps_status st = ps_ok();
    int code;

    sqlite3_bind_text(s, 1, request_id, -1, SQLITE_TRANSIENT);
    code = sqlite3_step(s);
    if (code == SQLITE_ROW) {
        snprintf(job_id, cap, "%s", (const char *)sqlite3_column_text(s, 0));
        snprintf(content, PS_CONTENT_HASH_BYTES, "%s", (const char *)sqlite3_column_text(s, 1));
    } else {
        st = code == SQLITE_DONE ? ps_fail(PS_NOT_FOUND, "no job of that request")
                                 : sql_failed(r, "look up the request");
    }
    sqlite3_reset(s);
    return st;
}

/* Updates the row of the record's number: what can change of a job (SQL_SAVE), or that and the
 * specification (SQL_REPLACE). */
static ps_status update(sqlite_registry *r, int index, const ps_record *record)
{
    sqlite3_stmt *s = statement(r, index);

    sqlite3_bind_int64(s, 1, (sqlite3_int64)record->number);
    sqlite3_bind_int(s, 2, (int)record->job->state);
    sqlite3_bind_int(s, 3, (int)record->outcome);
    sqlite3_bind_int64(s, 4, (sqlite3_int64)record->sequence);
    ps_row_bind_detail(s, 5, record->job);
    if (index == SQL_REPLACE) {
        ps_row_bind_spec(s, 7, record->job);
    }
    return run(r, s, "store the job");
}

/* Stores an event without dropping old ones beyond PS_REGISTRY_EVENTS_MAX. */
static ps_status insert_event(sqlite_registry *r, uint64_t number,
                              const Psgd__V1__WatchJobResponse *event)
{
    sqlite3_stmt *s = statement(r, SQL_ADD_EVENT);
    int64_t time_us = event->time ? event->time->seconds * 1000000 + event->time->nanos / 1000 : 0;

    sqlite3_bind_int64(s, 1, (sqlite3_int64)number);
    sqlite3_bind_int64(s, 2, (sqlite3_int64)event->sequence);
    sqlite3_bind_int64(s, 3, time_us);
    sqlite3_bind_int(s, 4, (int)event->kind);
    ps_row_bind_message(s, 5, &event->base);
    return run(r, s, "store the event");
}

static ps_status add_event(sqlite_registry *r, uint64_t number,
                           const Psgd__V1__WatchJobResponse *event)
{
    ps_status st = insert_event(r, number, event);
    sqlite3_stmt *s;

    if (!ps_is_ok(&st)) {
        return st;
    }
    s = statement(r, SQL_TRIM_EVENTS);
    sqlite3_bind_int64(s, 1, (sqlite3_int64)number);
    sqlite3_bind_int(s, 2, PS_REGISTRY_EVENTS_MAX);
    return run(r, s, "drop old events");
}

static ps_status sqlite_save(ps_registry *base, const ps_record *record,
                             const Psgd__V1__WatchJobResponse *event)
{
    sqlite_registry *r = sqlite_of(base);
    ps_status st = begin(r);

    if (!ps_is_ok(&st)) {
        return st;
    }
    st = update(r, SQL_SAVE, record);
    if (ps_is_ok(&st) && event) {
        st = add_event(r, record->number, event);
    }
    return end(r, st);
}

/* Sets the record's number and the sequence number of its next event: by the row with the job's id,
 * or, if there is none, new ones. Returns whether the row exists. */
static bool find_place(sqlite_registry *r, ps_record *record)
{
    sqlite3_stmt *s = statement(r, SQL_FIND);
    bool is_there;
    char unused[128];

    sqlite3_bind_text(s, 1, record->job->id, -1, SQLITE_TRANSIENT);
    is_there = sqlite3_step(s) == SQLITE_ROW;
    record->sequence = 1;
    if (is_there) {
        record->number = (uint64_t)sqlite3_column_int64(s, 0);
        record->sequence = (uint64_t)sqlite3_column_int64(s, 1) + 1;
    } else {
        record->number = next_number(r, "", unused);
    }
    sqlite3_reset(s);
    return is_there;
}

static ps_status sqlite_put(ps_registry *base, ps_record *record, int64_t wall_us)
{
    sqlite_registry *r = sqlite_of(base);
    Psgd__V1__WatchJobResponse event = PSGD__V1__WATCH_JOB_RESPONSE__INIT;
    Google__Protobuf__Timestamp time = GOOGLE__PROTOBUF__TIMESTAMP__INIT;
    ps_status st = begin(r);

    if (!ps_is_ok(&st)) {
        return st;
    }
    record->outcome = 0; /* the job is over, so nothing is left to be decided */
    st = find_place(r, record) ? update(r, SQL_REPLACE, record) : insert_as(r, record, "", "");
    time.seconds = wall_us / 1000000;
    event.sequence = record->sequence;
    event.time = &time;
    event.job = record->job;
    event.kind = PSGD__V1__JOB_EVENT_KIND__JOB_EVENT_KIND_STATE;
    if (ps_is_ok(&st)) {
        st = add_event(r, record->number, &event);
    }
    return end(r, st);
}

/* Logs a damaged row the first time that it is read. Logs at most REPORTED_MAX rows. */
static void report(sqlite_registry *r, uint64_t number, const ps_status *why)
{
    for (size_t i = 0; i < r->reported_count; i++) {
        if (r->reported[i] == number) {
            return;
        }
    }
    if (r->reported_count == REPORTED_MAX) {
        return;
    }
    r->reported[r->reported_count++] = number;
    ps_log_with(PS_LOG_ERROR, "registry", PS_LOG_FIELDS(PS_LOG_NUM("row", number)),
                "a row of jobs.db is damaged: %s. " PS_ROW_ADVICE "%s", why->text,
                r->reported_count == REPORTED_MAX ? ". No more of them are logged" : "");
}

static ps_status load(sqlite_registry *r, const char *job_id, ps_record *out)
{
    sqlite3_stmt *s = statement(r, SQL_LOAD);
    ps_status st;
    int code;

    sqlite3_bind_text(s, 1, job_id, -1, SQLITE_TRANSIENT);
    code = sqlite3_step(s);
    if (code == SQLITE_ROW) {
        st = ps_row_read(s, out);
        if (!ps_is_ok(&st)) {
            uint64_t number = (uint64_t)sqlite3_column_int64(s, 0);

            report(r, number, &st);
            st = ps_fail(PS_DATA_LOSS,
                         "job %s: row %llu of jobs.db is damaged; --recover reads it from files",
                         PS_SHORT(job_id, 45), (unsigned long long)number);
        }
    } else if (code == SQLITE_DONE) {
        st = ps_fail(PS_NOT_FOUND, "there is no job %s", PS_SHORT(job_id, 64));
    } else {
        st = sql_failed(r, "load the job");
    }
    sqlite3_reset(s);
    return st;
}

static ps_status sqlite_load(ps_registry *base, const char *job_id, ps_record *out)
{
    sqlite_registry *r = sqlite_of(base);
    ps_status st;

    pthread_mutex_lock(&r->reading);
    st = load(r, job_id, out);
    pthread_mutex_unlock(&r->reading);
    return st;
}

static ps_status sqlite_remove(ps_registry *base, const char *job_id)
{
    sqlite_registry *r = sqlite_of(base);
    ps_status st = begin(r);
    sqlite3_stmt *s = statement(r, SQL_REMOVE);

    if (!ps_is_ok(&st)) {
        return st;
    }
    sqlite3_bind_text(s, 1, job_id, -1, SQLITE_TRANSIENT);
    st = run(r, s, "remove the job");
    if (ps_is_ok(&st) && sqlite3_changes(r->file.db) == 0) {
        st = ps_fail(PS_NOT_FOUND, "there is no job %s", PS_SHORT(job_id, 64));
    }
    return end(r, st);
}

static ps_status each(sqlite_registry *r, uint64_t before, uint32_t states, ps_registry_fn *fn,
                      void *arg)
{
    sqlite3_stmt *s = statement(r, SQL_EACH);
    ps_status st = ps_ok();
    int code;

    sqlite3_bind_int64(s, 1, before == 0 ? INT64_MAX : (sqlite3_int64)before);
    sqlite3_bind_int64(s, 2, states);
    while ((code = sqlite3_step(s)) == SQLITE_ROW) {
        ps_record record;

        st = ps_row_read(s, &record);
        if (!ps_is_ok(&st)) {
            ps_row_stand_in(s, &st, &record);
            report(r, record.number, &st);
            st = ps_ok();
        }
        if (!fn(arg, &record)) {
            break;
        }
    }
    if (code != SQLITE_ROW && code != SQLITE_DONE) {
        st = sql_failed(r, "list jobs");
    }
    sqlite3_reset(s);
    return st;
}

static ps_status sqlite_each(ps_registry *base, uint64_t before, uint32_t states,
                             ps_registry_fn *fn, void *arg)
{
    sqlite_registry *r = sqlite_of(base);
    ps_status st;

    pthread_mutex_lock(&r->reading);
    st = each(r, before, states, fn, arg);
    pthread_mutex_unlock(&r->reading);
    return st;
}

static ps_status next_event(sqlite_registry *r, uint64_t number, uint64_t sequence,
                            Psgd__V1__WatchJobResponse **out)
{
    sqlite3_stmt *s = statement(r, SQL_NEXT_EVENT);
    const ProtobufCMessageDescriptor *type = &psgd__v1__watch_job_response__descriptor;
    ps_status st = ps_ok();
    int code = SQLITE_DONE;

    *out = NULL;
    sqlite3_bind_int64(s, 1, (sqlite3_int64)number);
    sqlite3_bind_int64(s, 2, sequence > INT64_MAX ? INT64_MAX : (sqlite3_int64)sequence);
    while (!*out && (code = sqlite3_step(s)) == SQLITE_ROW) {
        const uint8_t *bytes = sqlite3_column_blob(s, 0);
        size_t n = (size_t)sqlite3_column_bytes(s, 0);

        st = ps_wire_check(type, bytes, n);
        *out = ps_is_ok(&st) ? psgd__v1__watch_job_response__unpack(NULL, n, bytes) : NULL;
        if (!*out) {
            ps_log(PS_LOG_ERROR, "registry", "event %lld of job %llu in jobs.db is damaged",
                   (long long)sqlite3_column_int64(s, 1), (unsigned long long)number);
        }
    }
    st = *out || code == SQLITE_DONE ? ps_ok() : sql_failed(r, "read events");
    sqlite3_reset(s);
    return st;
}

static ps_status sqlite_next_event(ps_registry *base, uint64_t number, uint64_t sequence,
                                   Psgd__V1__WatchJobResponse **out)
{
    sqlite_registry *r = sqlite_of(base);
    ps_status st;

    pthread_mutex_lock(&r->reading);
    st = next_event(r, number, sequence, out);
    pthread_mutex_unlock(&r->reading);
    return st;
}

static const ps_registry_type sqlite_type = {
    .changes_max = SIZE_MAX,
    .begin = sqlite_begin,
    .end = sqlite_end,
    .relax = sqlite_relax,
    .avoid = sqlite_avoid,
    .add = sqlite_add,
    .find_request = sqlite_find_request,
    .put = sqlite_put,
    .save = sqlite_save,
    .load = sqlite_load,
    .remove = sqlite_remove,
    .each = sqlite_each,
    .next_event = sqlite_next_event,
    .open_reader = sqlite_open_reader,
    .close = sqlite_close,
};

/* --- as a copy of another registry --------------------------------------------- */

ps_status ps_sqlite_set_key(ps_registry *base, uint64_t key)
{
    sqlite_registry *r = sqlite_of(base);
    sqlite3_stmt *s = statement(r, SQL_META_PUT);

    sqlite3_bind_text(s, 1, "id_key", -1, SQLITE_STATIC);
    sqlite3_bind_int64(s, 2, (sqlite3_int64)key);
    r->id_key = key;
    return run(r, s, "store the key of ids");
}

ps_status ps_sqlite_set_last(ps_registry *base, uint64_t number)
{
    sqlite_registry *r = sqlite_of(base);
    sqlite3_stmt *s = statement(r, SQL_DROP_LAST);
    ps_status st = run(r, s, "set the last number");

    if (!ps_is_ok(&st)) {
        return st;
    }
    s = statement(r, SQL_SET_LAST);
    sqlite3_bind_int64(s, 1, (sqlite3_int64)number);
    return run(r, s, "set the last number");
}

ps_status ps_sqlite_insert(ps_registry *base, const ps_record *record, const char *request_id,
                           const char *content)
{
    return insert_as(sqlite_of(base), record, request_id, content);
}

ps_status ps_sqlite_insert_event(ps_registry *base, uint64_t number,
                                 const Psgd__V1__WatchJobResponse *event)
{
    sqlite_registry *r = sqlite_of(base);
    sqlite3_stmt *s = statement(r, SQL_HAS_NUMBER);
    bool is_there;

    sqlite3_bind_int64(s, 1, (sqlite3_int64)number);
    is_there = sqlite3_step(s) == SQLITE_ROW;
    sqlite3_reset(s);
    return is_there ? insert_event(r, number, event) : ps_ok();
}

/* Returns the least number of a job above `number`; 0: there is none. */
static uint64_t number_above(sqlite_registry *r, uint64_t number)
{
    sqlite3_stmt *s = statement(r, SQL_NEXT_NUMBER);
    uint64_t next = 0;

    sqlite3_bind_int64(s, 1, (sqlite3_int64)number);
    if (sqlite3_step(s) == SQLITE_ROW) {
        next = (uint64_t)sqlite3_column_int64(s, 0);
    }
    sqlite3_reset(s);
    return next;
}

ps_status ps_sqlite_keep_only(ps_registry *base, const uint64_t *numbers, size_t count)
{
    sqlite_registry *r = sqlite_of(base);
    ps_status st = ps_ok();
    size_t i = 0;

    for (uint64_t n = number_above(r, 0); n > 0 && ps_is_ok(&st); n = number_above(r, n)) {
        while (i < count && numbers[i] < n) {
            i++;
        }
        if (i == count || numbers[i] != n) {
            sqlite3_stmt *s = statement(r, SQL_REMOVE_NUMBER);

            sqlite3_bind_int64(s, 1, (sqlite3_int64)n);
            st = run(r, s, "remove the job");
        }
    }
    return st;
}

uint64_t ps_sqlite_first_event(ps_registry *base, uint64_t number)
{
    sqlite_registry *r = sqlite_of(base);
    sqlite3_stmt *s = statement(r, SQL_FIRST_EVENT);
    uint64_t sequence = 0;

    sqlite3_bind_int64(s, 1, (sqlite3_int64)number);
    if (sqlite3_step(s) == SQLITE_ROW) {
        sequence = (uint64_t)sqlite3_column_int64(s, 0);
    }
    sqlite3_reset(s);
    return sequence;
}
