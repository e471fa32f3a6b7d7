/* SPDX-License-Identifier: Apache-2.0 */
/* registry.c - every job there is, kept in SQLite.
 *
 * A job is a row: what is searched for in columns, the rest as the packed
 * message, the specification apart because it never changes.
 */
#include "services/coordinator/registry.h"

#include "common/base/draw.h"
#include "common/base/files.h"
#include "common/base/xalloc.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <unistd.h>

enum { SCHEME = 1 };

static const char *const scheme_sql =
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;"
    "CREATE TABLE jobs ("
    " number INTEGER PRIMARY KEY AUTOINCREMENT,"
    " id TEXT NOT NULL UNIQUE,"
    " request_id TEXT UNIQUE," /* NULL: none was given */
    " content TEXT NOT NULL,"  /* SHA-256 of the completed specification */
    " state INTEGER NOT NULL,"
    " outcome INTEGER NOT NULL,"
    " sequence INTEGER NOT NULL,"
    " spec BLOB NOT NULL,"  /* psgd.v1.JobSpec */
    " detail BLOB NOT NULL" /* psgd.v1.Job without spec */
    ");"
    "CREATE INDEX jobs_by_state ON jobs (state, number);"
    "CREATE TABLE events ("
    " number INTEGER NOT NULL REFERENCES jobs (number) ON DELETE CASCADE,"
    " sequence INTEGER NOT NULL,"
    " time_us INTEGER NOT NULL,"
    " kind INTEGER NOT NULL,"
    " event BLOB NOT NULL," /* psgd.v1.WatchJobResponse */
    " PRIMARY KEY (number, sequence)"
    ") WITHOUT ROWID;";

// clang-format off
#define STATEMENTS(X)                                                                        \
    X(BEGIN, "BEGIN IMMEDIATE")                                                              \
    X(COMMIT, "COMMIT")                                                                      \
    X(ROLLBACK, "ROLLBACK")                                                                  \
    X(META_GET, "SELECT value FROM meta WHERE key = ?1")                                     \
    X(META_PUT, "INSERT INTO meta (key, value) VALUES (?1, ?2)")                             \
    X(HAS_ID, "SELECT 1 FROM jobs WHERE id = ?1")                                            \
    X(LAST, "SELECT seq FROM sqlite_sequence WHERE name = 'jobs'")                           \
    X(ADD, "INSERT INTO jobs (number, id, request_id, content, state, outcome, sequence,"    \
           " spec, detail) VALUES (?1, ?2, ?3, ?4, ?5, 0, ?6, ?7, ?8)")                      \
    X(FIND_REQUEST, "SELECT id, content FROM jobs WHERE request_id = ?1")                    \
    X(SAVE, "UPDATE jobs SET state = ?2, outcome = ?3, sequence = ?4, detail = ?5"           \
            " WHERE number = ?1")                                                            \
    X(LOAD, "SELECT number, outcome, sequence, spec, detail FROM jobs WHERE id = ?1")        \
    X(EACH, "SELECT number, outcome, sequence, spec, detail FROM jobs"                       \
            " WHERE number < ?1 AND (1 << state) & ?2 ORDER BY number DESC")                 \
    X(REMOVE, "DELETE FROM jobs WHERE id = ?1")                                              \
    X(ADD_EVENT, "INSERT INTO events (number, sequence, time_us, kind, event)"               \
                 " VALUES (?1, ?2, ?3, ?4, ?5)")                                             \
    X(TRIM_EVENTS, "DELETE FROM events WHERE number = ?1 AND sequence <= (SELECT sequence"   \
                   " FROM events WHERE number = ?1 ORDER BY sequence DESC LIMIT 1 OFFSET ?2)") \
    X(NEXT_EVENT, "SELECT event FROM events WHERE number = ?1 AND sequence > ?2"             \
                  " ORDER BY sequence LIMIT 1")
// clang-format on

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

struct ps_registry {
    sqlite3 *db;
    sqlite3_stmt *statements[SQL_COUNT];
    int lock_fd;
    uint64_t id_key;
    bool (*is_taken)(void *arg, const char *job_id); /* NULL: no id is */
    void *taken_arg;
    unsigned depth;   /* of begin */
    ps_status failed; /* the first failure within the outermost begin */
};

