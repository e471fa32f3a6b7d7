/* SPDX-License-Identifier: Apache-2.0 */
/* feed.h - a data set as a job sees it: in its order, through its transforms.
 *
 * Made from a loaded data set, which many jobs may share. Immutable, any thread.
 */
#ifndef PS_COMMON_DATA_FEED_H
#define PS_COMMON_DATA_FEED_H

#include "common/data/transform.h"

typedef struct ps_feed ps_feed;

/* Facts of the samples after all transforms. INVALID_ARGUMENT names the transform that does
 * not go with them; *place is then its number in the list. */
PS_MUST_USE ps_status ps_feed_facts(const ps_feed_conf *conf, ps_data_facts *facts,
                                    uint32_t *place);

/* `data` and conf->assignment are kept; conf is copied. Reads the training samples if a transform
 * learns from them. INVALID_ARGUMENT as above; FAILED_PRECONDITION: a block would have no
 * samples; DATA_LOSS: as ps_dataset_status. */
PS_MUST_USE ps_status ps_feed_create(const ps_dataset *data, const ps_feed_conf *conf,
                                     ps_feed **out);
void ps_feed_destroy(ps_feed *feed); /* NULL is allowed */

/* The order of an epoch: which training sample stands where; the same on every node. order is
 * (train_count), written whole. Without a transform of the order it is that of
 * ps_epoch_order. A sample may come twice where blocks have pools of their own. */
void ps_feed_order(const ps_feed *feed, uint64_t epoch, uint32_t *order);

/* As ps_dataset_gather, transformed: targets (n, target_width) of ps_feed_facts. Draws of test
 * samples do not depend on the epoch. */
void ps_feed_gather(const ps_feed *feed, uint64_t epoch, ps_split split, const uint32_t *index,
                    uint32_t first, uint32_t n, float *x, float *targets);

typedef struct ps_stored ps_stored; /* samples.h */

/* The same in two halves, for training samples: what is stored of sample index[i], which any thread
 * may read, is then stored[i], in memory or in `room` (n, ps_feed_room), aligned; and then they are
 * made of it, to the same bits. */
size_t ps_feed_room(const ps_feed *feed);
void ps_feed_fetch(const ps_feed *feed, const uint32_t *index, uint32_t n, void *room,
                   ps_stored *stored);
void ps_feed_gather_fetched(const ps_feed *feed, uint64_t epoch, const uint32_t *index, uint32_t n,
                            const ps_stored *stored, float *x, float *targets);

/* Training samples lie in a file: each is read back when it is gathered. */
bool ps_feed_is_far(const ps_feed *feed);

/* As ps_dataset_status. */
PS_MUST_USE ps_status ps_feed_status(const ps_feed *feed);

#endif
