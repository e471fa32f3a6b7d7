/* SPDX-License-Identifier: Apache-2.0 */
/* table_file.c - see table_file.h: writes the file. */
#include "common/store/table_file_impl.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>
#include <xxhash.h>

uint32_t table_file_rule(const ps_optim *optim)
{
    return (uint32_t)XXH3_64bits(optim->name, strlen(optim->name));
}

ps_status ps_table_check_size(uint64_t bytes)
{
    return bytes > 0 && bytes <= PS_TABLE_FILE_MAX
               ? ps_ok()
               : ps_fail(PS_INVALID_ARGUMENT,
                         "size: %" PRIu64 "; 1 to %" PRIu64 " are allowed of a table's file", bytes,
                         PS_TABLE_FILE_MAX);
}

static size_t value_bytes(const ps_table *t)
{
    return (size_t)t->conf.width * (1 + t->conf.optim->slots) * sizeof(float);
}

/* ---- Writing ---- */

typedef struct sink {
    ps_table_write_fn *write;
    void *arg;
    XXH3_state_t *sum;
    ps_status st; /* the first failure; later writes do nothing */
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
    /* A key whose row was removed and created again does not count as removed. */
    for (uint32_t i = 0; i < s->removed_count; i++) {
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

void ps_table_settle(ps_table *table)
{
    table->save++;
    for (uint32_t i = 0; i < PS_SHARDS; i++) {
        table->shards[i].removed_count = 0;
    }
}

ps_status ps_table_save(ps_table *table, ps_table_kind kind, ps_table_write_fn *write, void *arg)
{
    sink out = {.write = write, .arg = arg, .sum = XXH3_createState(), .st = ps_ok()};
    file_head head = {.width = table->conf.width,
                      .slots = table->conf.optim->slots,
                      .table = table->conf.table,
                      .tick = table->tick,
                      .kind = kind,
                      .rule = table_file_rule(table->conf.optim)};

    assert(kind == PS_TABLE_WHOLE || table->conf.saves_changes);
    if (out.sum == NULL) {
        return ps_fail(PS_RESOURCE_EXHAUSTED, "no memory for a checksum");
    }
    XXH3_64bits_reset(out.sum);
    memcpy(head.magic, PS_TABLE_MAGIC, sizeof head.magic);
    for (uint32_t i = 0; i < PS_SHARDS; i++) {
        section_head section = count_section(table, i, kind);

        head.sections += !is_empty(&section);
        head.here[i / 8] |= (uint8_t)(table->owned[i] << i % 8);
    }
    put(&out, &head, sizeof head);
    put_sum(&out);
    for (uint32_t i = 0; i < PS_SHARDS; i++) {
        section_head section = count_section(table, i, kind);

        if (!is_empty(&section)) {
            put_section(table, &section, kind, &out);
        }
    }
    XXH3_freeState(out.sum);
    if (ps_is_ok(&out.st)) {
        ps_table_settle(table);
    }
    return out.st;
}
