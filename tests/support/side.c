/* SPDX-License-Identifier: Apache-2.0 */
/* side.c - see side.h. */
#include "tests/support/side.h"

#include "common/base/container_of.h"
#include "tests/support/patience.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* --- flag ------------------------------------------------------------------ */

static void on_event(ps_event *self, bool ok)
{
    (void)ok;
    flag_raise(PS_CONTAINER_OF(self, flag, event));
}

void flag_init(flag *f)
{
    *f = (flag){.event.fire = on_event};
    pthread_mutex_init(&f->mutex, NULL);
    pthread_cond_init(&f->changed, NULL);
}

void flag_raise(flag *f)
{
    pthread_mutex_lock(&f->mutex);
    f->is_up = true;
    pthread_cond_broadcast(&f->changed);
    pthread_mutex_unlock(&f->mutex);
}

void flag_wait(flag *f)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PS_TEST_PATIENCE_S;
    pthread_mutex_lock(&f->mutex);
    while (!f->is_up) {
        if (pthread_cond_timedwait(&f->changed, &f->mutex, &until) != 0) {
            fprintf(stderr, "flag_wait: what was waited for did not come\n");
            abort();
        }
    }
    f->is_up = false;
    pthread_mutex_unlock(&f->mutex);
}

void flag_fini(flag *f)
{
    pthread_cond_destroy(&f->changed);
    pthread_mutex_destroy(&f->mutex);
}

/* --- side ------------------------------------------------------------------ */

static void *run(void *arg)
{
    side *s = arg;

    ps_loop_run(s->loop);
    return NULL;
}

void side_start(side *s)
{
    ps_status st = ps_loop_create(&s->loop);
    int err;

    assert(ps_is_ok(&st));
    err = pthread_create(&s->thread, NULL, run, s);
    assert(err == 0);
    (void)err;
}

typedef struct errand {
    ps_event event;
    void (*fn)(void *arg);
    void *arg;
    flag done;
} errand;

static void on_errand(ps_event *self, bool ok)
{
    errand *e = PS_CONTAINER_OF(self, errand, event);

    assert(ok);
    (void)ok;
    e->fn(e->arg);
    flag_raise(&e->done);
}

void side_run(side *s, void (*fn)(void *arg), void *arg)
{
    errand e = {.event.fire = on_errand, .fn = fn, .arg = arg};

    flag_init(&e.done);
    ps_loop_post(s->loop, &e.event);
    flag_wait(&e.done);
    flag_fini(&e.done);
}

static void stop(void *arg)
{
    side *s = arg;

    ps_loop_stop(s->loop);
}

void side_stop(side *s)
{
    side_run(s, stop, s);
    pthread_join(s->thread, NULL);
    ps_loop_destroy(s->loop);
}
