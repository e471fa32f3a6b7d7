/* SPDX-License-Identifier: Apache-2.0 */
/* test_nodes.c - the nodes that are known, and their leases. */
#include "services/coordinator/domain/known_nodes.h"

#include "tests/support/cmocka_all.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { S = 1000000, BEAT = S / 2, LEASE = 10 * S };

static ps_status present_from(ps_nodes *nodes, const char *peer, const char *id,
                              uint64_t incarnation, const char *address, int64_t now_us,
                              bool *is_new)
{
    Psgd__V1__RegisterNodeRequest q = PSGD__V1__REGISTER_NODE_REQUEST__INIT;
    ps_node_entry *node;

    q.node_id = (char *)id;
    q.incarnation = incarnation;
    q.role = PSGD__V1__NODE_ROLE__NODE_ROLE_WORKER;
    q.address = (char *)address;
    q.version = (char *)PS_VERSION;
    return ps_nodes_register(nodes, &q, peer, now_us, now_us, &node, is_new);
}

static ps_status present(ps_nodes *nodes, const char *id, uint64_t incarnation, const char *address,
                         int64_t now_us, bool *is_new)
{
    return present_from(nodes, "ipv4:h", id, incarnation, address, now_us, is_new);
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

/* Registers "a" with nodes that it initialises, and makes a heartbeat of it. */
static Psgd__V1__HeartbeatRequest beat_of_a(ps_nodes *nodes)
{
    Psgd__V1__HeartbeatRequest q = PSGD__V1__HEARTBEAT_REQUEST__INIT;
    bool is_new;
    ps_status st;

    ps_nodes_init(nodes, BEAT, LEASE);
    st = present(nodes, "a", 1, "h:1", 0, &is_new);
    assert_int_equal(st.code, PS_OK);
    q.node_id = (char *)"a";
    q.incarnation = 1;
    return q;
}

static void a_node_that_leaves_is_gone_at_once_until_it_registers(void **state)
{
    ps_nodes nodes;
    Psgd__V1__HeartbeatRequest q = beat_of_a(&nodes);
    ps_node_entry *node = ps_nodes_find(&nodes, "a");
    bool is_new;
    ps_status st;

    (void)state;
    q.phase = PSGD__V1__NODE_PHASE__NODE_PHASE_IDLE;
    q.leaving = true;
    st = ps_nodes_beat(&nodes, &q, S, S, &node);
    assert_int_equal(st.code, PS_OK);
    assert_true(node->has_left);
    assert_false(ps_node_is_alive(&nodes, node, S));
    assert_false(ps_node_may_be_chosen(&nodes, node, S));
    assert_null(ps_nodes_find_address(&nodes, "h:1", S));
    st = present(&nodes, "a", 2, "h:2", S, &is_new); /* its id is free, at any address */
    assert_int_equal(st.code, PS_OK);
    assert_true(ps_node_is_alive(&nodes, node, S) && !node->has_left);
    ps_nodes_fini(&nodes);
}

static void a_node_says_what_it_uses_and_a_rate_that_is_none_is_not_taken(void **state)
{
    static const double none[] = {-1, NAN, INFINITY};
    Psgd__V1__NodeLoad load = PSGD__V1__NODE_LOAD__INIT;
    ps_nodes nodes;
    Psgd__V1__HeartbeatRequest q = beat_of_a(&nodes);
    ps_node_entry *node = ps_nodes_find(&nodes, "a");
    ps_status st;

    (void)state;
    assert_false(node->has_load);
    q.load = &load;
    load.cpu = 1.5;
    load.processors = 4;
    load.memory_bytes = 7;
    load.host_memory_bytes = 9;
    load.received_bytes_per_second = 10;
    load.sent_bytes_per_second = 11;
    st = ps_nodes_beat(&nodes, &q, S, S, &node);
    assert_int_equal(st.code, PS_OK);
    assert_true(node->has_load && node->load.cpu == 1.5 && node->load.processors == 4);
    assert_true(node->load.memory_bytes == 7 && node->load.host_memory_bytes == 9);
    assert_true(node->load.received_bytes_per_second == 10 &&
                node->load.sent_bytes_per_second == 11);
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        double *values[] = {&load.cpu, &load.received_bytes_per_second,
                            &load.sent_bytes_per_second};

        for (size_t k = 0; k < sizeof values / sizeof values[0]; k++) {
            double kept = *values[k];

            *values[k] = none[i];
            st = ps_nodes_beat(&nodes, &q, S, S, &node);
            assert_int_equal(st.code, PS_OK);
            assert_false(node->has_load);
            *values[k] = kept;
        }
    }
    q.load = NULL;
    st = ps_nodes_beat(&nodes, &q, S, S, &node);
    assert_int_equal(st.code, PS_OK);
    assert_false(node->has_load);
    ps_nodes_fini(&nodes);
}

