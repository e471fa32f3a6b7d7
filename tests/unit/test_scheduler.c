/* SPDX-License-Identifier: Apache-2.0 */
/* test_scheduler.c - which nodes a job may have now, or what it waits for. */
#include "services/coordinator/domain/scheduler.h"

#include "tests/support/cmocka_all.h"

#include <stdio.h>
#include <string.h>

enum { S = 1000000, MEMBERS = 8 };
#define WORKER PSGD__V1__NODE_ROLE__NODE_ROLE_WORKER
#define PSERVER PSGD__V1__NODE_ROLE__NODE_ROLE_PSERVER

typedef struct world {
    ps_nodes nodes;
    Psgd__V1__JobSpec spec;
    Psgd__V1__NodeAddress named[MEMBERS], *list[MEMBERS];
    ps_member members[MEMBERS];
    size_t count;
    bool is_after_loss;
    char message[200];
} world;

static void add(world *w, const char *id, Psgd__V1__NodeRole role, const char *address)
{
    Psgd__V1__RegisterNodeRequest q = PSGD__V1__REGISTER_NODE_REQUEST__INIT;
    ps_node_entry *node;
    ps_status st;
    bool is_new;

    q.node_id = (char *)id;
    q.incarnation = 5;
    q.role = role;
    q.address = (char *)address;
    st = ps_nodes_register(&w->nodes, &q, "ipv4:h", 10 * S, 0, &node, &is_new);
    assert_int_equal(st.code, PS_OK);
}

static void begin(world *w, uint32_t workers, uint32_t pservers)
{
    memset(w, 0, sizeof *w);
    ps_nodes_init(&w->nodes, S / 2, 10 * S);
    psgd__v1__job_spec__init(&w->spec);
    w->spec.workers = workers;
    w->spec.pservers = pservers;
    w->spec.nodes = w->list;
}

static void name(world *w, Psgd__V1__NodeRole role, const char *address)
{
    Psgd__V1__NodeAddress *n = &w->named[w->spec.n_nodes];

    psgd__v1__node_address__init(n);
    n->role = role;
    n->address = (char *)address;
    w->list[w->spec.n_nodes++] = n;
}

static void hold(world *w, const char *id, const char *job)
{
    ps_node_entry *node = ps_nodes_find(&w->nodes, id);

    snprintf(node->holder, sizeof node->holder, "%s", job);
}

static bool ask_beside(world *w, const char *const *held, int64_t now_us)
{
    const ps_want want = {.spec = &w->spec, .is_after_loss = w->is_after_loss};

    return ps_schedule_job(&w->nodes, &want, held, now_us, w->members, &w->count, w->message,
                           sizeof w->message);
}

static bool ask(world *w, int64_t now_us)
{
    return ask_beside(w, NULL, now_us);
}

static void idle_nodes_are_taken_in_the_order_of_ids(void **state)
{
    world w;

    (void)state;
    begin(&w, 2, 1);
    add(&w, "w3", WORKER, "h:3");
    add(&w, "w1", WORKER, "h:1");
    add(&w, "w2", WORKER, "h:2");
    add(&w, "p1", PSERVER, "h:9");
    assert_true(ask(&w, 10 * S));
    assert_string_equal(w.members[0].id, "w1");
    assert_string_equal(w.members[1].id, "w2");
    assert_int_equal(w.members[1].rank, 1);
    assert_int_equal(w.members[1].incarnation, 5);
    assert_string_equal(w.members[2].id, "p1");
    assert_int_equal(w.members[2].role, PSERVER);
    assert_int_equal(w.members[2].rank, 0);
    ps_nodes_fini(&w.nodes);
}

static void a_shortage_says_how_many_and_who_is_busy(void **state)
{
    world w;

    (void)state;
    begin(&w, 4, 1);
    add(&w, "w1", WORKER, "h:1");
    add(&w, "w2", WORKER, "h:2");
    add(&w, "w3", WORKER, "h:3");
    add(&w, "p1", PSERVER, "h:9");
    hold(&w, "w1", "x-abc");
    assert_false(ask(&w, 10 * S));
    assert_string_equal(w.message, "needs 4 workers, 2 idle of 3 known; busy: w1 (job x-abc)");
    ps_nodes_fini(&w.nodes);
}

