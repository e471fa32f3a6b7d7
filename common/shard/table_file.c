/* SPDX-License-Identifier: Apache-2.0 */
/* table_file.c - see table_file.h. A file is read twice: checked, then taken in. */
#include "common/shard/table_file.h"

#include "common/base/xalloc.h"
#include "common/shard/table_impl.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers lie as in memory");

enum { KEY_BYTES = 8, ROW_HEAD_BYTES = 32, SUM_BYTES = 8, CANDIDATE_BYTES = 16 };

static const char magic[8] = {'P', 'S', 'G', 'D', 'T', 'A', 'B', '1'};

typedef struct file_head {
    char magic[8];
    uint32_t width, slots, table, tick, kind, sections;
} file_head;

typedef struct section_head {
    uint32_t shard, rows, removed, candidates;
} section_head;

typedef struct row_head {
    uint64_t key, steps;
    float show, click;
    uint32_t age, zero;
} row_head;

_Static_assert(sizeof(file_head) == 32 && sizeof(section_head) == 16 &&
                   sizeof(row_head) == ROW_HEAD_BYTES,
               "nothing between the members");

static size_t value_bytes(const ps_table *t)
{
    return (size_t)t->conf.width * (1 + t->conf.optim->slots) * sizeof(float);
}

/* ---- Writing ---- */

typedef struct sink {
    ps_table_write_fn *write;
    void *arg;
    XXH3_state_t *sum;
    ps_status st; /* the first failure; nothing is written behind it */
} sink;

static void put(sink *out, const void *bytes, size_t len)
{
    if (ps_is_ok(&out->st) && len > 0) {
        XXH3_64bits_update(out->sum, bytes, len);
        out->st = out->write(out->arg, bytes, len);
    }
}

static void put_sum(sink *out)
{
    uint64_t sum = XXH3_64bits_digest(out->sum);

    put(out, &sum, sizeof sum);
    XXH3_64bits_reset(out->sum);
}

static section_head count_section(const ps_table *t, uint32_t shard, ps_table_kind kind)
{
    const table_shard *s = &t->shards[shard];
    section_head head = {.shard = shard};

    if (kind == PS_TABLE_WHOLE) {
        head.rows = s->row_count;
        head.candidates = s->candidate_count;
        return head;
    }
    for (uint32_t i = 0; i < s->row_count; i++) {
        head.rows += table_row_at(t, s, i)->changed == t->save;
    }
    for (uint32_t i = 0; i < s->removed_count; i++) { /* one may have come back */
        head.removed += ps_keymap_find(&s->row_of, s->removed[i]) == PS_KEYMAP_NONE;
    }
    return head;
}

static bool is_empty(const section_head *head)
{
    return head->rows == 0 && head->removed == 0 && head->candidates == 0;
}

static void put_row(const ps_table *t, const table_row *row, sink *out)
{
    row_head head = {.key = row->key,
                     .steps = row->steps,
                     .show = row->show,
                     .click = row->click,
                     .age = t->tick - row->at};

    put(out, &head, sizeof head);
    put(out, row->x, value_bytes(t));
}

static void put_section(const ps_table *t, const section_head *head, ps_table_kind kind, sink *out)
{
    const table_shard *s = &t->shards[head->shard];

    put(out, head, sizeof *head);
    for (uint32_t i = 0; i < s->row_count; i++) {
        const table_row *row = table_row_at(t, s, i);

        if (kind == PS_TABLE_WHOLE || row->changed == t->save) {
            put_row(t, row, out);
        }
    }
    for (uint32_t i = 0; head->removed > 0 && i < s->removed_count; i++) {
        if (ps_keymap_find(&s->row_of, s->removed[i]) == PS_KEYMAP_NONE) {
            put(out, &s->removed[i], sizeof s->removed[i]);
        }
    }
    for (uint32_t i = 0; i < head->candidates; i++) {
        table_candidate c = s->candidates[i];

        c.at = t->tick - c.at;
        put(out, &c, sizeof c);
    }
    put_sum(out);
}

ps_status ps_table_save(ps_table *table, ps_table_kind kind, ps_table_write_fn *write, void *arg)
{
    sink out = {.write = write, .arg = arg, .sum = XXH3_createState(), .st = ps_ok()};
    file_head head = {.width = table->conf.width,
                      .slots = table->conf.optim->slots,
                      .table = table->conf.table,
                      .tick = table->tick,
                      .kind = kind};

    assert(kind == PS_TABLE_WHOLE || table->conf.saves_changes);
    if (out.sum == NULL) {
        return ps_fail(PS_RESOURCE_EXHAUSTED, "no memory for a checksum");
    }
    XXH3_64bits_reset(out.sum);
    memcpy(head.magic, magic, sizeof magic);
    for (uint32_t i = 0; i < PS_TABLE_SHARDS; i++) {
        section_head section = count_section(table, i, kind);

        head.sections += !is_empty(&section);
    }
    put(&out, &head, sizeof head);
    put_sum(&out);
    for (uint32_t i = 0; i < PS_TABLE_SHARDS; i++) {
        section_head section = count_section(table, i, kind);

        if (!is_empty(&section)) {
            put_section(table, &section, kind, &out);
        }
    }
    XXH3_freeState(out.sum);
    if (ps_is_ok(&out.st)) {
        table->save++;
        for (uint32_t i = 0; i < PS_TABLE_SHARDS; i++) {
            table->shards[i].removed_count = 0;
        }
    }
    return out.st;
}

