/* SPDX-License-Identifier: Apache-2.0 */
/* test_bar.c - who is barred does not reach the listener; everybody else does. */
#include "common/rpc/bar.h"

#include "common/rpc/remotes.h"

#include "tests/support/cmocka_all.h"
#include "tests/support/patience.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    S = 1000000,
    WAIT_MS = 300 /* a packet of loopback that was not dropped has come long before */
};

typedef union any {
    struct sockaddr sa;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
} any;

static any address(const char *text, socklen_t *len)
{
    any a;

    memset(&a, 0, sizeof a);
    a.sa.sa_family = strchr(text, ':') != NULL ? AF_INET6 : AF_INET;
    *len = a.sa.sa_family == AF_INET ? sizeof a.v4 : sizeof a.v6;
    assert_int_equal(
        inet_pton(a.sa.sa_family, text,
                  a.sa.sa_family == AF_INET ? (void *)&a.v4.sin_addr : (void *)&a.v6.sin6_addr),
        1);
    return a;
}

/* Listens on an address; *at is where. */
static int listen_on(const char *text, any *at)
{
    socklen_t len;
    int fd;

    *at = address(text, &len);
    fd = socket(at->sa.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    if (bind(fd, &at->sa, len) != 0) {
        close(fd);
        return -1; /* this machine does not have the address */
    }
    assert_int_equal(listen(fd, 64), 0);
    assert_int_equal(getsockname(fd, &at->sa, &len), 0);
    return fd;
}

/* Returns whether a client with the address `from` is connected within `ms`. */
static bool can_connect(const any *at, const char *from, int ms)
{
    socklen_t len;
    any source = address(from, &len);
    int fd = socket(at->sa.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), err = 0;
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    socklen_t err_len = sizeof err;
    bool done;

    assert_true(fd >= 0);
    assert_int_equal(bind(fd, &source.sa, len), 0);
    assert_true(connect(fd, &at->sa, len) == 0 || errno == EINPROGRESS);
    done = poll(&p, 1, ms) == 1 && getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &err_len) == 0 &&
           err == 0;
    close(fd);
    return done;
}

static void add(ps_bar *bar, int listener, const char *text, int64_t now_us)
{
    uint8_t key[PS_BAR_KEY_BYTES];
    socklen_t len;
    any a = address(text, &len);

    assert_true(ps_remotes_key(&a.sa, key));
    assert_true(ps_bar_add(bar, listener, key, now_us));
}

static void who_is_barred_waits_until_its_time_is_over(void **state)
{
    static ps_bar bar;
    any at;
    int listener = listen_on("127.0.0.1", &at);

    (void)state;
    assert_true(listener >= 0);
    add(&bar, listener, "127.0.0.2", S);
    add(&bar, listener, "127.0.0.3", S + S / 2);
    add(&bar, listener, "127.0.0.3", S + S / 2); /* whose connections had come before */
    assert_int_equal(bar.count, 2);
    assert_false(can_connect(&at, "127.0.0.2", WAIT_MS));
    assert_false(can_connect(&at, "127.0.0.3", WAIT_MS));
    assert_true(can_connect(&at, "127.0.0.4", PS_TEST_PATIENCE_S * 1000));
    assert_int_equal(ps_bar_expire(&bar, S + PS_BAR_US), S + S / 2 + PS_BAR_US);
    assert_true(can_connect(&at, "127.0.0.2", PS_TEST_PATIENCE_S * 1000));
    assert_false(can_connect(&at, "127.0.0.3", WAIT_MS));
    assert_int_equal(ps_bar_expire(&bar, 3 * S), INT64_MAX);
    assert_true(can_connect(&at, "127.0.0.3", PS_TEST_PATIENCE_S * 1000));
    close(listener);
}

static void so_it_is_with_ipv6(void **state)
{
    static ps_bar bar;
    any at;
    int listener = listen_on("::1", &at);

    (void)state;
    if (listener < 0) {
        skip();
    }
    add(&bar, listener, "2001:db8::1", S);
    add(&bar, listener, "10.0.0.1", S);
    assert_true(can_connect(&at, "::1", PS_TEST_PATIENCE_S * 1000));
    add(&bar, listener, "::1", S);
    assert_false(can_connect(&at, "::1", WAIT_MS));
    assert_int_equal(ps_bar_expire(&bar, 3 * S), INT64_MAX);
    assert_true(can_connect(&at, "::1", PS_TEST_PATIENCE_S * 1000));
    close(listener);
}

static void a_full_bar_and_a_socket_that_is_none_are_said(void **state)
{
    static ps_bar bar;
    uint8_t key[PS_BAR_KEY_BYTES] = {0xff};
    any at;
    int listener = listen_on("127.0.0.1", &at);

    (void)state;
    assert_false(ps_bar_add(&bar, -1, key, S));
    for (unsigned i = 0; i < PS_BAR_MAX; i++) {
        key[7] = (uint8_t)i;
        key[4] = 10;
        assert_true(ps_bar_add(&bar, listener, key, S));
    }
    key[4] = 11;
    assert_false(ps_bar_add(&bar, listener, key, S));
    assert_true(can_connect(&at, "127.0.0.2", PS_TEST_PATIENCE_S * 1000));
    close(listener);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_is_barred_waits_until_its_time_is_over),
        cmocka_unit_test(so_it_is_with_ipv6),
        cmocka_unit_test(a_full_bar_and_a_socket_that_is_none_are_said),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
