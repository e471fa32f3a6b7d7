/* SPDX-License-Identifier: Apache-2.0 */
/* dataset.c - see dataset.h and dataset_impl.h: functions that all forms of samples share. */
#include "common/data/dataset_impl.h"

#include "common/base/draw.h"
#include "common/base/xalloc.h"
#include "common/data/learned.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

ps_status ps_data_get_facts(const ps_data_conf *conf, ps_data_facts *facts)
{
    *facts = (ps_data_facts){.features = 0};
    return conf->source->facts(conf, facts);
}

ps_status ps_data_look(const char *folder, ps_data_conf *conf)
{
    return conf->source->look != NULL ? conf->source->look(folder, conf) : ps_ok();
}

ps_status ps_data_load(const ps_data_conf *conf, const char *folder, const char *scratch,
                       ps_dataset **out)
{
    assert(!ps_data_is_part(conf));
    return conf->source->load(conf, folder, scratch, out);
}

ps_dataset *ps_dataset_create(const ps_data_facts *facts)
{
    ps_dataset *data = ps_xcalloc(1, sizeof *data);

    data->facts = *facts;
    return data;
}

void ps_dataset_destroy(ps_dataset *data)
{
    if (data == NULL) {
        return;
    }
    for (size_t s = 0; s < 2; s++) {
        if (data->split[s] != NULL) {
            data->split[s]->destroy(data->split[s]);
        }
    }
    for (size_t i = 0; data->measured != NULL && i < PS_LEARNED_VALUES_MAX; i++) {
        free(data->measured[i].at);
    }
    free(data->measured);
    free(data->files);
    free(data->words);
    free(data->text);
    free(data);
}

uint32_t ps_data_limited(uint32_t count, uint32_t limit)
{
    return limit != 0 && limit < count ? limit : count;
}

void ps_dataset_limit(ps_dataset *data, uint32_t train, uint32_t test)
{
    data->facts.train_count = ps_data_limited(data->facts.train_count, train);
    data->facts.test_count = ps_data_limited(data->facts.test_count, test);
}

const ps_data_facts *ps_dataset_facts(const ps_dataset *data)
{
    return &data->facts;
}

uint32_t ps_dataset_count(const ps_dataset *data, ps_split split)
{
    return split == PS_TRAIN ? data->facts.train_count : data->facts.test_count;
}

size_t ps_split_memory(ps_split split)
{
    enum { TRAIN_BYTES = 32 << 20, TEST_BYTES = 8 << 20 };

    return split == PS_TRAIN ? TRAIN_BYTES : TEST_BYTES;
}

uint64_t ps_sample_key(uint64_t seed, uint64_t pass, ps_split split, uint32_t at)
{
    return ps_draw_key(seed, PS_DRAW_SAMPLE, pass, split, at);
}

enum { AHEAD = PS_SAMPLES_AHEAD };

/* Prefetches for the i-th sample to gather. With g->stored: its stored form. With g->index, if
 * samples lie in memory: its stored form, and what from->stored needs for the sample AHEAD places
 * later. Otherwise, and beyond the last sample, does nothing. `room` as in ps_samples.stored. */
static void prefetch(const ps_samples *from, const ps_gathering *g, uint32_t i, uint32_t count,
                     void *room)
{
    uint32_t last = g->n + g->soon;
    ps_stored stored;

    if (g->stored != NULL) {
        if (i < last) {
            ps_bytes_prefetch(g->stored[i].at, g->stored[i].bytes);
        }
        return;
    }
    if (g->index == NULL || from->is_far) {
        return;
    }
    if (from->prefetch != NULL && i + AHEAD < last && g->index[i + AHEAD] < count) {
        from->prefetch(from, g->index[i + AHEAD]);
    }
    if (i < last && g->index[i] < count) {
        stored = from->stored(from, g->index[i], room);
        ps_bytes_prefetch(stored.at, stored.bytes);
    }
}

/* Makes sample `at` of its stored form. If that is NULL, because the disk failed, the sample is all
 * zeros and ps_dataset_status reports the loss. */
static void make_sample(const ps_dataset *data, const ps_gathering *g, uint32_t at,
                        const void *stored, float *x, float *targets)
{
    const ps_samples *from = data->split[g->split];
    uint64_t key = from->draws ? ps_sample_key(g->seed, g->pass, g->split,
                                               ps_dataset_place(data, g->split, at))
                               : 0;

    if (stored == NULL) {
        memset(x, 0, data->facts.features * sizeof *x);
        memset(targets, 0, data->facts.target_width * sizeof *targets);
        /* The data set is const but for this flag, which any thread may set and nobody clears. */
        atomic_store(&((ps_dataset *)data)->is_lost, true);
    } else if (g->affine != NULL) {
        from->make_affine(from, stored, g->affine, x, targets);
    } else {
        from->make(from, stored, key, x, targets);
    }
}