void ps_record_fini(ps_record *record)
{
    if (record->job) {
        psgd__v1__job__free_unpacked(record->job, NULL);
    }
    record->job = NULL;
}

static ps_status sql_failed(ps_registry *r, const char *what)
{
    int code = sqlite3_errcode(r->db);

    return ps_fail(code == SQLITE_FULL ? PS_RESOURCE_EXHAUSTED : PS_INTERNAL, "%s: %s", what,
                   sqlite3_errmsg(r->db));
}

static sqlite3_stmt *statement(ps_registry *r, int index)
{
    sqlite3_stmt *s = r->statements[index];

    sqlite3_reset(s);
    sqlite3_clear_bindings(s);
    return s;
}

/* Runs a statement that gives no rows. */
static ps_status run(ps_registry *r, sqlite3_stmt *s, const char *what)
{
    int code = sqlite3_step(s);
    ps_status st = code == SQLITE_DONE ? ps_ok() : sql_failed(r, what);

    sqlite3_reset(s);
    return st;
}

static ps_status begin(ps_registry *r)
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

/* Ends what begin began; the outermost commits if all was well, else rolls back.
 * Returns the first failure. */
static ps_status end(ps_registry *r, ps_status st)
{
    if (ps_is_ok(&r->failed)) {
        r->failed = st;
    }
    if (--r->depth > 0) {
        return st;
    }
    st = r->failed;
    if (ps_is_ok(&st)) {
        st = run(r, statement(r, SQL_COMMIT), "commit");
    }
    if (!ps_is_ok(&st) && !sqlite3_get_autocommit(r->db)) {
        ps_status back = run(r, statement(r, SQL_ROLLBACK), "roll back");

        if (!ps_is_ok(&back)) {
            return ps_wrap(back, "%s; then", st.text);
        }
    }
    return st;
}

ps_status ps_registry_begin(ps_registry *r)
{
    return begin(r);
}

ps_status ps_registry_end(ps_registry *r)
{
    return end(r, ps_ok());
}

void ps_registry_relax(ps_registry *r, bool relaxed)
{
    int code =
        sqlite3_exec(r->db, relaxed ? "PRAGMA synchronous = NORMAL" : "PRAGMA synchronous = FULL",
                     NULL, NULL, NULL);

    assert(code == SQLITE_OK || r->depth > 0); /* it cannot fail but within a transaction */
    (void)code;
}

static ps_status take_lock(ps_registry *r, const char *folder)
{
    char path[4096];
    ps_status st = ps_path_join(path, sizeof path, folder, "lock");

    if (!ps_is_ok(&st)) {
        return st;
    }
    r->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (r->lock_fd < 0) {
        return ps_fail_errno(errno, "open %s", ps_path_tail(path));
    }
    if (flock(r->lock_fd, LOCK_EX | LOCK_NB) == 0) {
        return ps_ok();
    }
    if (errno == EWOULDBLOCK) {
        return ps_fail(PS_FAILED_PRECONDITION, "another coordinator uses %s", ps_path_tail(folder));
    }
    return ps_fail_errno(errno, "lock %s", ps_path_tail(path));
}

static ps_status exec(ps_registry *r, const char *sql, const char *what)
{
    return sqlite3_exec(r->db, sql, NULL, NULL, NULL) == SQLITE_OK ? ps_ok() : sql_failed(r, what);
}

/* Each step leads from scheme n to n + 1. */
static ps_status migrate(ps_registry *r)
{
    sqlite3_stmt *s = NULL;
    ps_status st;
    int version;

    if (sqlite3_prepare_v2(r->db, "PRAGMA user_version", -1, &s, NULL) != SQLITE_OK ||
        sqlite3_step(s) != SQLITE_ROW) {
        st = sql_failed(r, "read jobs.db");
        sqlite3_finalize(s);
        return st;
    }
    version = sqlite3_column_int(s, 0);
    sqlite3_finalize(s);
    if (version > SCHEME) {
        return ps_fail(PS_FAILED_PRECONDITION, "jobs.db has scheme %d, this program knows up to %d",
                       version, SCHEME);
    }
    if (version == SCHEME) {
        return ps_ok();
    }
    st = exec(r, "BEGIN IMMEDIATE", "begin");
    if (ps_is_ok(&st)) {
        st = exec(r, scheme_sql, "make tables");
    }
    if (ps_is_ok(&st)) {
        st = exec(r, "PRAGMA user_version = 1; COMMIT", "make tables");
    }
    return st;
}