/* ---- Reading ---- */

typedef struct source {
    const uint8_t *bytes;
    size_t len, at;
} source;

/* The next `len` bytes, which `section` (its start) ends with a checksum of. */
static ps_status check_sum(const source *in, size_t from, size_t to)
{
    uint64_t sum;

    memcpy(&sum, in->bytes + to, sizeof sum);
    if (sum != XXH3_64bits(in->bytes + from, to - from)) {
        return ps_fail(PS_DATA_LOSS, "offset %zu: the checksum of bytes %zu to %zu is another one",
                       to, from, to);
    }
    return ps_ok();
}

static ps_status read_head(const ps_table *t, source *in, file_head *head)
{
    ps_status st;

    if (in->len < sizeof *head + SUM_BYTES) {
        return ps_fail(PS_DATA_LOSS, "%zu bytes; the head of a table's file has %zu", in->len,
                       sizeof *head + SUM_BYTES);
    }
    memcpy(head, in->bytes, sizeof *head);
    if (memcmp(head->magic, magic, sizeof magic) != 0) {
        return ps_fail(PS_DATA_LOSS, "offset 0: not the file of a table");
    }
    st = check_sum(in, 0, sizeof *head);
    if (!ps_is_ok(&st)) {
        return st;
    }
    if (head->width != t->conf.width || head->slots != t->conf.optim->slots) {
        return ps_fail(PS_FAILED_PRECONDITION,
                       "rows of %" PRIu32 " values with %" PRIu32
                       " of state each; this table has %" PRIu32 " with %u",
                       head->width, head->slots, t->conf.width, t->conf.optim->slots);
    }
    if (head->kind > PS_TABLE_CHANGES || head->sections > PS_TABLE_SHARDS) {
        return ps_fail(PS_DATA_LOSS, "offset 28: kind %" PRIu32 ", %" PRIu32 " sections",
                       head->kind, head->sections);
    }
    in->at = sizeof *head + SUM_BYTES;
    return ps_ok();
}

/* The head of the section that begins at in->at; checks that it is whole. */
static ps_status read_section(const ps_table *t, const source *in, section_head *head, size_t *end)
{
    uint64_t bytes;

    if (in->len - in->at < sizeof *head + SUM_BYTES) {
        return ps_fail(PS_DATA_LOSS, "offset %zu: cut in the head of a section", in->at);
    }
    memcpy(head, in->bytes + in->at, sizeof *head);
    bytes = (uint64_t)head->rows * (ROW_HEAD_BYTES + value_bytes(t)) +
            (uint64_t)head->removed * KEY_BYTES + (uint64_t)head->candidates * CANDIDATE_BYTES;
    if (bytes > in->len - in->at - sizeof *head - SUM_BYTES) {
        return ps_fail(PS_DATA_LOSS, "offset %zu: a section of %" PRIu64 " bytes is cut", in->at,
                       bytes);
    }
    *end = in->at + sizeof *head + (size_t)bytes;
    return check_sum(in, in->at, *end);
}

static ps_status check_key(uint64_t key, uint32_t shard, size_t at)
{
    return ps_table_shard_of(key) == shard
               ? ps_ok()
               : ps_fail(PS_DATA_LOSS,
                         "offset %zu: key %" PRIu64 " is not of virtual shard %" PRIu32, at, key,
                         shard);
}

static ps_status check_row(const ps_table *t, const uint8_t *bytes, size_t at, uint32_t shard,
                           uint32_t tick)
{
    row_head head;
    ps_status st;

    memcpy(&head, bytes + at, sizeof head);
    st = check_key(head.key, shard, at);
    if (ps_is_ok(&st) &&
        (head.age > tick || head.age > t->conf.unseen_max || head.zero != 0 ||
         !isfinite(head.show) || !isfinite(head.click) || head.show < 0 || head.click < 0)) {
        st = ps_fail(PS_DATA_LOSS, "offset %zu: age, show or click of key %" PRIu64 " cannot be",
                     at, head.key);
    }
    for (size_t i = 0; ps_is_ok(&st) && i < value_bytes(t) / sizeof(float); i++) {
        float x;

        memcpy(&x, bytes + at + sizeof head + i * sizeof x, sizeof x);
        if (!isfinite(x)) {
            st = ps_fail(PS_DATA_LOSS, "offset %zu: a value of key %" PRIu64 " is not finite",
                         at + sizeof head + i * sizeof x, head.key);
        }
    }
    return st;
}

