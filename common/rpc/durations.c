/* SPDX-License-Identifier: Apache-2.0 */
/* durations.c - see durations.h. */
#include "common/rpc/durations.h"

#include "common/base/xalloc.h"

#include <pthread.h>
#include <stddef.h>
#include <string.h>

typedef struct entry {
    char *method;
    ps_histogram histogram;
    struct entry *next;
} entry;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* guards `first` and all `next` */
/* list in the order of method names; entries are never removed */
static entry *first;

ps_histogram *ps_durations_of(const char *method)
{
    entry **at = &first, *found;

    pthread_mutex_lock(&mutex);
    while (*at != NULL && strcmp((*at)->method, method) < 0) {
        at = &(*at)->next;
    }
    if (*at == NULL || strcmp((*at)->method, method) != 0) {
        found = ps_xcalloc(1, sizeof *found);
        found->method = ps_xstrdup(method);
        found->next = *at;
        *at = found;
    }
    found = *at;
    pthread_mutex_unlock(&mutex);
    return &found->histogram;
}

void ps_durations_each(void (*fn)(void *arg, const char *method, const ps_histogram *histogram),
                       void *arg)
{
    pthread_mutex_lock(&mutex);
    for (const entry *e = first; e != NULL; e = e->next) {
        fn(arg, e->method, &e->histogram);
    }
    pthread_mutex_unlock(&mutex);
}