static ps_status prepare_all(ps_registry *r)
{
    for (int i = 0; i < SQL_COUNT; i++) {
        if (sqlite3_prepare_v3(r->db, statement_sql[i], -1, SQLITE_PREPARE_PERSISTENT,
                               &r->statements[i], NULL) != SQLITE_OK) {
            return sql_failed(r, statement_sql[i]);
        }
    }
    return ps_ok();
}

/* What ids are scrambled with: drawn once for a database. */
static ps_status load_key(ps_registry *r)
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

ps_status ps_registry_open(const char *folder, ps_registry **out)
{
    ps_registry *r = ps_xcalloc(1, sizeof *r);
    char path[4096];
    ps_status st;

    r->lock_fd = -1;
    st = ps_dir_make(folder);
    if (ps_is_ok(&st)) {
        st = take_lock(r, folder);
    }
    if (ps_is_ok(&st)) {
        st = ps_path_join(path, sizeof path, folder, "jobs.db");
    }
    if (!ps_is_ok(&st)) {
        goto out;
    }
    if (sqlite3_open_v2(path, &r->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL) !=
        SQLITE_OK) {
        st = sql_failed(r, ps_path_tail(path));
        goto out;
    }
    st = exec(r,
              "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON;"
              "PRAGMA busy_timeout = 5000; PRAGMA trusted_schema = OFF",
              "open jobs.db");
    if (ps_is_ok(&st)) {
        st = migrate(r);
    }
    if (ps_is_ok(&st)) {
        st = prepare_all(r);
    }
    if (ps_is_ok(&st)) {
        st = load_key(r);
    }
    if (ps_is_ok(&st)) {
        *out = r;
        r = NULL;
    }
out:
    ps_registry_close(r);
    return st;
}

void ps_registry_close(ps_registry *r)
{
    if (!r) {
        return;
    }
    for (int i = 0; i < SQL_COUNT; i++) {
        sqlite3_finalize(r->statements[i]);
    }
    sqlite3_close(r->db);
    if (r->lock_fd >= 0) {
        close(r->lock_fd);
    }
    free(r);
}

/* A number below 2^40 as eight letters: a permutation (four rounds of Feistel
 * on 20 + 20 bits), so that ids neither repeat nor show how many there are. */
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

static uint8_t *pack(const ProtobufCMessage *message, size_t *len)
{
    uint8_t *bytes = ps_xmalloc(protobuf_c_message_get_packed_size(message) + 1);

    *len = protobuf_c_message_pack(message, bytes);
    return bytes;
}

/* The job without its spec. */
static uint8_t *pack_detail(const Psgd__V1__Job *job, size_t *len)
{
    Psgd__V1__Job bare = *job;

    bare.spec = NULL;
    return pack(&bare.base, len);
}

static void bind_blob(sqlite3_stmt *s, int at, uint8_t *bytes, size_t len)
{
    sqlite3_bind_blob64(s, at, bytes, len, free); /* takes the bytes */
}

void ps_registry_avoid(ps_registry *r, bool (*is_taken)(void *arg, const char *job_id), void *arg)
{
    r->is_taken = is_taken;
    r->taken_arg = arg;
}

static bool is_taken(ps_registry *r, const char *id)
{
    sqlite3_stmt *s = statement(r, SQL_HAS_ID);
    bool is_there;

    sqlite3_bind_text(s, 1, id, -1, SQLITE_TRANSIENT);
    is_there = sqlite3_step(s) == SQLITE_ROW;
    sqlite3_reset(s);
    return is_there || (r->is_taken && r->is_taken(r->taken_arg, id));
}

/* The next number and the id made of it. A database that was restored gives its numbers, and so
 * its ids, a second time: those that are taken are passed over. */
