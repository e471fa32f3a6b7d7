/* SPDX-License-Identifier: Apache-2.0 */
/* team.c - see team.h.
 *
 * Each ps_team_run with two items or more is a round, which has a number. Threads take items by
 * decrementing the low half of `ticket`, whose high half is the round's number. A helper that comes
 * late therefore takes nothing of a round that is over, and the caller waits for items that
 * somebody has taken, not for helpers: where other programs have the processors, the caller
 * computes alone.
 *
 * Waiting threads spin for a short time before they sleep, because the runs of one pass follow each
 * other within microseconds. They do not spin if there are fewer processors than threads.
 */
#include "common/nn/team.h"

#include "common/base/xalloc.h"

#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

enum { SPINS = 4000, LINE_FLOATS = PS_ALIGN_BYTES / sizeof(float) };

typedef struct helper {
    ps_team *team;
    pthread_t thread;
    uint32_t number; /* number of the thread, from 1 on; the caller's thread is 0 */
} helper;

struct ps_team {
    uint32_t count;  /* threads, the caller's included */
    helper *helpers; /* (count - 1) */
    float *scratch;  /* (count - 1, floats) */
    size_t floats;   /* a multiple of a cache line */
    int spins;       /* how often a waiting thread looks at a value before it sleeps */

    pthread_mutex_t mutex; /* held while waiting on the conditions and while waking */
    pthread_cond_t begun, ended;
    atomic_uint sleepers;   /* helpers that sleep or are about to */
    atomic_bool is_waiting; /* the caller sleeps or is about to */
    atomic_bool is_stopping;

    /* What the round computes. It changes only while no item is left or under way: a helper that
     * reads it too early or too late takes no item, because the ticket has changed. */
    atomic_uint items;
    _Atomic(ps_team_fn *) fn;
    _Atomic(void *) arg;

    _Alignas(PS_ALIGN_BYTES) atomic_ullong ticket; /* round << 32 | items not taken yet */
    _Alignas(PS_ALIGN_BYTES) atomic_uint done;     /* items of the round that are computed */
};

