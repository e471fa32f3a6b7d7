/* SPDX-License-Identifier: Apache-2.0 */
/* helper.c - see helper.h. */
#include "common/node/helper.h"

#include "common/base/xalloc.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

struct ps_helper {
    ps_loop *loop;
    pthread_t thread;
    pthread_mutex_t mutex; /* guards first, last, is_ending */
    pthread_cond_t changed;
    ps_task *first, *last;
    bool is_ending;
};

/* The next task; NULL when the helper is to end. */
static ps_task *take(ps_helper *helper)
{
    ps_task *task;

    pthread_mutex_lock(&helper->mutex);
    while (helper->first == NULL && !helper->is_ending) {
        pthread_cond_wait(&helper->changed, &helper->mutex);
    }
    task = helper->first;
    if (task != NULL) {
        helper->first = task->next;
    }
    pthread_mutex_unlock(&helper->mutex);
    return task;
}

static void *serve(void *arg)
{
    ps_helper *helper = arg;
    ps_task *task;

    while ((task = take(helper)) != NULL) {
        task->work(task);
        ps_loop_post(helper->loop, &task->done);
    }
    return NULL;
}

ps_status ps_helper_create(ps_loop *loop, ps_helper **out)
{
    ps_helper *helper = ps_xcalloc(1, sizeof *helper);
    int err;

    helper->loop = loop;
    pthread_mutex_init(&helper->mutex, NULL);
    pthread_cond_init(&helper->changed, NULL);
    err = pthread_create(&helper->thread, NULL, serve, helper);
    if (err != 0) {
        pthread_cond_destroy(&helper->changed);
        pthread_mutex_destroy(&helper->mutex);
        free(helper);
        return ps_fail_errno(err, "start the helper's thread");
    }
    *out = helper;
    return ps_ok();
}

void ps_helper_run(ps_helper *helper, ps_task *task)
{
    task->next = NULL;
    pthread_mutex_lock(&helper->mutex);
    if (helper->first == NULL) {
        helper->first = task;
    } else {
        helper->last->next = task;
    }
    helper->last = task;
    pthread_cond_signal(&helper->changed);
    pthread_mutex_unlock(&helper->mutex);
}

void ps_helper_destroy(ps_helper *helper)
{
    if (helper == NULL) {
        return;
    }
    pthread_mutex_lock(&helper->mutex);
    assert(helper->first == NULL);
    helper->is_ending = true;
    pthread_cond_signal(&helper->changed);
    pthread_mutex_unlock(&helper->mutex);
    pthread_join(helper->thread, NULL);
    pthread_cond_destroy(&helper->changed);
    pthread_mutex_destroy(&helper->mutex);
    free(helper);
}
