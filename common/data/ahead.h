/* SPDX-License-Identifier: Apache-2.0 */
/* ahead.h - reads the next training blocks on a thread of its own while one block is computed.
 *
 * It is for samples that lie in a file: reading one back costs a system call, and the time of
 * the disk if the system's cache lacks it. The thread reads the stored form, which is smaller
 * than the samples. The caller makes samples of it as it would of data in memory, so results do
 * not depend on which thread read. Read blocks wait in a ring. The thread is woken when at most
 * half of the ring has read blocks, or when the caller waits; so it is woken once for many blocks.
 */
#ifndef PS_COMMON_DATA_AHEAD_H
#define PS_COMMON_DATA_AHEAD_H

#include "common/data/feed.h"

typedef struct ps_ahead ps_ahead;

/* Creates a reader for blocks of at most `samples` training samples of `feed`, and starts its
 * thread. Keeps `feed`. Only one thread may call the functions below, unless they say otherwise.
 * Returns RESOURCE_EXHAUSTED without memory or a thread. */
PS_MUST_USE ps_status ps_ahead_create(const ps_feed *feed, size_t samples, ps_ahead **out);
/* Stops the thread and frees the reader. NULL is allowed. */
void ps_ahead_destroy(ps_ahead *ahead);

/* Requests a block, to be read after the blocks that are requested already. Copies `index` (n, at
 * most `samples`). Returns false and does nothing if the ring has no room. Never blocks. */
bool ps_ahead_want(ps_ahead *ahead, uint64_t epoch, const uint32_t *index, uint32_t n);

/* Gathers a block of training samples like ps_feed_gather, and returns whether the block was
 * requested. Blocks until a requested block is read, and drops the requests before it. A block that
 * was not requested is read by the calling thread, after all requested blocks are read; then all
 * requests are dropped. */
bool ps_ahead_take(ps_ahead *ahead, uint64_t epoch, const uint32_t *index, uint32_t n, float *x,
                   float *targets);

/* Returns how long ps_ahead_take has waited for blocks that were not read yet, or has read blocks
 * itself that were not requested. */
int64_t ps_ahead_waited_ns(const ps_ahead *ahead);

/* Returns how long files were read: by the thread, also while the caller did something else, and by
 * ps_ahead_take itself. */
int64_t ps_ahead_read_ns(const ps_ahead *ahead);

/* Returns the bytes of memory that the reader holds, from create to destroy. Any thread. */
size_t ps_ahead_memory(const ps_ahead *ahead);

#endif
