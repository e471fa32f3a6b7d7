/* SPDX-License-Identifier: Apache-2.0 */
/* test_rpc_local.c - bulk channels to this host go through a Unix socket, of the same user only. */
#include "common/rpc/local_socket.h"
#include "tests/support/cmocka_all.h"

#include "common/rpc/accept.h"
#include "common/rpc/serve.h"
#include "tests/support/echo_world.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    SOMEBODY_ELSE = 65534,
    NOBODY_ELSE = 77 /* exit: this process may not become another user */
};

/* Counts the sockets of the process's network namespace that have the target's name. */
static unsigned sockets_of(const char *target)
{
    FILE *f = fopen("/proc/net/unix", "r");
    char line[512], name[PS_LOCAL_TARGET_BYTES + 2];
    unsigned n = 0;

    assert_non_null(f);
    snprintf(name, sizeof name, "@%s\n", strchr(target, ':') + 1);
    while (fgets(line, sizeof line, f) != NULL) {
        n += strstr(line, name) != NULL;
    }
    fclose(f);
    return n;
}

static void an_address_has_a_socket_if_it_is_a_number_of_loopback(void **state)
{
    static const struct {
        const char *address, *target; /* NULL: none */
    } cases[] = {
        {"127.0.0.1:15386", "unix-abstract:psgd-127.0.0.1-15386"},
        {"127.8.9.10:1", "unix-abstract:psgd-127.8.9.10-1"},
        {"255.255.255.255:65535", NULL},
        {"127.255.255.255:65535", "unix-abstract:psgd-127.255.255.255-65535"},
        {"localhost:15386", NULL},
        {"[::1]:15386", NULL},
        {"10.0.0.1:15386", NULL},
        {"0.0.0.0:15386", NULL},
        {"127.0.0.1:0", NULL},
        {"127.0.0.1", NULL},
        {"a host:1", NULL},
        {"", NULL},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char target[PS_LOCAL_TARGET_BYTES] = "";

        assert_int_equal(ps_local_target(cases[i].address, target), cases[i].target != NULL);
        assert_string_equal(target, cases[i].target != NULL ? cases[i].target : "");
    }
}

/* --- channels --------------------------------------------------------------------- */

static unsigned seen; /* sockets of the server's name while a call runs */
static char target_of_world[PS_LOCAL_TARGET_BYTES];
static ps_unary *kept_call;

static void look(echo_world *w)
{
    (void)w;
    seen = sockets_of(target_of_world);
    ps_unary_cancel(kept_call);
}

/* Calls a server that listens on 127.0.0.1 through a bulk channel to `host`. Returns the sockets
 * beyond the listener while the call runs. */
static unsigned sockets_of_a_call(const char *host)
{
    char address[64];
    echo_world w;
    echo_reply r;

    echo_world_begin(&w);
    snprintf(address, sizeof address, "127.0.0.1:%d", ps_server_port(w.server));
    assert_true(ps_local_target(address, target_of_world));
    assert_true(ps_local_is_served(target_of_world));
    ps_channel_destroy(w.channel);
    snprintf(address, sizeof address, "%s:%d", host, ps_server_port(w.server));
    w.channel = ps_channel_create_bulk(w.loop, address, NULL);
    seen = 0;
    w.on_kept = look;
    kept_call = echo_call(&w, "keep", 0, TIMEOUT_US, &r);
    echo_world_end(&w);
    assert_int_equal(r.error.status.code, PS_CANCELLED);
    assert_true(seen >= 1);
    assert_false(ps_local_is_served(target_of_world));
    return seen - 1;
}

static void a_bulk_channel_to_this_host_goes_through_the_socket(void **state)
{
    (void)state;
    assert_int_equal(sockets_of_a_call("127.0.0.1"), 1);
}

static void a_name_goes_through_tcp(void **state)
{
    (void)state;
    assert_int_equal(sockets_of_a_call("localhost"), 0);
}

