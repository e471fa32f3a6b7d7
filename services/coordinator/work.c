/* SPDX-License-Identifier: Apache-2.0 */
/* work.c - one helper thread for what would hold up the loop. */
#include "services/coordinator/work.h"

#include "common/base/container_of.h"
#include "common/base/xalloc.h"

#include <pthread.h>
#include <stdlib.h>

struct ps_work {
    ps_loop *loop;
    pthread_t thread;
    pthread_mutex_t lock; /* guards first, last, is_stopping */
    pthread_cond_t wake;
    ps_task *first, *last;
    bool is_stopping;
};

static void finish(ps_event *event, bool ok)
{
    ps_task *task = PS_CONTAINER_OF(event, ps_task, event);

    (void)ok; /* a task that was not run looks like one that failed */
    task->done(task);
}

static void *serve(void *arg)
{
    ps_work *work = arg;

    pthread_mutex_lock(&work->lock);
    for (;;) {
        ps_task *task;
        bool runs;

        while (!work->first && !work->is_stopping) {
            pthread_cond_wait(&work->wake, &work->lock);
        }
        task = work->first;
        if (!task) {
            break;
        }
        work->first = task->next;
        if (!work->first) {
            work->last = NULL;
        }
        runs = !work->is_stopping;
        pthread_mutex_unlock(&work->lock);
        if (runs) {
            task->run(task);
        }
        ps_loop_post(work->loop, &task->event);
        pthread_mutex_lock(&work->lock);
    }
    pthread_mutex_unlock(&work->lock);
    return NULL;
}

ps_status ps_work_create(ps_loop *loop, ps_work **out)
{
    ps_work *work = ps_xcalloc(1, sizeof *work);
    int err;

    work->loop = loop;
    pthread_mutex_init(&work->lock, NULL);
    pthread_cond_init(&work->wake, NULL);
    err = pthread_create(&work->thread, NULL, serve, work);
    if (err != 0) {
        free(work);
        return ps_fail_errno(err, "start a thread");
    }
    *out = work;
    return ps_ok();
}

void ps_work_submit(ps_work *work, ps_task *task)
{
    task->event = (ps_event){.fire = finish};
    task->next = NULL;
    pthread_mutex_lock(&work->lock);
    if (work->last) {
        work->last->next = task;
    } else {
        work->first = task;
    }
    work->last = task;
    pthread_cond_signal(&work->wake);
    pthread_mutex_unlock(&work->lock);
}

void ps_work_destroy(ps_work *work)
{
    if (!work) {
        return;
    }
    pthread_mutex_lock(&work->lock);
    work->is_stopping = true;
    pthread_cond_signal(&work->wake);
    pthread_mutex_unlock(&work->lock);
    pthread_join(work->thread, NULL);
    pthread_cond_destroy(&work->wake);
    pthread_mutex_destroy(&work->lock);
    free(work);
}
