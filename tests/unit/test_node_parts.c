/* SPDX-License-Identifier: Apache-2.0 */
/* test_node_parts.c - fault points, the store of received data sets, its bound. */
#include "common/base/log.h"
#include "common/node/data_room.h"
#include "common/node/data_store.h"
#include "common/node/datasets.h"
#include "common/node/fault.h"
#include "tests/support/temp_dir.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void a_fault_is_a_point_and_where_it_is(void **state)
{
    static const char *const wrong[] = {
        "",           "exit-at",     "exit-at:",    "exit-at:NOWHERE",
        "drop-ack:0", "drop-ack:-1", "drop-ack:1x", "burn:1"};
    ps_faults faults = {0};
    ps_status st;

    (void)state;
    st = ps_faults_add(&faults, "exit-at:READY");
    assert_true(ps_is_ok(&st));
    st = ps_faults_add(&faults, "stop-at:running");
    assert_true(ps_is_ok(&st));
    st = ps_faults_add(&faults, "drop-ack:12");
    assert_true(ps_is_ok(&st));
    assert_int_equal(faults.exit_at, PS_PHASE_READY);
    assert_int_equal(faults.stop_at, PS_PHASE_RUNNING);
    assert_int_equal(faults.drop_ack, 12);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        st = ps_faults_add(&faults, wrong[i]);
        assert_int_equal(st.code, PS_INVALID_ARGUMENT);
    }
    ps_faults_at(&faults, PS_PHASE_IDLE); /* not here */
}

/* --- the store --------------------------------------------------------------------- */

static ps_data_file file_of(const char *name, const char *content)
{
    ps_data_file file = {.size = strlen(content)};

    snprintf(file.name, sizeof file.name, "%s", name);
    ps_sha256_of(content, strlen(content), file.sha256);
    return file;
}

static bool is_there(const char *path)
{
    struct stat info;

    return stat(path, &info) == 0;
}

static void files_that_are_whole_become_a_data_set(void **state)
{
    temp_dir dir = temp_dir_create();
    ps_data_file list[2] = {file_of("a", "hello world"), file_of("below/b", "!")};
    ps_data_files files = {.at = list, .count = 2};
    ps_data_store store = {0};
    bool complete = false;
    char *bytes = NULL, folder[128];
    size_t n = 0;
    ps_status st;

    (void)state;
    snprintf(folder, sizeof folder, "%s/datasets/abc", dir.path);
    st = ps_data_store_open(&store, folder, &files);
    assert_string_equal(st.text, "");
    st = ps_data_store_add(&store, 0, 0, "hello ", 6, &complete);
    assert_true(ps_is_ok(&st) && !complete);
    st = ps_data_store_add(&store, 0, 6, "world", 5, &complete);
    assert_true(ps_is_ok(&st) && complete && !ps_data_store_has_all(&store));
    assert_false(is_there(folder));
    st = ps_data_store_add(&store, 1, 0, "!", 1, &complete);
    assert_true(ps_is_ok(&st) && complete && ps_data_store_has_all(&store));
    st = ps_data_store_commit(&store);
    assert_string_equal(st.text, "");
    st = ps_file_read(temp_dir_file(&dir, "datasets/abc/a"), 100, &bytes, &n);
    assert_true(ps_is_ok(&st));
    assert_string_equal(bytes, "hello world");
    free(bytes);
    assert_true(is_there(temp_dir_file(&dir, "datasets/abc/below/b")));
    ps_data_store_abandon(&store); /* legal, changes nothing */
    assert_true(is_there(folder));

    files.count = 1;
    st = ps_data_store_open(&store, folder, &files); /* once more, over what is there */
    assert_true(ps_is_ok(&st));
    st = ps_data_store_add(&store, 0, 0, "hello world", 11, &complete);
    assert_true(complete);
    st = ps_data_store_commit(&store);
    assert_string_equal(st.text, "");
    assert_false(is_there(temp_dir_file(&dir, "datasets/abc/below/b")));
    temp_dir_destroy(&dir);
}

static void pieces_that_do_not_fit_are_refused_and_leave_nothing(void **state)
{
    temp_dir dir = temp_dir_create();
    ps_data_file list[2] = {file_of("a", "hello"), file_of("b", "!")};
    ps_data_files files = {.at = list, .count = 2};
    ps_data_store store = {0};
    bool complete = false;
    char folder[128];
    ps_status st;

    (void)state;
    snprintf(folder, sizeof folder, "%s/datasets/abc", dir.path);
    st = ps_data_store_open(&store, folder, &files);
    assert_true(ps_is_ok(&st));
    st = ps_data_store_add(&store, 1, 0, "!", 1, &complete); /* not its turn */
    assert_int_equal(st.code, PS_OUT_OF_RANGE);
    st = ps_data_store_add(&store, 0, 1, "h", 1, &complete); /* a hole */
    assert_int_equal(st.code, PS_OUT_OF_RANGE);
    st = ps_data_store_add(&store, 0, 0, "hello!", 6, &complete); /* too long */
    assert_int_equal(st.code, PS_OUT_OF_RANGE);
    st = ps_data_store_add(&store, 0, 0, "hallo", 5, &complete);
    assert_int_equal(st.code, PS_DATA_LOSS);
    assert_false(complete);
    ps_data_store_abandon(&store);
    assert_int_equal(rmdir(temp_dir_file(&dir, "datasets")), 0); /* empty */
    temp_dir_destroy(&dir);
}

/* --- the bound ---------------------------------------------------------------------- */

/* Returns the folder of the set whose checksum is 64 times `letter`. Valid until the next four
 * calls of temp_dir_file. */
