/* SPDX-License-Identifier: Apache-2.0 */
/* test_node_tables.c - PreCommit at a parameter server whose sparse tables start from files: what
 * it takes, and what it says of files that are not as was said. */
#include "tests/support/table_job.h"

#include <string.h>

static const char from_file[] = TABLE_JOB("");

/* Refused so, and the node is idle with nothing left. */
static void must_refuse(node_world *w, nw_packages packages, ps_code code, const char *reason,
                        const char *words_of_it)
{
    nw_precommit_result result;

    reserve(w, packages.job_id, packages.attempt);
    nw_precommit(w, &packages, &result);
    assert_false(result.sealed);
    if (result.error.status.code != code || strcmp(result.error.reason, reason) != 0 ||
        strstr(result.error.status.text, words_of_it) == NULL) {
        fail_msg("wanted %s: %s, got %s: %s", reason, words_of_it, result.error.reason,
                 result.error.status.text);
    }
    nw_await_idle(w);
}

static void a_server_has_its_part_of_the_rows_that_it_was_sent(void **state)
{
    nw_precommit_result result;
    ps_table_counters c;
    uint64_t mine = 0;
    node_world w;
    table_job t;

    (void)state;
    table_job_begin(&t, from_file, PSGD__V1__NODE_ROLE__NODE_ROLE_PSERVER);
    nw_begin(&w, &nw_server_hooks, NULL, NULL, 0, NULL);
    reserve(&w, "job-1", 1);
    nw_precommit(&w, &t.j.packages, &result);
    assert_true(result.sealed);
    assert_non_null(w.session->tables[0]);
    c = ps_table_count(ps_tables_at(w.session->tables[0], 0));
    for (uint64_t key = 1; key < 10; key++) {
        mine += ps_merge_part_of(w.session->plan, &w.session->placement, 0, key) == 0;
    }
    assert_true(mine > 0 && mine < 9);
    assert_int_equal(c.rows, mine);
    nw_end(&w);
    table_job_end(&t);
}

static void a_file_that_is_not_as_was_said_ends_the_attempt(void **state)
{
    node_world w;
    table_job t;
    nw_packages p;

    (void)state;
    table_job_begin(&t, from_file, PSGD__V1__NODE_ROLE__NODE_ROLE_PSERVER);
    nw_begin(&w, &nw_server_hooks, NULL, NULL, 0, NULL);
    p = t.j.packages;
    p.table_at++;
    must_refuse(&w, p, PS_INVALID_ARGUMENT, "BAD_TABLES", "is the next one");
    p = t.j.packages;
    p.table_file = 1;
    must_refuse(&w, p, PS_INVALID_ARGUMENT, "BAD_TABLES", "of table file 1");
    p = t.j.packages;
    p.table_size = 0;
    must_refuse(&w, p, PS_INVALID_ARGUMENT, "BAD_TABLES", "size: 0");
    p.table_size = UINT64_MAX;
    must_refuse(&w, p, PS_INVALID_ARGUMENT, "BAD_TABLES", "are allowed");
    p.table_size = t.f.len - 1;
    must_refuse(&w, p, PS_INVALID_ARGUMENT, "BAD_TABLES", "of a table file of");
    p.table_size = t.f.len + 1;
    must_refuse(&w, p, PS_FAILED_PRECONDITION, "BAD_TABLES", "without all files");
    p = t.j.packages;
    p.weights_hash++;
    must_refuse(&w, p, PS_DATA_LOSS, "WEIGHTS_MISMATCH", "what was sent has hash");
    t.f.bytes[t.f.len - 1] ^= 1;
    nw_add_table(&t.j.packages, t.f.bytes, t.f.len);
    must_refuse(&w, t.j.packages, PS_DATA_LOSS, "BAD_TABLES", "the checksum of bytes");
    nw_add_table(&t.j.packages, t.f.bytes, 0);
    t.j.packages.table = NULL;
    must_refuse(&w, t.j.packages, PS_FAILED_PRECONDITION, "BAD_TABLES", "without all files");
    assert_int_equal(w.prepared, 0);
    nw_end(&w);
    table_job_end(&t);
}