static uint64_t next_number(ps_registry *r, const char *title, char id[128])
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

static ps_status insert(ps_registry *r, ps_record *record, const char *title,
                        const char *request_id, const char *content)
{
    Psgd__V1__Job *job = record->job;
    sqlite3_stmt *s;
    char id[128];
    uint8_t *bytes;
    size_t len;

    record->number = next_number(r, title, id);
    if (job->id != protobuf_c_empty_string) {
        free(job->id);
    }
    job->id = ps_xstrdup(id);
    s = statement(r, SQL_ADD);
    sqlite3_bind_int64(s, 1, (sqlite3_int64)record->number);
    sqlite3_bind_text(s, 2, id, -1, SQLITE_TRANSIENT);
    if (request_id[0] != '\0') {
        sqlite3_bind_text(s, 3, request_id, -1, SQLITE_TRANSIENT);
    }
    sqlite3_bind_text(s, 4, content, -1, SQLITE_TRANSIENT);
    sqlite3_bind_int(s, 5, (int)job->state);
    sqlite3_bind_int64(s, 6, (sqlite3_int64)record->sequence);
    bytes = pack(&job->spec->base, &len);
    bind_blob(s, 7, bytes, len);
    bytes = pack_detail(job, &len);
    bind_blob(s, 8, bytes, len);
    return run(r, s, "store the job");
}

ps_status ps_registry_add(ps_registry *r, ps_record *record, const char *title,
                          const char *request_id, const char *content)
{
    ps_status st = begin(r);

    return ps_is_ok(&st) ? end(r, insert(r, record, title, request_id, content)) : st;
}

