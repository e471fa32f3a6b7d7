/* SPDX-License-Identifier: Apache-2.0 */
/* registry_ahead.c - see registry_ahead.h. */
#include "services/coordinator/io/registry_ahead.h"

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/xalloc.h"
#include "services/coordinator/io/registry_etcd.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

static const int64_t pause_us = 500000; /* shortest pause between two reads */
/* A pause is at least so many times as long as the read before it, as reading all keys takes time
 * of etcd. */
enum { PAUSE_TIMES = 20 };

struct ps_registry_ahead {
    ps_registry *registry; /* only the thread uses it, until it has ended */
    pthread_t thread;
    atomic_bool is_stopping;
    pthread_mutex_t mutex; /* for `changed`, which is signalled when is_stopping is set */
    pthread_cond_t changed;
};

static void pause_for(ps_registry_ahead *a, int64_t us)
{
    int64_t at_us = ps_clock_us() + us;
    struct timespec at = {.tv_sec = at_us / 1000000, .tv_nsec = at_us % 1000000 * 1000};
    int err = 0;

    pthread_mutex_lock(&a->mutex);
    while (!atomic_load(&a->is_stopping) && err != ETIMEDOUT) {
        err = pthread_cond_timedwait(&a->changed, &a->mutex, &at);
    }
    pthread_mutex_unlock(&a->mutex);
}

static void *run(void *arg)
{
    ps_registry_ahead *a = arg;
    int64_t seen = 0;

    while (!atomic_load(&a->is_stopping)) {
        int64_t begin_us = ps_clock_us(), took_us, revision = 0;
        ps_status st = ps_registry_etcd_read(a->registry, &revision);

        took_us = ps_clock_us() - begin_us;
        if (!ps_is_ok(&st)) { /* no harm: ps_registry_etcd_lead reads what is missing then */
            ps_log(PS_LOG_DEBUG, "registry", "cannot read ahead: %s", st.text);
        } else if (revision != seen) {
            ps_log(PS_LOG_DEBUG, "registry", "read ahead to revision %lld of etcd in %.3f s",
                   (long long)revision, (double)took_us * 1e-6);
            seen = revision;
        }
        pause_for(a, took_us * PAUSE_TIMES > pause_us ? took_us * PAUSE_TIMES : pause_us);
    }
    return NULL;
}

static void destroy(ps_registry_ahead *a)
{
    pthread_cond_destroy(&a->changed);
    pthread_mutex_destroy(&a->mutex);
    free(a);
}

ps_status ps_registry_ahead_start(ps_etcd *etcd, const char *temp_dir, ps_registry_ahead **out)
{
    ps_registry_ahead *a = ps_xcalloc(1, sizeof *a);
    pthread_condattr_t attr;
    ps_status st = ps_registry_etcd_follow(etcd, temp_dir, &a->is_stopping, &a->registry);

    pthread_mutex_init(&a->mutex, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC); /* the clock of ps_clock_us */
    pthread_cond_init(&a->changed, &attr);
    pthread_condattr_destroy(&attr);
    if (ps_is_ok(&st) && pthread_create(&a->thread, NULL, run, a) != 0) {
        ps_registry_close(a->registry);
        st = ps_fail(PS_RESOURCE_EXHAUSTED, "cannot start the thread that reads the registry");
    }
    if (!ps_is_ok(&st)) {
        destroy(a);
        return st;
    }
    (void)pthread_setname_np(a->thread, "registry-ahead");
    *out = a;
    return st;
}

ps_registry *ps_registry_ahead_take(ps_registry_ahead *a)
{
    ps_registry *registry;

    if (!a) {
        return NULL;
    }
    pthread_mutex_lock(&a->mutex);
    atomic_store(&a->is_stopping, true);
    pthread_cond_signal(&a->changed);
    pthread_mutex_unlock(&a->mutex);
    pthread_join(a->thread, NULL);
    registry = a->registry;
    destroy(a);
    return registry;
}