static const char *set_folder(const temp_dir *dir, char letter, const char *suffix)
{
    char sha256[PS_SHA256_HEX_BYTES] = "", name[128];

    memset(sha256, letter, sizeof sha256 - 1);
    snprintf(name, sizeof name, "datasets/%s%s", sha256, suffix);
    return temp_dir_file(dir, name);
}

/* Stores a set of 1 MiB that was used at `second`. */
static void put_set(const char *folder, time_t second)
{
    static char content[1 << 20];
    struct timespec times[2] = {{.tv_sec = second}, {.tv_sec = second}};
    char path[300];
    ps_status st;

    snprintf(path, sizeof path, "%s/a", folder);
    st = ps_dir_make(folder);
    assert_string_equal(st.text, "");
    st = ps_file_write(path, content, sizeof content);
    assert_string_equal(st.text, "");
    assert_int_equal(utimensat(AT_FDCWD, folder, times, 0), 0);
}

/* Compares the letters of the sets that are there with `letters`. */
static void assert_sets(const temp_dir *dir, const char *letters)
{
    char found[8] = "";

    for (char c = 'a'; c <= 'e'; c++) {
        if (is_there(set_folder(dir, c, ""))) {
            found[strlen(found)] = c;
        }
    }
    assert_string_equal(found, letters);
}

static bool is_named(void *arg, const char *name)
{
    return strchr(arg, name[0]) != NULL;
}

static void the_least_recently_used_sets_make_room(void **state)
{
    temp_dir dir = temp_dir_create();
    char sets[128], none[] = "", d[] = "d"; /* letters of the sets that are in use */

    (void)state;
    snprintf(sets, sizeof sets, "%s/datasets", dir.path);
    assert_int_equal(ps_data_room_trim(sets, 0, is_named, none), 0); /* no folder yet */
    put_set(set_folder(&dir, 'a', ""), 30);
    put_set(set_folder(&dir, 'b', ""), 10);
    put_set(set_folder(&dir, 'c', ""), 20);
    put_set(set_folder(&dir, 'd', ""), 40);
    put_set(set_folder(&dir, 'b', ".XXXXXX"), 5);      /* is being received */
    put_set(temp_dir_file(&dir, "datasets/mnist"), 1); /* somebody else's */
    assert_int_equal(ps_data_room_trim(sets, 5 << 20, is_named, none), 5 << 20);
    assert_sets(&dir, "abcd");
    assert_int_equal(ps_data_room_trim(sets, (5 << 20) - 1, is_named, none), 4 << 20);
    assert_sets(&dir, "acd");
    ps_data_room_touch(set_folder(&dir, 'c', ""));
    assert_int_equal(ps_data_room_trim(sets, 3 << 20, is_named, none), 3 << 20);
    assert_sets(&dir, "cd");
    assert_int_equal(ps_data_room_trim(sets, 2 << 20, is_named, d), 2 << 20); /* d is in use */
    assert_sets(&dir, "d");
    assert_int_equal(ps_data_room_trim(sets, 0, is_named, d), 2 << 20);
    assert_sets(&dir, "d");
    assert_true(is_there(set_folder(&dir, 'b', ".XXXXXX")));
    assert_true(is_there(temp_dir_file(&dir, "datasets/mnist/a")));
    temp_dir_destroy(&dir);
}

static void a_bound_holds_after_a_restart_too(void **state)
{
    temp_dir dir = temp_dir_create();
    ps_data_wanted wanted = {.conf.source = ps_data_source_find("mnist"), .sha256 = "e"};
    ps_datasets *sets;
    ps_status st;

    (void)state;
    put_set(set_folder(&dir, 'a', ""), 30);
    put_set(set_folder(&dir, 'b', ""), 10);
    put_set(set_folder(&dir, 'c', ""), 20);
    put_set(set_folder(&dir, 'd', ""), 40);
    sets = ps_datasets_create(NULL, dir.path, NULL, 3 << 20);
    assert_sets(&dir, "acd");
    st = ps_datasets_make_room(sets, &wanted, 1);
    assert_string_equal(st.text, "");
    assert_sets(&dir, "ad");
    st = ps_datasets_make_room(sets, &wanted, (3 << 20) + 1);
    assert_int_equal(st.code, PS_RESOURCE_EXHAUSTED);
    assert_string_equal(st.text, "data set mnist: 4 MiB; --data-cache allows 3: set it to 4 or "
                                 "more, or to 0");
    assert_sets(&dir, "ad"); /* a refused set costs the others nothing */
    put_set(set_folder(&dir, 'e', ".XXXXXX"), 50);
    st = ps_datasets_make_room(sets, &wanted, 3 << 20);
    assert_int_equal(st.code, PS_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(st.text, "raise it"));
    ps_datasets_destroy(sets);

    put_set(set_folder(&dir, 'b', ""), 60);
    sets = ps_datasets_create(NULL, dir.path, NULL, 0); /* keeps none, and takes any */
    assert_sets(&dir, "");
    st = ps_datasets_make_room(sets, &wanted, UINT64_C(1) << 40);
    assert_string_equal(st.text, "");
    ps_datasets_destroy(sets);
    temp_dir_destroy(&dir);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_fault_is_a_point_and_where_it_is),
        cmocka_unit_test(files_that_are_whole_become_a_data_set),
        cmocka_unit_test(pieces_that_do_not_fit_are_refused_and_leave_nothing),
        cmocka_unit_test(the_least_recently_used_sets_make_room),
        cmocka_unit_test(a_bound_holds_after_a_restart_too),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
