/* SPDX-License-Identifier: Apache-2.0 */
/* test_safetensors.c - model files are to the byte what others read, and files
 * of others are read whole or refused with the reason. */
#include "common/artifact/safetensors.h"

#include "common/base/files.h"
#include "common/base/sha256.h"
#include "common/base/strbuf.h"

#include "tests/support/temp_dir.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

static const float weights[6] = {1, -2.5f, 0, 3e38f, -0.0f, 1e-40f};
static const float bias[2] = {0.5f, INFINITY};
static const ps_tensor two[] = {{.name = "dense1/w", .rank = 2, .dim = {2, 3}, .data = weights},
                                {.name = "dense1/b", .rank = 1, .dim = {2}, .data = bias}};

static void expect_ok(ps_status st)
{
    assert_string_equal(st.text, "");
    assert_int_equal(st.code, PS_OK);
}

/* A file: length, header, data_bytes zeros. The caller finis it. */
static ps_strbuf file_of(const char *header, size_t data_bytes)
{
    ps_strbuf file = {0};
    uint64_t n = strlen(header);

    ps_strbuf_append(&file, &n, sizeof n);
    ps_strbuf_puts(&file, header);
    ps_strbuf_pad(&file, '\0', data_bytes);
    return file;
}

static void refuse_bytes(const void *bytes, size_t n, const char *text)
{
    ps_safetensors *file = NULL;
    ps_status st = ps_safetensors_parse(bytes, n, &file);

    if (strstr(st.text, text) == NULL) {
        print_error("\"%s\" has no \"%s\"\n", st.text, text);
    }
    assert_non_null(strstr(st.text, text));
    assert_int_equal(st.code, PS_INVALID_ARGUMENT);
    assert_null(file);
}

static void refuse(const char *header, size_t data_bytes, const char *text)
{
    ps_strbuf file = file_of(header, data_bytes);

    refuse_bytes(file.data, file.len, text);
    ps_strbuf_fini(&file);
}

static void a_file_is_what_the_format_says(void **state)
{
    static const char header[] =
        "{\"__metadata__\":{\"step\":\"3\"},"
        "\"dense1/w\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"
        "\"dense1/b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[24,32]}}";
    const ps_meta meta = {"step", "3"};
    temp_dir dir = temp_dir_create();
    const char *path = temp_dir_file(&dir, "model.safetensors");
    size_t padded = (sizeof header - 1 + 7) / 8 * 8, n = 0;
    uint64_t length = 0;
    char *bytes = NULL;

    (void)state;
    expect_ok(ps_safetensors_write(path, two, 2, &meta, 1));
    expect_ok(ps_file_read(path, 4096, &bytes, &n));
    assert_int_equal(n, 8 + padded + 32);
    memcpy(&length, bytes, sizeof length);
    assert_int_equal(length, padded);
    assert_memory_equal(bytes + 8, header, sizeof header - 1);
    for (size_t i = sizeof header - 1; i < padded; i++) {
        assert_int_equal(bytes[8 + i], ' ');
    }
    assert_memory_equal(bytes + 8 + padded, weights, sizeof weights);
    assert_memory_equal(bytes + 8 + padded + sizeof weights, bias, sizeof bias);
    free(bytes);
    temp_dir_destroy(&dir);
}

static void what_is_written_is_read_again(void **state)
{
    const ps_meta meta[] = {{"title", "a \"quoted\" \xc3\xa9\n"}, {"step", "12"}};
    const ps_tensor many[] = {two[0],
                              {.name = "scalar", .rank = 0, .data = bias},
                              {.name = "none", .rank = 2, .dim = {0, 5}, .data = bias},
                              two[1]};
    temp_dir dir = temp_dir_create();
    const char *path = temp_dir_file(&dir, "model.safetensors");
    ps_safetensors *file = NULL;

    (void)state;
    expect_ok(ps_safetensors_write(path, many, 4, meta, 2));
    expect_ok(ps_safetensors_open(path, &file));
    temp_dir_destroy(&dir); /* it is not needed any more */
    assert_int_equal(ps_safetensors_count(file), 4);
    for (size_t i = 0; i < 4; i++) {
        const ps_tensor *tensor = ps_safetensors_at(file, i);
        uint64_t n = 1;

        /* An empty tensor may come before what starts where it does. */
        size_t which = i == 2 || i == 3 ? (strcmp(tensor->name, "none") == 0 ? 2 : 3) : i;

        assert_string_equal(tensor->name, many[which].name);
        assert_int_equal(tensor->rank, many[which].rank);
        for (uint32_t d = 0; d < tensor->rank; d++) {
            assert_int_equal(tensor->dim[d], many[which].dim[d]);
            n *= tensor->dim[d];
        }
        assert_memory_equal(tensor->data, many[which].data, n * sizeof(float));
    }
    assert_string_equal(ps_safetensors_meta(file, "title"), meta[0].value);
    assert_string_equal(ps_safetensors_meta(file, "step"), "12");
    assert_null(ps_safetensors_meta(file, "epoch"));
    ps_safetensors_close(file);
    ps_safetensors_close(NULL);
}

