/* SPDX-License-Identifier: Apache-2.0 */
/* wal_check.c - see wal_check.h. The formats are those of
 * https://www.sqlite.org/fileformat2.html: a write-ahead log has a header and frames; a frame has
 * a header and a page. */
#include "services/coordinator/io/wal_check.h"

#include "common/base/files.h"
#include "common/base/log.h"
#include "services/coordinator/io/database_query.h"
#include "services/coordinator/io/stamp.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    PATH_BYTES = 4096,
    HEAD_BYTES = 32,       /* bytes of the log's header */
    FRAME_HEAD_BYTES = 24, /* bytes of a frame's header */
    PAGE_MAX = 65536,
    LEAF = 0x0d /* type of a page with rows */
};

/* What the write-ahead log has of the table `identity`. */
typedef struct counts {
    /* the log has a row of the table; has one with another id than the database file's */
    bool is_found, is_other;
    /* counts of changes, as the rows say them: of the first row found, and the largest one */
    uint64_t first, last;
} counts;

static uint64_t big_endian(const uint8_t *bytes, size_t n)
{
    uint64_t x = 0;

    for (size_t i = 0; i < n; i++) {
        x = x << 8 | bytes[i];
    }
    return x;
}

/* Reads a number of at most 9 bytes: 7 bits in each, 8 in the ninth. Returns false if it would go
 * beyond `end`. */
static bool take_varint(const uint8_t *page, size_t end, size_t *at, uint64_t *out)
{
    *out = 0;
    for (unsigned i = 0; i < 9 && *at < end; i++) {
        uint8_t byte = page[(*at)++];

        *out = i == 8 ? *out << 8 | byte : *out << 7 | (byte & 0x7f);
        if (i == 8 || byte < 0x80) {
            return true;
        }
    }
    return false;
}

/* Returns the bytes of a value of this type of the record format. Odd types from 13 on are text,
 * even ones from 12 on are blobs. */
static size_t length_of(uint64_t type)
{
    static const size_t lengths[] = {0, 1, 2, 3, 4, 6, 8, 8, 0, 0};

    return type >= 12 ? (size_t)(type - 12) / 2
                      : (type < sizeof lengths / sizeof *lengths ? lengths[type] : 0);
}

/* Reads id and changes from the one row of a page of the table `identity`. Returns false if the
 * page has another form. */
static bool read_row(const uint8_t *page, size_t size, ps_stamp *out)
{
    uint64_t skipped, head_bytes, types[3];
    size_t at = (size_t)big_endian(page + 8, 2), head, body, lengths[3];

    if (page[0] != LEAF || big_endian(page + 3, 2) != 1 ||
        !take_varint(page, size, &at, &skipped) || !take_varint(page, size, &at, &skipped)) {
        return false;
    }
    head = at;
    if (!take_varint(page, size, &at, &head_bytes) || head_bytes > size - head) {
        return false;
    }
    for (size_t i = 0; i < 3; i++) {
        if (!take_varint(page, head + head_bytes, &at, &types[i])) {
            return false;
        }
        lengths[i] = length_of(types[i]);
    }
    body = head + head_bytes;
    if (types[0] % 2 == 0 || lengths[0] >= sizeof out->id || lengths[1] > size ||
        lengths[0] + lengths[1] + lengths[2] > size - body) {
        return false;
    }
    memcpy(out->id, page + body, lengths[0]);
    out->id[lengths[0]] = '\0';
    out->changes =
        types[2] == 9 ? 1 : big_endian(page + body + lengths[0] + lengths[1], lengths[2]);
    return true;
}

/* Reads the frames of the log that contain page `root`, up to the first frame of an earlier log.
 * Notes in *out the counts of changes in them, and whether they have another id than `own`. */
static void read_log(FILE *in, uint32_t root, const ps_stamp *own, counts *out)
{
    uint8_t head[HEAD_BYTES], frame[FRAME_HEAD_BYTES], *page = NULL;
    size_t size = 0;
    ps_stamp found;

    if (fread(head, sizeof head, 1, in) == 1 && big_endian(head, 4) >> 1 == 0x377f0682 >> 1) {
        size = (size_t)big_endian(head + 8, 4);
    }
    if (size < 512 || size > PAGE_MAX) {
        return;
    }
    page = malloc(size);
    while (page != NULL && fread(frame, sizeof frame, 1, in) == 1 &&
           memcmp(frame + 8, head + 16, 8) == 0 && fread(page, size, 1, in) == 1) {
        if (big_endian(frame, 4) != root || !read_row(page, size, &found)) {
            continue;
        }
        out->first = out->is_found ? out->first : found.changes;
        out->last = out->is_found && out->last > found.changes ? out->last : found.changes;
        out->is_other = out->is_other || strcmp(found.id, own->id) != 0;
        out->is_found = true;
    }
    free(page);
}

/* Reads the identity from the database file without its log, and the number of the page that has
 * the table. Returns false if they cannot be read. */
static bool read_own(const char *path, ps_stamp *out, uint32_t *root)
{
    static const char sql[] = "SELECT rootpage FROM sqlite_master WHERE name = 'identity'";
    char uri[PATH_BYTES + 32];
    sqlite3_stmt *s = NULL;
    sqlite3 *db = NULL;
    bool is_read = false;
    ps_status st;

    if (strpbrk(path, "?#%") != NULL) {
        return false; /* such a path would have to be escaped in the URI */
    }
    snprintf(uri, sizeof uri, "file:%s?immutable=1", path);
    if (sqlite3_open_v2(uri, &db, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, NULL) == SQLITE_OK &&
        sqlite3_prepare_v2(db, sql, -1, &s, NULL) == SQLITE_OK && sqlite3_step(s) == SQLITE_ROW) {
        *root = (uint32_t)sqlite3_column_int64(s, 0);
        st = ps_database_identity(db, out);
        is_read = ps_is_ok(&st);
    }
    sqlite3_finalize(s);
    sqlite3_close(db);
    return is_read;
}

ps_status ps_wal_check(const char *path)
{
    char log[PATH_BYTES + 8], other[PATH_BYTES + 16];
    counts c = {0};
    ps_stamp own;
    uint32_t root;
    FILE *in;

    snprintf(log, sizeof log, "%s-wal", path);
    in = fopen(log, "rbe");
    if (in == NULL) {
        return ps_ok();
    }
    if (read_own(path, &own, &root)) {
        read_log(in, root, &own, &c);
    }
    fclose(in);
    if (!c.is_found || (!c.is_other && own.changes + 1 >= c.first && own.changes <= c.last)) {
        return ps_ok();
    }
    snprintf(other, sizeof other, "%s.other", log);
    if (rename(log, other) != 0) {
        return ps_fail_errno(errno, "rename %s", PS_PATH_SHOWN(log));
    }
    ps_log(
        PS_LOG_WARN, "registry",
        "jobs.db-wal belongs to %s: it has changes %llu to %llu, jobs.db has %llu. It is kept as "
        "jobs.db-wal.other and not used",
        c.is_other ? "another database" : "jobs.db at another time", (unsigned long long)c.first,
        (unsigned long long)c.last, (unsigned long long)own.changes);
    return ps_ok();
}
