/* SPDX-License-Identifier: Apache-2.0 */
/* test_named_bytes.c - bytes by name in a block: set, replaced, removed, refused, damaged. */
#include "common/base/named_bytes.h"

#include "tests/support/cmocka_all.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIZE = 200, DRAWS = 20000 };

static void expect(const uint8_t *block, const char *name, const char *value)
{
    ps_named found;

    if (value == NULL) {
        assert_false(ps_named_find(block, SIZE, name, &found));
        return;
    }
    assert_true(ps_named_find(block, SIZE, name, &found));
    assert_int_equal(found.len, strlen(value));
    assert_memory_equal(found.value, value, found.len);
}

static ps_code put(uint8_t *block, const char *name, const char *value)
{
    ps_status st = ps_named_put(block, SIZE, name, value, value != NULL ? strlen(value) : 0), whole;

    whole = ps_named_check(block, SIZE);
    assert_true(ps_is_ok(&whole));
    whole = ps_named_check(block, ps_named_used(block, SIZE)); /* as it is stored */
    assert_true(ps_is_ok(&whole));
    return st.code;
}

static void values_are_set_replaced_and_removed(void **state)
{
    uint8_t block[SIZE] = {0};
    ps_named found;

    (void)state;
    assert_int_equal(ps_named_used(block, SIZE), PS_NAMED_BLOCK_BYTES);
    assert_false(ps_named_at(block, SIZE, 0, &found));
    assert_int_equal(put(block, "a", "one"), PS_OK);
    assert_int_equal(put(block, "b", ""), PS_OK);
    assert_int_equal(put(block, "c", "three"), PS_OK);
    assert_int_equal(put(block, "a", "ONE"), PS_OK); /* of equal length: in its place */
    assert_true(ps_named_at(block, SIZE, 0, &found));
    assert_string_equal(found.name, "a");
    assert_int_equal(put(block, "a", "another"), PS_OK); /* the last one now */
    assert_true(ps_named_at(block, SIZE, 2, &found));
    assert_string_equal(found.name, "a");
    expect(block, "a", "another");
    expect(block, "b", "");
    expect(block, "c", "three");
    assert_int_equal(put(block, "c", NULL), PS_OK);
    assert_int_equal(put(block, "none", NULL), PS_OK);
    expect(block, "c", NULL);
    expect(block, "a", "another");
    assert_int_equal(put(block, "a", NULL), PS_OK);
    assert_int_equal(put(block, "b", NULL), PS_OK);
    assert_int_equal(ps_named_used(block, SIZE), PS_NAMED_BLOCK_BYTES);
}

static void what_does_not_fit_changes_nothing(void **state)
{
    uint8_t block[SIZE] = {0};
    char text[SIZE] = {0};
    size_t room = SIZE - PS_NAMED_BLOCK_BYTES - PS_NAMED_RECORD_BYTES - sizeof "a";

    (void)state;
    memset(text, 'x', room);
    assert_int_equal(put(block, "a", text), PS_OK);
    assert_int_equal(put(block, "b", ""), PS_RESOURCE_EXHAUSTED);
    text[room] = 'x';
    assert_int_equal(put(block, "a", text), PS_RESOURCE_EXHAUSTED);
    text[room] = '\0';
    expect(block, "a", text);
    assert_int_equal(put(block, "", "x"), PS_INVALID_ARGUMENT);
    assert_int_equal(put(block, "a/b", "x"), PS_INVALID_ARGUMENT);
    assert_int_equal(ps_named_put(block, SIZE, "a", text, SIZE_MAX).code, PS_RESOURCE_EXHAUSTED);
    expect(block, "a", text);
}

static void there_are_at_most_so_many_names(void **state)
{
    size_t size = 1 << 16;
    uint8_t *block = calloc(1, size);
    char name[16];
    ps_status st = ps_ok();

    (void)state;
    for (int i = 0; i <= PS_NAMED_MAX; i++) {
        snprintf(name, sizeof name, "n%d", i);
        st = ps_named_put(block, size, name, "v", 1);
        assert_int_equal(st.code, i < PS_NAMED_MAX ? PS_OK : PS_RESOURCE_EXHAUSTED);
    }
    assert_non_null(strstr(st.text, "at most 256 are allowed"));
    st = ps_named_check(block, size);
    assert_true(ps_is_ok(&st));
    free(block);
}

/* Whatever is damaged, a block is refused or holds records within it that can be read. */
static void damaged_blocks_are_refused_or_read(void **state)
{
    uint8_t whole[SIZE] = {0};
    size_t refused = 0, used;

    (void)state;
    assert_int_equal(put(whole, "first", "some bytes"), PS_OK);
    assert_int_equal(put(whole, "second", "others"), PS_OK);
    used = ps_named_used(whole, SIZE);
    srand(1);
    for (int i = 0; i < DRAWS; i++) {
        size_t size = i % 3 == 0 ? (size_t)rand() % (used + 1) : used;
        uint8_t *block = malloc(size + 1); /* of its size, for the address sanitizer */
        ps_named found;
        ps_status st;

        memcpy(block, whole, size);
        for (int k = 0; k < i % 3 && size > 0; k++) {
            block[(size_t)rand() % size] = (uint8_t)rand();
        }
        st = ps_named_check(block, size);
        refused += !ps_is_ok(&st);
        for (size_t n = 0; ps_is_ok(&st) && ps_named_at(block, size, n, &found); n++) {
            assert_true(found.value + found.len <= block + size);
            assert_true(strlen(found.name) <= PS_NAMED_NAME_MAX);
        }
        free(block);
    }
    assert_in_range(refused, DRAWS / 10, DRAWS - DRAWS / 10);
}

static void two_records_of_one_name_are_refused(void **state)
{
    uint8_t block[SIZE] = {0};
    ps_status st;

    (void)state;
    assert_int_equal(put(block, "a", "1"), PS_OK);
    assert_int_equal(put(block, "b", "2"), PS_OK);
    block[PS_NAMED_BLOCK_BYTES + PS_NAMED_RECORD_BYTES] = 'b';
    st = ps_named_check(block, SIZE);
    assert_int_equal(st.code, PS_DATA_LOSS);
    assert_non_null(strstr(st.text, "two have the name \"b\""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_set_replaced_and_removed),
        cmocka_unit_test(what_does_not_fit_changes_nothing),
        cmocka_unit_test(there_are_at_most_so_many_names),
        cmocka_unit_test(damaged_blocks_are_refused_or_read),
        cmocka_unit_test(two_records_of_one_name_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
