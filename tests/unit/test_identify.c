/* SPDX-License-Identifier: Apache-2.0 */
/* test_identify.c - data sets are described by their content; sources by name. */
#include "common/data/identify.h"

#include "common/base/sha256.h"

#include "tests/support/temp_dir.h"

#include <string.h>
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
    ps_data_file files[PS_DATA_FILES_MAX];
    size_t count = 0;
    ps_status st = ps_data_describe(&pair, temp_dir_file(dir, "pair"), files, &count, sha256);

    assert_string_equal(st.text, "");
}

static void a_description_is_of_the_unpacked_content(void **state)
{
    ps_data_file files[PS_DATA_FILES_MAX];
    temp_dir dir = pair_of("one");
    char plain[65], packed[65], lines[512], hashed[65], one[65], two[65];
    size_t count = 0;
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
    st = ps_data_describe(&pair, temp_dir_file(&dir, "pair"), files, &count, packed);
    assert_string_equal(st.text, "");
    assert_string_equal(plain, packed);
    assert_int_equal(count, 2);
    assert_string_equal(files[0].name, "a");
    assert_int_equal(files[0].size, 3);
    assert_string_equal(files[0].sha256, one);
    temp_dir_destroy(&dir);
}

static void a_drawn_source_is_its_version(void **state)
{
    ps_data_file files[PS_DATA_FILES_MAX];
    char sha256[65], expected[65];
    size_t count = 9;
    ps_status st = ps_data_describe(&drawn, NULL, files, &count, sha256);

    (void)state;
    assert_string_equal(st.text, "");
    assert_int_equal(count, 0);
    ps_sha256_of("drawn:3", 7, expected);
    assert_string_equal(sha256, expected);
}

static void a_cache_describes_a_file_once_until_it_is_replaced(void **state)
{
    ps_data_file files[PS_DATA_FILES_MAX];
    ps_data_cache *cache = calloc(1, sizeof *cache);
    temp_dir dir = pair_of("one");
    char first[65], second[65], folder[256];
    size_t count = 0;
    ps_status st;

    (void)state;
    assert_non_null(cache);
    snprintf(folder, sizeof folder, "%s/pair", dir.path);
    st = ps_data_describe_cached(cache, &pair, folder, files, &count, first);
    assert_string_equal(st.text, "");
    assert_int_equal(cache->count, 2);
    st = ps_data_describe_cached(cache, &pair, folder, files, &count, second);
    assert_string_equal(st.text, "");
    assert_int_equal(cache->count, 2); /* nothing was read again */
    assert_string_equal(first, second);
    assert_string_equal(files[1].name, "b");

    put(&dir, "pair/a", "uno"); /* as long as before */
    st = ps_data_describe_cached(cache, &pair, folder, files, &count, second);
    assert_string_equal(st.text, "");
    assert_int_equal(cache->count, 3);
    assert_string_not_equal(first, second);
    for (size_t i = 0; i < 2 * PS_DATA_CACHE_FILES; i++) { /* the oldest give way */
        char text[2 * PS_DATA_CACHE_FILES + 1] = {0};

        memset(text, 'x', i);
        put(&dir, "pair/b", text);
        st = ps_data_describe_cached(cache, &pair, folder, files, &count, second);
        assert_string_equal(st.text, "");
        if (i < PS_DATA_CACHE_FILES - 4) { /* a is still known */
            assert_int_equal(cache->count, 4 + i);
        }
    }
    free(cache);
    temp_dir_destroy(&dir);
}

static void check_source(const ps_data_source *source, void *arg)
{
    size_t *count = arg;
    ps_data_conf conf = ps_data_conf_of(source);
    ps_data_facts facts;
    ps_status st;

    assert_ptr_equal(ps_data_source_find(source->name), source);
    assert_non_null(source->load);
    st = ps_data_get_facts(&conf, &facts);
    if (ps_is_ok(&st)) {
        assert_int_equal(facts.features, facts.shape[0] * facts.shape[1] * facts.shape[2]);
        assert_true(facts.features > 0 && facts.target_width > 0);
        assert_true(facts.train_count > 0 && facts.test_count > 0);
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
        cmocka_unit_test(sources_are_found_by_name),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
