/* SPDX-License-Identifier: Apache-2.0 */
/* test_rpc_tls.c - calls over mutual TLS: who is expected, who may call. */
#include "common/base/clock.h"
#include "common/base/files.h"
#include "common/rpc/protect.h"
#include "common/rpc/serve.h"
#include "common/rpc/tls.h"
#include "tests/support/cmocka_all.h"
#include "tests/support/echo_world.h"
#include "tests/support/members.h"
#include "tests/support/temp_dir.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

static const int64_t refused_us = 1500 * MS; /* for calls that find nobody whom they expect */

typedef struct tls_world {
    echo_world echo;
    temp_dir dir;
    members members;
    ps_tls *server, *client;
} tls_world;

static void on_down(ps_event *self, bool ok)
{
    echo_world *w = (echo_world *)((char *)self - offsetof(echo_world, down));

    (void)ok;
    ps_loop_stop(w->loop);
}

static ps_tls *join(tls_world *w, const char *principal)
{
    char dir[256];
    ps_tls *tls = NULL;
    ps_status st;

    members_join(&w->members, principal, 3600, dir);
    st = ps_tls_create(dir, &tls);
    assert_string_equal(st.text, "");
    return tls;
}

/* A server as `server`, and a channel as `client` that expects kind and name. */
static void begin(tls_world *w, const char *server, const char *client, ps_principal_kind kind,
                  const char *name)
{
    ps_service service = echo_service(&w->echo);
    char target[32];
    ps_status st;

    memset(w, 0, sizeof *w);
    w->dir = temp_dir_create();
    members_create(&w->members, w->dir.path);
    w->echo.down.fire = on_down;
    st = ps_loop_create(&w->echo.loop);
    assert_true(ps_is_ok(&st));
    w->server = join(w, server);
    w->client = join(w, client);
    ps_loop_use_tls(w->echo.loop, w->server);
    st = ps_serve(w->echo.loop, &service, 1, "127.0.0.1:0", &w->echo.server);
    assert_string_equal(st.text, "");
    snprintf(target, sizeof target, "127.0.0.1:%d", ps_server_port(w->echo.server));
    ps_loop_use_tls(w->echo.loop, w->client);
    w->echo.channel = ps_channel_create(w->echo.loop, target);
    ps_loop_use_tls(w->echo.loop, w->server); /* which its calls are checked by */
    if (kind != PS_PRINCIPAL_NONE) {
        ps_channel_expect(w->echo.channel, kind, name);
    }
}

static void end(tls_world *w)
{
    echo_world_end(&w->echo);
    ps_tls_release(w->server);
    ps_tls_release(w->client);
    temp_dir_destroy(&w->dir);
}

static void a_call_goes_through(void **state)
{
    tls_world w;
    echo_reply reply;

    (void)state;
    begin(&w, "node/a", "coordinator/main", PS_PRINCIPAL_NODE, "a");
    echo_call(&w.echo, "hello", 41, TIMEOUT_US, &reply);
    end(&w);
    assert_string_equal(reply.error.status.text, "");
    assert_int_equal(reply.times, 1);
}

static void any_of_a_kind_may_be_expected(void **state)
{
    tls_world w;
    echo_reply reply;

    (void)state;
    begin(&w, "coordinator/main", "node/a", PS_PRINCIPAL_COORDINATOR, "");
    echo_call(&w.echo, "hello", 41, TIMEOUT_US, &reply);
    end(&w);
    assert_string_equal(reply.error.status.text, "");
}

/* Makes a call that nobody is to answer; the error must have `why`. */
static void refuse(const char *server, ps_principal_kind kind, const char *name, const char *why)
{
    tls_world w;
    echo_reply reply;

    begin(&w, server, "coordinator/main", kind, name);
    echo_call(&w.echo, "hello", 41, refused_us, &reply);
    end(&w);
    assert_int_equal(reply.error.status.code, PS_UNAVAILABLE);
    if (strstr(reply.error.status.text, why) == NULL) {
        fail_msg("%s", reply.error.status.text);
    }
}

static void another_node_is_not_taken(void **state)
{
    (void)state;
    refuse("node/b", PS_PRINCIPAL_NODE, "a", "its certificate is of node/b; node/a is expected");
}

static void another_kind_is_not_taken(void **state)
{
    (void)state;
    refuse("node/a", PS_PRINCIPAL_COORDINATOR, "",
           "its certificate is of node/a; coordinator is expected");
}

static void a_channel_that_expects_nobody_takes_nobody(void **state)
{
    (void)state;
    refuse("node/a", PS_PRINCIPAL_NONE, "", "nobody is expected there");
}

