/* SPDX-License-Identifier: Apache-2.0 */
/* test_files.c - files, directories, names and paths; each test in a directory of its own. */
#include "common/base/files.h"

#include "common/base/xalloc.h"
#include "tests/support/cmocka_all.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void assert_ok(ps_status st)
{
    if (!ps_is_ok(&st)) {
        fail_msg("%s", st.text);
    }
}

static int make_room(void **state)
{
    char room[] = "/tmp/test_files.XXXXXX";

    if (mkdtemp(room) == NULL || chdir(room) != 0) {
        return -1;
    }
    *state = strdup(room);
    return *state == NULL ? -1 : 0;
}

static int clear_room(void **state)
{
    ps_status st = ps_dir_remove(*state);

    free(*state);
    return chdir("/") != 0 || !ps_is_ok(&st);
}

static size_t count_entries(const char *path)
{
    DIR *dir = opendir(path);
    size_t n = 0;

    assert_non_null(dir);
    while (readdir(dir) != NULL) {
        n++;
    }
    closedir(dir);
    return n - 2;
}

static void assert_holds(const char *path, const char *want)
{
    char *bytes = NULL;
    size_t n = 0;

    assert_ok(ps_file_read(path, 1 << 20, &bytes, &n));
    assert_int_equal(n, strlen(want));
    assert_string_equal(bytes, want);
    free(bytes);
}

static void a_written_file_is_read_again(void **state)
{
    struct stat info;

    (void)state;
    umask(022);
    assert_ok(ps_file_write("a", "first", 5));
    assert_holds("a", "first");
    assert_ok(ps_file_write("./a", "", 0));
    assert_holds("a", "");
    assert_int_equal(stat("a", &info), 0);
    assert_int_equal(info.st_mode & 0777, 0644);
    assert_int_equal(count_entries("."), 1);
}

static void a_file_over_the_limit_is_refused_and_one_at_it_read(void **state)
{
    static char text[200000];
    char *bytes = NULL;
    size_t n = 0;
    ps_status st;

    (void)state;
    memset(text, 'x', sizeof text);
    assert_ok(ps_file_write("a", text, sizeof text));
    assert_ok(ps_file_read("a", sizeof text, &bytes, &n));
    assert_int_equal(n, sizeof text);
    assert_memory_equal(bytes, text, n);
    free(bytes);
    st = ps_file_read("a", sizeof text - 1, &bytes, &n);
    assert_int_equal(st.code, PS_RESOURCE_EXHAUSTED);
    st = ps_file_read("/dev/zero", 300000, &bytes, &n);
    assert_int_equal(st.code, PS_RESOURCE_EXHAUSTED);
    st = ps_file_read("none", 1, &bytes, &n);
    assert_int_equal(st.code, PS_NOT_FOUND);
    st = ps_file_read(".", 1, &bytes, &n);
    assert_false(ps_is_ok(&st));
}

static void what_is_abandoned_leaves_the_old_file_and_no_other(void **state)
{
    ps_file_writer writer;

    (void)state;
    assert_ok(ps_file_write("a", "old", 3));
    assert_ok(ps_file_writer_open(&writer, "a"));
    assert_ok(ps_file_writer_add(&writer, "new", 3));
    assert_holds("a", "old");
    ps_file_writer_abandon(&writer);
    ps_file_writer_abandon(&writer);
    assert_holds("a", "old");
    assert_int_equal(count_entries("."), 1);
}

static void pieces_appear_only_at_commit(void **state)
{
    ps_file_writer one, other;

    (void)state;
    assert_ok(ps_dir_make("d"));
    assert_ok(ps_file_writer_open(&one, "d/a"));
    assert_ok(ps_file_writer_open(&other, "d/a")); /* two at a time do not mix */
    assert_ok(ps_file_writer_add(&one, "ab", 2));
    assert_ok(ps_file_writer_add(&other, "z", 1));
    assert_ok(ps_file_writer_add(&one, "cd", 2));
    assert_int_equal(access("d/a", F_OK), -1);
    assert_ok(ps_file_writer_commit(&one));
    assert_holds("d/a", "abcd");
    assert_ok(ps_file_writer_commit(&other));
    assert_holds("d/a", "z");
    assert_int_equal(count_entries("d"), 1);
}

