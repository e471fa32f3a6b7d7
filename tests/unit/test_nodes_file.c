/* SPDX-License-Identifier: Apache-2.0 */
/* test_nodes_file.c - worker.json in its three forms. */
#include "clients/psgd/nodes_file.h"

#include "common/base/document.h"
#include "tests/support/cmocka_all.h"
#include "tests/support/temp_dir.h"

#include <stdlib.h>
#include <string.h>

static Psgd__V1__JobSpec *empty_spec(void)
{
    Psgd__V1__JobSpec *spec = calloc(1, sizeof *spec);

    assert_non_null(spec);
    psgd__v1__job_spec__init(spec);
    return spec;
}

static ps_status take(const char *text, uint64_t workers, uint64_t pservers,
                      Psgd__V1__JobSpec *spec)
{
    json_t *json = NULL;
    ps_status st = ps_document_parse(text, strlen(text), &json);

    assert_string_equal(st.text, "");
    st = ps_nodes_take(json, workers, pservers, spec);
    json_decref(json);
    return st;
}

/* "W host:port" or "P host:port" of each node, in order. */
static void assert_taken(const char *text, uint64_t workers, uint64_t pservers, const char *want)
{
    Psgd__V1__JobSpec *spec = empty_spec();
    ps_status st = take(text, workers, pservers, spec);
    char got[1024] = "";
    size_t n = 0;

    assert_string_equal(st.text, "");
    for (size_t i = 0; i < spec->n_nodes; i++) {
        n += (size_t)snprintf(got + n, sizeof got - n, "%s%c %s", i > 0 ? ", " : "",
                              spec->nodes[i]->role == PSGD__V1__NODE_ROLE__NODE_ROLE_WORKER ? 'W'
                                                                                            : 'P',
                              spec->nodes[i]->address);
    }
    assert_string_equal(got, want);
    assert_int_equal(spec->n_nodes, spec->workers + spec->pservers);
    psgd__v1__job_spec__free_unpacked(spec, NULL);
}

static void assert_refused(const char *text, uint64_t workers, uint64_t pservers, const char *why)
{
    Psgd__V1__JobSpec *spec = empty_spec();
    ps_status st = take(text, workers, pservers, spec);

    if (st.code != PS_INVALID_ARGUMENT || strstr(st.text, why) == NULL) {
        fail_msg("%s: %s", text, ps_is_ok(&st) ? "accepted" : st.text);
    }
    assert_int_equal(spec->n_nodes, 0);
    psgd__v1__job_spec__free_unpacked(spec, NULL);
}

static void the_object_form_names_one_server_and_the_workers(void **state)
{
    (void)state;
    assert_taken("{\"PS\": \"10.0.0.1\", \"Worker\": [\"10.0.0.2\", \"10.0.0.3:99\"]}", 0, 0,
                 "W 10.0.0.2:15387, W 10.0.0.3:99, P 10.0.0.1:15388");
    assert_taken("PS: [a, b]\nWorker: [c]\n", 0, 0, "W c:15387, P a:15388, P b:15388");
}

static void the_list_of_roles_keeps_its_order(void **state)
{
    (void)state;
    assert_taken("[[\"Worker\", \"w0\"], [\"PS\", \"p\"], [\"Worker\", \"w1\"]]", 0, 0,
                 "W w0:15387, W w1:15387, P p:15388");
}

static void the_list_of_ids_is_ordered_by_id_and_minus_two_is_the_server(void **state)
{
    (void)state;
    assert_taken("[[1, \"u1\", \"w1\"], [-2, \"u\", \"p\"], [0, \"u0\", \"w0\"]]", 0, 0,
                 "W w0:15387, W w1:15387, P p:15388");
}

static void the_first_entries_are_used_when_fewer_are_wanted(void **state)
{
    const char *text = "{\"PS\": [\"p0\", \"p1\"], \"Worker\": [\"w0\", \"w1\", \"w2\"]}";

    (void)state;
    assert_taken(text, 2, 1, "W w0:15387, W w1:15387, P p0:15388");
    assert_taken(text, 3, 2, "W w0:15387, W w1:15387, W w2:15387, P p0:15388, P p1:15388");
    assert_taken("[[5, \"\", \"w5\"], [3, \"\", \"w3\"], [-2, \"\", \"p\"]]", 1, 0,
                 "W w3:15387, P p:15388");
    assert_refused(text, 4, 0, "names 3 workers, but 4 are asked for");
    assert_refused(text, 0, 3, "names 2 pservers, but 3 are asked for");
}

