/* SPDX-License-Identifier: Apache-2.0 */
/* farm.c - see farm.h. */
#include "tests/support/farm.h"

#include "common/base/draw.h"
#include "common/base/xalloc.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

uint32_t farm_owner(const farm *f, uint32_t virtual_shard)
{
    return virtual_shard / 3 % f->count; /* slices of the world are three apart */
}

ps_store *farm_of_slice(const farm *f, uint32_t place)
{
    return f->stores[farm_owner(f, f->job->w.slices[place].index % PS_SHARDS)];
}

static ps_store *create(const farm *f, uint32_t number)
{
    const world *w = &f->job->w;
    ps_store_slice slices[WORLD_SLICES];
    ps_table_conf tables[FARM_TABLES];
    bool owned[PS_SHARDS];
    ps_tables_conf rows = {
        .table_count = FARM_TABLES, .tables = tables, .keys_max = 2 * FARM_KEYS, .tick = 3};
    ps_store_conf conf = w->conf;
    uint32_t count = 0;

    for (uint32_t v = 0; v < PS_SHARDS; v++) {
        owned[v] = farm_owner(f, v) == number;
    }
    for (uint32_t s = 0; s < w->conf.slice_count; s++) {
        if (owned[w->slices[s].index % PS_SHARDS]) {
            slices[count++] = w->slices[s];
        }
    }
    conf.slices = slices;
    conf.slice_count = count;
    conf.job = f->job->hash;
    for (uint32_t t = 0; f->job->has_rows && t < FARM_TABLES; t++) {
        tables[t] = ps_table_conf_default(FARM_WIDTH + t, w->conf.descent.optim);
        tables[t].table = t;
        tables[t].owned = owned;
        tables[t].key_end = FARM_KEY_END;
        tables[t].optim_params = w->conf.descent.params;
        tables[t].least_score = f->job->least_score > 0 ? f->job->least_score : 0.05f;
        tables[t].unseen_max = 4;
        tables[t].admission = f->job->admission;
        tables[t].admit_count = f->job->admission == PS_ADMIT_COUNT ? 2 : 1;
        tables[t].admit_probability = 0.5;
        tables[t].saves_changes = f->job->rows_save_changes;
    }
    conf.tables = f->job->has_rows ? ps_tables_create(&rows) : NULL;
    return ps_store_create(&conf);
}

void farm_begin(farm *f, const farm_job *job, uint32_t count)
{
    assert(count <= FARM_STORES);
    *f = (farm){.job = job, .count = count};
    for (uint32_t i = 0; i < count; i++) {
        f->stores[i] = create(f, i);
    }
}

void farm_end(farm *f)
{
    for (uint32_t i = 0; i < f->count; i++) {
        ps_store_destroy(f->stores[i]);
    }
    *f = (farm){0};
}

/* ---- Calls ---- */

ps_status farm_push(const farm *f, uint32_t worker, uint64_t clock, uint32_t contributor,
                    uint32_t place, ps_store_outcome *outcome)
{
    static _Thread_local gift g;

    world_gift(&f->job->w.slices[place], clock, contributor, &g);
    return ps_store_push(farm_of_slice(f, place), worker, clock, contributor, &g.head.msg, g.bytes,
                         g.len, outcome);
}

ps_status farm_push_zeros(const farm *f, uint32_t worker, uint64_t clock, uint32_t contributor)
{
    ps_status st = ps_ok();

    for (uint32_t i = 0; i < f->count && ps_is_ok(&st); i++) {
        st = ps_store_push_zeros(f->stores[i], worker, clock, contributor);
    }
    return st;
}

/* Draws the keys of a contribution, ascending. Some keys are drawn in many contributions, others in
 * one. */
static size_t draw_keys(uint64_t clock, uint32_t contributor, uint64_t *keys)
{
    uint64_t draws = ps_draw_key(9, PS_DRAW_TEST, contributor, clock, 1);
    uint64_t key = 0;
    size_t count = 0;

    for (size_t i = 0; i < FARM_KEYS; i++) {
        key += 1 + ps_draw_below(draws, i, i % 4 == 0 ? 2000 : 6);
        if (key < FARM_KEY_END) {
            keys[count++] = key;
        }
    }
    return count;
}

static ps_status push_part(const farm *f, uint32_t number, ps_store_rows part, const uint64_t *keys,
                           size_t count)
{
    uint64_t mine[FARM_KEYS];
    uint32_t shows[FARM_KEYS], clicks[FARM_KEYS], width = FARM_WIDTH + part.table;
    float grads[FARM_KEYS * (FARM_WIDTH + FARM_TABLES)];
    size_t n = 0;

    for (size_t i = 0; i < count; i++) {
        uint64_t draws = ps_draw_key(10, PS_DRAW_TEST, part.contributor, part.clock, keys[i]);

        if (farm_owner(f, ps_table_shard_of(keys[i])) != number) {
            continue;
        }
        mine[n] = keys[i];
        shows[n] = 1 + (uint32_t)ps_draw_below(draws, 0, 3);
        clicks[n] = (uint32_t)ps_draw_below(draws, 1, 2);
        for (uint32_t d = 0; d < width; d++) {
            grads[n * width + d] = (float)ps_draw_normal(draws, 2 + d + part.table * 10);
        }
        n++;
    }
    part.keys = mine;
    part.count = n;
    part.grads = grads;
    part.shows = shows;
    part.clicks = clicks;
    return ps_store_push_rows(f->stores[number], &part);
}

