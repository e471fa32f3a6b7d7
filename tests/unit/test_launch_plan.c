/* SPDX-License-Identifier: Apache-2.0 */
/* test_launch_plan.c - which services a launch starts where. */
#include "clients/psgd/launch_plan.h"

#include "common/base/files.h"
#include "tests/support/cmocka_all.h"
#include "tests/support/temp_dir.h"

#include <stdio.h>
#include <string.h>

/* "worker-0@node1:7164 .." of all places but the coordinator's. */
static void assert_placed(const ps_launch_wish *wish, const char *want)
{
    static ps_launch_plan plan;
    char got[1024] = "", name[PS_LAUNCH_NAME_BYTES];
    size_t n = 0;
    ps_status st = ps_launch_plan_make(wish, &plan);

    assert_string_equal(st.text, "");
    assert_int_equal(plan.places[0].role, PS_LAUNCH_COORDINATOR);
    assert_int_equal(plan.places[0].host, 0);
    for (size_t i = 1; i < plan.n_places; i++) {
        const ps_launch_place *p = &plan.places[i];

        n += (size_t)snprintf(got + n, sizeof got - n, "%s%s@%s", i > 1 ? " " : "",
                              ps_launch_name(p, name), plan.hosts[p->host]);
        if (p->port > 0) {
            n += (size_t)snprintf(got + n, sizeof got - n, ":%u", (unsigned)p->port);
        }
    }
    assert_string_equal(got, want);
}

static void assert_refused(const ps_launch_wish *wish, const char *why)
{
    static ps_launch_plan plan;
    ps_status st = ps_launch_plan_make(wish, &plan);

    if (ps_is_ok(&st) || strstr(st.text, why) == NULL) {
        fail_msg("%s: not refused so: %s", why, st.text);
    }
}

static void without_hosts_all_is_here(void **state)
{
    (void)state;
    assert_placed(&(ps_launch_wish){.workers = 2, .pservers = 1},
                  "pserver-0@localhost worker-0@localhost worker-1@localhost");
}

static void hosts_are_dealt_in_turn(void **state)
{
    (void)state;
    assert_placed(&(ps_launch_wish){.workers = 3, .pservers = 2, .hosts = "a, me@b,c"},
                  "pserver-0@a pserver-1@me@b worker-0@c worker-1@a worker-2@me@b");
    assert_placed(&(ps_launch_wish){.workers = 3, .pservers = 0, .hosts = "a,localhost,a"},
                  "worker-0@a worker-1@localhost worker-2@a");
}

static void a_file_of_hosts_has_slots(void **state)
{
    temp_dir dir = temp_dir_create();
    const char *path = temp_dir_file(&dir, "hosts");
    const char text[] = "# ours\n\n a slots=2\r\nb # slots=9\n";
    ps_status st;

    (void)state;
    st = ps_file_write(path, text, sizeof text - 1);
    assert_string_equal(st.text, "");
    assert_placed(&(ps_launch_wish){.workers = 4, .hostfile = path},
                  "worker-0@a worker-1@a worker-2@b worker-3@a");
    st = ps_file_write(path, "a slot=2\n", 9);
    assert_string_equal(st.text, "");
    assert_refused(&(ps_launch_wish){.workers = 4, .hostfile = path}, "\"slot=2\": slots=1 to");
    st = ps_file_write(path, "# none\n", 7);
    assert_string_equal(st.text, "");
    assert_refused(&(ps_launch_wish){.workers = 4, .hostfile = path}, "names no host");
    temp_dir_destroy(&dir);
}

static void places_with_ports_may_be_named(void **state)
{
    (void)state;
    assert_placed(&(ps_launch_wish){.workers = 2,
                                    .pservers = 1,
                                    .server_places = "10.0.0.1:6170",
                                    .worker_places = "10.0.0.2,127.0.0.1:6172"},
                  "pserver-0@10.0.0.1:6170 worker-0@10.0.0.2 worker-1@localhost:6172");
    assert_refused(&(ps_launch_wish){.workers = 2, .worker_places = "a"},
                   "--worker-endpoints: has 1 places for 2 processes");
}

static bool is_b(const char *host)
{
    return strcmp(host, "b") == 0;
}

static void addresses_of_this_host_need_no_ssh(void **state)
{
    (void)state;
    assert_placed(&(ps_launch_wish){.workers = 3, .hosts = "a,b", .is_own = is_b},
                  "worker-0@a worker-1@localhost worker-2@a");
}

static void what_ssh_could_misread_is_refused(void **state)
{
    static const char *const hosts[] = {"-oProxyCommand=x", "a b", "a;b", "$(a)", "a/b", "\"a\""};

    (void)state;
    for (size_t i = 0; i < sizeof hosts / sizeof hosts[0]; i++) {
        assert_refused(&(ps_launch_wish){.workers = 1, .hosts = hosts[i]}, "--hosts: host \"");
    }
}

static void numbers_are_bounded(void **state)
{
    (void)state;
    assert_refused(&(ps_launch_wish){.workers = 0}, "1 worker or more");
    assert_refused(&(ps_launch_wish){.workers = 500, .pservers = 13}, "512 processes at most");
    assert_refused(&(ps_launch_wish){.workers = 1, .hosts = "a", .hostfile = "b"}, "exclude");
    assert_refused(&(ps_launch_wish){.workers = 1, .hosts = ", ,"}, "names no host");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_hosts_all_is_here),
        cmocka_unit_test(hosts_are_dealt_in_turn),
        cmocka_unit_test(a_file_of_hosts_has_slots),
        cmocka_unit_test(places_with_ports_may_be_named),
        cmocka_unit_test(addresses_of_this_host_need_no_ssh),
        cmocka_unit_test(what_ssh_could_misread_is_refused),
        cmocka_unit_test(numbers_are_bounded),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
