/* SPDX-License-Identifier: Apache-2.0 */
/* ahead.c - see ahead.h. */
#include "common/data/ahead.h"

#include "common/base/clock.h"
#include "common/base/xalloc.h"
#include "common/data/dataset_impl.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* The ring has BLOCKS_MAX blocks, fewer if they would exceed RING_BYTES, and at least one. */
enum { BLOCKS_MAX = 16, RING_BYTES = 4 << 20 };

typedef struct block {
    uint64_t epoch;
    uint32_t n;
    uint32_t *index;   /* (ps_ahead.most, n used) indices of its training samples */
    ps_stored *stored; /* (most) stored form of each sample, in `room` or in the set's memory */
    void *room;        /* (most, ps_feed_room) for stored forms that are read from a file */
} block;

struct ps_ahead {
    const ps_feed *feed;
    size_t most; /* maximum of samples in a block */
    pthread_t thread;
    bool has_thread;

    /* Block k, counted over all requests from 0, is ring[k % blocks]. The thread owns it from its
     * request until it is read; then the caller owns it. */
    block ring[BLOCKS_MAX];
    uint32_t blocks;

    pthread_mutex_t mutex; /* guards the members below, up to is_stopping */
    pthread_cond_t is_wanted, is_read;
    /* How many blocks were requested, read by the thread, and taken or dropped by the caller so
     * far; taken <= read <= wanted. Only the caller's thread writes `wanted` and `taken`. */
    uint64_t wanted, read, taken;
    bool is_resting; /* the thread sleeps until wake() or the end */
    bool is_waiting; /* the caller waits in wait_for */
    bool is_stopping;

    /* what ps_ahead_waited_ns returns; only the caller's thread uses it */
    int64_t waited_ns;
    atomic_int_least64_t read_ns; /* what ps_ahead_read_ns returns; both threads add to it */
};

static void *run(void *arg)
{
    ps_ahead *a = arg;
    int64_t began_ns;

    pthread_mutex_lock(&a->mutex);
    while (!a->is_stopping) {
        block *b = &a->ring[a->read % a->blocks];

        if (a->read == a->wanted || a->is_resting) {
            a->is_resting = true;
            pthread_cond_wait(&a->is_wanted, &a->mutex);
            continue;
        }
        pthread_mutex_unlock(&a->mutex);
        began_ns = ps_clock_ns();
        ps_feed_fetch(a->feed, b->index, b->n, b->room, b->stored);
        atomic_fetch_add_explicit(&a->read_ns, ps_clock_ns() - began_ns, memory_order_relaxed);
        pthread_mutex_lock(&a->mutex);
        a->read++;
        if (a->is_waiting) {
            pthread_cond_signal(&a->is_read);
        }
    }
    pthread_mutex_unlock(&a->mutex);
    return NULL;
}

/* Wakes the thread if it sleeps and has blocks to read. The caller holds the mutex. */
static void wake(ps_ahead *a)
{
    if (a->is_resting && a->read < a->wanted) {
        a->is_resting = false;
        pthread_cond_signal(&a->is_wanted);
    }
}

static size_t block_bytes(const ps_ahead *a)
{
    return a->most * (ps_feed_room(a->feed) + sizeof *a->ring[0].index + sizeof *a->ring[0].stored);
}

static bool block_init(block *b, size_t samples, size_t room)
{
    *b = (block){.index = calloc(samples, sizeof *b->index),
                 .stored = calloc(samples, sizeof *b->stored),
                 .room = ps_aligned_alloc(samples * room)};
    return b->index != NULL && b->stored != NULL && b->room != NULL;
}

ps_status ps_ahead_create(const ps_feed *feed, size_t samples, ps_ahead **out)
{
    ps_ahead *a = ps_xcalloc(1, sizeof *a);
    size_t fit;
    bool has_memory = true;

    a->feed = feed;
    a->most = samples;
    fit = RING_BYTES / block_bytes(a);
    a->blocks = fit < 1 ? 1 : fit < BLOCKS_MAX ? (uint32_t)fit : BLOCKS_MAX;
    pthread_mutex_init(&a->mutex, NULL);
    pthread_cond_init(&a->is_wanted, NULL);
    pthread_cond_init(&a->is_read, NULL);
    for (uint32_t i = 0; i < a->blocks && has_memory; i++) {
        has_memory = block_init(&a->ring[i], samples, ps_feed_room(feed));
    }
    a->has_thread = has_memory && pthread_create(&a->thread, NULL, run, a) == 0;
    if (!a->has_thread) {
        ps_ahead_destroy(a);
        return ps_fail(PS_RESOURCE_EXHAUSTED, "no memory or no thread to read %zu samples ahead",
                       samples);
    }
    *out = a;
    return ps_ok();
}

