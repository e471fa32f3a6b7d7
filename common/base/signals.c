/* SPDX-License-Identifier: Apache-2.0 */
/* signals.c - see signals.h. */
#include "common/base/signals.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <ucontext.h>
#include <unistd.h>

static void awaited(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGTERM);
}

/* Handles SIGINT or SIGTERM on a thread that has not blocked them: blocks both there, and sends the
 * signal to the process again, so that the thread that waits for signals gets it. Such a thread is
 * older than main: OpenBLAS starts its pool when it is loaded. */
static void pass_on(int signo, siginfo_t *info, void *context)
{
    ucontext_t *interrupted = context;
    int saved = errno;

    (void)info;
    sigaddset(&interrupted->uc_sigmask, SIGINT);
    sigaddset(&interrupted->uc_sigmask, SIGTERM);
    (void)kill(getpid(), signo); /* blocked on this thread: now by sa_mask, later by uc_sigmask */
    errno = saved;
}

void ps_signals_block(void)
{
    struct sigaction action = {.sa_sigaction = pass_on, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigset_t set;
    int rc;

    awaited(&set);
    rc = pthread_sigmask(SIG_BLOCK, &set, NULL);
    assert(rc == 0);
    (void)rc;
    awaited(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
}

static void *wait_for_signals(void *arg)
{
    ps_signals *signals = arg;
    bool fired = false;
    sigset_t set;

    awaited(&set);
    for (;;) {
        int signo;

        if (sigwait(&set, &signo) != 0) {
            continue;
        }
        if (atomic_load(&signals->is_stopping)) {
            return NULL;
        }
        if (fired) {
            _exit(128 + signo);
        }
        fired = true;
        signals->fire(signals->arg, signo);
    }
}

ps_status ps_signals_start(ps_signals *signals, void (*fire)(void *arg, int signo), void *arg)
{
    int rc;

    atomic_init(&signals->is_stopping, false);
    signals->fire = fire;
    signals->arg = arg;
    rc = pthread_create(&signals->thread, NULL, wait_for_signals, signals);
    return rc == 0 ? ps_ok() : ps_fail_errno(rc, "start the thread that waits for signals");
}

void ps_signals_stop(ps_signals *signals)
{
    atomic_store(&signals->is_stopping, true);
    /* The signal goes only to the thread that waits for signals, which wakes up and finds
     * is_stopping set. */
    pthread_kill(signals->thread, SIGTERM);
    pthread_join(signals->thread, NULL);
}