ps_status farm_push_rows(const farm *f, uint32_t worker, uint64_t clock, uint32_t contributor)
{
    uint64_t keys[FARM_KEYS];
    size_t count = draw_keys(clock, contributor, keys);
    ps_status st = ps_ok();

    for (uint32_t i = 0; i < f->count; i++) {
        for (uint32_t t = 0; t < FARM_TABLES; t++) {
            ps_store_rows part = {.worker = worker,
                                  .clock = clock,
                                  .contributor = contributor,
                                  .part = t,
                                  .table = t,
                                  .is_last = t + 1 == FARM_TABLES};

            st = push_part(f, i, part, keys, count);
            if (!ps_is_ok(&st)) {
                return st; /* all stores return this or none does, because their clocks are equal */
            }
        }
    }
    return st;
}

void farm_tick(const farm *f, int64_t now_us)
{
    for (uint32_t i = 0; i < f->count; i++) {
        ps_store_tick(f->stores[i], now_us);
    }
}

ps_status farm_lose(const farm *f, uint32_t worker)
{
    ps_status st = ps_ok();

    for (uint32_t i = 0; i < f->count && ps_is_ok(&st); i++) {
        st = ps_store_lose_worker(f->stores[i], worker);
    }
    return st;
}

/* ---- What comes of them ---- */

static uint64_t hash_piece(const ps_store_piece *piece, const ps_store_answer *answer)
{
    uint8_t head[512];
    uint64_t parts[4] = {piece->checksum, answer->is_change};

    assert(psgd__v1__encoding__get_packed_size(piece->head) <= sizeof head);
    parts[2] = XXH3_64bits(head, psgd__v1__encoding__pack(piece->head, head));
    parts[3] = XXH3_64bits(piece->buf->data + piece->at, piece->len);
    return XXH3_64bits(parts, sizeof parts);
}

static uint32_t place_of(const farm *f, uint32_t index)
{
    uint32_t s = 0;

    while (f->job->w.slices[s].index != index) {
        s++;
    }
    return s;
}

ps_status farm_pull(const farm *f, uint32_t worker, uint64_t clock, uint64_t *got)
{
    ps_status st = ps_ok(), first = ps_ok();

    memset(got, 0, WORLD_SLICES * sizeof *got);
    for (uint32_t i = 0; i < f->count; i++) {
        ps_store_piece pieces[2];
        ps_store_answer answer = {0};

        st = ps_store_pull_begin(f->stores[i], worker, clock);
        do {
            ps_store_pull_next(f->stores[i], worker, SIZE_MAX / 2, pieces, 2, &answer);
            for (size_t p = 0; p < answer.count; p++) {
                got[place_of(f, pieces[p].head->slice)] = hash_piece(&pieces[p], &answer);
            }
        } while (answer.count > 0 && !answer.is_last);
        ps_store_pull_cancel(f->stores[i], worker);
        first = ps_is_ok(&first) ? st : first;
    }
    return first;
}

uint64_t farm_pull_rows(const farm *f, uint32_t worker, uint64_t clock)
{
    uint64_t keys[FARM_KEYS], sum = 0;
    size_t count = draw_keys(clock, worker, keys);

    for (size_t i = 0; i < count; i++) {
        ps_store *store = f->stores[farm_owner(f, ps_table_shard_of(keys[i]))];
        ps_store_rows_answer answer;
        ps_status st = ps_store_rows_begin(store, worker, clock, &keys[i], 1);

        if (!ps_is_ok(&st) || !ps_store_rows_next(store, worker, NULL, NULL, &answer)) {
            ps_store_pull_cancel(store, worker);
            return 0;
        }
        sum = sum * 31 + XXH3_64bits(answer.values->data, (2 * FARM_WIDTH + 1) * sizeof(float));
        ps_buf_unref(answer.values);
    }
    return sum;
}

uint64_t farm_hash(const farm *f)
{
    uint64_t sum = 0;

    for (uint32_t s = 0; s < f->job->w.conf.slice_count; s++) {
        ps_store *store = farm_of_slice(f, s);
        const float *w = ps_store_weights(store);
        uint32_t place = 0;

        for (uint32_t i = 0; i < s; i++) {
            if (farm_of_slice(f, i) == store) {
                w += f->job->w.slices[i].n;
                place++;
            }
        }
        sum = sum * 31 + XXH3_64bits(w, f->job->w.slices[s].n * sizeof *w);
        sum = sum * 31 + ps_store_version(store, place);
    }
    for (uint32_t k = 0; f->job->has_rows && k < 6; k++) {
        sum = sum * 31 + farm_pull_rows(f, 0, k);
    }
    return sum;
}

/* ---- Files ---- */

ps_status farm_write(void *arg, const void *bytes, size_t len)
{
    farm_file *file = arg;

    file->bytes = ps_xrealloc(file->bytes, file->len + len + 1);
    memcpy(file->bytes + file->len, bytes, len);
    file->len += len;
    return ps_ok();
}

ps_status farm_move(farm *f, uint32_t count, int64_t now_us)
{
    farm_file files[FARM_STORES] = {{0}};
    uint32_t had = f->count;
    const farm_job *job = f->job;
    ps_status st = ps_ok();

    for (uint32_t i = 0; i < had && ps_is_ok(&st); i++) {
        st = ps_store_save(f->stores[i], farm_write, &files[i]);
    }
    farm_end(f);
    farm_begin(f, job, count);
    farm_tick(f, now_us);
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t j = 0; j < had && ps_is_ok(&st); j++) {
            st = ps_store_load(f->stores[i], files[j].bytes, files[j].len);
        }
        if (ps_is_ok(&st)) {
            st = ps_store_load_end(f->stores[i]);
        }
    }
    for (uint32_t j = 0; j < had; j++) {
        free(files[j].bytes);
    }
    return st;
}
