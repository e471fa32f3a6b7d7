/* SPDX-License-Identifier: Apache-2.0 */
/* feed.c - see feed.h. */
#include "common/data/feed.h"

#include "common/base/draw.h"
#include "common/base/xalloc.h"
#include "common/data/dataset_impl.h"
#include "common/data/learned.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct ps_feed {
    const ps_dataset *data;
    ps_feed_conf conf;
    ps_data_facts facts; /* shapes after all transforms */
    ps_transforming steps[PS_TRANSFORMS_MAX];
    bool is_shuffled; /* the order begins shuffled; false: a transform begins it as 0, 1, 2 ... */
    bool changes_samples, draws;
    bool is_folded;  /* the source applies the first transform of samples, which is affine */
    uint32_t folded; /* index of that transform in the list */
    ps_affine affine;
    uint32_t *own; /* (own_count): training samples of the worker's files; NULL: not dealt */
    uint32_t own_count;
};

static ps_status plan_one(const ps_transform_choice *choice, ps_data_facts *facts)
{
    ps_status st =
        choice->transform->plan != NULL ? choice->transform->plan(&choice->params, facts) : ps_ok();

    return ps_wrap(st, "%s", choice->transform->name);
}

ps_status ps_feed_facts(const ps_feed_conf *conf, ps_data_facts *facts, uint32_t *place)
{
    ps_status st = ps_ok();
    bool has_pools = conf->assignment != NULL && conf->assignment->is_by_file;

    for (uint32_t i = 0; i < conf->transform_count && ps_is_ok(&st); i++) {
        const ps_transform *transform = conf->transforms[i].transform;

        *place = i;
        st = plan_one(&conf->transforms[i], facts);
        if (ps_is_ok(&st) && transform->makes_pools && has_pools) {
            st = ps_fail(PS_INVALID_ARGUMENT,
                         "%s: blocks already have pools of samples, by another transform or "
                         "the assignment",
                         transform->name);
        }
        if (ps_is_ok(&st) && transform->deals_blocks && conf->assignment != NULL &&
            (conf->assignment->is_whole || conf->assignment->is_by_file)) {
            st = ps_fail(PS_INVALID_ARGUMENT,
                         "%s: it deals out samples to workers, of whom each has %s with the "
                         "assignment \"%s\"",
                         transform->name,
                         conf->assignment->is_whole ? "all samples" : "those of its files",
                         conf->assignment->is_whole ? "whole" : "modulo");
        }
        has_pools = has_pools || transform->makes_pools;
    }
    return st;
}

/* Returns whether the source can apply this transform while it makes samples, and then sets
 * feed->affine. Returns false if an earlier transform changes samples or is applied so. */
static bool may_fold(ps_feed *feed, const ps_transforming *at)
{
    for (size_t s = 0; s < 2; s++) {
        if (feed->data->split[s] == NULL || feed->data->split[s]->make_affine == NULL) {
            return false;
        }
    }
    return !feed->changes_samples && !feed->is_folded && at->transform->is_affine != NULL &&
           at->transform->is_affine(at, &feed->affine);
}

static bool measures(const ps_transform_choice *choice)
{
    return choice->transform->learns != NULL && choice->transform->learns(&choice->params);
}

static ps_status begin_step(ps_feed *feed, uint32_t i, ps_data_facts *facts)
{
    const ps_transform_choice *choice = &feed->conf.transforms[i];
    ps_transforming *at = &feed->steps[i];
    ps_status st;

    *at = (ps_transforming){.transform = choice->transform,
                            .params = &choice->params,
                            .place = i,
                            .facts = *facts,
                            .conf = &feed->conf,
                            .data = feed->data};
    st = plan_one(choice, facts);
    if (ps_is_ok(&st) && measures(choice) && feed->data->is_part) {
        at->known = feed->data->measured[i].at;
        at->known_count = feed->data->measured[i].count;
        if (at->known == NULL) {
            st = ps_fail(PS_INVALID_ARGUMENT,
                         "what was learned from all files: values[%u] are not there; %s needs them",
                         i, choice->transform->name);
        }
    }
    if (ps_is_ok(&st) && choice->transform->learn != NULL) {
        st = choice->transform->learn(at);
    }
    feed->is_shuffled = feed->is_shuffled && !choice->transform->begins_order;
    if (ps_is_ok(&st) && may_fold(feed, at)) {
        feed->is_folded = true;
        feed->folded = i;
        return st;
    }
    feed->changes_samples = feed->changes_samples || choice->transform->sample != NULL;
    feed->draws = feed->draws || choice->transform->draws;
    return st;
}