static void a_user_cannot_be_a_service(void **state)
{
    tls_world w;
    echo_reply reply;

    (void)state;
    begin(&w, "admin/mallory", "node/a", PS_PRINCIPAL_ADMIN, "mallory");
    echo_call(&w.echo, "hello", 41, refused_us, &reply);
    end(&w);
    assert_int_equal(reply.error.status.code, PS_UNAVAILABLE);
}

/* Asks until the answer is yes, or for `us`: a folder's files are looked at once a second. */
static bool has_revoked_within(ps_tls *tls, const char *serial, int64_t us)
{
    int64_t until_us = ps_clock_us() + us;
    bool has;

    while (!(has = ps_tls_has_revoked(tls, serial)) && ps_clock_us() < until_us) {
        poll(NULL, 0, 10);
    }
    return has;
}

static void a_list_that_could_not_be_read_is_read_later(void **state)
{
    struct rlimit before, none;
    temp_dir dir = temp_dir_create();
    char at[256], gone[256], from[PS_PATH_MAX], *pem;
    ps_certificate lost, own;
    members m;
    ps_tls *tls;
    size_t count, n;
    ps_status st;

    (void)state;
    members_create(&m, dir.path);
    members_join(&m, "node/a", 3600, at);
    members_join(&m, "node/b", 3600, gone);
    st = ps_credentials_check(gone, &lost);
    assert_string_equal(st.text, "");
    st = ps_tls_create(at, &tls);
    assert_string_equal(st.text, "");
    assert_false(ps_tls_has_revoked(tls, lost.serial));
    st = ps_authority_revoke(m.pki, "node/b", &count);
    assert_string_equal(st.text, "");
    st = ps_path_join(from, sizeof from, m.pki, "crl.pem");
    assert_true(ps_is_ok(&st));
    st = ps_file_read(from, PS_CRL_FILE_MAX, &pem, &n);
    assert_string_equal(st.text, "");
    st = ps_credentials_install(at, from, pem, n, NULL, &own);
    assert_string_equal(st.text, "");
    free(pem);
    /* no descriptor is left for a moment */
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = (struct rlimit){0, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    assert_false(has_revoked_within(tls, lost.serial, 1200 * MS));
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_true(has_revoked_within(tls, lost.serial, TIMEOUT_US));
    ps_tls_release(tls);
    temp_dir_destroy(&dir);
}

static void a_list_that_cannot_be_read_starts_nothing(void **state)
{
    temp_dir dir = temp_dir_create();
    ps_credentials_paths paths;
    char at[256];
    members m;
    ps_tls *tls;
    ps_status st;

    (void)state;
    members_create(&m, dir.path);
    members_join(&m, "node/a", 3600, at);
    st = ps_credentials_find(at, &paths);
    assert_true(ps_is_ok(&st));
    st = ps_file_write_private(paths.crl, "junk\n", 5);
    assert_true(ps_is_ok(&st));
    st = ps_tls_create(at, &tls);
    assert_int_equal(st.code, PS_INVALID_ARGUMENT);
    assert_non_null(strstr(st.text, "crl.pem: no list of revoked certificates in PEM"));
    temp_dir_destroy(&dir);
}

static void a_method_without_callers_starts_no_server(void **state)
{
    ps_method methods[8];
    echo_world w;
    ps_service service = echo_service(&w);
    ps_server *server = NULL;
    ps_loop *loop;
    ps_status st = ps_loop_create(&loop);

    (void)state;
    assert_true(ps_is_ok(&st));
    memcpy(methods, service.methods, service.method_count * sizeof methods[0]);
    methods[1].may = 0;
    service.methods = methods;
    st = ps_serve(loop, &service, 1, "127.0.0.1:0", &server);
    assert_int_equal(st.code, PS_FAILED_PRECONDITION);
    assert_string_equal(st.text, "psgd.test.EchoService: nobody may call Upload");
    ps_loop_destroy(loop);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_goes_through),
        cmocka_unit_test(any_of_a_kind_may_be_expected),
        cmocka_unit_test(another_node_is_not_taken),
        cmocka_unit_test(another_kind_is_not_taken),
        cmocka_unit_test(a_channel_that_expects_nobody_takes_nobody),
        cmocka_unit_test(a_user_cannot_be_a_service),
        cmocka_unit_test(a_list_that_could_not_be_read_is_read_later),
        cmocka_unit_test(a_list_that_cannot_be_read_starts_nothing),
        cmocka_unit_test(a_method_without_callers_starts_no_server),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
