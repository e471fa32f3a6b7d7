/* SPDX-License-Identifier: Apache-2.0 */
/* test_manifest.c - what programs read about a job that is over. */
#include "common/artifact/manifest.h"

#include "tests/support/temp_dir.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

static void expect_ok(ps_status st)
{
    assert_string_equal(st.text, "");
}

static json_t *load(const char *path)
{
    json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, NULL);

    assert_non_null(root);
    return root;
}

static void a_manifest_names_files_with_size_and_checksum(void **state)
{
    temp_dir dir = temp_dir_create();
    const char *path = temp_dir_file(&dir, "manifest.json");
    ps_manifest_file files[2] = {{.name = "a.csv", .kind = "report", .node_id = "w\"1"},
                                 {.name = "b.log", .kind = "log", .node_id = ""}};
    const char *name, *kind, *sha256, *node;
    json_int_t size;
    json_t *root, *list;

    (void)state;
    expect_ok(ps_file_write(temp_dir_file(&dir, "a.csv"), "abc", 3));
    expect_ok(ps_file_write(temp_dir_file(&dir, "b.log"), "", 0));
    expect_ok(ps_manifest_measure(dir.path, &files[0]));
    expect_ok(ps_manifest_measure(dir.path, &files[1]));
    expect_ok(ps_manifest_write(path, files, 2));
    root = load(path);
    list = json_object_get(root, "files");
    assert_int_equal(json_array_size(list), 2);
    assert_int_equal(json_unpack_ex(json_array_get(list, 0), NULL, JSON_STRICT,
                                    "{s:s, s:s, s:I, s:s, s:s}", "name", &name, "kind", &kind,
                                    "size", &size, "sha256", &sha256, "node_id", &node),
                     0);
    assert_string_equal(name, "a.csv");
    assert_string_equal(kind, "report");
    assert_int_equal(size, 3);
    assert_string_equal(sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_string_equal(node, "w\"1");
    json_decref(root);
    temp_dir_destroy(&dir);
}

static void an_empty_manifest_is_a_manifest(void **state)
{
    temp_dir dir = temp_dir_create();
    const char *path = temp_dir_file(&dir, "manifest.json");
    json_t *root;

    (void)state;
    expect_ok(ps_manifest_write(path, NULL, 0));
    root = load(path);
    assert_true(json_is_array(json_object_get(root, "files")));
    json_decref(root);
    temp_dir_destroy(&dir);
}

static void a_missing_file_cannot_be_measured(void **state)
{
    temp_dir dir = temp_dir_create();
    ps_manifest_file file = {.name = "none"};
    ps_status st = ps_manifest_measure(dir.path, &file);

    (void)state;
    assert_int_equal(st.code, PS_NOT_FOUND);
    temp_dir_destroy(&dir);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_manifest_names_files_with_size_and_checksum),
        cmocka_unit_test(an_empty_manifest_is_a_manifest),
        cmocka_unit_test(a_missing_file_cannot_be_measured),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