static void a_node_of_another_minor_version_is_refused(void **state)
{
    static const struct {
        const char *version;
        ps_code code;
    } cases[] = {
        {PS_VERSION, PS_OK},
        {"0.1.77", PS_OK},
        {"0.1", PS_OK},
        {"", PS_OK}, /* not psgd's own */
        {"0.2.0", PS_FAILED_PRECONDITION},
        {"0.10.0", PS_FAILED_PRECONDITION},
        {"1.1.0", PS_FAILED_PRECONDITION},
        {"0", PS_FAILED_PRECONDITION},
        {".", PS_FAILED_PRECONDITION},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        Psgd__V1__RegisterNodeRequest q = PSGD__V1__REGISTER_NODE_REQUEST__INIT;
        ps_node_entry *node;
        ps_nodes nodes;
        bool is_new;
        ps_status st;

        ps_nodes_init(&nodes, BEAT, LEASE);
        q.node_id = (char *)"a";
        q.incarnation = 1;
        q.role = PSGD__V1__NODE_ROLE__NODE_ROLE_WORKER;
        q.address = (char *)"h:1";
        q.version = (char *)cases[i].version;
        st = ps_nodes_register(&nodes, &q, "ipv4:h", 0, 0, &node, &is_new);
        assert_int_equal(st.code, cases[i].code);
        if (st.code != PS_OK) { /* both versions are named */
            assert_non_null(strstr(st.text, cases[i].version));
            assert_non_null(strstr(st.text, "psgd " PS_VERSION));
        }
        ps_nodes_fini(&nodes);
    }
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

static void of_two_processes_with_one_id_the_first_keeps_it_while_it_lives(void **state)
{
    ps_nodes nodes;
    ps_status st;
    bool is_new;

    (void)state;
    ps_nodes_init(&nodes, BEAT, LEASE);
    st = present(&nodes, "w1", 7, "h:1", S, &is_new);
    assert_int_equal(st.code, PS_OK);
    st = present(&nodes, "w1", 8, "h:2", S + BEAT, &is_new);
    assert_int_equal(st.code, PS_FAILED_PRECONDITION);
    assert_non_null(strstr(st.text, "h:1 has the node id w1 and lives"));
    assert_string_equal(ps_nodes_find(&nodes, "w1")->address, "h:1");
    st = beat(&nodes, "w1", 7, "", 2 * S);
    assert_int_equal(st.code, PS_OK);
    st = present(&nodes, "w1", 8, "h:2", 2 * S + 2 * BEAT, &is_new); /* one beat is missed */
    assert_int_equal(st.code, PS_FAILED_PRECONDITION);
    st = present(&nodes, "w1", 8, "h:2", 2 * S + 3 * BEAT, &is_new);
    assert_int_equal(st.code, PS_OK);
    assert_true(is_new);
    ps_nodes_fini(&nodes);
}

static void a_process_that_is_started_again_has_its_id_at_once(void **state)
{
    ps_nodes nodes;
    ps_status st;
    bool is_new;

    (void)state;
    ps_nodes_init(&nodes, BEAT, LEASE);
    st = present(&nodes, "w1", 7, "h:1", S, &is_new);
    assert_int_equal(st.code, PS_OK);
    st = present(&nodes, "w1", 8, "h:1", S + 1, &is_new); /* only one can listen there */
    assert_int_equal(st.code, PS_OK);
    assert_true(is_new);
    st = present(&nodes, "w1", 7, "h:1", S + 2, &is_new); /* late on its way */
    assert_int_equal(st.code, PS_FAILED_PRECONDITION);
    assert_non_null(strstr(st.text, "was started later"));
    ps_nodes_fini(&nodes);
}

static void ghosts_give_way_to_nodes_that_live(void **state)
{
    ps_nodes nodes;
    char id[32];
    ps_status st;
    bool is_new;

    (void)state;
    ps_nodes_init(&nodes, BEAT, LEASE);
    st = present(&nodes, "honest", 1, "h:1", S, &is_new);
    assert_int_equal(st.code, PS_OK);
    for (int i = 1; i < PS_NODES_OF_HOST_MAX; i++) {
        snprintf(id, sizeof id, "ghost-%d", i);
        st = present(&nodes, id, 1, "h:2", S, &is_new);
        assert_int_equal(st.code, PS_OK);
    }
    st = beat(&nodes, "honest", 1, "", S + BEAT);
    assert_int_equal(st.code, PS_OK);
    st = present(&nodes, "late", 1, "h:3", S + BEAT, &is_new); /* none has been silent for long */
    assert_int_equal(st.code, PS_RESOURCE_EXHAUSTED);
    assert_string_equal(st.text, "2048 nodes of host ipv4:h are known already; 2048 are allowed");
    st = present_from(&nodes, "ipv4:other", "elsewhere", 1, "o:1", S + BEAT, &is_new);
    assert_int_equal(st.code, PS_OK); /* another host is not kept out */
    st = present(&nodes, "late", 1, "h:3", S + 3 * BEAT, &is_new);
    assert_int_equal(st.code, PS_OK);
    assert_int_equal(nodes.count, PS_NODES_OF_HOST_MAX + 1);
    assert_non_null(ps_nodes_find(&nodes, "honest"));
    st = beat(&nodes, "honest", 1, "", S + LEASE);
    assert_int_equal(st.code, PS_OK);
    ps_nodes_forget(&nodes, S + LEASE + 1); /* those that never beat go with their leases */
    assert_int_equal(nodes.count, 3);       /* honest; elsewhere and late, which are younger */
    ps_nodes_fini(&nodes);
}

static void a_suspect_is_not_chosen_until_it_answers(void **state)
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
    assert_true(ps_node_may_be_chosen(&nodes, node, S));
    ps_node_suspect(node);
    st = beat(&nodes, "w1", 7, "", S + 1); /* its calls reach us; ours do not reach it */
    assert_int_equal(st.code, PS_OK);
    assert_false(ps_node_may_be_chosen(&nodes, node, S + 1));
    ps_node_trust(node);
    assert_true(ps_node_may_be_chosen(&nodes, node, S + 1));
    ps_node_suspect(node);
    st = present(&nodes, "w1", 8, "h:1", S + 2, &is_new); /* another process */
    assert_int_equal(st.code, PS_OK);
    assert_true(ps_node_may_be_chosen(&nodes, node, S + 2));
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
    st = present(&nodes, "w1", 9, "h:2", 3 * S, &is_new); /* the other one is silent */
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
    st = beat(&nodes, "a", 1, "", S);
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
    char id[16], peer[16];
    bool is_new;

    (void)state;
    ps_nodes_init(&nodes, BEAT, LEASE);
    for (unsigned i = 0; i < PS_NODES_MAX; i++) {
        snprintf(id, sizeof id, "n%u", i);
        snprintf(peer, sizeof peer, "ipv4:%u", i % 4);
        st = present_from(&nodes, peer, id, 1, "h:1", S, &is_new);
        assert_int_equal(st.code, PS_OK);
        st = beat(&nodes, id, 1, "", S);
        assert_int_equal(st.code, PS_OK);
    }
    st = present_from(&nodes, "ipv4:9", "one-more", 1, "h:1", S + LEASE - 1, &is_new);
    assert_int_equal(st.code, PS_RESOURCE_EXHAUSTED);
    st = present_from(&nodes, "ipv4:9", "one-more", 1, "h:1", S + LEASE, &is_new);
    assert_int_equal(st.code, PS_OK); /* the others are silent for longer than their leases */
    assert_int_equal(nodes.count, PS_NODES_MAX);
    ps_nodes_fini(&nodes);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_node_that_leaves_is_gone_at_once_until_it_registers),
        cmocka_unit_test(a_node_says_what_it_uses_and_a_rate_that_is_none_is_not_taken),
        cmocka_unit_test(a_node_of_another_minor_version_is_refused),
        cmocka_unit_test(nodes_are_kept_by_id),
        cmocka_unit_test(of_two_processes_with_one_id_the_first_keeps_it_while_it_lives),
        cmocka_unit_test(a_process_that_is_started_again_has_its_id_at_once),
        cmocka_unit_test(ghosts_give_way_to_nodes_that_live),
        cmocka_unit_test(a_suspect_is_not_chosen_until_it_answers),
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
