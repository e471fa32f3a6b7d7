/* SPDX-License-Identifier: Apache-2.0 */
/* test_accept_check.c - a listener that accepts, one that does not, and one that is gone. */
#include "common/rpc/accept_check.h"

#include "common/rpc/accept.h"
#include "tests/support/echo_world.h"

#include "tests/support/cmocka_all.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const ps_accept_check_times quick = {
    .period_us = 10000, .patience_us = 50000, .failures = 3};

typedef struct listener {
    int fd, port;
    int said[2]; /* a pipe: what is told of it */
    ps_status why;
} listener;

static listener *listen_somewhere(void)
{
    static listener l;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;

    memset(&l, 0, sizeof l);
    l.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(l.fd >= 0);
    assert_int_equal(bind(l.fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(l.fd, 64), 0);
    assert_int_equal(getsockname(l.fd, (struct sockaddr *)&at, &len), 0);
    l.port = ntohs(at.sin_port);
    assert_int_equal(pipe(l.said), 0);
    return &l;
}

static void on_deaf(void *arg, const ps_status *why)
{
    listener *l = arg;

    l->why = *why;
    assert_int_equal(write(l->said[1], "x", 1), 1);
}

/* Returns whether the check says within `ms` that the listener is deaf. */
static bool is_deaf(listener *l, int ms)
{
    struct pollfd p = {.fd = l->said[0], .events = POLLIN};

    return poll(&p, 1, ms) == 1;
}

static void end(listener *l)
{
    close(l->fd);
    close(l->said[0]);
    close(l->said[1]);
}

static void who_does_not_accept_is_deaf(void **state)
{
    listener *l = listen_somewhere();
    ps_accept_check *check = ps_accept_check_start("127.0.0.1:0", l->port, quick, on_deaf, l);

    (void)state;
    assert_non_null(check);
    assert_true(is_deaf(l, PS_TEST_PATIENCE_S * 1000));
    assert_non_null(strstr(l->why.text, "was not accepted for 50 ms"));
    ps_accept_check_stop(check);
    end(l);
}

static void who_does_not_listen_is_deaf(void **state)
{
    listener *l = listen_somewhere();
    ps_accept_check *check;

    (void)state;
    shutdown(l->fd, SHUT_RDWR);
    check = ps_accept_check_start("0.0.0.0:0", l->port, quick, on_deaf, l);
    assert_non_null(check);
    assert_true(is_deaf(l, PS_TEST_PATIENCE_S * 1000));
    assert_non_null(strstr(l->why.text, "refused"));
    ps_accept_check_stop(check);
    end(l);
}

static void *accept_three(void *arg)
{
    const listener *l = arg;

    for (unsigned i = 0; i < 3; i++) {
        struct sockaddr_in from;
        socklen_t len = sizeof from;
        int fd = accept4(l->fd, (struct sockaddr *)&from, &len, SOCK_CLOEXEC);

        if (fd < 0) {
            return arg;
        }
        close(fd);
    }
    return NULL;
}

/* Three connections come by themselves, as nobody else connects; then it grows deaf. */
static void who_accepts_is_asked_again_and_again(void **state)
{
    static const ps_accept_check_times patient = {
        .period_us = 10000, .patience_us = PS_TEST_PATIENCE_S * 1000000LL, .failures = 1};
    listener *l = listen_somewhere();
    uint64_t before = ps_accept_count();
    ps_accept_check *check;
    pthread_t thread;
    void *failed;

    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, accept_three, l), 0);
    check = ps_accept_check_start("127.0.0.1:0", l->port, patient, on_deaf, l);
    assert_non_null(check);
    pthread_join(thread, &failed);
    assert_null(failed);
    assert_true(ps_accept_count() - before >= 3);
    assert_false(is_deaf(l, 0));
    ps_accept_check_stop(check); /* in the middle of a wait */
    end(l);
}

/* A server of gRPC accepts the connections of the check, and is served by them no worse. */
static void a_server_is_not_deaf(void **state)
{
    listener *l = listen_somewhere(); /* for its pipe */
    uint64_t before = ps_accept_count();
    echo_reply reply = {0};
    ps_accept_check *check;
    echo_world w;

    (void)state;
    echo_world_begin(&w);
    check = ps_accept_check_start("127.0.0.1:0", ps_server_port(w.server), quick, on_deaf, l);
    assert_non_null(check);
    echo_call(&w, "hello", 1, TIMEOUT_US, &reply);
    echo_world_end(&w);
    ps_accept_check_stop(check);
    assert_int_equal(reply.error.status.code, PS_OK);
    assert_true(ps_accept_count() > before);
    end(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_does_not_accept_is_deaf),
        cmocka_unit_test(who_does_not_listen_is_deaf),
        cmocka_unit_test(who_accepts_is_asked_again_and_again),
        cmocka_unit_test(a_server_is_not_deaf),
    };

    ps_accept_init();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