void ps_ahead_destroy(ps_ahead *a)
{
    if (a == NULL) {
        return;
    }
    if (a->has_thread) {
        pthread_mutex_lock(&a->mutex);
        a->is_stopping = true;
        pthread_cond_signal(&a->is_wanted);
        pthread_mutex_unlock(&a->mutex);
        pthread_join(a->thread, NULL);
    }
    pthread_cond_destroy(&a->is_wanted);
    pthread_cond_destroy(&a->is_read);
    pthread_mutex_destroy(&a->mutex);
    for (uint32_t i = 0; i < a->blocks; i++) {
        free(a->ring[i].index);
        free(a->ring[i].stored);
        free(a->ring[i].room);
    }
    free(a);
}

size_t ps_ahead_memory(const ps_ahead *a)
{
    return sizeof *a + a->blocks * block_bytes(a);
}

bool ps_ahead_want(ps_ahead *a, uint64_t epoch, const uint32_t *index, uint32_t n)
{
    /* read without the lock: only the caller's thread changes `wanted` and `taken` */
    block *b = &a->ring[a->wanted % a->blocks];

    assert(n <= a->most);
    if (a->wanted - a->taken == a->blocks) {
        return false;
    }
    b->epoch = epoch;
    b->n = n;
    memcpy(b->index, index, n * sizeof *index);
    pthread_mutex_lock(&a->mutex);
    a->wanted++;
    if (a->read - a->taken <= a->blocks / 2) {
        wake(a);
    }
    pthread_mutex_unlock(&a->mutex);
    return true;
}

/* Returns the number of the first requested block with exactly these samples of this epoch;
 * a->wanted if there is none. */
static uint64_t find(const ps_ahead *a, uint64_t epoch, const uint32_t *index, uint32_t n)
{
    uint64_t k;

    for (k = a->taken; k < a->wanted; k++) {
        const block *b = &a->ring[k % a->blocks];

        if (b->epoch == epoch && b->n == n && memcmp(b->index, index, n * sizeof *index) == 0) {
            break;
        }
    }
    return k;
}

/* Blocks until the thread has read all blocks whose number is below `blocks`. They then belong to
 * the caller. */
static void wait_for(ps_ahead *a, uint64_t blocks)
{
    int64_t began_ns = 0;

    pthread_mutex_lock(&a->mutex);
    while (a->read < blocks) {
        began_ns = began_ns == 0 ? ps_clock_ns() : began_ns;
        wake(a);
        a->is_waiting = true;
        pthread_cond_wait(&a->is_read, &a->mutex);
    }
    a->is_waiting = false;
    pthread_mutex_unlock(&a->mutex);
    a->waited_ns += began_ns == 0 ? 0 : ps_clock_ns() - began_ns;
}

int64_t ps_ahead_read_ns(const ps_ahead *a)
{
    return atomic_load_explicit(&a->read_ns, memory_order_relaxed);
}

int64_t ps_ahead_waited_ns(const ps_ahead *a)
{
    return a->waited_ns;
}

bool ps_ahead_take(ps_ahead *a, uint64_t epoch, const uint32_t *index, uint32_t n, float *x,
                   float *targets)
{
    uint64_t at = find(a, epoch, index, n);
    bool was_wanted = at < a->wanted;

    wait_for(a, was_wanted ? at + 1 : at);
    if (was_wanted) {
        const block *b = &a->ring[at % a->blocks];

        ps_feed_gather_fetched(a->feed, epoch, index, n, b->stored, x, targets);
    } else {
        int64_t took_ns = -ps_clock_ns();

        ps_feed_gather(a->feed, epoch, PS_TRAIN, index, 0, n, x, targets);
        took_ns += ps_clock_ns();
        a->waited_ns += took_ns;
        atomic_fetch_add_explicit(&a->read_ns, took_ns, memory_order_relaxed);
    }
    pthread_mutex_lock(&a->mutex);
    a->taken = was_wanted ? at + 1 : at;
    if (a->read - a->taken <= a->blocks / 2) {
        wake(a);
    }
    pthread_mutex_unlock(&a->mutex);
    return was_wanted;
}