void ps_dataset_gather_pass(const ps_dataset *data, const ps_gathering *g, float *x, float *targets)
{
    const ps_samples *from = data->split[g->split];
    uint32_t count = ps_dataset_count(data, g->split);
    size_t features = data->facts.features;
    _Alignas(max_align_t) uint8_t near[4096]; /* large enough for most stored forms */
    void *room = from->room <= sizeof near || g->stored != NULL ? near : ps_xmalloc(from->room);

    assert(g->index != NULL || (g->first <= count && g->n <= count - g->first));
    for (uint32_t i = 0; i < AHEAD && g->n > AHEAD; i++) {
        prefetch(from, g, i, count, room);
    }
    for (uint32_t i = 0; i < g->n; i++) {
        uint32_t at = g->index != NULL ? g->index[i] : g->first + i;

        assert(at < count);
        prefetch(from, g, i + AHEAD, count, room);
        make_sample(data, g, at,
                    g->stored != NULL ? g->stored[i].at : from->stored(from, at, room).at,
                    x + i * features, targets + i * g->target_pitch);
    }
    if (room != near) {
        free(room);
    }
}

void ps_dataset_gather(const ps_dataset *data, ps_split split, const uint32_t *index,
                       uint32_t first, uint32_t n, float *x, float *targets)
{
    const ps_gathering g = {.split = split,
                            .index = index,
                            .first = first,
                            .n = n,
                            .target_pitch = data->facts.target_width};

    ps_dataset_gather_pass(data, &g, x, targets);
}

ps_status ps_dataset_status(const ps_dataset *data)
{
    if (atomic_load(&data->is_lost)) {
        return ps_fail(PS_DATA_LOSS,
                       "a sample of the data set could not be read back from the disk");
    }
    return ps_ok();
}

const char *ps_dataset_words(const ps_dataset *data, size_t *bytes)
{
    *bytes = data->word_bytes;
    return data->words;
}

const char *ps_dataset_text(const ps_dataset *data, size_t *bytes)
{
    *bytes = data->text_bytes;
    return data->text;
}

uint32_t ps_dataset_file_count(const ps_dataset *data)
{
    return data->file_count;
}

/* Returns the file that training sample `at` came from; there must be files. */
static const ps_file_start *file_of(const ps_dataset *data, uint32_t at)
{
    uint32_t low = 0, high = data->file_count; /* the file is in [low, high) */

    assert(high > 0);
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;

        if (data->files[middle].first > at) {
            high = middle;
        } else {
            low = middle;
        }
    }
    return &data->files[low];
}

uint32_t ps_dataset_file_number(const ps_dataset *data, uint32_t at)
{
    return file_of(data, at)->number;
}

uint32_t ps_dataset_place(const ps_dataset *data, ps_split split, uint32_t at)
{
    const ps_file_start *file;

    if (!data->is_part || split == PS_TEST) {
        return at;
    }
    file = file_of(data, at);
    return file->place + (at - file->first);
}

/* --- for the sources -------------------------------------------------------- */

ps_status ps_data_known_counts(const ps_data_conf *conf, ps_data_facts *facts)
{
    if (conf->train_limit == 0 || conf->test_limit == 0) {
        return ps_fail(PS_FAILED_PRECONDITION,
                       "the number of samples of a set of %s is known only from its files",
                       conf->source->name);
    }
    facts->train_count = conf->train_limit;
    facts->test_count = conf->test_limit;
    return ps_ok();
}

static ps_status found_count(const ps_data_conf *conf, const char *what, uint64_t count,
                             uint32_t *limit)
{
    char who[PS_DATA_WHO_BYTES];

    if (count == 0 || count > UINT32_MAX - 1) {
        return ps_fail(PS_INVALID_ARGUMENT, "%s: %llu %s samples, expected 1 to %u",
                       ps_data_who(conf, who), (unsigned long long)count, what, UINT32_MAX - 1);
    }
    if (*limit > count) {
        return ps_fail(PS_INVALID_ARGUMENT,
                       "%s: found %llu %s samples, expected %u; set %s_limit to at most %llu",
                       ps_data_who(conf, who), (unsigned long long)count, what, *limit,
                       limit == &conf->train_limit ? "train" : "test", (unsigned long long)count);
    }
    *limit = *limit == 0 ? (uint32_t)count : *limit;
    return ps_ok();
}

ps_status ps_data_found_counts(ps_data_conf *conf, uint64_t train, uint64_t test)
{
    uint32_t any = 0;
    ps_status st =
        found_count(conf, "training", train, conf->share.of > 0 ? &any : &conf->train_limit);

    return ps_is_ok(&st) ? found_count(conf, "test", test, &conf->test_limit) : st;
}

ps_status ps_data_found(ps_data_conf *conf, const char *name, uint64_t value)
{
    double known = ps_data_number(conf, name);
    char who[PS_DATA_WHO_BYTES];

    if (known != 0 && known != (double)value) {
        return ps_fail(PS_INVALID_ARGUMENT, "%s: %s is %.15g, but the files have %llu",
                       ps_data_who(conf, who), name, known, (unsigned long long)value);
    }
    ps_data_set(conf, name, (double)value);
    return ps_ok();
}
