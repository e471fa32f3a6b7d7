/* SPDX-License-Identifier: Apache-2.0 */
/* ahead.h - blocks that come next are read by a thread of their own while one is computed.
 *
 * For samples that lie in a file: reading them back costs a system call each, and the time of
 * the disk where the system's cache does not have them. What is read is what is stored, a
 * fraction of what samples take; who takes a block makes samples of it as of data in memory, so
 * nobody sees which thread read it. Several blocks lie read in a ring, which is filled whenever
 * half of it is free: the thread is woken once for many blocks.
 */
#ifndef PS_COMMON_DATA_AHEAD_H
#define PS_COMMON_DATA_AHEAD_H

#include "common/data/feed.h"

typedef struct ps_ahead ps_ahead;

/* Blocks of at most so many training samples of the feed, which is kept. RESOURCE_EXHAUSTED: no
 * memory, or no thread. One thread at a time uses it. */
PS_MUST_USE ps_status ps_ahead_create(const ps_feed *feed, size_t samples, ps_ahead **out);
void ps_ahead_destroy(ps_ahead *ahead); /* NULL is allowed */

/* This block will be wanted after those that are wanted already; index is copied. False, and
 * nothing happens: there is no room for another one. */
bool ps_ahead_want(ps_ahead *ahead, uint64_t epoch, const uint32_t *index, uint32_t n);

/* As ps_feed_gather of training samples. If the block was wanted its samples are those that were
 * read, waited for if need be, and blocks wanted before it are not any more; else they are read now
 * and nothing is wanted any more. True: it was wanted. */
bool ps_ahead_take(ps_ahead *ahead, uint64_t epoch, const uint32_t *index, uint32_t n, float *x,
                   float *targets);

/* Bytes that it holds. */
size_t ps_ahead_memory(const ps_ahead *ahead);

#endif