static void both_roles_are_told_of(void **state)
{
    world w;

    (void)state;
    begin(&w, 1, 2);
    assert_false(ask(&w, 10 * S));
    assert_string_equal(w.message,
                        "needs 1 worker, 0 idle of 0 known; needs 2 pservers, 0 idle of 0 known");
    ps_nodes_fini(&w.nodes);
}

/* A heartbeat that tells of the disk. */
static void tell_disk(world *w, const char *id, uint64_t free_bytes)
{
    Psgd__V1__HeartbeatRequest q = PSGD__V1__HEARTBEAT_REQUEST__INIT;
    Psgd__V1__DiskInfo disk = PSGD__V1__DISK_INFO__INIT;
    ps_node_entry *node;
    ps_status st;

    disk.free_bytes = free_bytes;
    disk.needed_bytes = 50;
    disk.is_low = free_bytes < 50;
    q.node_id = (char *)id;
    q.incarnation = 5;
    q.phase = PSGD__V1__NODE_PHASE__NODE_PHASE_IDLE;
    q.disk = &disk;
    st = ps_nodes_beat(&w->nodes, &q, 10 * S, 0, &node);
    assert_int_equal(st.code, PS_OK);
}

static void nodes_without_room_are_not_taken(void **state)
{
    world w;

    (void)state;
    begin(&w, 1, 0);
    add(&w, "w1", WORKER, "h:1");
    add(&w, "w2", WORKER, "h:2");
    tell_disk(&w, "w1", 49);
    assert_true(ask(&w, 10 * S));
    assert_string_equal(w.members[0].id, "w2");
    ps_node_set_full(ps_nodes_find(&w.nodes, "w2"), 10 * S);
    assert_false(ask(&w, 10 * S));
    assert_string_equal(w.message,
                        "needs 1 worker, 0 idle of 2 known; low disk: w1 (49 bytes free, its "
                        "--min-free is 50), w2 (it had no room for the last job)");
    name(&w, WORKER, "h:1");
    assert_false(ask(&w, 10 * S));
    assert_string_equal(w.message, "needs 1 worker, 0 free of those named; low disk: w1 (49 bytes "
                                   "free, its --min-free is 50)");
    tell_disk(&w, "w1", 50);
    assert_true(ask(&w, 10 * S));
    ps_nodes_fini(&w.nodes);
}

static void nodes_that_lacked_something_are_taken_last(void **state)
{
    world w;

    (void)state;
    begin(&w, 1, 0);
    add(&w, "w1", WORKER, "h:1");
    add(&w, "w2", WORKER, "h:2");
    ps_node_set_short(ps_nodes_find(&w.nodes, "w1"), 10 * S);
    assert_true(ask(&w, 10 * S));
    assert_string_equal(w.members[0].id, "w2");
    w.spec.workers = 2;
    assert_true(ask(&w, 10 * S));
    assert_int_equal(w.count, 2);
    w.is_after_loss = true; /* one is enough */
    assert_true(ask(&w, 10 * S));
    assert_int_equal(w.count, 1);
    assert_string_equal(w.members[0].id, "w2");
    ps_node_set_short(ps_nodes_find(&w.nodes, "w2"), 10 * S);
    assert_true(ask(&w, 10 * S)); /* there is no other */
    assert_string_equal(w.members[0].id, "w1");
    ps_nodes_fini(&w.nodes);
}

static void silent_nodes_are_not_taken(void **state)
{
    world w;

    (void)state;
    begin(&w, 1, 1);
    add(&w, "w1", WORKER, "h:1");
    add(&w, "p1", PSERVER, "h:9");
    assert_false(ask(&w, 10 * S + 5 * S)); /* in its lease, but three beats are missing */
    assert_string_equal(w.message, "needs 1 worker, 0 idle of 1 known, 1 silent; needs 1 pserver, "
                                   "0 idle of 1 known, 1 silent");
    ps_nodes_find(&w.nodes, "w1")->has_left = true; /* it is away for good, and not silent */
    assert_false(ask(&w, 10 * S + 5 * S));
    assert_string_equal(w.message,
                        "needs 1 worker, 0 idle of 0 known; needs 1 pserver, 0 idle of 1 "
                        "known, 1 silent");
    ps_nodes_fini(&w.nodes);
}

