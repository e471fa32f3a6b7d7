/* SPDX-License-Identifier: Apache-2.0 */
/* test_weights.c - a model's variables come back as they were, or the tensor that
 * does not fit is named with what was expected and what was found. */
#include "common/artifact/weights.h"

#include "tests/support/temp_dir.h"

#include <math.h>
#include <string.h>

enum { VALUES = 11 };

static const ps_variable variables[] = {
    {.name = "fc.weight", .shape = {2, {3, 2}}, .at = 0, .size = 6},
    {.name = "fc.bias", .shape = {1, {2}}, .at = 6, .size = 2},
    {.name = "norm.mean", .shape = {1, {3}}, .at = 8, .size = 3, .is_state = true},
};
enum { COUNT = sizeof variables / sizeof variables[0] };

static const float block[VALUES] = {1, -2, 3e38f, 1e-40f, -0.0f, 6, 7, 8, 9, 10, 11};

static void expect_ok(ps_status st)
{
    assert_string_equal(st.text, "");
}

/* The file does not fit the variables, and the reason is this. Nothing was copied. */
static void expect_refused(const char *path, const ps_variable *vars, size_t count,
                           const char *text)
{
    float into[VALUES];
    ps_status st;

    memset(into, 0x55, sizeof into);
    st = ps_weights_read(path, vars, count, into);
    assert_int_equal(st.code, PS_INVALID_ARGUMENT);
    assert_string_equal(st.text, text);
    for (size_t i = 0; i < sizeof into; i++) {
        assert_int_equal(((const unsigned char *)into)[i], 0x55);
    }
}

/* As expect_refused; the shapes alone say so too. */
static void expect_misfit(const char *path, const ps_variable *vars, size_t count, const char *text)
{
    ps_status st = ps_weights_check(path, vars, count);

    assert_int_equal(st.code, PS_INVALID_ARGUMENT);
    assert_string_equal(st.text, text);
    expect_refused(path, vars, count, text);
}

static void a_block_comes_back_to_the_bit_in_any_order_of_variables(void **state)
{
    const ps_variable other[COUNT] = {
        {.name = "norm.mean", .shape = {1, {3}}, .at = 0, .size = 3},
        {.name = "fc.weight", .shape = {2, {3, 2}}, .at = 3, .size = 6},
        {.name = "fc.bias", .shape = {1, {2}}, .at = 9, .size = 2},
    };
    temp_dir dir = temp_dir_create();
    const char *path = temp_dir_file(&dir, "m.safetensors");
    const ps_meta meta = {"job", "a-12345678"};
    ps_safetensors *file = NULL;
    float into[VALUES];

    (void)state;
    expect_ok(ps_weights_write(path, variables, COUNT, block, &meta, 1));
    expect_ok(ps_weights_check(path, variables, COUNT));
    expect_ok(ps_weights_read(path, variables, COUNT, into));
    assert_memory_equal(into, block, sizeof block);
    expect_ok(ps_weights_read(path, other, COUNT, into));
    assert_memory_equal(into, block + 8, 3 * sizeof *block);
    assert_memory_equal(into + 3, block, 8 * sizeof *block);
    expect_ok(ps_safetensors_open_shapes(path, &file));
    assert_string_equal(ps_safetensors_meta(file, "job"), "a-12345678");
    assert_int_equal(ps_safetensors_at(file, 0)->dim[1], 2);
    assert_null(ps_safetensors_at(file, 0)->data);
    ps_safetensors_close(file);
    temp_dir_destroy(&dir);
}

static void what_does_not_fit_is_named_with_expectation_and_finding(void **state)
{
    ps_variable other[COUNT];
    temp_dir dir = temp_dir_create();
    const char *path = temp_dir_file(&dir, "m.safetensors");

    (void)state;
    expect_ok(ps_weights_write(path, variables, COUNT, block, NULL, 0));
    memcpy(other, variables, sizeof other);
    other[0].shape = (ps_shape){2, {2, 3}};
    expect_misfit(path, other, COUNT,
                  "m.safetensors: tensor \"fc.weight\": expected [2, 3], found [3, 2]");
    other[0].shape = (ps_shape){3, {3, 2, 1}};
    expect_misfit(path, other, COUNT,
                  "m.safetensors: tensor \"fc.weight\": expected [3, 2, 1], found [3, 2]");
    memcpy(other, variables, sizeof other);
    strcpy(other[1].name, "fc.scale");
    expect_misfit(path, other, COUNT,
                  "m.safetensors: tensor \"fc.scale\": expected [2], found none of that name");
    expect_misfit(path, variables, 2,
                  "m.safetensors: tensor \"norm.mean\": expected none of that name, found [3]");
    temp_dir_destroy(&dir);
}

static void numbers_that_are_not_finite_are_refused_with_their_place(void **state)
{
    float bad[VALUES];
    temp_dir dir = temp_dir_create();
    const char *path = temp_dir_file(&dir, "m.safetensors");

    (void)state;
    memcpy(bad, block, sizeof bad);
    bad[7] = INFINITY;
    expect_ok(ps_weights_write(path, variables, COUNT, bad, NULL, 0));
    expect_refused(path, variables, COUNT,
                   "m.safetensors: tensor \"fc.bias\": value 1 is inf, expected a finite number");
    bad[5] = NAN;
    expect_ok(ps_weights_write(path, variables, COUNT, bad, NULL, 0));
    expect_refused(path, variables, COUNT,
                   "m.safetensors: tensor \"fc.weight\": value 5 is nan, expected a finite number");
    expect_ok(ps_weights_check(path, variables, COUNT)); /* which looks at shapes alone */
    temp_dir_destroy(&dir);
}

static void a_file_that_is_none_is_refused(void **state)
{
    temp_dir dir = temp_dir_create();
    const char *path = temp_dir_file(&dir, "m.safetensors");
    float into[VALUES];
    ps_status st = ps_weights_read(path, variables, COUNT, into);

    (void)state;
    assert_int_equal(st.code, PS_NOT_FOUND);
    expect_ok(ps_file_write(path, "short", 5));
    st = ps_weights_read(path, variables, COUNT, into);
    assert_int_equal(st.code, PS_INVALID_ARGUMENT);
    assert_non_null(strstr(st.text, "ends at offset 5, expected 8 bytes"));
    st = ps_weights_check(path, variables, COUNT);
    assert_int_equal(st.code, PS_INVALID_ARGUMENT);
    temp_dir_destroy(&dir);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_block_comes_back_to_the_bit_in_any_order_of_variables),
        cmocka_unit_test(what_does_not_fit_is_named_with_expectation_and_finding),
        cmocka_unit_test(numbers_that_are_not_finite_are_refused_with_their_place),
        cmocka_unit_test(a_file_that_is_none_is_refused),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
