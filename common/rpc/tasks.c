/* SPDX-License-Identifier: Apache-2.0 */
/* tasks.c - see tasks.h. */
#include "common/rpc/tasks.h"

#include "common/base/container_of.h"
#include "common/base/xalloc.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

struct ps_tasks {
    ps_loop *loop;
    size_t limit;
    /* guards the members below, and the queue's members of strands and tasks */
    pthread_mutex_t lock;
    pthread_cond_t wake;
    ps_task *first, *last; /* tasks that are ready to run; others wait in their strands */
    size_t waiting;        /* number of tasks that wait, in the list and in strands */
    size_t unanswered;     /* tasks that have ended and whose `done` has not been called */
    bool is_stopping;
    bool is_destroyed; /* ps_tasks_destroy has ended the threads; the last answer frees the queue */
    unsigned thread_count;
    pthread_t threads[];
};

static void append(ps_task **first, ps_task **last, ps_task *task)
{
    task->next = NULL;
    *(*first ? &(*last)->next : first) = task;
    *last = task;
}

static ps_task *take_first(ps_task **first, ps_task **last)
{
    ps_task *task = *first;

    *first = task->next;
    if (!*first) {
        *last = NULL;
    }
    return task;
}

static void make_ready(ps_tasks *tasks, ps_task *task)
{
    append(&tasks->first, &tasks->last, task);
    pthread_cond_signal(&tasks->wake);
}

/* Makes the next task of a strand ready, because the one before it has ended, or is not run as the
 * queue is being destroyed. Does nothing if `strand` is NULL. */
static void advance(ps_tasks *tasks, ps_strand *strand)
{
    if (strand && strand->first) {
        make_ready(tasks, take_first(&strand->first, &strand->last));
    } else if (strand) {
        strand->is_busy = false;
    }
}

static void free_queue(ps_tasks *tasks)
{
    pthread_cond_destroy(&tasks->wake);
    pthread_mutex_destroy(&tasks->lock);
    free(tasks);
}

static void answer(ps_event *event, bool ok)
{
    ps_task *task = PS_CONTAINER_OF(event, ps_task, event);
    ps_tasks *tasks = task->queue;
    bool is_last;

    (void)ok; /* if the loop stops, `done` still frees what the task holds */
    task->done(task);
    pthread_mutex_lock(&tasks->lock);
    is_last = --tasks->unanswered == 0 && tasks->is_destroyed;
    pthread_cond_signal(&tasks->wake);
    pthread_mutex_unlock(&tasks->lock);
    if (is_last) {
        free_queue(tasks);
    }
}

static void *serve(void *arg)
{
    ps_tasks *tasks = arg;

    pthread_mutex_lock(&tasks->lock);
    for (;;) {
        ps_task *task;

        while ((!tasks->first || tasks->unanswered >= PS_TASKS_UNANSWERED) &&
               !tasks->is_stopping) {
            pthread_cond_wait(&tasks->wake, &tasks->lock);
        }
        if (!tasks->first) {
            break;
        }
        task = take_first(&tasks->first, &tasks->last);
        tasks->waiting--;
        task->was_run = !tasks->is_stopping || task->runs_at_end;
        if (task->was_run) {
            pthread_mutex_unlock(&tasks->lock);
            task->run(task);
            pthread_mutex_lock(&tasks->lock);
        }
        /* before the answer is posted: `done` may free the strand */
        advance(tasks, task->strand);
        /* posted under the lock, so that it precedes the answer of the strand's next task */
        tasks->unanswered++;
        ps_loop_post(tasks->loop, &task->event);
    }
    pthread_mutex_unlock(&tasks->lock);
    return NULL;
}

ps_status ps_tasks_create(ps_loop *loop, unsigned threads, size_t limit, ps_tasks **out)
{
    ps_tasks *tasks = ps_xcalloc(1, sizeof *tasks + threads * sizeof tasks->threads[0]);
    int err = 0;

    assert(threads > 0);
    tasks->loop = loop;
    tasks->limit = limit;
    pthread_mutex_init(&tasks->lock, NULL);
    pthread_cond_init(&tasks->wake, NULL);
    while (err == 0 && tasks->thread_count < threads) {
        err = pthread_create(&tasks->threads[tasks->thread_count], NULL, serve, tasks);
        tasks->thread_count += err == 0;
    }
    if (err != 0) {
        ps_tasks_destroy(tasks);
        return ps_fail_errno(err, "start a thread");
    }
    *out = tasks;
    return ps_ok();
}

void ps_tasks_submit(ps_tasks *tasks, ps_strand *strand, ps_task *task)
{
    task->event = (ps_event){.fire = answer};
    task->queue = tasks;
    task->strand = strand;
    task->was_run = false;
    pthread_mutex_lock(&tasks->lock);
    tasks->waiting++;
    if (strand && strand->is_busy) {
        append(&strand->first, &strand->last, task);
    } else {
        if (strand) {
            strand->is_busy = true;
        }
        make_ready(tasks, task);
    }
    pthread_mutex_unlock(&tasks->lock);
}

bool ps_tasks_has_room(ps_tasks *tasks)
{
    bool has_room;

    pthread_mutex_lock(&tasks->lock);
    has_room = tasks->waiting < tasks->limit && !tasks->is_stopping;
    pthread_mutex_unlock(&tasks->lock);
    return has_room;
}

void ps_tasks_destroy(ps_tasks *tasks)
{
    bool has_answers;

    if (!tasks) {
        return;
    }
    pthread_mutex_lock(&tasks->lock);
    tasks->is_stopping = true;
    pthread_cond_broadcast(&tasks->wake);
    pthread_mutex_unlock(&tasks->lock);
    for (unsigned i = 0; i < tasks->thread_count; i++) {
        pthread_join(tasks->threads[i], NULL);
    }
    pthread_mutex_lock(&tasks->lock);
    tasks->is_destroyed = true;
    has_answers = tasks->unanswered > 0;
    pthread_mutex_unlock(&tasks->lock);
    if (!has_answers) {
        free_queue(tasks);
    }
}