/* The quick starts of the older system: workers alone, who exchange without a server. */
static void a_file_may_name_workers_alone(void **state)
{
    (void)state;
    assert_taken("{\"Worker\": [\"a\", \"b\"]}", 0, 0, "W a:15387, W b:15387");
    assert_taken("[[\"Worker\", \"a\"]]", 0, 0, "W a:15387");
    assert_taken("[[0, \"u\", \"a\"], [1, \"v\", \"b\"]]", 1, 0, "W a:15387");
}

static void addresses_of_version_6_get_a_port_too(void **state)
{
    (void)state;
    assert_taken("{\"PS\": \"[::1]\", \"Worker\": [\"[::1]:7\"]}", 0, 0,
                 "W [::1]:7, P [::1]:15388");
}

static void what_is_none_of_the_forms_is_refused_with_its_place(void **state)
{
    (void)state;
    assert_refused("12", 0, 0, "neither an object nor a list");
    assert_refused("{\"Workers\": []}", 0, 0, "unknown key 'Workers'");
    assert_refused("{\"PS\": 5, \"Worker\": [\"a\"]}", 0, 0, "the address is not a text");
    assert_refused("{\"PS\": \"p\", \"Worker\": [\"a:99999\"]}", 0, 0, "entry 1");
    assert_refused("{\"PS\": \"p\"}", 0, 0, "names no worker");
    assert_refused("{\"Worker\": [\"a\"]}", 0, 1, "names 0 pservers, but 1 are asked for");
    assert_refused("[[\"Boss\", \"a\"]]", 0, 0, "entry 0: is neither [role, address]");
    assert_refused("[[\"PS\", \"a\"], [0, \"u\"]]", 0, 0, "entry 1: is neither");
    assert_refused("[[-3, \"u\", \"a\"]]", 0, 0, "id is -3");
    assert_refused("[[-2, \"u\", \"p\"], [0, \"u\", \"a\"], [0, \"v\", \"b\"]]", 0, 0,
                   "id 0 occurs twice");
}

static void nodes_that_were_there_are_replaced(void **state)
{
    Psgd__V1__JobSpec *spec = empty_spec();
    ps_status st = take("{\"PS\": \"p\", \"Worker\": [\"a\", \"b\"]}", 0, 0, spec);

    (void)state;
    assert_string_equal(st.text, "");
    st = take("{\"PS\": \"q\", \"Worker\": [\"c\"]}", 0, 0, spec);
    assert_string_equal(st.text, "");
    assert_int_equal(spec->n_nodes, 2);
    assert_int_equal(spec->workers, 1);
    assert_string_equal(spec->nodes[0]->address, "c:15387");
    psgd__v1__job_spec__free_unpacked(spec, NULL);
}

static void a_file_is_read_and_named_in_errors(void **state)
{
    temp_dir dir = temp_dir_create();
    const char *path = temp_dir_file(&dir, "worker.json");
    static const char text[] = "[[\"PS\", \"p\"]]";
    Psgd__V1__JobSpec *spec = empty_spec();
    ps_status st = ps_file_write(path, text, sizeof text - 1);

    (void)state;
    assert_string_equal(st.text, "");
    st = ps_nodes_take_file(path, 0, 0, spec);
    assert_int_equal(st.code, PS_INVALID_ARGUMENT);
    assert_non_null(strstr(st.text, "worker.json: names no worker"));
    st = ps_nodes_take_file(temp_dir_file(&dir, "none.json"), 0, 0, spec);
    assert_int_equal(st.code, PS_NOT_FOUND);
    psgd__v1__job_spec__free_unpacked(spec, NULL);
    temp_dir_destroy(&dir);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_object_form_names_one_server_and_the_workers),
        cmocka_unit_test(the_list_of_roles_keeps_its_order),
        cmocka_unit_test(the_list_of_ids_is_ordered_by_id_and_minus_two_is_the_server),
        cmocka_unit_test(the_first_entries_are_used_when_fewer_are_wanted),
        cmocka_unit_test(a_file_may_name_workers_alone),
        cmocka_unit_test(addresses_of_version_6_get_a_port_too),
        cmocka_unit_test(what_is_none_of_the_forms_is_refused_with_its_place),
        cmocka_unit_test(nodes_that_were_there_are_replaced),
        cmocka_unit_test(a_file_is_read_and_named_in_errors),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL); /* e.g. 'test_nodes_file the_*' */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