/* The disk begins with long files before commit. */
static void long_files_are_whole_however_they_are_added(void **state)
{
    enum { N = 20 << 20, PIECE = 3 << 20 };
    char *bytes = ps_xmalloc(N), *read = NULL;
    size_t n = 0;

    (void)state;
    for (size_t i = 0; i < N; i++) {
        bytes[i] = (char)(i * 31 >> 7);
    }
    for (int how = 0; how < 4; how++) {
        ps_file_writer writer;

        assert_ok(how % 2 ? ps_file_writer_open_passing(&writer, "long")
                          : ps_file_writer_open(&writer, "long"));
        for (size_t at = 0; at < N; at += n) {
            n = how < 2 || N - at < PIECE ? N - at : PIECE;
            assert_ok(ps_file_writer_add(&writer, bytes + at, n));
        }
        assert_int_equal(access("long", F_OK), -1);
        assert_ok(ps_file_writer_commit(&writer));
        assert_ok(ps_file_read("long", N, &read, &n));
        assert_int_equal(n, N);
        assert_memory_equal(read, bytes, N);
        free(read);
        assert_int_equal(count_entries("."), 1);
        assert_int_equal(unlink("long"), 0);
    }
    free(bytes);
}

static void a_failed_write_leaves_nothing(void **state)
{
    ps_status st = ps_file_write("none/a", "x", 1);

    (void)state;
    assert_int_equal(st.code, PS_NOT_FOUND);
    assert_ok(ps_dir_make("d/full"));
    st = ps_file_write("d", "x", 1); /* a directory is not replaced */
    assert_false(ps_is_ok(&st));
    assert_int_equal(count_entries("."), 1);
}

static void appends_follow_each_other(void **state)
{
    ps_status st;

    (void)state;
    assert_ok(ps_file_append("log", "a\n", 2));
    assert_ok(ps_file_append("log", "b\n", 2));
    assert_holds("log", "a\nb\n");
    st = ps_file_append("/dev/full", "x", 1);
    assert_int_equal(st.code, PS_RESOURCE_EXHAUSTED);
}

static void directories_are_made_with_those_above(void **state)
{
    ps_status st;

    (void)state;
    assert_ok(ps_dir_make("a/b//c/"));
    assert_ok(ps_dir_make("a/b/c"));
    assert_ok(ps_dir_make("/"));
    assert_int_equal(access("a/b/c", X_OK), 0);
    assert_ok(ps_file_write("file", "", 0));
    st = ps_dir_make("file");
    assert_false(ps_is_ok(&st));
    st = ps_dir_make("file/d");
    assert_false(ps_is_ok(&st));
}

static void removing_takes_all_below_and_follows_no_link(void **state)
{
    (void)state;
    assert_ok(ps_dir_make("a/b/c"));
    assert_ok(ps_file_write("a/b/f", "x", 1));
    assert_ok(ps_file_write("kept", "x", 1));
    assert_ok(ps_dir_make("keep"));
    assert_ok(ps_file_write("keep/f", "x", 1));
    assert_int_equal(symlink("../kept", "a/link"), 0);
    assert_int_equal(symlink("../keep", "a/dirlink"), 0);
    assert_ok(ps_dir_remove("a"));
    assert_int_equal(access("a", F_OK), -1);
    assert_holds("kept", "x");
    assert_holds("keep/f", "x");
    assert_ok(ps_dir_remove("a"));
    assert_ok(ps_dir_remove("kept"));
    assert_int_equal(access("kept", F_OK), -1);
}

static void paths_are_joined_within_bounds(void **state)
{
    char out[8];
    ps_status st;

    (void)state;
    assert_ok(ps_path_join(out, sizeof out, "ab", "cd"));
    assert_string_equal(out, "ab/cd");
    assert_ok(ps_path_join(out, sizeof out, "ab/", "cd"));
    assert_string_equal(out, "ab/cd");
    assert_ok(ps_path_join(out, sizeof out, "", "cd"));
    assert_string_equal(out, "cd");
    assert_ok(ps_path_join(out, sizeof out, "abc", "def"));
    st = ps_path_join(out, sizeof out, "abc", "defg");
    assert_int_equal(st.code, PS_OUT_OF_RANGE);
}

static void only_plain_names_are_safe(void **state)
{
    static const char *const safe[] = {"TR-tutorial-N(42).csv", "a", "A_b-c.d"};
    static const char *const unsafe[] = {"",         ".",   "..",  ".hidden", "a..b",
                                         "a/b",      "/a",  "a b", "a\nb",    "a\\b",
                                         "\xc3\xa9", "a:b", "~",   "a\x7f",   "$a"};
    char longest[PS_NAME_MAX + 2];

    (void)state;
    for (size_t i = 0; i < sizeof safe / sizeof safe[0]; i++) {
        assert_true(ps_name_is_safe(safe[i]));
    }
    for (size_t i = 0; i < sizeof unsafe / sizeof unsafe[0]; i++) {
        assert_false(ps_name_is_safe(unsafe[i]));
    }
    memset(longest, 'a', sizeof longest);
    longest[PS_NAME_MAX] = '\0';
    assert_true(ps_name_is_safe(longest));
    longest[PS_NAME_MAX] = 'a';
    longest[PS_NAME_MAX + 1] = '\0';
    assert_false(ps_name_is_safe(longest));
}