/* Gives the values of `two`, and fails after `left` of them. */
typedef struct giver {
    float values[8];
    size_t at, left;
} giver;

static ps_status give(void *arg, float *values, size_t n)
{
    giver *g = arg;

    if (n > g->left) {
        return ps_fail(PS_DATA_LOSS, "no more values");
    }
    memcpy(values, g->values + g->at, n * sizeof *values);
    g->at += n;
    g->left -= n;
    return ps_ok();
}

static void what_a_source_gives_is_the_same_file(void **state)
{
    const ps_meta meta = {"step", "3"};
    temp_dir dir = temp_dir_create();
    char *expected = NULL, *bytes = NULL, hex[PS_SHA256_HEX_BYTES];
    size_t expected_n = 0, n = 0;
    const char *path = temp_dir_file(&dir, "model.safetensors");
    giver g = {.left = 8};
    const ps_tensor_source source = {give, &g};
    ps_written written;
    ps_status st;

    (void)state;
    memcpy(g.values, weights, sizeof weights);
    memcpy(g.values + 6, bias, sizeof bias);
    expect_ok(ps_safetensors_write(path, two, 2, &meta, 1));
    expect_ok(ps_file_read(path, 4096, &expected, &expected_n));
    expect_ok(ps_safetensors_write_from(path, two, 2, &meta, 1, &source, &written));
    expect_ok(ps_file_read(path, 4096, &bytes, &n));
    assert_int_equal(n, expected_n);
    assert_memory_equal(bytes, expected, n);
    ps_sha256_of(bytes, n, hex);
    assert_int_equal(written.size, n);
    assert_string_equal(written.sha256, hex);
    free(bytes);
    free(expected);
    g = (giver){.left = 7};
    path = temp_dir_file(&dir, "other.safetensors");
    st = ps_safetensors_write_from(path, two, 2, &meta, 1, &source, &written);
    assert_int_equal(st.code, PS_DATA_LOSS);
    assert_int_equal(access(path, F_OK), -1);
    temp_dir_destroy(&dir);
}

static void a_file_without_tensors_is_a_file(void **state)
{
    temp_dir dir = temp_dir_create();
    const char *path = temp_dir_file(&dir, "empty.safetensors");
    ps_safetensors *file = NULL;

    (void)state;
    expect_ok(ps_safetensors_write(path, NULL, 0, NULL, 0));
    expect_ok(ps_safetensors_open(path, &file));
    assert_int_equal(ps_safetensors_count(file), 0);
    assert_null(ps_safetensors_meta(file, "step"));
    ps_safetensors_close(file);
    temp_dir_destroy(&dir);
}

static void tensors_come_in_the_order_of_their_data(void **state)
{
    ps_strbuf bytes = file_of("{\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[8,12]},"
                              "\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}",
                              12);
    ps_safetensors *file = NULL;

    (void)state;
    expect_ok(ps_safetensors_parse(bytes.data, bytes.len, &file));
    assert_string_equal(ps_safetensors_at(file, 0)->name, "a");
    assert_string_equal(ps_safetensors_at(file, 1)->name, "b");
    assert_ptr_equal(ps_safetensors_at(file, 1)->data, ps_safetensors_at(file, 0)->data + 2);
    ps_safetensors_close(file);
    ps_strbuf_fini(&bytes);
}

static void a_cut_file_is_refused_wherever_it_is_cut(void **state)
{
    temp_dir dir = temp_dir_create();
    const char *path = temp_dir_file(&dir, "model.safetensors");
    char *bytes = NULL;
    size_t n = 0;
    ps_safetensors *file = NULL;

    (void)state;
    expect_ok(ps_safetensors_write(path, two, 2, NULL, 0));
    expect_ok(ps_file_read(path, 4096, &bytes, &n));
    for (size_t cut = 0; cut < n; cut++) {
        refuse_bytes(bytes, cut, "");
    }
    expect_ok(ps_file_write(path, bytes, 7));
    ps_status st = ps_safetensors_open(path, &file);

    assert_non_null(strstr(st.text, "model.safetensors: ends at offset 7, expected 8 bytes"));
    free(bytes);
    temp_dir_destroy(&dir);
}

static void a_missing_file_and_a_folder_are_told_apart(void **state)
{
    temp_dir dir = temp_dir_create();
    ps_safetensors *file = NULL;
    ps_status st = ps_safetensors_open(temp_dir_file(&dir, "none"), &file);

    (void)state;
    assert_int_equal(st.code, PS_NOT_FOUND);
    st = ps_safetensors_open(dir.path, &file);
    assert_int_equal(st.code, PS_INVALID_ARGUMENT);
    st = ps_safetensors_write(temp_dir_file(&dir, "none/x"), two, 2, NULL, 0);
    assert_int_equal(st.code, PS_NOT_FOUND);
    temp_dir_destroy(&dir);
}