/* Lists the training samples of the worker's own files in feed->own. Fails if there are none. */
static ps_status take_files(ps_feed *feed)
{
    uint32_t count = ps_dataset_count(feed->data, PS_TRAIN), worker = feed->conf.worker;
    uint32_t workers = feed->conf.assignment->workers;

    if (feed->data->file_count == 0) {
        return ps_fail(PS_INVALID_ARGUMENT, "the data set has no files whose names end in numbers");
    }
    feed->own = ps_xcalloc(count, sizeof *feed->own);
    for (uint32_t i = 0; i < count; i++) {
        if (ps_dataset_file_number(feed->data, i) % workers == worker) {
            feed->own[feed->own_count++] = i;
        }
    }
    if (feed->own_count == 0) {
        return ps_fail(PS_FAILED_PRECONDITION,
                       "modulo: the files whose numbers are %u modulo %u have no training samples",
                       worker, workers);
    }
    return ps_ok();
}

ps_status ps_feed_create(const ps_dataset *data, const ps_feed_conf *conf, ps_feed **out)
{
    ps_feed *feed = ps_xcalloc(1, sizeof *feed);
    ps_data_facts facts = *ps_dataset_facts(data), checked = facts;
    uint32_t place = 0;
    ps_status st = ps_feed_facts(conf, &checked, &place);

    feed->data = data;
    feed->conf = *conf;
    feed->is_shuffled = true;
    for (uint32_t i = 0; i < conf->transform_count && ps_is_ok(&st); i++) {
        st = begin_step(feed, i, &facts);
    }
    feed->facts = facts;
    if (ps_is_ok(&st) && conf->assignment->is_by_file) {
        st = take_files(feed);
    }
    if (ps_is_ok(&st)) {
        st = ps_dataset_status(data);
    }
    if (!ps_is_ok(&st)) {
        ps_feed_destroy(feed);
        return st;
    }
    *out = feed;
    return st;
}

void ps_feed_destroy(ps_feed *feed)
{
    if (feed == NULL) {
        return;
    }
    for (uint32_t i = 0; i < PS_TRANSFORMS_MAX; i++) {
        free(feed->steps[i].state);
    }
    free(feed->own);
    free(feed);
}

/* Writes the order of `count` samples in an epoch: first a shuffled one, or 0, 1, 2 ... if a
 * transform begins the order; then each transform of the order changes it. */
static void arrange(const ps_feed *feed, uint64_t epoch, uint32_t *order, uint32_t count)
{
    if (feed->is_shuffled) {
        ps_worker_order(feed->conf.seed, epoch, feed->conf.worker, order, count);
    } else {
        for (uint32_t i = 0; i < count; i++) {
            order[i] = i;
        }
    }
    for (uint32_t i = 0; i < feed->conf.transform_count; i++) {
        if (feed->steps[i].transform->arrange != NULL) {
            feed->steps[i].transform->arrange(&feed->steps[i], epoch, order, count);
        }
    }
}

void ps_feed_order(const ps_feed *feed, uint64_t epoch, uint32_t *order, uint32_t count)
{
    uint32_t *turn;

    if (feed->own == NULL) {
        assert(count == ps_dataset_count(feed->data, PS_TRAIN));
        arrange(feed, epoch, order, count);
        return;
    }
    turn = ps_xcalloc(feed->own_count, sizeof *turn);
    arrange(feed, epoch, turn, feed->own_count);
    for (uint32_t i = 0; i < count; i++) {
        order[i] = feed->own[turn[i % feed->own_count]];
    }
    free(turn);
}

/* Applies the transforms to sample `at`, except the one that the source applies. Computes a key
 * for draws only if a transform draws, because a key costs as much as a small transform. */
