/* SPDX-License-Identifier: Apache-2.0 */
/* test_pserver_tables.c - the files that a parameter server leaves of its sparse tables: whole
 * however often they are asked for, or the reason why not. */
#include "services/pserver/pserver.h"

#include "common/job/plan.h"
#include "tests/support/table_job.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* As the server's, with rows of the first step that are changes. */
static ps_status prepare_and_push(void *state, ps_session *session)
{
    uint64_t keys[100];
    float grads[100 * 4];
    ps_table_push rows = {.keys = keys, .grads = grads};
    ps_status st;

    for (uint64_t key = 0; key < 100; key++) {
        if (ps_merge_part_of(session->plan, &session->placement, 0, key) == session->rank) {
            keys[rows.count++] = key;
        }
    }
    for (size_t i = 0; i < rows.count * 4; i++) {
        grads[i] = 1.0f;
    }
    st = session->tables[0] != NULL ? ps_table_push_rows(ps_tables_at(session->tables[0], 0), &rows)
                                    : ps_ok();
    return ps_is_ok(&st) ? ps_pserver_hooks.prepare(state, session) : st;
}

typedef struct server {
    node_world w;
    ps_pserver *pserver;
    ps_role_hooks hooks;
    table_job t;
    char name[PS_NAME_MAX + 1]; /* of the table's file */
} server;

static void tell_node(void *arg)
{
    server *s = arg;

    ps_pserver_set_node(s->pserver, s->w.node);
}

static bool has_begun(node_world *w)
{
    return w->coordinator[0].phase == PSGD__V1__NODE_PHASE__NODE_PHASE_RUNNING;
}

/* Up to where the job runs. */
static void server_begin(server *s, const char *json, bool from_file)
{
    ps_service service[PS_PSERVER_SERVICES_MAX];
    ps_status st = ps_pserver_create(NULL, 1, 0, false, &s->pserver);

    assert_true(ps_is_ok(&st));
    assert_int_equal(ps_pserver_services(s->pserver, service), 1 + PS_THREADS_MAX);
    s->hooks = ps_pserver_hooks;
    s->hooks.prepare = prepare_and_push;
    table_job_begin(&s->t, json, PSGD__V1__NODE_ROLE__NODE_ROLE_PSERVER);
    if (!from_file) {
        nw_add_table(&s->t.j.packages, NULL, 0);
    }
    nw_begin(&s->w, &s->hooks, s->pserver, service, 1, NULL);
    nw_run(&s->w, tell_node, s);
    start(&s->w, &s->t.j);
    nw_await(&s->w, has_begun, "RUNNING");
    ps_table_file_name(s->t.j.plan, 0, 0, s->name, sizeof s->name);
}

static void server_end(server *s)
{
    nw_end(&s->w);
    ps_pserver_destroy(s->pserver);
    table_job_end(&s->t);
}

/* The table's file among what was collected. */
static const ps_strbuf *table_of(const server *s, const nw_collected *c)
{
    for (size_t i = 0; i < c->count; i++) {
        if (strcmp(c->files[i].name, s->name) == 0) {
            assert_int_equal(c->files[i].kind, PSGD__V1__ARTIFACT_KIND__ARTIFACT_KIND_MODEL);
            return &c->files[i].bytes;
        }
    }
    fail_msg("no %s", s->name);
    return NULL;
}

/* A Collect that broke is made again, and changes are since the last file that was written. */
static void what_is_collected_again_is_the_same(void **state)
{
    nw_collected first, second;
    const ps_strbuf *bytes;
    ps_table_head head;
    ps_status st;
    server s;

    (void)state;
    server_begin(&s, TABLE_JOB("\"save_changes\":1"), true);
    nw_collect(&s.w, "job-1", 1, &first);
    assert_string_equal(first.error.status.text, "");
    nw_collect(&s.w, "job-1", 1, &second);
    assert_string_equal(second.error.status.text, "");
    bytes = table_of(&s, &first);
    st = ps_table_read_head((const uint8_t *)bytes->data, bytes->len, &head);
    assert_string_equal(st.text, "");
    assert_int_equal(head.kind, PS_TABLE_CHANGES);
    assert_true(head.sections > 0);
    assert_int_equal(bytes->len, table_of(&s, &second)->len);
    assert_memory_equal(bytes->data, table_of(&s, &second)->data, bytes->len);
    nw_collected_fini(&first);
    nw_collected_fini(&second);
    server_end(&s);
}

static void a_table_that_cannot_be_written_is_named(void **state)
{
    char path[512];
    nw_collected files;
    server s;

    (void)state;
    server_begin(&s, TABLE_JOB(""), true);
    snprintf(path, sizeof path, "%s/sessions/job-1-1/%s", s.w.dir.path, s.name);
    assert_int_equal(mkdir(path, 0700), 0); /* in its place */
    nw_collect(&s.w, "job-1", 1, &files);
    assert_int_equal(files.error.status.code, PS_INTERNAL);
    assert_non_null(strstr(files.error.status.text, s.name));
    nw_collected_fini(&files);
    assert_int_equal(rmdir(path), 0);
    nw_collect(&s.w, "job-1", 1, &files);
    assert_string_equal(files.error.status.text, "");
    assert_true(table_of(&s, &files)->len > PS_TABLE_HEAD_BYTES);
    nw_collected_fini(&files);
    server_end(&s);
}

/* A model that looks each word up in so many embeddings. */
static void a_server_leaves_a_file_of_each_of_many_tables(void **state)
{
    enum { TABLES = 40, OF_CONCAT = 10 };
    ps_strbuf json = {0};
    nw_collected files;
    size_t tables = 0;
    server s;

    (void)state;
    ps_strbuf_puts(&json, "{\"workers\":1,\"pservers\":2,\"data\":{\"name\":\"ngram\",\"files\":"
                          "[\"a\"],\"train_limit\":2000,\"test_limit\":10,\"params\":{\"n\":5,"
                          "\"words\":11}},\"model\":{\"table\":{\"name\":\"sparse\"},\"layers\":[");
    for (int i = 0; i < TABLES; i++) {
        ps_strbuf_printf(&json,
                         "{\"kind\":\"embedding\",\"name\":\"e%d\",\"inputs\":[\"input\"],"
                         "\"params\":{\"rows\":1000,\"width\":1}},",
                         i);
    }
    for (int i = 0; i < TABLES; i++) {
        if (i % OF_CONCAT == 0) {
            ps_strbuf_printf(&json, "{\"kind\":\"concat\",\"name\":\"c%d\",\"inputs\":[",
                             i / OF_CONCAT);
        }
        ps_strbuf_printf(&json, "\"e%d\"%s", i, i % OF_CONCAT == OF_CONCAT - 1 ? "]}," : ",");
    }
    ps_strbuf_puts(&json, "{\"kind\":\"concat\",\"inputs\":[\"c0\",\"c1\",\"c2\",\"c3\"]},"
                          "{\"kind\":\"dense\",\"params\":{\"units\":11}}]}}");
    server_begin(&s, ps_strbuf_text(&json), false);
    nw_collect(&s.w, "job-1", 1, &files);
    assert_string_equal(files.error.status.text, "");
    for (size_t i = 0; i < files.count; i++) {
        tables += strstr(files.files[i].name, ".psgdtab") != NULL;
    }
    assert_int_equal(tables, TABLES);
    nw_collected_fini(&files);
    server_end(&s);
    ps_strbuf_fini(&json);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_collected_again_is_the_same),
        cmocka_unit_test(a_table_that_cannot_be_written_is_named),
        cmocka_unit_test(a_server_leaves_a_file_of_each_of_many_tables),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
