/* SPDX-License-Identifier: Apache-2.0 */
/* test_identify.c - data sets are described by their content; sources by name. */
#include "common/data/dataset.h"
#include "common/data/identify.h"

#include "common/base/sha256.h"
#include "common/data/file_list.h"

#include "tests/support/temp_dir.h"

#include <string.h>
#include <unistd.h>
#include <zlib.h>

static const char *const file_names[] = {"a", "b", NULL};
static const ps_data_source pair_source = {.name = "pair", .files = file_names};
static const ps_data_source drawn_source = {.name = "drawn", .version = 3};
static const ps_data_conf pair = {.source = &pair_source}, drawn = {.source = &drawn_source};

static void put(const temp_dir *dir, const char *name, const char *text)
{
    ps_status st = ps_file_write(temp_dir_file(dir, name), text, strlen(text));

    assert_string_equal(st.text, "");
}

/* A folder "pair" with files a = text and b = "two". */
static temp_dir pair_of(const char *text)
{
    temp_dir dir = temp_dir_create();
    ps_status st = ps_dir_make(temp_dir_file(&dir, "pair"));

    assert_string_equal(st.text, "");
    put(&dir, "pair/a", text);
    put(&dir, "pair/b", "two");
    return dir;
}

static void checksum_of(const temp_dir *dir, char sha256[65])
{
    ps_data_files files;
    ps_status st = ps_data_describe(&pair, temp_dir_file(dir, "pair"), &files);

    assert_string_equal(st.text, "");
    strcpy(sha256, files.sha256);
    ps_data_files_free(&files);
}

static void a_description_is_of_the_unpacked_content(void **state)
{
    ps_data_files files;
    temp_dir dir = pair_of("one");
    char plain[65], lines[512], hashed[65], one[65], two[65];
    gzFile gz;
    ps_status st;

    (void)state;
    checksum_of(&dir, plain);
    ps_sha256_of("one", 3, one);
    ps_sha256_of("two", 3, two);
    snprintf(lines, sizeof lines, "a 3 %s\nb 3 %s\n", one, two);
    ps_sha256_of(lines, strlen(lines), hashed);
    assert_string_equal(plain, hashed);

    assert_int_equal(remove(temp_dir_file(&dir, "pair/a")), 0);
    gz = gzopen(temp_dir_file(&dir, "pair/a.gz"), "wb");
    assert_int_equal(gzwrite(gz, "one", 3), 3);
    assert_int_equal(gzclose(gz), Z_OK);
    st = ps_data_describe(&pair, temp_dir_file(&dir, "pair"), &files);
    assert_string_equal(st.text, "");
    assert_string_equal(plain, files.sha256);
    assert_int_equal(files.count, 2);
    assert_string_equal(files.at[0].name, "a");
    assert_int_equal(files.at[0].size, 3);
    assert_string_equal(files.at[0].sha256, one);
    ps_data_files_free(&files);
    temp_dir_destroy(&dir);
}

static void a_drawn_source_is_its_version(void **state)
{
    ps_data_files files;
    char expected[65];
    ps_status st = ps_data_describe(&drawn, NULL, &files);

    (void)state;
    assert_string_equal(st.text, "");
    assert_int_equal(files.count, 0);
    ps_sha256_of("drawn:3", 7, expected);
    assert_string_equal(files.sha256, expected);
}

static void describe(ps_data_cache *cache, const char *folder, char sha256[65])
{
    ps_data_files files;
    ps_status st = ps_data_describe_cached(cache, &pair, folder, &files);

    assert_string_equal(st.text, "");
    assert_string_equal(files.at[1].name, "b");
    strcpy(sha256, files.sha256);
    ps_data_files_free(&files);
}

