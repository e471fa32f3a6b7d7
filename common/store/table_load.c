/* SPDX-License-Identifier: Apache-2.0 */
/* table_load.c - reads the file of a table (table_file.h) in two passes: the first checks it, the
 * second loads it. */
#include "common/store/table_file_impl.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <xxhash.h>

typedef struct source {
    const uint8_t *bytes;
    size_t len, at;
} source;

/* Checks that the bytes [from, to) have the checksum that follows them. */
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

ps_status ps_table_read_head(const uint8_t *bytes, size_t len, ps_table_head *out)
{
    source in = {.bytes = bytes, .len = len};
    file_head head;
    ps_status st;

    if (len < PS_TABLE_HEAD_BYTES) {
        return ps_fail(PS_DATA_LOSS, "%zu bytes; the head of a table's file has %d", len,
                       PS_TABLE_HEAD_BYTES);
    }
    memcpy(&head, bytes, sizeof head);
    if (memcmp(head.magic, PS_TABLE_MAGIC, sizeof head.magic) != 0) {
        return ps_fail(PS_DATA_LOSS, "offset 0: not the file of a table");
    }
    st = check_sum(&in, 0, sizeof head);
    if (!ps_is_ok(&st)) {
        return st;
    }
    if (head.kind > PS_TABLE_CHANGES || head.sections > PS_SHARDS || head.width == 0 ||
        head.width > PS_TABLE_WIDTH_MAX || head.slots > PS_TABLE_SLOTS_MAX || head.zero != 0) {
        return ps_fail(PS_DATA_LOSS,
                       "offset 8: %" PRIu32 " values with %" PRIu32 " of state each, kind %" PRIu32
                       ", %" PRIu32 " sections",
                       head.width, head.slots, head.kind, head.sections);
    }
    *out = (ps_table_head){.width = head.width,
                           .slots = head.slots,
                           .rule = head.rule,
                           .table = head.table,
                           .tick = head.tick,
                           .sections = head.sections,
                           .kind = (ps_table_kind)head.kind};
    for (uint32_t i = 0; i < PS_SHARDS; i++) {
        out->here[i] = head.here[i / 8] >> i % 8 & 1;
    }
    return ps_ok();
}

ps_status ps_table_check_head(const ps_table *t, const ps_table_head *head)
{
    const ps_optim *optim = t->conf.optim;

    if (head->width != t->conf.width) {
        return ps_fail(PS_FAILED_PRECONDITION,
                       "rows of %" PRIu32 " values; those of this table have %" PRIu32, head->width,
                       t->conf.width);
    }
    if (!t->conf.values_only &&
        (head->slots != optim->slots || head->rule != table_file_rule(optim))) {
        return ps_fail(PS_FAILED_PRECONDITION, "state of another optimizer; %s is expected",
                       optim->name);
    }
    return ps_ok();
}

/* Returns how many bytes the values and the state of a row take in the file. */
static size_t value_bytes(const ps_table_head *file)
{
    return (size_t)file->width * (1 + file->slots) * sizeof(float);
}

/* Reads the head of the section at in->at and checks that the section is not cut. *end becomes the
 * offset of the section's checksum. */
static ps_status read_section(const ps_table_head *file, const source *in, section_head *head,
                              size_t *end)
{
    uint64_t bytes;

    if (in->len - in->at < sizeof *head + SUM_BYTES) {
        return ps_fail(PS_DATA_LOSS, "offset %zu: cut in the head of a section", in->at);
    }
    memcpy(head, in->bytes + in->at, sizeof *head);
    bytes = (uint64_t)head->rows * (ROW_HEAD_BYTES + value_bytes(file)) +
            (uint64_t)head->removed * KEY_BYTES + (uint64_t)head->candidates * CANDIDATE_BYTES;
    if (bytes > in->len - in->at - sizeof *head - SUM_BYTES) {
        return ps_fail(PS_DATA_LOSS, "offset %zu: a section of %" PRIu64 " bytes is cut", in->at,
                       bytes);
    }
    *end = in->at + sizeof *head + (size_t)bytes;
    return ps_ok();
}

static ps_status check_key(const ps_table *t, uint64_t key, uint32_t shard, size_t at)
{
    if (ps_table_shard_of(key) != shard) {
        return ps_fail(PS_DATA_LOSS, "offset %zu: key %" PRIu64 " is not of virtual shard %" PRIu32,
                       at, key, shard);
    }
    if (t->conf.key_end > 0 && key >= t->conf.key_end) {
        return ps_fail(PS_FAILED_PRECONDITION,
                       "offset %zu: key %" PRIu64 "; 0 to %" PRIu64 " are ids of this table", at,
                       key, t->conf.key_end - 1);
    }
    return ps_ok();
}

static ps_status check_row(const ps_table *t, const uint8_t *bytes, size_t at, uint32_t shard,
                           const ps_table_head *file)
{
    row_head head;
    ps_status st;

    memcpy(&head, bytes + at, sizeof head);
    st = check_key(t, head.key, shard, at);
    if (ps_is_ok(&st) &&
        (head.age > file->tick || head.age > PS_TABLE_UNSEEN_MAX || head.flag != 0 ||
         !isfinite(head.show) || !isfinite(head.click) || head.show < 0 || head.click < 0)) {
        st = ps_fail(PS_DATA_LOSS, "offset %zu: age, show or click of key %" PRIu64 " cannot be",
                     at, head.key);
    }
    for (size_t i = 0; ps_is_ok(&st) && i < value_bytes(file) / sizeof(float); i++) {
        float x;

        memcpy(&x, bytes + at + sizeof head + i * sizeof x, sizeof x);
        if (!isfinite(x)) {
            st = ps_fail(PS_DATA_LOSS, "offset %zu: a value of key %" PRIu64 " is not finite",
                         at + sizeof head + i * sizeof x, head.key);
        }
    }
    return st;
}

