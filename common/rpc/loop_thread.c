/* SPDX-License-Identifier: Apache-2.0 */
/* loop_thread.c - see loop_thread.h. */
#include "common/rpc/loop_thread.h"

#include "common/base/container_of.h"
#include "common/base/free_memory.h"
#include "common/base/xalloc.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

struct ps_loop_thread {
    ps_loop *loop;
    pthread_t thread;
};

/* A function that the loop's thread runs for another thread, which waits until it has returned. */
typedef struct errand {
    ps_event event;
    void (*fn)(void *arg);
    void *arg;
    pthread_mutex_t mutex; /* guards is_done */
    pthread_cond_t changed;
    bool is_done;
} errand;

static void *run(void *arg)
{
    ps_loop_thread *t = arg;

    ps_free_memory_use_huge_pages();
    ps_loop_run(t->loop);
    return NULL;
}

ps_status ps_loop_thread_start(const char *name, ps_loop_thread **out)
{
    ps_loop_thread *t = ps_xcalloc(1, sizeof *t);
    ps_status st = ps_loop_create(&t->loop);
    int err;

    if (!ps_is_ok(&st)) {
        free(t);
        return st;
    }
    err = pthread_create(&t->thread, NULL, run, t);
    if (err != 0) {
        ps_loop_destroy(t->loop);
        free(t);
        return ps_fail(PS_RESOURCE_EXHAUSTED, "cannot start thread %s", name);
    }
    (void)pthread_setname_np(t->thread, name);
    *out = t;
    return ps_ok();
}

ps_loop *ps_loop_thread_loop(ps_loop_thread *thread)
{
    return thread->loop;
}

static void on_errand(ps_event *self, bool ok)
{
    errand *e = PS_CONTAINER_OF(self, errand, event);

    /* `ok` is false only after ps_loop_stop, and the function that calls it (stop) is the last one
     */
    assert(ok);
    (void)ok;
    e->fn(e->arg);
    pthread_mutex_lock(&e->mutex);
    e->is_done = true;
    pthread_cond_signal(&e->changed);
    pthread_mutex_unlock(&e->mutex);
}

void ps_loop_thread_run(ps_loop_thread *thread, void (*fn)(void *arg), void *arg)
{
    errand e = {.event.fire = on_errand, .fn = fn, .arg = arg};

    pthread_mutex_init(&e.mutex, NULL);
    pthread_cond_init(&e.changed, NULL);
    ps_loop_post(thread->loop, &e.event);
    pthread_mutex_lock(&e.mutex);
    while (!e.is_done) {
        pthread_cond_wait(&e.changed, &e.mutex);
    }
    pthread_mutex_unlock(&e.mutex);
    pthread_cond_destroy(&e.changed);
    pthread_mutex_destroy(&e.mutex);
}

static void stop(void *arg)
{
    ps_loop_stop(((ps_loop_thread *)arg)->loop);
}

void ps_loop_thread_stop(ps_loop_thread *thread)
{
    if (thread != NULL) {
        ps_loop_thread_run(thread, stop, thread);
        pthread_join(thread->thread, NULL);
        ps_loop_destroy(thread->loop);
        free(thread);
    }
}
