/* SPDX-License-Identifier: Apache-2.0 */
/* test_nodes.c - the nodes that are known, and their leases. */
#include "services/coordinator/domain/known_nodes.h"

#include "tests/support/cmocka_all.h"

#include <stdio.h>
#include <string.h>

enum { S = 1000000, BEAT = S / 2, LEASE = 10 * S };

static ps_status present(ps_nodes *nodes, const char *id, uint64_t incarnation, const char *address,
                         int64_t now_us, bool *is_new)
{
    Psgd__V1__RegisterNodeRequest q = PSGD__V1__REGISTER_NODE_REQUEST__INIT;
    ps_node_entry *node;

    q.node_id = (char *)id;
    q.incarnation = incarnation;
    q.role = PSGD__V1__NODE_ROLE__NODE_ROLE_WORKER;
    q.address = (char *)address;
    q.version = (char *)"0.1.0";
    return ps_nodes_register(nodes, &q, now_us, now_us, &node, is_new);
}

static ps_status beat(ps_nodes *nodes, const char *id, uint64_t incarnation, const char *job_id,
                      int64_t now_us)
{
    Psgd__V1__HeartbeatRequest q = PSGD__V1__HEARTBEAT_REQUEST__INIT;
    ps_node_entry *node;

    q.node_id = (char *)id;
    q.incarnation = incarnation;
    q.job_id = (char *)job_id;
    q.phase = job_id[0] ? PSGD__V1__NODE_PHASE__NODE_PHASE_RUNNING
                        : PSGD__V1__NODE_PHASE__NODE_PHASE_IDLE;
    return ps_nodes_beat(nodes, &q, now_us, now_us, &node);
}

static void nodes_are_kept_by_id(void **state)
{
    static const char *const ids[] = {"m", "c", "z", "a", "q"};
    ps_nodes nodes;
    bool is_new;

    (void)state;
    ps_nodes_init(&nodes, BEAT, LEASE);
    for (size_t i = 0; i < 5; i++) {
        ps_status st = present(&nodes, ids[i], 1, "h:1", S, &is_new);

        assert_int_equal(st.code, PS_OK);
        assert_true(is_new);
    }
    for (size_t i = 1; i < nodes.count; i++) {
        assert_true(strcmp(nodes.entries[i - 1]->id, nodes.entries[i]->id) < 0);
    }
    assert_string_equal(ps_nodes_find(&nodes, "q")->id, "q");
    assert_null(ps_nodes_find(&nodes, "r"));
    ps_nodes_fini(&nodes);
}

static void of_two_processes_with_one_id_the_later_has_it(void **state)
{
    ps_nodes nodes;
    ps_status st;
    bool is_new;

    (void)state;
    ps_nodes_init(&nodes, BEAT, LEASE);
    st = present(&nodes, "w1", 7, "h:1", S, &is_new);
    assert_int_equal(st.code, PS_OK);
    st = present(&nodes, "w1", 8, "h:2", S, &is_new); /* started anew, or a second one */
    assert_int_equal(st.code, PS_OK);
    st = present(&nodes, "w1", 7, "h:1", S + 1, &is_new);
    assert_int_equal(st.code, PS_FAILED_PRECONDITION);
    assert_non_null(strstr(st.text, "h:2 has the node id w1"));
    assert_string_equal(ps_nodes_find(&nodes, "w1")->address, "h:2");
    st = present(&nodes, "w1", 7, "h:1", S + LEASE, &is_new);
    assert_int_equal(st.code, PS_OK);
    ps_nodes_fini(&nodes);
}

static void a_lease_ends_with_silence_and_comes_back_with_a_beat(void **state)
{
    ps_nodes nodes;
    ps_node_entry *node;
    ps_status st;
    bool is_new;

    (void)state;
    ps_nodes_init(&nodes, BEAT, LEASE);
    st = present(&nodes, "w1", 7, "h:1", S, &is_new);
    assert_int_equal(st.code, PS_OK);
    node = ps_nodes_find(&nodes, "w1");
    assert_true(ps_node_is_alive(&nodes, node, S + LEASE - 1));
    assert_false(ps_node_is_alive(&nodes, node, S + LEASE));
    assert_null(ps_nodes_find_address(&nodes, "h:1", S + LEASE));
    st = beat(&nodes, "w1", 7, "", S + LEASE);
    assert_int_equal(st.code, PS_OK);
    assert_true(ps_node_is_alive(&nodes, node, S + LEASE));
    assert_ptr_equal(ps_nodes_find_address(&nodes, "h:1", S + LEASE), node);
    ps_nodes_fini(&nodes);
}

static void missed_heartbeats_are_counted(void **state)
{
    ps_nodes nodes;
    ps_node_entry *node;
    ps_status st;
    bool is_new;

    (void)state;
    ps_nodes_init(&nodes, BEAT, LEASE);
    st = present(&nodes, "w1", 7, "h:1", S, &is_new);
    assert_int_equal(st.code, PS_OK);
    node = ps_nodes_find(&nodes, "w1");
    assert_int_equal(ps_node_missed(&nodes, node, S), 0);
    assert_int_equal(ps_node_missed(&nodes, node, S + BEAT + BEAT / 4), 0);
    assert_int_equal(ps_node_missed(&nodes, node, S + 2 * BEAT), 1);
    assert_int_equal(ps_node_missed(&nodes, node, S + 4 * BEAT), 3);
    ps_nodes_fini(&nodes);
}

