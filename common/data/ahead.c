/* SPDX-License-Identifier: Apache-2.0 */
/* ahead.c - see ahead.h. */
#include "common/data/ahead.h"

#include "common/base/xalloc.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct ps_ahead {
    const ps_feed *feed;
    size_t most;
    pthread_t thread;
    bool has_thread;

    pthread_mutex_t mutex; /* guards the three */
    pthread_cond_t changed;
    bool stopping;
    bool is_wanted; /* the thread has what is below, */
    bool is_there;  /* and now its taker */

    uint64_t epoch;
    uint32_t n;
    uint32_t *index;    /* (most) */
    float *x, *targets; /* of `most` samples */
};

static void *run(void *arg)
{
    ps_ahead *a = arg;

    pthread_mutex_lock(&a->mutex);
    for (;;) {
        while (!a->is_wanted && !a->stopping) {
            pthread_cond_wait(&a->changed, &a->mutex);
        }
        if (a->stopping) {
            break;
        }
        pthread_mutex_unlock(&a->mutex);
        ps_feed_gather(a->feed, a->epoch, PS_TRAIN, a->index, 0, a->n, a->x, a->targets);
        pthread_mutex_lock(&a->mutex);
        a->is_wanted = false;
        a->is_there = true;
        pthread_cond_broadcast(&a->changed);
    }
    pthread_mutex_unlock(&a->mutex);
    return NULL;
}

ps_status ps_ahead_create(const ps_feed *feed, size_t samples, ps_ahead **out)
{
    const ps_data_facts *facts = ps_feed_made_facts(feed);
    ps_ahead *a = ps_xcalloc(1, sizeof *a);

    *a = (ps_ahead){.feed = feed, .most = samples};
    pthread_mutex_init(&a->mutex, NULL);
    pthread_cond_init(&a->changed, NULL);
    a->index = ps_xcalloc(samples, sizeof *a->index);
    a->x = calloc(samples * facts->features, sizeof *a->x);
    a->targets = calloc(samples * facts->target_width, sizeof *a->targets);
    a->has_thread =
        a->x != NULL && a->targets != NULL && pthread_create(&a->thread, NULL, run, a) == 0;
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
        a->stopping = true;
        pthread_cond_broadcast(&a->changed);
        pthread_mutex_unlock(&a->mutex);
        pthread_join(a->thread, NULL);
    }
    pthread_cond_destroy(&a->changed);
    pthread_mutex_destroy(&a->mutex);
    free(a->index);
    free(a->x);
    free(a->targets);
    free(a);
}

void ps_ahead_want(ps_ahead *a, uint64_t epoch, const uint32_t *index, uint32_t n)
{
    assert(n <= a->most);
    pthread_mutex_lock(&a->mutex);
    assert(!a->is_wanted);
    a->epoch = epoch;
    a->n = n;
    memcpy(a->index, index, n * sizeof *index);
    a->is_there = false;
    a->is_wanted = true;
    pthread_cond_broadcast(&a->changed);
    pthread_mutex_unlock(&a->mutex);
}

static void swap(float **a, float **b)
{
    float *held = *a;

    *a = *b;
    *b = held;
}

bool ps_ahead_take(ps_ahead *a, uint64_t epoch, const uint32_t *index, uint32_t n, float **x,
                   float **targets)
{
    bool is_it;

    pthread_mutex_lock(&a->mutex);
    while (a->is_wanted) {
        pthread_cond_wait(&a->changed, &a->mutex);
    }
    is_it = a->is_there && a->epoch == epoch && a->n == n &&
            memcmp(a->index, index, n * sizeof *index) == 0;
    a->is_there = false;
    pthread_mutex_unlock(&a->mutex);
    if (is_it) {
        swap(x, &a->x);
        swap(targets, &a->targets);
    } else {
        ps_feed_gather(a->feed, epoch, PS_TRAIN, index, 0, n, *x, *targets);
    }
    return is_it;
}
