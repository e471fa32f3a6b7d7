/* SPDX-License-Identifier: Apache-2.0 */
/* ahead.h - the block after this one is gathered by a thread of its own while this one is
 * computed.
 *
 * For samples that lie in a file: reading them back costs a system call each, and the time of
 * the disk where the system's cache does not have them. What is gathered is what ps_feed_gather
 * gives; nobody sees which thread it was.
 */
#ifndef PS_COMMON_DATA_AHEAD_H
#define PS_COMMON_DATA_AHEAD_H

#include "common/data/feed.h"

typedef struct ps_ahead ps_ahead;

/* Blocks of at most so many samples of the feed, which is kept. RESOURCE_EXHAUSTED: no memory, or
 * no thread. One thread at a time uses it. */
PS_MUST_USE ps_status ps_ahead_create(const ps_feed *feed, size_t samples, ps_ahead **out);
void ps_ahead_destroy(ps_ahead *ahead); /* NULL is allowed */

/* This block of training samples will be wanted next; index is copied. Once between two takes. */
void ps_ahead_want(ps_ahead *ahead, uint64_t epoch, const uint32_t *index, uint32_t n);

/* The block: if it is the one that was wanted, *x and *targets, heap memory for so many samples,
 * change places with where it lies, else it is gathered into them now. Waits for what is being
 * read, as ps_feed_gather would. True: it was wanted. */
bool ps_ahead_take(ps_ahead *ahead, uint64_t epoch, const uint32_t *index, uint32_t n, float **x,
                   float **targets);

#endif