static void a_cache_describes_a_file_once_until_it_is_replaced(void **state)
{
    ps_data_cache *cache = calloc(1, sizeof *cache);
    temp_dir dir = pair_of("one");
    char first[65], second[65], folder[256];

    (void)state;
    assert_non_null(cache);
    snprintf(folder, sizeof folder, "%s/pair", dir.path);
    describe(cache, folder, first);
    assert_int_equal(cache->count, 2);
    describe(cache, folder, second);
    assert_int_equal(cache->count, 2); /* nothing was read again */
    assert_string_equal(first, second);

    put(&dir, "pair/a", "uno"); /* as long as before */
    describe(cache, folder, second);
    assert_int_equal(cache->count, 3);
    assert_string_not_equal(first, second);
    for (size_t i = 0; i < 2 * PS_DATA_CACHE_FILES; i++) { /* the oldest give way */
        char text[2 * PS_DATA_CACHE_FILES + 1] = {0};

        memset(text, 'x', i);
        put(&dir, "pair/b", text);
        describe(cache, folder, second);
        if (i < PS_DATA_CACHE_FILES - 4) { /* a is still known */
            assert_int_equal(cache->count, 4 + i);
        }
    }
    free(cache);
    temp_dir_destroy(&dir);
}

/* Folder "t" with the files that lists are made of. */
static temp_dir folder_of_parts(void)
{
    static const char *const files[] = {"t/part-2",  "t/part-10", "t/part-1.gz",
                                        "t/.part-0", "t/held-1",  "t/note",
                                        "t/d/x-2",   "t/d/x-1",   "t/d/part-3"};
    temp_dir dir = temp_dir_create();
    ps_status st = ps_dir_make(temp_dir_file(&dir, "t/d"));

    assert_string_equal(st.text, "");
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        put(&dir, files[i], "x");
    }
    return dir;
}

/* Writes the list of these entries, separated by blanks, to `text`, "|" before the test files. */
static ps_status list_of(const temp_dir *dir, const char *train, const char *test, char text[512])
{
    ps_data_conf conf = ps_data_conf_of(ps_data_source_find("csv"));
    char entries[256], *rest = NULL, *one;
    ps_file_list list;
    ps_status st;

    snprintf(entries, sizeof entries, "%s", train);
    for (one = strtok_r(entries, " ", &rest); one != NULL; one = strtok_r(NULL, " ", &rest)) {
        assert_true(ps_file_entry_is_safe(one));
        strcpy(conf.files[conf.train_files++], one);
    }
    if (test[0] != '\0') {
        strcpy(conf.files[conf.train_files], test);
        conf.test_files = 1;
    }
    st = ps_file_list_open(&conf, temp_dir_file(dir, "t"), &list);
    text[0] = '\0';
    for (uint32_t i = 0; ps_is_ok(&st) && i < list.train + list.test; i++) {
        snprintf(text + strlen(text), 512 - strlen(text), "%s%s",
                 i == list.train ? "|"
                 : i > 0         ? " "
                                 : "",
                 list.names[i]);
        assert_true(ps_file_list_may_have(&conf, list.names[i]));
    }
    if (ps_is_ok(&st)) {
        ps_file_list_close(&list);
    }
    return st;
}

static void patterns_and_folders_stand_for_files_in_order(void **state)
{
    static const struct {
        const char *train, *test, *list;
    } cases[] = {
        {"part-*", "", "part-1 part-10 part-2"},
        {"part-?", "", "part-1 part-2"},
        {"part-2 part-*", "", "part-2 part-1 part-10"},
        {"part-* part-2", "", "part-1 part-10 part-2"},
        {"*-*", "held-*", "part-1 part-10 part-2|held-1"},
        {"*", "part-2", "held-1 note part-1 part-10|part-2"},
        {"d", "", "d/part-3 d/x-1 d/x-2"},
        {"d/x-*", "d", "d/x-1 d/x-2|d/part-3"},
        {"part-*.gz", "", "part-1 part-10 part-2"},
        {"missing", "", "missing"},
    };
    temp_dir dir = folder_of_parts();
    char text[512];

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ps_status st = list_of(&dir, cases[i].train, cases[i].test, text);

        if (i == 7) { /* the folder, a test entry, has all: nothing is left for training */
            assert_int_equal(st.code, PS_NOT_FOUND);
            assert_non_null(strstr(st.text, "\"d/x-*\""));
            continue;
        }
        assert_string_equal(st.text, "");
        assert_string_equal(text, cases[i].list);
    }
    temp_dir_destroy(&dir);
}