static void an_unknown_node_and_an_older_process_have_to_register(void **state)
{
    ps_nodes nodes;
    ps_status st;
    bool is_new;

    (void)state;
    ps_nodes_init(&nodes, BEAT, LEASE);
    st = beat(&nodes, "w1", 7, "", S);
    assert_int_equal(st.code, PS_NOT_FOUND);
    st = present(&nodes, "w1", 8, "h:1", S, &is_new);
    assert_int_equal(st.code, PS_OK);
    st = beat(&nodes, "w1", 7, "", S);
    assert_int_equal(st.code, PS_NOT_FOUND);
    st = present(&nodes, "w1", 8, "h:1", S, &is_new);
    assert_int_equal(st.code, PS_OK);
    assert_false(is_new);
    st = present(&nodes, "w1", 9, "h:2", S, &is_new);
    assert_int_equal(st.code, PS_OK);
    assert_true(is_new);
    assert_int_equal(nodes.count, 1);
    assert_string_equal(nodes.entries[0]->address, "h:2");
    ps_nodes_fini(&nodes);
}

static void idle_is_who_says_so_and_has_no_holder(void **state)
{
    ps_nodes nodes;
    ps_node_entry *node;
    ps_status st;
    bool is_new;

    (void)state;
    ps_nodes_init(&nodes, BEAT, LEASE);
    st = present(&nodes, "w1", 7, "h:1", S, &is_new);
    assert_int_equal(st.code, PS_OK);
    node = ps_nodes_find(&nodes, "w1");
    assert_true(ps_node_is_idle(node)); /* a new process holds nothing */
    st = beat(&nodes, "w1", 7, "job-a", S);
    assert_int_equal(st.code, PS_OK);
    assert_false(ps_node_is_idle(node));
    ps_node_mark_idle(node);
    assert_true(ps_node_is_idle(node));
    snprintf(node->holder, sizeof node->holder, "job-b");
    assert_false(ps_node_is_idle(node));
    ps_nodes_fini(&nodes);
}

static void bad_registrations_are_refused(void **state)
{
    static const struct {
        const char *id, *address;
        uint64_t incarnation;
    } bad[] = {
        {"", "h:1", 1},
        {"w 1", "h:1", 1},
        {"w/1", "h:1", 1},
        {"w1", "", 1},
        {"w1", "h", 1},
        {"w1", "h:0", 1},
        {"w1", ":1", 1},
        {"w1", "h:1", 0},
        {"w1234567890123456789012345678901234567890123456789012345678901234", "h:1", 1},
    };
    ps_nodes nodes;
    bool is_new;

    (void)state;
    ps_nodes_init(&nodes, BEAT, LEASE);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ps_status st = present(&nodes, bad[i].id, bad[i].incarnation, bad[i].address, S, &is_new);

        if (st.code != PS_INVALID_ARGUMENT) {
            fail_msg("registration %zu was answered with %s", i, ps_code_name(st.code));
        }
    }
    assert_int_equal(nodes.count, 0);
    ps_nodes_fini(&nodes);
}

static void the_long_silent_are_forgotten_unless_a_job_has_them(void **state)
{
    ps_nodes nodes;
    ps_status st;
    bool is_new;

    (void)state;
    ps_nodes_init(&nodes, BEAT, LEASE);
    st = present(&nodes, "a", 1, "h:1", S, &is_new);
    assert_int_equal(st.code, PS_OK);
    st = present(&nodes, "b", 1, "h:2", S, &is_new);
    assert_int_equal(st.code, PS_OK);
    snprintf(ps_nodes_find(&nodes, "b")->holder, 96, "job");
    ps_nodes_forget(&nodes, S + 3600 * (int64_t)S);
    assert_int_equal(nodes.count, 2);
    ps_nodes_forget(&nodes, S + 3600 * (int64_t)S + 1);
    assert_int_equal(nodes.count, 1);
    assert_string_equal(nodes.entries[0]->id, "b");
    ps_nodes_fini(&nodes);
}

static void there_is_an_end_to_nodes(void **state)
{
    ps_nodes nodes;
    ps_status st;
    char id[16];
    bool is_new;

    (void)state;
    ps_nodes_init(&nodes, BEAT, LEASE);
    for (unsigned i = 0; i < PS_NODES_MAX; i++) {
        snprintf(id, sizeof id, "n%u", i);
        st = present(&nodes, id, 1, "h:1", S, &is_new);
        assert_int_equal(st.code, PS_OK);
    }
    st = present(&nodes, "one-more", 1, "h:1", S, &is_new);
    assert_int_equal(st.code, PS_RESOURCE_EXHAUSTED);
    ps_nodes_fini(&nodes);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_are_kept_by_id),
        cmocka_unit_test(of_two_processes_with_one_id_the_later_has_it),
        cmocka_unit_test(a_lease_ends_with_silence_and_comes_back_with_a_beat),
        cmocka_unit_test(missed_heartbeats_are_counted),
        cmocka_unit_test(an_unknown_node_and_an_older_process_have_to_register),
        cmocka_unit_test(idle_is_who_says_so_and_has_no_holder),
        cmocka_unit_test(bad_registrations_are_refused),
        cmocka_unit_test(the_long_silent_are_forgotten_unless_a_job_has_them),
        cmocka_unit_test(there_is_an_end_to_nodes),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