static void a_file_name_may_have_one_folder(void **state)
{
    static const char *const safe[] = {"a", "TB-tutorial-N(4)/events.out.tfevents.psgd", "a/b"};
    static const char *const unsafe[] = {"",     "/",    "/a",     "a/",   "a//b", "a/b/c",
                                         "../a", "a/..", "a/../b", ".a/b", "a/.b", "a b/c"};
    char longest[PS_NAME_MAX + 2];

    (void)state;
    for (size_t i = 0; i < sizeof safe / sizeof safe[0]; i++) {
        assert_true(ps_file_name_is_safe(safe[i]));
    }
    for (size_t i = 0; i < sizeof unsafe / sizeof unsafe[0]; i++) {
        assert_false(ps_file_name_is_safe(unsafe[i]));
    }
    memset(longest, 'a', sizeof longest);
    longest[10] = '/';
    longest[PS_NAME_MAX] = '\0';
    assert_true(ps_file_name_is_safe(longest));
    longest[PS_NAME_MAX] = 'a';
    longest[PS_NAME_MAX + 1] = '\0';
    assert_false(ps_file_name_is_safe(longest));
}

static void a_path_below_a_folder_stays_there(void **state)
{
    static const char *const unsafe[] = {"",       "/a",  "a/",        "../a", "a/../b",
                                         "a//b/c", "./a", "a/.hidden", "a/b c"};
    char out[400], *here = realpath(".", NULL), expected[400];
    ps_status st;

    (void)state;
    for (size_t i = 0; i < sizeof unsafe / sizeof unsafe[0]; i++) {
        assert_false(ps_path_is_safe(unsafe[i]));
    }
    assert_true(ps_path_is_safe("1/2/3/4/5/6/7/8"));
    assert_false(ps_path_is_safe("1/2/3/4/5/6/7/8/9"));
    assert_ok(ps_dir_make("top/in"));
    assert_ok(ps_dir_make("topless"));
    assert_ok(ps_file_write("top/in/f", "x", 1));
    assert_ok(ps_file_write("topless/f", "x", 1));
    assert_int_equal(symlink("../topless", "top/out"), 0);
    assert_int_equal(symlink("in", "top/same"), 0);
    assert_ok(ps_path_below(out, sizeof out, "top", "in/f"));
    snprintf(expected, sizeof expected, "%s/top/in/f", here);
    assert_string_equal(out, expected);
    assert_ok(ps_path_below(out, sizeof out, "top", "same/f"));
    assert_string_equal(out, expected);
    st = ps_path_below(out, sizeof out, "top", "out/f");
    assert_int_equal(st.code, PS_INVALID_ARGUMENT);
    st = ps_path_below(out, sizeof out, "top", "in/g");
    assert_int_equal(st.code, PS_NOT_FOUND);
    assert_non_null(strstr(st.text, "top/in/g: No such file"));
    st = ps_path_below(out, sizeof out, "nowhere", "in/g");
    assert_int_equal(st.code, PS_NOT_FOUND);
    free(here);
}

/* Opens the file, expects that code, and gives the text. */
static const char *opened(const char *dir, const char *path, ps_code code)
{
    static ps_status st;
    struct stat facts = {0};
    int fd = -1;

    st = dir != NULL ? ps_file_open_below(dir, path, &fd, &facts) : ps_file_open(path, &fd, &facts);
    assert_int_equal(st.code, code);
    assert_int_equal(fd >= 0, code == PS_OK);
    if (fd >= 0) {
        assert_int_equal(facts.st_size, 1);
        close(fd);
    }
    return st.text;
}

static void only_regular_files_are_opened_and_nobody_is_waited_for(void **state)
{
    (void)state;
    assert_ok(ps_file_write("f", "x", 1));
    assert_ok(ps_dir_make("d"));
    assert_int_equal(symlink("f", "link"), 0);
    assert_int_equal(mkfifo("fifo", 0600), 0);
    opened(NULL, "f", PS_OK);
    opened(NULL, "link", PS_OK);
    opened(NULL, "none", PS_NOT_FOUND);
    assert_string_equal(opened(NULL, "fifo", PS_INVALID_ARGUMENT), "fifo is not a regular file");
    opened(NULL, "d", PS_INVALID_ARGUMENT);
    opened(NULL, "/dev/zero", PS_INVALID_ARGUMENT);
    assert_string_equal(opened(".", "fifo", PS_INVALID_ARGUMENT), "fifo is not a regular file");
    opened(".", "d", PS_INVALID_ARGUMENT);
}