static void a_pattern_that_stands_for_nothing_is_named(void **state)
{
    temp_dir dir = folder_of_parts();
    char text[512], outside[300];
    ps_status st = list_of(&dir, "train-*", "", text);

    (void)state;
    assert_int_equal(st.code, PS_NOT_FOUND);
    assert_non_null(strstr(st.text, "\"train-*\" stands for no file in "));
    put(&dir, "t/part-3 copy", "x");
    st = list_of(&dir, "part-*", "", text);
    assert_int_equal(st.code, PS_INVALID_ARGUMENT);
    assert_non_null(strstr(st.text, "part-3 copy"));
    snprintf(outside, sizeof outside, "%s", temp_dir_file(&dir, "outside"));
    st = ps_dir_make(outside);
    assert_string_equal(st.text, "");
    assert_int_equal(symlink(outside, temp_dir_file(&dir, "t/out")), 0);
    put(&dir, "outside/a", "x");
    st = list_of(&dir, "out/*", "", text);
    assert_int_equal(st.code, PS_INVALID_ARGUMENT);
    assert_non_null(strstr(st.text, "leads out of its folder"));
    st = list_of(&dir, "d*/x-1", "", text);
    assert_int_equal(st.code, PS_INVALID_ARGUMENT);
    assert_non_null(strstr(st.text, "has a pattern for the folder"));
    temp_dir_destroy(&dir);
}

static void a_list_has_a_bound(void **state)
{
    temp_dir dir = temp_dir_create();
    ps_status st = ps_dir_make(temp_dir_file(&dir, "t"));
    char text[512], name[32];

    (void)state;
    assert_string_equal(st.text, "");
    for (int i = 0; i <= PS_DATA_LIST_MAX; i++) { /* links cost less than files */
        snprintf(name, sizeof name, "t/part-%05d", i);
        assert_int_equal(symlink("x", temp_dir_file(&dir, name)), 0);
    }
    st = list_of(&dir, "part-*", "", text);
    assert_int_equal(st.code, PS_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(st.text, "more than 16384 files"));
    temp_dir_destroy(&dir);
}

static void check_source(const ps_data_source *source, void *arg)
{
    size_t *count = arg;
    /* psgd evaluates no model on the samples of users' programs and of jobs that compute */
    bool has_tests =
        strcmp(source->name, PS_DATA_FOREIGN) != 0 && strcmp(source->name, PS_DATA_TEXT) != 0;
    ps_data_conf conf = ps_data_conf_of(source);
    ps_data_facts facts;
    ps_status st;

    assert_ptr_equal(ps_data_source_find(source->name), source);
    assert_non_null(source->load);
    st = ps_data_get_facts(&conf, &facts);
    if (ps_is_ok(&st)) {
        assert_int_equal(facts.features, facts.shape[0] * facts.shape[1] * facts.shape[2]);
        assert_true(facts.features > 0 && facts.target_width > 0);
        assert_true(facts.train_count > 0);
        assert_int_equal(facts.test_count > 0, has_tests);
    } else { /* only files can say it, or a job */
        assert_true(source->look != NULL && st.code != PS_INTERNAL);
    }
    ++*count;
}

static void sources_are_found_by_name(void **state)
{
    size_t count = 0;

    (void)state;
    ps_data_source_each(check_source, &count);
    assert_true(count >= 4);
    assert_null(ps_data_source_find("nothing"));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_description_is_of_the_unpacked_content),
        cmocka_unit_test(a_drawn_source_is_its_version),
        cmocka_unit_test(a_cache_describes_a_file_once_until_it_is_replaced),
        cmocka_unit_test(patterns_and_folders_stand_for_files_in_order),
        cmocka_unit_test(a_pattern_that_stands_for_nothing_is_named),
        cmocka_unit_test(a_list_has_a_bound),
        cmocka_unit_test(sources_are_found_by_name),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
