/* SPDX-License-Identifier: Apache-2.0 */
/* accept_check.c - see accept_check.h.
 *
 * Waiting time is counted in turns of 100 ms, not by the clock. So a process that was stopped
 * (SIGSTOP) and goes on still waits for the rest of its time, and does not take the pause for a
 * deaf listener.
 */
#include "common/rpc/accept_check.h"

#include "common/base/address.h"
#include "common/base/log.h"
#include "common/base/xalloc.h"
#include "common/rpc/accept.h"

#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { TURN_US = 100000 };

struct ps_accept_check {
    ps_accept_check_times times;
    void (*deaf)(void *arg, const ps_status *why);
    void *arg;
    struct addrinfo *at;
    char text[PS_ADDRESS_TEXT_BYTES]; /* address of the listener, for messages */
    pthread_t thread;
    pthread_mutex_t mutex; /* guards is_over */
    pthread_cond_t over;
    bool is_over;
};

/* Waits until `us` microseconds have passed, the count of accepted connections differs from `seen`,
 * or the check is stopped. Returns false only if the time has passed. */
static bool wait_for_accept(ps_accept_check *w, int64_t us, uint64_t seen)
{
    bool done = false;

    pthread_mutex_lock(&w->mutex);
    for (int64_t left = us; !done && left > 0; left -= TURN_US) {
        int64_t turn_us = left < TURN_US ? left : TURN_US;
        struct timespec until;

        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += turn_us * 1000;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        if (!w->is_over) {
            pthread_cond_timedwait(&w->over, &w->mutex, &until);
        }
        done = w->is_over || ps_accept_count() != seen;
    }
    pthread_mutex_unlock(&w->mutex);
    return done;
}

static bool is_over(ps_accept_check *w)
{
    bool over;

    pthread_mutex_lock(&w->mutex);
    over = w->is_over;
    pthread_mutex_unlock(&w->mutex);
    return over;
}

/* Connects to the listener. Returns an error if the process accepts no connection within
 * times.patience_us, or has no descriptor although clients hold few. */
static ps_status try_to_connect(ps_accept_check *w, uint64_t seen)
{
    int fd = socket(w->at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), err = 0;
    socklen_t len = sizeof err;
    ps_status st = ps_ok();

    if (fd < 0 && errno == EMFILE && !ps_accept_is_crowded()) {
        return ps_fail_errno(errno, "%s has no descriptor for a connection, and clients have few",
                             w->text);
    }
    if (fd < 0) {
        return st; /* nothing was learned about the listener */
    }
    if (connect(fd, w->at->ai_addr, w->at->ai_addrlen) != 0 && errno != EINPROGRESS) {
        err = errno;
    }
    if (!wait_for_accept(w, w->times.patience_us, seen)) {
        if (err == 0) {
            getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len);
        }
        st = err != 0 ? ps_fail_errno(err, "cannot connect to %s", w->text)
                      : ps_fail(PS_UNAVAILABLE, "a connection to %s was not accepted for %lld ms",
                                w->text, (long long)(w->times.patience_us / 1000));
    }
    close(fd);
    return st;
}

static void *run(void *arg)
{
    ps_accept_check *w = arg;
    unsigned failures = 0;

    while (!is_over(w)) {
        uint64_t seen = ps_accept_count();
        ps_status st;

        if (wait_for_accept(w, w->times.period_us, seen)) {
            failures = 0;
            continue;
        }
        st = try_to_connect(w, seen);
        failures = ps_is_ok(&st) ? 0 : failures + 1;
        if (failures >= w->times.failures && !is_over(w)) {
            w->deaf(w->arg, &st);
            break;
        }
    }
    return NULL;
}

/* Resolves the address at which the check connects to the listener: loopback if it listens on all
 * addresses. */
static ps_status find_address(ps_accept_check *w, const char *address, int port)
{
    struct addrinfo hints = {.ai_flags = AI_NUMERICSERV, .ai_socktype = SOCK_STREAM};
    ps_address a;
    ps_status st = ps_address_parse(address, "127.0.0.1", 0, &a);
    char service[16];
    int err;

    if (!ps_is_ok(&st)) {
        return st;
    }
    if (ps_address_is_any(&a)) {
        snprintf(a.host, sizeof a.host, "%s", a.is_v6 ? "::1" : "127.0.0.1");
    }
    a.port = (uint16_t)port;
    ps_address_format(&a, w->text);
    snprintf(service, sizeof service, "%d", port);
    err = getaddrinfo(a.host, service, &hints, &w->at);
    return err == 0 ? ps_ok() : ps_fail(PS_UNAVAILABLE, "%s: %s", a.host, gai_strerror(err));
}

static void check_free(ps_accept_check *w)
{
    if (w->at != NULL) {
        freeaddrinfo(w->at);
    }
    pthread_cond_destroy(&w->over);
    pthread_mutex_destroy(&w->mutex);
    free(w);
}

ps_accept_check *ps_accept_check_start(const char *address, int port, ps_accept_check_times times,
                                       void (*deaf)(void *arg, const ps_status *why), void *arg)
{
    ps_accept_check *w = ps_xcalloc(1, sizeof *w);
    pthread_condattr_t monotonic;
    ps_status st = find_address(w, address, port);
    int err;

    w->times = times;
    w->deaf = deaf;
    w->arg = arg;
    pthread_mutex_init(&w->mutex, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&w->over, &monotonic);
    pthread_condattr_destroy(&monotonic);
    if (ps_is_ok(&st) && (err = pthread_create(&w->thread, NULL, run, w)) != 0) {
        st = ps_fail_errno(err, "no thread");
    }
    if (!ps_is_ok(&st)) {
        ps_log(PS_LOG_WARN, "rpc", "%s is not checked for accepting connections: %s", address,
               st.text);
        check_free(w);
        return NULL;
    }
    return w;
}

void ps_accept_check_stop(ps_accept_check *w)
{
    if (w == NULL) {
        return;
    }
    pthread_mutex_lock(&w->mutex);
    w->is_over = true;
    pthread_cond_signal(&w->over);
    pthread_mutex_unlock(&w->mutex);
    pthread_join(w->thread, NULL);
    check_free(w);
}