static void the_freshest_are_taken_first(void **state)
{
    world w;

    (void)state;
    begin(&w, 1, 1);
    add(&w, "w1", WORKER, "h:1");
    add(&w, "w2", WORKER, "h:2");
    add(&w, "p1", PSERVER, "h:9");
    ps_nodes_find(&w.nodes, "w1")->seen_us = 9 * S; /* stopped a moment ago, perhaps */
    assert_true(ask(&w, 10 * S));
    assert_string_equal(w.members[0].id, "w2");
    w.spec.workers = 2;
    assert_true(ask(&w, 10 * S));
    assert_string_equal(w.members[0].id, "w2");
    assert_string_equal(w.members[1].id, "w1");
    ps_nodes_fini(&w.nodes);
}

static void named_nodes_are_taken_registered_or_not(void **state)
{
    world w;

    (void)state;
    begin(&w, 2, 1);
    add(&w, "w7", WORKER, "h:7");
    name(&w, PSERVER, "h:9");
    name(&w, WORKER, "h:8");
    name(&w, WORKER, "h:7");
    assert_true(ask(&w, 10 * S));
    assert_string_equal(w.members[0].address, "h:8");
    assert_string_equal(w.members[0].id, ""); /* to be dialled */
    assert_string_equal(w.members[1].id, "w7");
    assert_int_equal(w.members[1].rank, 1);
    assert_string_equal(w.members[2].address, "h:9");
    assert_int_equal(w.members[2].role, PSERVER);
    ps_nodes_fini(&w.nodes);
}

static void more_may_be_named_than_are_needed(void **state)
{
    world w;

    (void)state;
    begin(&w, 1, 1);
    add(&w, "w1", WORKER, "h:1");
    hold(&w, "w1", "x");
    name(&w, WORKER, "h:1");
    name(&w, WORKER, "h:2");
    name(&w, WORKER, "h:3");
    name(&w, PSERVER, "h:9");
    assert_true(ask(&w, 10 * S));
    assert_string_equal(w.members[0].address, "h:2"); /* the first is busy */
    assert_string_equal(w.members[1].address, "h:9");
    ps_nodes_fini(&w.nodes);
}

static void a_named_node_of_another_job_is_waited_for(void **state)
{
    const char *const held[] = {"h:2", "job-y", NULL};
    world w;

    (void)state;
    begin(&w, 2, 1);
    add(&w, "w1", WORKER, "h:1");
    hold(&w, "w1", "job-x");
    name(&w, WORKER, "h:1");
    name(&w, WORKER, "h:2");
    name(&w, PSERVER, "h:9");
    assert_false(ask_beside(&w, held, 10 * S));
    assert_string_equal(w.message, "needs 2 workers, 0 free of those named; busy: w1 (job job-x), "
                                   "h:2 (job job-y)");
    ps_nodes_fini(&w.nodes);
}

static void after_a_loss_fewer_nodes_will_do(void **state)
{
    world w;

    (void)state;
    begin(&w, 5, 2);
    add(&w, "w1", WORKER, "h:1");
    add(&w, "w2", WORKER, "h:2");
    add(&w, "p1", PSERVER, "h:9");
    assert_false(ask(&w, 10 * S));
    w.is_after_loss = true;
    assert_true(ask(&w, 10 * S));
    assert_int_equal(w.count, 3);
    assert_int_equal(w.members[0].rank_count, 3);
    assert_int_equal(w.members[1].rank, 3);
    assert_int_equal(w.members[1].rank_count, 2);
    assert_string_equal(w.members[2].id, "p1");
    hold(&w, "p1", "job-x");
    assert_false(ask(&w, 10 * S)); /* one of each role is needed */
    assert_string_equal(w.message, "needs 1 pserver, 0 idle of 1 known; busy: p1 (job job-x)");
    ps_nodes_fini(&w.nodes);
}

static void after_a_loss_named_nodes_are_waited_for(void **state)
{
    world w;

    (void)state;
    begin(&w, 1, 1);
    add(&w, "w1", WORKER, "h:1");
    name(&w, WORKER, "h:1");
    name(&w, PSERVER, "h:9");
    assert_true(ask(&w, 10 * S)); /* h:9 is called to find out */
    w.is_after_loss = true;
    assert_false(ask(&w, 10 * S));
    assert_string_equal(w.message, "needs 1 pserver, 0 free of those named; not back yet: h:9");
    add(&w, "p1", PSERVER, "h:9");
    assert_true(ask(&w, 10 * S));
    ps_nodes_fini(&w.nodes);
}