static void a_header_longer_than_the_file_is_refused_before_it_is_read(void **state)
{
    static const uint8_t huge[] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, '{', '}'};
    static const uint8_t one_more[] = {3, 0, 0, 0, 0, 0, 0, 0, '{', '}'};
    static const uint8_t none[8] = {0};

    (void)state;
    refuse_bytes(huge, sizeof huge, "offset 0: a header of 9223372036854775807 bytes");
    refuse_bytes(one_more, sizeof one_more,
                 "offset 0: a header of 3 bytes in a file of 10, expected at most 2");
    refuse_bytes(none, sizeof none, "offset 8: the header does not start with {");
}

static void headers_that_are_not_strict_json_are_refused(void **state)
{
    (void)state;
    refuse("[]", 0, "offset 8: the header does not start with {");
    refuse(" {}", 0, "offset 8: the header does not start with {");
    refuse("{", 0, "offset ");
    refuse("{}x", 0, "offset ");
    refuse("{\"a\":1,}", 0, "offset ");
    refuse("{\"a\": secret}", 0, "the header is not valid JSON"); /* not: near 'secret' */
    refuse("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
           "\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}",
           4, "duplicate");
    refuse("{\"a\\u0000b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
           "offset ");
}

#define ENTRY(dtype, shape, begin, end)                                                            \
    "{\"t\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[" begin "," end "]}}"

static void tensors_that_are_not_what_they_say_are_refused(void **state)
{
    (void)state;
    refuse(ENTRY("F64", "[1]", "0", "8"), 8, "tensor \"t\": dtype is F64, expected F32");
    refuse(ENTRY("F32", "[1]", "0", "8"), 8,
           "tensor \"t\": data_offsets hold 8 bytes, expected 4 of its shape");
    refuse(ENTRY("F32", "[2]", "0", "8"), 4,
           "tensor \"t\": data_offsets 0, 8, expected within 0 to 4");
    refuse(ENTRY("F32", "[1]", "4", "0"), 4,
           "tensor \"t\": data_offsets 4, 0, expected within 0 to 4");
    refuse(ENTRY("F32", "[-1]", "0", "4"), 4, "tensor \"t\": shape holds");
    refuse(ENTRY("F32", "[1.0]", "0", "4"), 4, "tensor \"t\": shape holds");
    refuse(ENTRY("F32", "1", "0", "4"), 4, "tensor \"t\": shape is no array");
    refuse(ENTRY("F32", "[1,1,1,1,1,1,1,1,1]", "0", "4"), 4, "tensor \"t\": shape is no array");
    refuse(ENTRY("F32", "[4294967296,4294967296]", "0", "0"), 0, "larger than any memory");
    refuse(ENTRY("F32", "[9223372036854775808]", "0", "4"), 4, "offset ");
    refuse(ENTRY("F32", "[1]", "0", "4.0"), 4, "tensor \"t\": data_offsets are not");
    refuse(ENTRY("F32", "[1]", "0", "4,4"), 4, "tensor \"t\": data_offsets are not");
    refuse("{\"t\":4}", 4, "tensor \"t\": expected dtype, shape and data_offsets");
    refuse("{\"t\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "tensor \"t\": expected dtype");
    refuse("{\"t\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"x\":1}}", 4,
           "tensor \"t\": expected dtype");
}

static void holes_overlaps_and_leftovers_are_refused(void **state)
{
    (void)state;
    refuse("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
           "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[8,12]}}",
           12, "tensor \"b\": starts at 8, expected 4 (a hole)");
    refuse("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
           "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
           8, "tensor \"b\": starts at 4, expected 8 (an overlap)");
    refuse(ENTRY("F32", "[1]", "0", "4"), 8, "tensors end at 4, expected at 8, the data's end");
    refuse("{}", 1, "tensors end at 0, expected at 1, the data's end");
}

static void metadata_is_texts_only(void **state)
{
    (void)state;
    refuse("{\"__metadata__\":3}", 0, "__metadata__ is no object");
    refuse("{\"__metadata__\":{\"a\":3}}", 0, "__metadata__: \"a\" is no text");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_is_what_the_format_says),
        cmocka_unit_test(what_is_written_is_read_again),
        cmocka_unit_test(what_a_source_gives_is_the_same_file),
        cmocka_unit_test(a_file_without_tensors_is_a_file),
        cmocka_unit_test(tensors_come_in_the_order_of_their_data),
        cmocka_unit_test(a_cut_file_is_refused_wherever_it_is_cut),
        cmocka_unit_test(a_missing_file_and_a_folder_are_told_apart),
        cmocka_unit_test(a_header_longer_than_the_file_is_refused_before_it_is_read),
        cmocka_unit_test(headers_that_are_not_strict_json_are_refused),
        cmocka_unit_test(tensors_that_are_not_what_they_say_are_refused),
        cmocka_unit_test(holes_overlaps_and_leftovers_are_refused),
        cmocka_unit_test(metadata_is_texts_only),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