/* Checks whether this table can load the rows and keys of a section. Adds to *rows the number of
 * rows that loading the section will create. */
static ps_status check_section(const ps_table *t, const source *in, const section_head *head,
                               const ps_table_head *file, uint64_t *rows)
{
    size_t at = in->at + sizeof *head, row_bytes = ROW_HEAD_BYTES + value_bytes(file);
    ps_status st = ps_ok();
    uint64_t key;

    for (uint32_t i = 0; ps_is_ok(&st) && i < head->rows; i++, at += row_bytes) {
        st = check_row(t, in->bytes, at, head->shard, file);
        memcpy(&key, in->bytes + at, sizeof key);
        *rows += t->owned[head->shard] && table_find(t, key) == NULL;
    }
    for (uint32_t i = 0; ps_is_ok(&st) && i < head->removed; i++, at += KEY_BYTES) {
        memcpy(&key, in->bytes + at, sizeof key);
        st = check_key(t, key, head->shard, at);
    }
    for (uint32_t i = 0; ps_is_ok(&st) && i < head->candidates; i++, at += CANDIDATE_BYTES) {
        table_candidate c;

        memcpy(&c, in->bytes + at, sizeof c);
        st = check_key(t, c.key, head->shard, at);
        if (ps_is_ok(&st) && c.at > file->tick) {
            st = ps_fail(PS_DATA_LOSS, "offset %zu: age of key %" PRIu64 " cannot be", at, c.key);
        }
    }
    return st;
}

static ps_status check_file(const ps_table *t, source in, const ps_table_head *file)
{
    uint64_t rows = t->counters.rows;
    uint32_t least = 0; /* least virtual shard that may come next */
    ps_status st = ps_ok();

    for (uint32_t i = 0; ps_is_ok(&st) && i < file->sections; i++) {
        section_head head;
        size_t end;

        st = read_section(file, &in, &head, &end);
        if (ps_is_ok(&st)) {
            st = check_sum(&in, in.at, end);
        }
        if (ps_is_ok(&st) &&
            (head.shard >= PS_SHARDS || head.shard < least || !file->here[head.shard])) {
            st = ps_fail(PS_DATA_LOSS,
                         "offset %zu: virtual shard %" PRIu32 "; those from %" PRIu32
                         " on that the head names may come",
                         in.at, head.shard, least);
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

/* Removes the key's count, which an earlier file may have had, if there is one. */
static void drop_candidate(ps_table *t, uint64_t key)
{
    table_shard *s = &t->shards[ps_table_shard_of(key)];
    int64_t place = ps_keymap_find(&s->candidate_of, key);

    if (place != PS_KEYMAP_NONE) {
        table_candidate_remove(t, s, (uint32_t)place);
    }
}

static void take_row(ps_table *t, const uint8_t *bytes, const ps_table_head *file)
{
    size_t values = file->width * sizeof(float), state = t->conf.optim->slots * values;
    row_head head;
    table_row *row;

    memcpy(&head, bytes, sizeof head);
    row = table_find(t, head.key);
    if (row == NULL) {
        drop_candidate(t, head.key);
        row = table_add(t, head.key);
    }
    row->show = head.show;
    row->click = head.click;
    row->at = file->tick - head.age;
    row->changed = t->save;
    if (t->conf.values_only) {
        row->steps = 0;
        memcpy(row->x, bytes + sizeof head, values);
        memset(row->x + file->width, 0, state);
    } else {
        row->steps = head.steps;
        memcpy(row->x, bytes + sizeof head, values + state);
    }
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

static void take_section(ps_table *t, const source *in, const section_head *head,
                         const ps_table_head *file)
{
    size_t at = in->at + sizeof *head;

    for (uint32_t i = 0; i < head->rows; i++, at += ROW_HEAD_BYTES + value_bytes(file)) {
        take_row(t, in->bytes + at, file);
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
            mine->at = file->tick - c.at;
        }
    }
}

ps_status ps_table_load(ps_table *table, const uint8_t *bytes, size_t len)
{
    source in = {.bytes = bytes, .len = len, .at = PS_TABLE_HEAD_BYTES};
    ps_table_head file;
    ps_status st = ps_table_read_head(bytes, len, &file);

    if (ps_is_ok(&st)) {
        st = ps_table_check_head(table, &file);
    }
    if (ps_is_ok(&st)) {
        st = check_file(table, in, &file);
    }
    if (ps_is_ok(&st) && file.tick > table->tick) {
        table->tick = file.tick;
    }
    for (uint32_t i = 0; ps_is_ok(&st) && i < file.sections; i++) {
        section_head head;
        size_t end;

        st = read_section(&file, &in, &head, &end);
        if (ps_is_ok(&st) && table->owned[head.shard]) {
            take_section(table, &in, &head, &file);
        }
        in.at = end + SUM_BYTES;
    }
    return st;
}