static void a_file_is_opened_only_below_its_folder(void **state)
{
    char *here = realpath(".", NULL), target[400];

    (void)state;
    assert_ok(ps_dir_make("top/in/deep"));
    assert_ok(ps_dir_make("topless"));
    assert_ok(ps_file_write("top/f", "x", 1));
    assert_ok(ps_file_write("top/in/deep/f", "x", 1));
    assert_ok(ps_file_write("topless/f", "x", 1));
    assert_int_equal(symlink("in/deep", "top/same"), 0);
    assert_int_equal(symlink("../../f", "top/in/deep/up"), 0);
    assert_int_equal(symlink("../topless", "top/out"), 0);
    assert_int_equal(symlink("../topless/f", "top/out_f"), 0);
    assert_int_equal(symlink("self", "top/self"), 0);
    snprintf(target, sizeof target, "%s/top/f", here);
    assert_int_equal(symlink(target, "top/whole"), 0);
    assert_int_equal(symlink("top", "other"), 0);
    opened("top", "f", PS_OK);
    opened("other", "in/deep/f", PS_OK);
    opened("top", "same/f", PS_OK);
    opened("top", "same/up", PS_OK);
    opened("top", "whole", PS_OK);
    assert_string_equal(opened("top", "out/f", PS_INVALID_ARGUMENT),
                        "out/f leads out of its folder");
    opened("top", "out_f", PS_INVALID_ARGUMENT);
    opened("top", "../topless/f", PS_INVALID_ARGUMENT);
    opened("top/in", "deep/up", PS_INVALID_ARGUMENT);
    assert_string_not_equal(opened("top", "none", PS_NOT_FOUND), "");
    opened("top", "f/none", PS_NOT_FOUND);
    opened("none", "f", PS_NOT_FOUND);
    {
        int fd = -1;
        ps_status st = ps_file_open_below("top", "self", &fd, NULL);

        assert_true(!ps_is_ok(&st) && fd < 0);
    }
    free(here);
}

static void the_folder_of_a_file_is_made(void **state)
{
    (void)state;
    assert_ok(ps_dir_make_for("kept/in/f"));
    assert_ok(ps_file_write("kept/in/f", "x", 1));
    assert_ok(ps_dir_make_for("kept/in/f"));
    assert_ok(ps_dir_make_for("f"));
    assert_holds("kept/in/f", "x");
}

static void a_long_path_leaves_room_for_the_reason(void **state)
{
    char path[300];
    char *bytes;
    size_t n;
    ps_status st;

    (void)state;
    memset(path, 'p', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    for (size_t i = 0; i < sizeof path - 1; i += 100) {
        path[i] = '/';
    }
    st = ps_file_read(path, 1, &bytes, &n);
    assert_non_null(strstr(st.text, "No such file"));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_written_file_is_read_again, make_room, clear_room),
        cmocka_unit_test_setup_teardown(a_file_over_the_limit_is_refused_and_one_at_it_read,
                                        make_room, clear_room),
        cmocka_unit_test_setup_teardown(what_is_abandoned_leaves_the_old_file_and_no_other,
                                        make_room, clear_room),
        cmocka_unit_test_setup_teardown(pieces_appear_only_at_commit, make_room, clear_room),
        cmocka_unit_test_setup_teardown(long_files_are_whole_however_they_are_added, make_room,
                                        clear_room),
        cmocka_unit_test_setup_teardown(a_failed_write_leaves_nothing, make_room, clear_room),
        cmocka_unit_test_setup_teardown(appends_follow_each_other, make_room, clear_room),
        cmocka_unit_test_setup_teardown(directories_are_made_with_those_above, make_room,
                                        clear_room),
        cmocka_unit_test_setup_teardown(removing_takes_all_below_and_follows_no_link, make_room,
                                        clear_room),
        cmocka_unit_test_setup_teardown(paths_are_joined_within_bounds, make_room, clear_room),
        cmocka_unit_test_setup_teardown(only_plain_names_are_safe, make_room, clear_room),
        cmocka_unit_test(a_file_name_may_have_one_folder),
        cmocka_unit_test_setup_teardown(a_path_below_a_folder_stays_there, make_room, clear_room),
        cmocka_unit_test_setup_teardown(only_regular_files_are_opened_and_nobody_is_waited_for,
                                        make_room, clear_room),
        cmocka_unit_test_setup_teardown(a_file_is_opened_only_below_its_folder, make_room,
                                        clear_room),
        cmocka_unit_test_setup_teardown(the_folder_of_a_file_is_made, make_room, clear_room),
        cmocka_unit_test_setup_teardown(a_long_path_leaves_room_for_the_reason, make_room,
                                        clear_room),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL); /* e.g. 'test_files a_*' */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