static void transform(const ps_feed *feed, ps_split split, uint64_t pass, uint32_t at, float *x,
                      float *targets)
{
    uint64_t key = feed->draws ? ps_sample_key(feed->conf.seed, pass, split,
                                               ps_dataset_place(feed->data, split, at))
                               : 0;

    for (uint32_t k = 0; k < feed->conf.transform_count; k++) {
        const ps_transforming *step = &feed->steps[k];

        if (step->transform->sample != NULL && !(feed->is_folded && k == feed->folded)) {
            step->transform->sample(
                step, split, step->transform->draws ? ps_draw_key(key, PS_DRAW_SAMPLE, 1, k, 0) : 0,
                x, targets);
        }
    }
}

/* If transforms change samples, so many are gathered at a time: few, so that they are transformed
 * while they are in the nearest cache. */
enum { ROWS_AT_ONCE = 2 };

/* Gathers the samples of `all` and transforms them. Sets the members seed, affine and target_pitch
 * itself. */
static void gather(const ps_feed *feed, ps_gathering all, float *x, float *targets)
{
    size_t features = feed->facts.features, width = feed->facts.target_width;
    uint32_t most = feed->changes_samples ? ROWS_AT_ONCE : all.n;

    all.seed = feed->conf.seed;
    all.affine = feed->is_folded ? &feed->affine : NULL;
    all.target_pitch = width;
    for (uint32_t from = 0; from < all.n; from += most) {
        ps_gathering some = all;

        some.index = all.index != NULL ? all.index + from : NULL;
        some.stored = all.stored != NULL ? all.stored + from : NULL;
        some.first = all.first + from;
        some.n = all.n - from < most ? all.n - from : most;
        some.soon = all.n - from - some.n;
        ps_dataset_gather_pass(feed->data, &some, x + from * features, targets + from * width);
        for (uint32_t i = from; feed->changes_samples && i < from + some.n; i++) {
            uint32_t at = all.index != NULL ? all.index[i] : all.first + i;

            transform(feed, all.split, all.pass, at, x + i * features, targets + i * width);
        }
    }
}

void ps_feed_gather(const ps_feed *feed, uint64_t epoch, ps_split split, const uint32_t *index,
                    uint32_t first, uint32_t n, float *x, float *targets)
{
    const ps_gathering all = {.pass = split == PS_TEST ? 0 : epoch,
                              .split = split,
                              .index = index,
                              .first = first,
                              .n = n};

    gather(feed, all, x, targets);
}

size_t ps_feed_room(const ps_feed *feed)
{
    size_t room = feed->data->split[PS_TRAIN]->room;

    return (room + PS_ALIGN_BYTES - 1) / PS_ALIGN_BYTES * PS_ALIGN_BYTES;
}

void ps_feed_fetch(const ps_feed *feed, const uint32_t *index, uint32_t n, void *room,
                   ps_stored *stored)
{
    const ps_samples *from = feed->data->split[PS_TRAIN];
    size_t pitch = ps_feed_room(feed);

    for (uint32_t i = 0; i < n; i++) {
        assert(index[i] < ps_dataset_count(feed->data, PS_TRAIN));
        if (from->prefetch != NULL && i + PS_SAMPLES_AHEAD < n) {
            from->prefetch(from, index[i + PS_SAMPLES_AHEAD]);
        }
        stored[i] = from->stored(from, index[i], (uint8_t *)room + i * pitch);
    }
}

void ps_feed_gather_fetched(const ps_feed *feed, uint64_t epoch, const uint32_t *index, uint32_t n,
                            const ps_stored *stored, float *x, float *targets)
{
    const ps_gathering all = {
        .pass = epoch, .split = PS_TRAIN, .index = index, .n = n, .stored = stored};

    gather(feed, all, x, targets);
}

ps_status ps_feed_status(const ps_feed *feed)
{
    return ps_dataset_status(feed->data);
}

const float *ps_feed_measured(const ps_feed *feed, uint32_t place, size_t *count)
{
    *count = 0;
    return measures(&feed->conf.transforms[place])
               ? feed->conf.transforms[place].transform->measured(&feed->steps[place], count)
               : NULL;
}

const char *ps_feed_words(const ps_feed *feed, size_t *bytes)
{
    return ps_dataset_words(feed->data, bytes);
}

bool ps_feed_is_far(const ps_feed *feed)
{
    return feed->data->split[PS_TRAIN] != NULL && feed->data->split[PS_TRAIN]->is_far;
}