static void a_job_begins_with_workers_min_processes(void **state)
{
    world w;

    (void)state;
    begin(&w, 4, 1);
    w.spec.worker_processes = 3;
    w.spec.workers_min = 2;
    add(&w, "w0", WORKER, "h:1");
    add(&w, "ps0", PSERVER, "h:2");
    for (unsigned k = 0; k < 2; k++) { /* after a loss too */
        w.is_after_loss = k == 1;
        assert_false(ask(&w, 10 * S));
        assert_string_equal(w.message, "waits for 1 more worker (workers_min): needs 2 workers, 1 "
                                       "idle of 1 known");
    }
    add(&w, "w1", WORKER, "h:3");
    assert_true(ask(&w, 10 * S));
    assert_int_equal(w.count, 3);
    assert_int_equal(w.members[1].rank, 2);
    add(&w, "w2", WORKER, "h:4");
    add(&w, "w3", WORKER, "h:5");
    assert_true(ask(&w, 10 * S));
    assert_int_equal(w.count, 4); /* and no more than worker_processes */
    ps_nodes_fini(&w.nodes);
}

/* A worker that a program has joined by, for jobs of a title. */
static void add_program(world *w, const char *id, const char *title, const char *address)
{
    add(w, id, WORKER, address);
    snprintf(ps_nodes_find(&w->nodes, id)->loop, sizeof w->nodes.entries[0]->loop, "%s", title);
}

static void programs_have_the_last_ranks(void **state)
{
    world w;

    (void)state;
    begin(&w, 4, 1);
    w.spec.programs = 2;
    w.spec.title = (char *)"both";
    add(&w, "w1", WORKER, "h:1");
    add_program(&w, "w2", "both", "h:2");
    add_program(&w, "w3", "other", "h:3");
    add(&w, "p1", PSERVER, "h:9");
    assert_false(ask(&w, 10 * S));
    assert_string_equal(w.message, "needs 2 workers, 1 idle of 1 known; needs 2 workers whose "
                                   "programs have joined for both, 1 idle of 1 known");
    add(&w, "w4", WORKER, "h:4");
    add_program(&w, "w5", "both", "h:5");
    assert_true(ask(&w, 10 * S));
    assert_int_equal(w.count, 5);
    assert_string_equal(w.members[1].id, "w4");
    assert_string_equal(w.members[2].id, "w2");
    assert_int_equal(w.members[2].rank, 2);
    assert_string_equal(w.members[3].id, "w5");
    assert_int_equal(w.members[3].rank, 3);

    /* after a loss each kind carries its own ranks */
    w.is_after_loss = true;
    hold(&w, "w2", "x-abc");
    assert_true(ask(&w, 10 * S));
    assert_int_equal(w.count, 4);
    assert_string_equal(w.members[2].id, "w5");
    assert_int_equal(w.members[2].rank, 2);
    assert_int_equal(w.members[2].rank_count, 2);
    hold(&w, "w1", "x-abc");
    hold(&w, "w4", "x-abc");
    assert_false(ask(&w, 10 * S));
    ps_nodes_fini(&w.nodes);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_begins_with_workers_min_processes),
        cmocka_unit_test(idle_nodes_are_taken_in_the_order_of_ids),
        cmocka_unit_test(a_shortage_says_how_many_and_who_is_busy),
        cmocka_unit_test(both_roles_are_told_of),
        cmocka_unit_test(silent_nodes_are_not_taken),
        cmocka_unit_test(the_freshest_are_taken_first),
        cmocka_unit_test(named_nodes_are_taken_registered_or_not),
        cmocka_unit_test(more_may_be_named_than_are_needed),
        cmocka_unit_test(a_named_node_of_another_job_is_waited_for),
        cmocka_unit_test(nodes_without_room_are_not_taken),
        cmocka_unit_test(nodes_that_lacked_something_are_taken_last),
        cmocka_unit_test(after_a_loss_fewer_nodes_will_do),
        cmocka_unit_test(programs_have_the_last_ranks),
        cmocka_unit_test(after_a_loss_named_nodes_are_waited_for),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