/* What is in a section, against this table; `rows` grows by those that are new. */
static ps_status check_section(const ps_table *t, const source *in, const section_head *head,
                               const file_head *file, uint64_t *rows)
{
    size_t at = in->at + sizeof *head, row_bytes = ROW_HEAD_BYTES + value_bytes(t);
    ps_status st = ps_ok();
    uint64_t key;

    for (uint32_t i = 0; ps_is_ok(&st) && i < head->rows; i++, at += row_bytes) {
        st = check_row(t, in->bytes, at, head->shard, file->tick);
        memcpy(&key, in->bytes + at, sizeof key);
        *rows += t->owned[head->shard] && table_find(t, key) == NULL;
    }
    for (uint32_t i = 0; ps_is_ok(&st) && i < head->removed; i++, at += KEY_BYTES) {
        memcpy(&key, in->bytes + at, sizeof key);
        st = check_key(key, head->shard, at);
    }
    for (uint32_t i = 0; ps_is_ok(&st) && i < head->candidates; i++, at += CANDIDATE_BYTES) {
        table_candidate c;

        memcpy(&c, in->bytes + at, sizeof c);
        st = check_key(c.key, head->shard, at);
        if (ps_is_ok(&st) && c.at > file->tick) {
            st = ps_fail(PS_DATA_LOSS, "offset %zu: age of key %" PRIu64 " cannot be", at, c.key);
        }
    }
    return st;
}

static ps_status check_file(const ps_table *t, source in, const file_head *file)
{
    uint64_t rows = t->counters.rows;
    uint32_t least = 0; /* virtual shard that may come next */
    ps_status st = ps_ok();

    for (uint32_t i = 0; ps_is_ok(&st) && i < file->sections; i++) {
        section_head head;
        size_t end;

        st = read_section(t, &in, &head, &end);
        if (ps_is_ok(&st) && (head.shard >= PS_TABLE_SHARDS || head.shard < least)) {
            st = ps_fail(PS_DATA_LOSS, "offset %zu: virtual shard %" PRIu32 "; %" PRIu32 " to %d",
                         in.at, head.shard, least, PS_TABLE_SHARDS - 1);
        }
        if (ps_is_ok(&st)) {
            st = check_section(t, &in, &head, file, &rows);
            least = head.shard + 1;
            in.at = end + SUM_BYTES;
        }
    }
    if (ps_is_ok(&st) && in.at != in.len) {
        st = ps_fail(PS_DATA_LOSS, "offset %zu: %zu bytes behind the last section", in.at,
                     in.len - in.at);
    }
    if (ps_is_ok(&st) && rows > t->conf.rows_max) {
        st = ps_fail(PS_RESOURCE_EXHAUSTED,
                     "the table would have %" PRIu64 " rows; at most %" PRIu64 " are allowed", rows,
                     t->conf.rows_max);
    }
    return st;
}

static void take_row(ps_table *t, const uint8_t *bytes, uint32_t tick)
{
    row_head head;
    table_row *row;

    memcpy(&head, bytes, sizeof head);
    row = table_find(t, head.key);
    if (row == NULL) {
        row = table_add(t, head.key);
    }
    row->steps = head.steps;
    row->show = head.show;
    row->click = head.click;
    row->at = tick - head.age;
    row->changed = t->save;
    memcpy(row->x, bytes + sizeof head, value_bytes(t));
}

static void take_removed(ps_table *t, uint64_t key)
{
    table_shard *s = &t->shards[ps_table_shard_of(key)];
    int64_t place = ps_keymap_find(&s->row_of, key);

    if (place != PS_KEYMAP_NONE) {
        if (t->conf.saves_changes) {
            table_note_removed(s, key);
        }
        table_remove(t, s, (uint32_t)place);
    }
}

static void take_section(ps_table *t, const source *in, const section_head *head, uint32_t tick)
{
    size_t at = in->at + sizeof *head;

    for (uint32_t i = 0; i < head->rows; i++, at += ROW_HEAD_BYTES + value_bytes(t)) {
        take_row(t, in->bytes + at, tick);
    }
    for (uint32_t i = 0; i < head->removed; i++, at += KEY_BYTES) {
        uint64_t key;

        memcpy(&key, in->bytes + at, sizeof key);
        take_removed(t, key);
    }
    for (uint32_t i = 0; i < head->candidates; i++, at += CANDIDATE_BYTES) {
        table_candidate c, *mine;

        memcpy(&c, in->bytes + at, sizeof c);
        mine = table_candidate_of(t, c.key);
        if (mine != NULL) {
            mine->count = c.count;
            mine->at = tick - c.at;
        }
    }
}

ps_status ps_table_load(ps_table *table, const uint8_t *bytes, size_t len)
{
    source in = {.bytes = bytes, .len = len};
    file_head file;
    ps_status st = read_head(table, &in, &file);

    if (ps_is_ok(&st)) {
        st = check_file(table, in, &file);
    }
    if (ps_is_ok(&st) && file.tick > table->tick) {
        table->tick = file.tick;
    }
    for (uint32_t i = 0; ps_is_ok(&st) && i < file.sections; i++) {
        section_head head;
        size_t end;

        st = read_section(table, &in, &head, &end);
        if (ps_is_ok(&st) && table->owned[head.shard]) {
            take_section(table, &in, &head, file.tick);
        }
        in.at = end + SUM_BYTES;
    }
    return st;
}
