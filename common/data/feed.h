/* SPDX-License-Identifier: Apache-2.0 */
/* feed.h - a data set as a job uses it: in its order, through its transforms.
 *
 * A feed is made of a loaded data set, which several jobs may share. Immutable; any thread may
 * use it.
 */
#ifndef PS_COMMON_DATA_FEED_H
#define PS_COMMON_DATA_FEED_H

#include "common/data/transform.h"

typedef struct ps_feed ps_feed;

/* Writes the shapes of the samples after all transforms to *facts, which holds those before.
 * Returns INVALID_ARGUMENT with the name of the transform that does not fit; *place is then its
 * index in the list. */
PS_MUST_USE ps_status ps_feed_facts(const ps_feed_conf *conf, ps_data_facts *facts,
                                    uint32_t *place);

/* Creates a feed. Keeps `data` and conf->assignment, copies conf. Reads the training samples if
 * a transform learns from them. Returns INVALID_ARGUMENT as ps_feed_facts, FAILED_PRECONDITION
 * if a block or conf->worker would have no samples, DATA_LOSS as ps_dataset_status. */
PS_MUST_USE ps_status ps_feed_create(const ps_dataset *data, const ps_feed_conf *conf,
                                     ps_feed **out);
/* Frees the feed. NULL is allowed. */
void ps_feed_destroy(ps_feed *feed);

/* Writes the order of an epoch to `order` (count): which training sample stands at each place, the
 * same on every node, or that of conf->worker. `count` is the number of training samples, and each
 * occurs once unless blocks have pools of their own. Where files are dealt to workers, `count` may
 * be any number, and the samples of the worker's files fill the places, as often as needed. Without
 * a transform of the order the order is that of ps_worker_order. */
void ps_feed_order(const ps_feed *feed, uint64_t epoch, uint32_t *order, uint32_t count);

/* Gathers samples like ps_dataset_gather and transforms them; targets are (n, target_width) of
 * ps_feed_facts. Draws for test samples do not depend on the epoch. */
void ps_feed_gather(const ps_feed *feed, uint64_t epoch, ps_split split, const uint32_t *index,
                    uint32_t first, uint32_t n, float *x, float *targets);

typedef struct ps_stored ps_stored; /* samples.h */

/* Returns the bytes of room that ps_feed_fetch needs per sample, aligned. */
size_t ps_feed_room(const ps_feed *feed);
/* The first half of ps_feed_gather, for training samples: sets stored[i] to the stored form of
 * sample index[i], in memory or in `room` (n, ps_feed_room), which must be aligned. Any thread. */
void ps_feed_fetch(const ps_feed *feed, const uint32_t *index, uint32_t n, void *room,
                   ps_stored *stored);
/* The second half of ps_feed_gather: makes samples of their stored forms, with the bits that
 * ps_feed_gather would give. */
void ps_feed_gather_fetched(const ps_feed *feed, uint64_t epoch, const uint32_t *index, uint32_t n,
                            const ps_stored *stored, float *x, float *targets);

/* Returns whether the training samples lie in a file, so that each gather reads them back. */
bool ps_feed_is_far(const ps_feed *feed);

/* Returns ps_dataset_words of the feed's data set. */
const char *ps_feed_words(const ps_feed *feed, size_t *bytes);

/* Returns what transform `place` of the list has measured on the training samples, (*count), valid
 * as long as the feed; NULL if it measures nothing. */
const float *ps_feed_measured(const ps_feed *feed, uint32_t place, size_t *count);

/* Returns the ps_dataset_status of the feed's data set. */
PS_MUST_USE ps_status ps_feed_status(const ps_feed *feed);

#endif
