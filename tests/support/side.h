/* SPDX-License-Identifier: Apache-2.0 */
/* side.h - a loop on a thread of its own, which tests use from their thread. */
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

/* Calls fn(arg) on the loop's thread, and returns when fn has returned. Must not be called on that
 * thread. */
void side_run(side *s, void (*fn)(void *arg), void *arg);

/* Stops the loop and waits for its thread. Everything on the loop must have ended, or must end by
 * itself. */
void side_stop(side *s);

/* An event that one thread raises, and for which another thread waits. */
typedef struct flag {
    ps_event event; /* raises the flag when it fires */
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool is_up;
} flag;

void flag_init(flag *f);
void flag_raise(flag *f);
/* waits until the flag is raised, and lowers it; aborts after PS_TEST_PATIENCE_S */
void flag_wait(flag *f);
void flag_fini(flag *f);

#endif
