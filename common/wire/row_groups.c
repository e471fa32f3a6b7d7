/* SPDX-License-Identifier: Apache-2.0 */
/* row_groups.c - see row_groups.h. */
#include "common/wire/row_groups.h"

#include "common/base/xalloc.h"
#include "common/store/table.h"
#include "common/train/merge.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* How the rows of a message form groups. */
typedef struct division {
    size_t count;                  /* number of groups */
    uint16_t end[PS_TABLE_KEYS];   /* (count): number of rows in this group and those before it */
    uint16_t order[PS_TABLE_KEYS]; /* (rows): indices of the rows, group by group */
} division;

static bool is_plain(const ps_codec_choice *choice)
{
    return ps_codec_is_plain(choice->codec, &choice->params);
}

static size_t width_of(const ps_row_groups *rows)
{
    return rows->plan->tables[rows->table].width;
}

/* Returns a number that rows of one group of a fixed vocabulary share. */
static uint64_t group_of(const ps_row_groups *rows, size_t i)
{
    uint32_t slice_rows = rows->plan->tables[rows->table].slice_rows;
    uint64_t key = rows->keys[i];

    return key / slice_rows * PS_CODEC_VALUES +
           key % slice_rows / ps_table_keys_of_message(rows->plan);
}

/* Of a fixed vocabulary, whose keys ascend: rows of a group follow one another. */
static void divide_by_slice(const ps_row_groups *rows, division *d)
{
    for (size_t i = 0; i < rows->count; i++) {
        d->order[i] = (uint16_t)i;
        d->count += i == 0 || group_of(rows, i) != group_of(rows, i - 1);
        d->end[d->count - 1] = (uint16_t)(i + 1);
    }
}

static void divide_by_shard(const ps_row_groups *rows, division *d)
{
    uint16_t at[PS_SHARDS] = {0}, sum = 0;

    for (size_t i = 0; i < rows->count; i++) {
        at[ps_table_shard_of(rows->keys[i])]++;
    }
    for (uint32_t s = 0; s < PS_SHARDS; s++) {
        uint16_t n = at[s];

        at[s] = sum;
        sum = (uint16_t)(sum + n);
        if (n > 0) {
            d->end[d->count++] = sum;
        }
    }
    for (size_t i = 0; i < rows->count; i++) {
        d->order[at[ps_table_shard_of(rows->keys[i])]++] = (uint16_t)i;
    }
}

static void divide(const ps_row_groups *rows, division *d)
{
    assert(rows->count <= PS_TABLE_KEYS);
    d->count = 0;
    (ps_merge_rows_are_followed(rows->plan) ? divide_by_slice : divide_by_shard)(rows, d);
}

size_t ps_row_groups_bytes(const ps_row_groups *rows)
{
    const ps_codec_choice *c = rows->choice;
    size_t width = width_of(rows), from = 0, bytes = 0;
    division d;

    if (is_plain(c)) {
        return rows->count * width * sizeof(float);
    }
    divide(rows, &d);
    for (size_t g = 0; g < d.count; g++) {
        bytes += ps_parts_bytes(c->codec, &c->params, (d.end[g] - from) * width);
        from = d.end[g];
    }
    return bytes;
}

size_t ps_row_groups_encode(const ps_row_groups *rows, uint64_t draws, ps_purpose purpose,
                            const float *x, uint8_t *out, ps_encoding *heads, size_t *head_count)
{
    const ps_codec_choice *c = rows->choice;
    size_t width = width_of(rows), from = 0, bytes = 0;
    float *group;
    division d;

    if (is_plain(c)) {
        *head_count = ps_parts_count(rows->count * width);
        return ps_parts_encode(c->codec, &c->params, 0, x, rows->count * width, out, heads);
    }
    divide(rows, &d);
    group = ps_xmalloc((rows->count * width + 1) * sizeof *group);
    *head_count = 0;
    for (size_t g = 0; g < d.count; g++) {
        size_t n = d.end[g] - from;
        uint64_t key = ps_draw_key(draws, purpose, rows->table, rows->keys[d.order[from]], 0);

        for (size_t i = 0; i < n; i++) {
            memcpy(group + i * width, x + d.order[from + i] * width, width * sizeof *group);
        }
        bytes += ps_parts_encode(c->codec, &c->params, key, group, n * width, out + bytes,
                                 heads + *head_count);
        *head_count += ps_parts_count(n * width);
        from = d.end[g];
    }
    free(group);
    return bytes;
}

ps_status ps_row_groups_read(const ps_row_groups *rows, ps_parts_reader *reader, float *y)
{
    const ps_codec_choice *c = rows->choice;
    size_t width = width_of(rows), from = 0;
    ps_status st = ps_ok();
    float *group;
    division d;

    if (is_plain(c)) {
        return ps_parts_read(reader, c->codec, y, rows->count * width);
    }
    divide(rows, &d);
    group = ps_xmalloc((rows->count * width + 1) * sizeof *group);
    for (size_t g = 0; g < d.count && ps_is_ok(&st); g++) {
        size_t n = d.end[g] - from;

        st = ps_parts_read(reader, c->codec, group, n * width);
        for (size_t i = 0; i < n && ps_is_ok(&st); i++) {
            memcpy(y + d.order[from + i] * width, group + i * width, width * sizeof *y);
        }
        from = d.end[g];
    }
    free(group);
    return st;
}

size_t ps_row_groups_stretch(const ps_plan *plan, const ps_codec_choice *choice, size_t i)
{
    size_t most = ps_table_keys_of_message(plan);

    return is_plain(choice) ? SIZE_MAX : (i / most + 1) * most;
}

size_t ps_row_groups_cut(const ps_row_groups *rows)
{
    size_t most = ps_table_keys_of_message(rows->plan);
    size_t n = rows->count < most ? rows->count : most;

    if (n == rows->count || is_plain(rows->choice)) {
        return n;
    }
    for (size_t i = n; i > 0; i--) {
        if (group_of(rows, i) != group_of(rows, i - 1)) {
            return i;
        }
    }
    return n; /* keys that do not ascend; a group has no more than `most` */
}
