/* SPDX-License-Identifier: Apache-2.0 */
/* team.c - see team.h. A helper spins for a short time before it sleeps, because the products of
 * one pass follow each other within microseconds. */
#include "common/nn/team.h"

#include "common/base/xalloc.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

enum { SPINS = 4000 };

typedef struct helper {
    ps_team *team;
    pthread_t thread;
    uint32_t part; /* the part that it computes in each round that has so many */
} helper;

struct ps_team {
    uint32_t count;        /* threads, the caller's included */
    helper *helpers;       /* (count - 1) */
    pthread_mutex_t mutex; /* guards waiting on the conditions, and changes of `round` */
    pthread_cond_t begun, ended;
    atomic_uint round; /* the number of the run; a change starts the helpers */
    atomic_uint left;  /* helpers that have not completed the round */
    bool is_stopping;
    /* What the round computes. Constant while `left` is not 0. */
    uint32_t parts;
    void (*fn)(void *arg, uint32_t part);
    void *arg;
};

static void pause_a_little(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

/* Blocks until the round's number is not `seen`. Returns it. */
static unsigned await_round(ps_team *team, unsigned seen)
{
    unsigned round = seen;

    for (int i = 0; i < SPINS && round == seen; i++) {
        round = atomic_load_explicit(&team->round, memory_order_acquire);
        pause_a_little();
    }
    if (round == seen) {
        pthread_mutex_lock(&team->mutex);
        while ((round = atomic_load_explicit(&team->round, memory_order_acquire)) == seen) {
            pthread_cond_wait(&team->begun, &team->mutex);
        }
        pthread_mutex_unlock(&team->mutex);
    }
    return round;
}

static void *help(void *arg)
{
    helper *h = arg;
    ps_team *team = h->team;
    unsigned round = 0;

    for (;;) {
        round = await_round(team, round);
        if (team->is_stopping) {
            return NULL;
        }
        if (h->part < team->parts) {
            team->fn(team->arg, h->part);
        }
        if (atomic_fetch_sub_explicit(&team->left, 1, memory_order_acq_rel) == 1) {
            pthread_mutex_lock(&team->mutex);
            pthread_cond_signal(&team->ended);
            pthread_mutex_unlock(&team->mutex);
        }
    }
}

/* Increments the round's number and wakes the helpers. */
static void begin(ps_team *team)
{
    pthread_mutex_lock(&team->mutex);
    atomic_store_explicit(&team->left, team->count - 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&team->round, 1, memory_order_release);
    pthread_cond_broadcast(&team->begun);
    pthread_mutex_unlock(&team->mutex);
}

ps_team *ps_team_create(uint32_t threads)
{
    ps_team *team = ps_xcalloc(1, sizeof *team);

    assert(threads >= 2 && threads <= PS_TEAM_MAX);
    pthread_mutex_init(&team->mutex, NULL);
    pthread_cond_init(&team->begun, NULL);
    pthread_cond_init(&team->ended, NULL);
    team->helpers = ps_xcalloc(threads - 1, sizeof *team->helpers);
    for (team->count = 1; team->count < threads; team->count++) {
        helper *h = &team->helpers[team->count - 1];

        *h = (helper){.team = team, .part = team->count};
        if (pthread_create(&h->thread, NULL, help, h) != 0) {
            ps_team_destroy(team);
            return NULL;
        }
    }
    return team;
}

void ps_team_destroy(ps_team *team)
{
    if (team == NULL) {
        return;
    }
    team->is_stopping = true;
    begin(team);
    for (uint32_t i = 0; i + 1 < team->count; i++) {
        pthread_join(team->helpers[i].thread, NULL);
    }
    pthread_cond_destroy(&team->ended);
    pthread_cond_destroy(&team->begun);
    pthread_mutex_destroy(&team->mutex);
    free(team->helpers);
    free(team);
}

uint32_t ps_team_threads(const ps_team *team)
{
    return team == NULL ? 1 : team->count;
}

void ps_team_run(ps_team *team, uint32_t parts, void (*fn)(void *arg, uint32_t part), void *arg)
{
    assert(parts >= 1 && parts <= ps_team_threads(team));
    if (parts == 1) {
        fn(arg, 0);
        return;
    }
    team->parts = parts;
    team->fn = fn;
    team->arg = arg;
    begin(team);
    fn(arg, 0);
    for (int i = 0; i < SPINS; i++) {
        if (atomic_load_explicit(&team->left, memory_order_acquire) == 0) {
            return;
        }
        pause_a_little();
    }
    pthread_mutex_lock(&team->mutex);
    while (atomic_load_explicit(&team->left, memory_order_acquire) != 0) {
        pthread_cond_wait(&team->ended, &team->mutex);
    }
    pthread_mutex_unlock(&team->mutex);
}
