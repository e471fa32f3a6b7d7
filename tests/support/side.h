/* SPDX-License-Identifier: Apache-2.0 */
/* side.h - a loop on a thread of its own, for tests that look on from theirs. */
#ifndef PS_TESTS_SUPPORT_SIDE_H
#define PS_TESTS_SUPPORT_SIDE_H

#include "common/rpc/loop.h"

#include <pthread.h>
#include <stdbool.h>

typedef struct side {
    ps_loop *loop;
    pthread_t thread;
} side;

void side_start(side *s);

/* Calls fn on the loop's thread and returns when it has. Not from that thread. */
void side_run(side *s, void (*fn)(void *arg), void *arg);

/* Everything on the loop has ended or ends by itself. */
void side_stop(side *s);

/* Something that comes later, waited for on another thread. */
typedef struct flag {
    ps_event event; /* its fire raises the flag */
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool is_up;
} flag;

void flag_init(flag *f);
void flag_raise(flag *f);
void flag_wait(flag *f); /* and lowers it; aborts when patience.h says so */
void flag_fini(flag *f);

#endif