ps_status ps_registry_find_request(ps_registry *r, const char *request_id, char *job_id, size_t cap,
                                   char content[PS_CONTENT_HASH_BYTES])
{
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

static ps_status update(ps_registry *r, const ps_record *record)
{
    sqlite3_stmt *s = statement(r, SQL_SAVE);
    uint8_t *bytes;
    size_t len;

    sqlite3_bind_int64(s, 1, (sqlite3_int64)record->number);
    sqlite3_bind_int(s, 2, (int)record->job->state);
    sqlite3_bind_int(s, 3, (int)record->outcome);
    sqlite3_bind_int64(s, 4, (sqlite3_int64)record->sequence);
    bytes = pack_detail(record->job, &len);
    bind_blob(s, 5, bytes, len);
    return run(r, s, "store the job");
}

static ps_status add_event(ps_registry *r, uint64_t number, const Psgd__V1__WatchJobResponse *event)
{
    sqlite3_stmt *s = statement(r, SQL_ADD_EVENT);
    int64_t time_us = event->time ? event->time->seconds * 1000000 + event->time->nanos / 1000 : 0;
    ps_status st;
    uint8_t *bytes;
    size_t len;

    sqlite3_bind_int64(s, 1, (sqlite3_int64)number);
    sqlite3_bind_int64(s, 2, (sqlite3_int64)event->sequence);
    sqlite3_bind_int64(s, 3, time_us);
    sqlite3_bind_int(s, 4, (int)event->kind);
    bytes = pack(&event->base, &len);
    bind_blob(s, 5, bytes, len);
    st = run(r, s, "store the event");
    if (!ps_is_ok(&st)) {
        return st;
    }
    s = statement(r, SQL_TRIM_EVENTS);
    sqlite3_bind_int64(s, 1, (sqlite3_int64)number);
    sqlite3_bind_int(s, 2, PS_REGISTRY_EVENTS_MAX);
    return run(r, s, "drop old events");
}

ps_status ps_registry_save(ps_registry *r, const ps_record *record,
                           const Psgd__V1__WatchJobResponse *event)
{
    ps_status st = begin(r);

    if (!ps_is_ok(&st)) {
        return st;
    }
    st = update(r, record);
    if (ps_is_ok(&st) && event) {
        st = add_event(r, record->number, event);
    }
    return end(r, st);
}

/* The row that LOAD or EACH stands on. */
static ps_status read_row(sqlite3_stmt *s, ps_record *out)
{
    ps_record record = {.number = (uint64_t)sqlite3_column_int64(s, 0),
                        .outcome = (Psgd__V1__JobState)sqlite3_column_int(s, 1),
                        .sequence = (uint64_t)sqlite3_column_int64(s, 2)};
    size_t spec_len = (size_t)sqlite3_column_bytes(s, 3);
    size_t len = (size_t)sqlite3_column_bytes(s, 4);
    Psgd__V1__JobSpec *spec = psgd__v1__job_spec__unpack(NULL, spec_len, sqlite3_column_blob(s, 3));

    record.job = psgd__v1__job__unpack(NULL, len, sqlite3_column_blob(s, 4));
    if (!spec || !record.job) {
        if (spec) {
            psgd__v1__job_spec__free_unpacked(spec, NULL);
        }
        ps_record_fini(&record);
        return ps_fail(PS_DATA_LOSS, "job number %llu in jobs.db is damaged",
                       (unsigned long long)record.number);
    }
    record.job->spec = spec;
    *out = record;
    return ps_ok();
}

ps_status ps_registry_load(ps_registry *r, const char *job_id, ps_record *out)
{
    sqlite3_stmt *s = statement(r, SQL_LOAD);
    ps_status st;
    int code;

    sqlite3_bind_text(s, 1, job_id, -1, SQLITE_TRANSIENT);
    code = sqlite3_step(s);
    if (code == SQLITE_ROW) {
        st = read_row(s, out);
    } else if (code == SQLITE_DONE) {
        st = ps_fail(PS_NOT_FOUND, "there is no job %.64s", job_id);
    } else {
        st = sql_failed(r, "load the job");
    }
    sqlite3_reset(s);
    return st;
}

ps_status ps_registry_remove(ps_registry *r, const char *job_id)
{
    ps_status st = begin(r);
    sqlite3_stmt *s = statement(r, SQL_REMOVE);

    if (!ps_is_ok(&st)) {
        return st;
    }
    sqlite3_bind_text(s, 1, job_id, -1, SQLITE_TRANSIENT);
    st = run(r, s, "remove the job");
    if (ps_is_ok(&st) && sqlite3_changes(r->db) == 0) {
        st = ps_fail(PS_NOT_FOUND, "there is no job %.64s", job_id);
    }
    return end(r, st);
}

ps_status ps_registry_each(ps_registry *r, uint64_t before, uint32_t states, ps_registry_fn *fn,
                           void *arg)
{
    sqlite3_stmt *s = statement(r, SQL_EACH);
    ps_status st = ps_ok();
    int code;

    sqlite3_bind_int64(s, 1, before == 0 ? INT64_MAX : (sqlite3_int64)before);
    sqlite3_bind_int64(s, 2, states);
    while ((code = sqlite3_step(s)) == SQLITE_ROW) {
        ps_record record;

        st = read_row(s, &record);
        if (!ps_is_ok(&st) || !fn(arg, &record)) {
            break;
        }
    }
    if (code != SQLITE_ROW && code != SQLITE_DONE) {
        st = sql_failed(r, "list jobs");
    }
    sqlite3_reset(s);
    return st;
}

ps_status ps_registry_next_event(ps_registry *r, uint64_t number, uint64_t sequence,
                                 Psgd__V1__WatchJobResponse **out)
{
    sqlite3_stmt *s = statement(r, SQL_NEXT_EVENT);
    ps_status st = ps_ok();
    int code;

    *out = NULL;
    sqlite3_bind_int64(s, 1, (sqlite3_int64)number);
    sqlite3_bind_int64(s, 2, sequence > INT64_MAX ? INT64_MAX : (sqlite3_int64)sequence);
    code = sqlite3_step(s);
    if (code == SQLITE_ROW) {
        *out = psgd__v1__watch_job_response__unpack(NULL, (size_t)sqlite3_column_bytes(s, 0),
                                                    sqlite3_column_blob(s, 0));
        if (!*out) {
            st = ps_fail(PS_DATA_LOSS, "an event in jobs.db is damaged");
        }
    } else if (code != SQLITE_DONE) {
        st = sql_failed(r, "read events");
    }
    sqlite3_reset(s);
    return st;
}