static bool is_loading(node_world *w)
{
    return w->coordinator[0].log.len > 0 &&
           strstr(ps_strbuf_text(&w->coordinator[0].log), "table file 0: ") != NULL;
}

/* A PreCommit whose file is whole and is loaded, which it is not before the helper is let go. */
typedef struct loading {
    node_world w;
    table_job t;
    nw_sender *sender;
    nw_precommit_result result;
} loading;

static void loading_begin(loading *l)
{
    table_job_begin(&l->t, from_file, PSGD__V1__NODE_ROLE__NODE_ROLE_PSERVER);
    nw_begin(&l->w, &nw_server_hooks, NULL, NULL, 0, NULL);
    nw_hold_helper(&l->w);
    reserve(&l->w, "job-1", 1);
    l->sender = nw_precommit_begin(&l->w, &l->t.j.packages, &l->result);
    nw_await(&l->w, is_loading, "the file to be whole");
}

static void loading_end(loading *l)
{
    nw_end(&l->w);
    table_job_end(&l->t);
}

static void a_server_is_there_for_others_while_it_loads(void **state)
{
    loading l;

    (void)state;
    loading_begin(&l);
    assert_int_equal(nw_phase(&l.w), PSGD__V1__NODE_PHASE__NODE_PHASE_PREPARING);
    assert_int_equal(l.w.prepared, 0);
    nw_let_helper_go(&l.w);
    nw_precommit_end(l.sender);
    assert_true(l.result.sealed);
    assert_true(ps_table_count(ps_tables_at(l.w.session->tables[0], 0)).rows > 0);
    loading_end(&l);
}

static void an_attempt_can_end_while_its_rows_are_loaded(void **state)
{
    ps_error error;
    loading l;

    (void)state;
    loading_begin(&l);
    nw_abort(&l.w, "job-1", 1, &error);
    assert_string_equal(error.status.text, "");
    nw_precommit_end(l.sender);
    assert_int_equal(l.result.error.status.code, PS_ABORTED);
    assert_int_equal(nw_phase(&l.w), PSGD__V1__NODE_PHASE__NODE_PHASE_IDLE);
    l.t.j.packages.attempt = 2; /* waits for what nobody waits for any more */
    reserve(&l.w, "job-1", 2);
    l.sender = nw_precommit_begin(&l.w, &l.t.j.packages, &l.result);
    nw_let_helper_go(&l.w);
    nw_precommit_end(l.sender);
    assert_true(l.result.sealed);
    assert_true(ps_table_count(ps_tables_at(l.w.session->tables[0], 0)).rows > 0);
    loading_end(&l);
}

static void stop_node(void *arg)
{
    node_world *w = arg;

    ps_node_stop(w->node, 0, 0, &w->node_down);
}

static bool is_down(node_world *w)
{
    return w->node_is_down;
}

static void a_node_that_loads_is_stopped_when_it_has(void **state)
{
    loading l;

    (void)state;
    loading_begin(&l);
    nw_run(&l.w, stop_node, &l.w);
    nw_precommit_end(l.sender);
    assert_int_equal(l.result.error.status.code, PS_ABORTED);
    nw_await_no_server(&l.w);
    assert_false(l.w.node_is_down);
    nw_let_helper_go(&l.w);
    nw_await(&l.w, is_down, "the node to be down");
    loading_end(&l);
}

static void a_worker_takes_no_tables(void **state)
{
    node_world w;
    table_job t;

    (void)state;
    table_job_begin(&t, from_file, PSGD__V1__NODE_ROLE__NODE_ROLE_WORKER);
    nw_begin(&w, &nw_worker_hooks, NULL, NULL, 0, NULL);
    must_refuse(&w, t.j.packages, PS_INVALID_ARGUMENT, "OUT_OF_ORDER", "weights expected");
    nw_end(&w);
    table_job_end(&t);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_server_has_its_part_of_the_rows_that_it_was_sent),
        cmocka_unit_test(a_file_that_is_not_as_was_said_ends_the_attempt),
        cmocka_unit_test(a_server_is_there_for_others_while_it_loads),
        cmocka_unit_test(an_attempt_can_end_while_its_rows_are_loaded),
        cmocka_unit_test(a_node_that_loads_is_stopped_when_it_has),
        cmocka_unit_test(a_worker_takes_no_tables),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