static void pause_a_little(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

static bool has_items(unsigned long long ticket)
{
    return (uint32_t)ticket != 0;
}

/* Counts an item as computed. After the last one wakes the caller of ps_team_run, if it sleeps. */
static void complete(ps_team *team, uint32_t items)
{
    if (atomic_fetch_add(&team->done, 1) + 1 == items && atomic_load(&team->is_waiting)) {
        pthread_mutex_lock(&team->mutex);
        pthread_cond_signal(&team->ended);
        pthread_mutex_unlock(&team->mutex);
    }
}

/* Takes items of the round and computes them until none is left. */
static void work(ps_team *team, uint32_t thread)
{
    unsigned long long ticket = atomic_load(&team->ticket);

    while (has_items(ticket)) {
        uint32_t items = atomic_load_explicit(&team->items, memory_order_relaxed);
        ps_team_fn *fn = atomic_load_explicit(&team->fn, memory_order_relaxed);
        void *arg = atomic_load_explicit(&team->arg, memory_order_relaxed);

        if (atomic_compare_exchange_weak(&team->ticket, &ticket, ticket - 1)) {
            fn(arg, items - (uint32_t)ticket, thread);
            complete(team, items);
            ticket = atomic_load(&team->ticket);
        }
    }
}

/* Blocks until there are items to take, or the team ends. */
static void await_items(ps_team *team)
{
    for (int i = 0; i < team->spins; i++) {
        if (has_items(atomic_load_explicit(&team->ticket, memory_order_acquire))) {
            return;
        }
        pause_a_little();
    }
    pthread_mutex_lock(&team->mutex);
    atomic_fetch_add(&team->sleepers, 1);
    while (!has_items(atomic_load(&team->ticket)) && !atomic_load(&team->is_stopping)) {
        pthread_cond_wait(&team->begun, &team->mutex);
    }
    atomic_fetch_sub(&team->sleepers, 1);
    pthread_mutex_unlock(&team->mutex);
}

static void *help(void *arg)
{
    helper *h = arg;

    while (!atomic_load(&h->team->is_stopping)) {
        await_items(h->team);
        work(h->team, h->number);
    }
    return NULL;
}

static void wake(ps_team *team)
{
    pthread_mutex_lock(&team->mutex);
    pthread_cond_broadcast(&team->begun);
    pthread_mutex_unlock(&team->mutex);
}

uint32_t ps_team_processors(void)
{
    cpu_set_t may;
    int count = sched_getaffinity(0, sizeof may, &may) == 0 ? CPU_COUNT(&may) : 1;

    return count > 0 ? (uint32_t)count : 1;
}

ps_team *ps_team_create(uint32_t threads, size_t floats)
{
    ps_team *team = ps_xaligned_alloc(sizeof *team);

    assert(threads >= 2 && threads <= PS_TEAM_MAX);
    *team = (ps_team){.count = 1, .spins = ps_team_processors() < threads ? 0 : SPINS};
    pthread_mutex_init(&team->mutex, NULL);
    pthread_cond_init(&team->begun, NULL);
    pthread_cond_init(&team->ended, NULL);
    team->floats = (floats + LINE_FLOATS - 1) / LINE_FLOATS * LINE_FLOATS;
    team->helpers = ps_xcalloc(threads - 1, sizeof *team->helpers);
    if (floats > 0) {
        team->scratch = ps_aligned_alloc((threads - 1) * team->floats * sizeof *team->scratch);
    }
    if (floats > 0 && team->scratch == NULL) {
        ps_team_destroy(team);
        return NULL;
    }
    for (; team->count < threads; team->count++) {
        helper *h = &team->helpers[team->count - 1];

        *h = (helper){.team = team, .number = team->count};
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
    atomic_store(&team->is_stopping, true);
    wake(team);
    for (uint32_t i = 0; i + 1 < team->count; i++) {
        pthread_join(team->helpers[i].thread, NULL);
    }
    pthread_cond_destroy(&team->ended);
    pthread_cond_destroy(&team->begun);
    pthread_mutex_destroy(&team->mutex);
    free(team->scratch);
    free(team->helpers);
    free(team);
}

uint32_t ps_team_threads(const ps_team *team)
{
    return team == NULL ? 1 : team->count;
}

size_t ps_team_memory(const ps_team *team)
{
    return team == NULL ? 0 : (team->count - 1) * team->floats * sizeof *team->scratch;
}

float *ps_team_scratch(const ps_team *team, uint32_t number, float *own)
{
    assert(number < ps_team_threads(team));
    return number == 0 ? own : team->scratch + (number - 1) * team->floats;
}

/* Blocks until all items of the round are computed. */
static void await_end(ps_team *team, uint32_t items)
{
    for (int i = 0; i < team->spins; i++) {
        if (atomic_load_explicit(&team->done, memory_order_acquire) == items) {
            return;
        }
        pause_a_little();
    }
    pthread_mutex_lock(&team->mutex);
    atomic_store(&team->is_waiting, true);
    while (atomic_load(&team->done) != items) {
        pthread_cond_wait(&team->ended, &team->mutex);
    }
    atomic_store(&team->is_waiting, false);
    pthread_mutex_unlock(&team->mutex);
}

void ps_team_run(ps_team *team, uint32_t items, ps_team_fn *fn, void *arg)
{
    unsigned long long round;

    if (team == NULL || items < 2) {
        for (uint32_t i = 0; i < items; i++) {
            fn(arg, i, 0);
        }
        return;
    }
    round = (atomic_load_explicit(&team->ticket, memory_order_relaxed) >> 32) + 1;
    atomic_store_explicit(&team->items, items, memory_order_relaxed);
    atomic_store_explicit(&team->fn, fn, memory_order_relaxed);
    atomic_store_explicit(&team->arg, arg, memory_order_relaxed);
    atomic_store_explicit(&team->done, 0, memory_order_relaxed);
    atomic_store(&team->ticket, round << 32 | items);
    if (atomic_load(&team->sleepers) > 0) {
        wake(team);
    }
    work(team, 0);
    await_end(team, items);
}

typedef struct ranges {
    size_t size, align;
    uint32_t parts;
    ps_range_fn *fn;
    void *arg;
} ranges;

static void run_range(void *arg, uint32_t item, uint32_t thread)
{
    const ranges *of = arg;
    size_t from = ps_part_at(of->size, of->align, of->parts, item);
    size_t to = ps_part_at(of->size, of->align, of->parts, item + 1);

    (void)thread;
    if (from < to) {
        of->fn(of->arg, from, to);
    }
}

void ps_team_ranges(ps_team *team, size_t size, size_t align, ps_range_fn *fn, void *arg)
{
    ranges of = {
        .size = size, .align = align, .parts = ps_team_threads(team), .fn = fn, .arg = arg};

    ps_team_run(team, of.parts, run_range, &of);
}