/* Listens on the abstract name of a target. */
static int listen_on(const char *target)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    size_t len = strlen(strchr(target, ':') + 1);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    memcpy(at.sun_path + 1, strchr(target, ':') + 1, len);
    if (fd >= 0 && (bind(fd, (const struct sockaddr *)&at,
                         (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + len)) != 0 ||
                    listen(fd, 8) != 0)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static ps_event stop_first;

static void on_first_down(ps_event *self, bool ok)
{
    (void)self;
    (void)ok;
}

/* A server whose name was taken is reached by TCP. */
static void a_server_starts_though_its_name_is_taken(void **state)
{
    char address[32], target[PS_LOCAL_TARGET_BYTES];
    ps_service service;
    ps_server *first;
    echo_world w;
    echo_reply r;
    int taken;
    ps_status st;

    (void)state;
    echo_world_begin(&w);
    first = w.server;
    snprintf(address, sizeof address, "127.9.9.9:%d", ps_server_port(first));
    assert_true(ps_local_target(address, target));
    taken = listen_on(target);
    assert_true(taken >= 0);
    service = echo_service(&w);
    st = ps_serve(w.loop, &service, 1, address, &w.server);
    assert_true(ps_is_ok(&st));
    stop_first = (ps_event){.fire = on_first_down};
    ps_server_stop(first, 0, &stop_first);
    ps_channel_destroy(w.channel);
    w.channel = ps_channel_create(w.loop, address);
    echo_call(&w, "here", 1, TIMEOUT_US, &r);
    echo_world_end(&w);
    assert_string_equal(r.text, "here");
    close(taken);
}

/* --- users ------------------------------------------------------------------------ */

/* Runs in a process of another user, and ends it. */
_Noreturn static void as_somebody_else(const char *target, int tell, int wait)
{
    char one = 'x';
    int fd;

    if (setgid(SOMEBODY_ELSE) != 0 || setuid(SOMEBODY_ELSE) != 0) {
        _exit(NOBODY_ELSE);
    }
    fd = listen_on(target);
    _exit(fd >= 0 && write(tell, &one, 1) == 1 && read(wait, &one, 1) == 0 ? 0 : 1);
}

static void a_listener_of_another_user_is_not_taken(void **state)
{
    static const char target[] = "unix-abstract:psgd-127.1.2.3-1";
    int tell[2], wait[2], status = 0;
    bool is_served = true;
    char one;
    pid_t child;

    (void)state;
    assert_int_equal(pipe(tell), 0);
    assert_int_equal(pipe(wait), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        close(wait[1]);
        as_somebody_else(target, tell[1], wait[0]);
    }
    close(tell[1]);
    close(wait[0]);
    if (read(tell[0], &one, 1) == 1) {
        is_served = ps_local_is_served(target);
    }
    close(wait[1]);
    close(tell[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WEXITSTATUS(status) == NOBODY_ELSE) {
        skip(); /* only root may become somebody else */
    }
    assert_int_equal(status, 0);
    assert_false(is_served);
}

/* Connects from a process of another user, or of this one. Returns what accept4 answers. */
static int accepted_from(bool is_other, int listener, const char *target)
{
    union {
        struct sockaddr any;
        struct sockaddr_un at;
    } from;
    socklen_t len = sizeof from;
    int status = 0, fd;
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0) {
        struct sockaddr_un at = {.sun_family = AF_UNIX};
        size_t n = strlen(strchr(target, ':') + 1);

        if (is_other && (setgid(SOMEBODY_ELSE) != 0 || setuid(SOMEBODY_ELSE) != 0)) {
            _exit(NOBODY_ELSE);
        }
        memcpy(at.sun_path + 1, strchr(target, ':') + 1, n);
        fd = socket(AF_UNIX, SOCK_STREAM, 0);
        _exit(connect(fd, (const struct sockaddr *)&at,
                      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n)) == 0
                  ? 0
                  : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child); /* the connection waits in the queue */
    if (WEXITSTATUS(status) == NOBODY_ELSE) {
        skip();
    }
    assert_int_equal(status, 0);
    return accept4(listener, &from.any, &len, SOCK_CLOEXEC);
}

static void a_connection_of_another_user_is_refused(void **state)
{
    static const char target[] = "unix-abstract:psgd-127.1.2.3-2";
    int listener = listen_on(target), fd;
    uint64_t refused = ps_accept_refused();

    (void)state;
    assert_true(listener >= 0);
    fd = accepted_from(false, listener, target);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(accepted_from(true, listener, target), -1);
    assert_int_equal(ps_accept_refused(), refused + 1);
    close(listener);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_address_has_a_socket_if_it_is_a_number_of_loopback),
        cmocka_unit_test(a_bulk_channel_to_this_host_goes_through_the_socket),
        cmocka_unit_test(a_name_goes_through_tcp),
        cmocka_unit_test(a_server_starts_though_its_name_is_taken),
        cmocka_unit_test(a_listener_of_another_user_is_not_taken),
        cmocka_unit_test(a_connection_of_another_user_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
