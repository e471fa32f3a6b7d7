/* SPDX-License-Identifier: Apache-2.0 */
/* test_rowset.c - touched rows against a plain array of flags. */
#include "common/base/draw.h"
#include "common/base/rowset.h"
#include "common/base/xalloc.h"

#include "tests/support/cmocka_all.h"

#include <stdlib.h>
#include <string.h>

static const uint64_t seed = 20261121;

static void compare(ps_rowset *set, const uint8_t *flags, uint32_t rows)
{
    size_t count, next = 0;
    const uint32_t *list = ps_rowset_list(set, &count);

    for (uint32_t r = 0; r < rows; r++) {
        if (flags[r] != 0) {
            assert_true(next < count);
            assert_int_equal(list[next++], r);
        }
    }
    assert_int_equal(next, count);
}

static void rows_are_listed_ascending_each_once(void **state)
{
    static const uint32_t sizes[] = {1, 2, 63, 64, 65, 4095, 4096, 4097, 100000};

    (void)state;
    print_message("seed %llu\n", (unsigned long long)seed);
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        uint32_t rows = sizes[s];
        ps_rowset *set = ps_rowset_create(rows);
        uint8_t *flags = ps_xcalloc(rows, 1);

        assert_non_null(set);
        assert_true(ps_rowset_bytes(rows) >= 4 * rows && ps_rowset_bytes(rows) < 5 * rows + 256);
        for (uint64_t turn = 0; turn < 8; turn++) {
            uint64_t key = ps_draw_key(seed, PS_DRAW_TEST, rows, turn, 0);

            for (uint64_t i = 0; i < 300; i++) {
                uint32_t row = (uint32_t)ps_draw_below(key, i, rows);

                ps_rowset_add(set, row);
                flags[row] = 1;
            }
            ps_rowset_add(set, rows - 1);
            flags[rows - 1] = 1;
            compare(set, flags, rows);
            if (turn % 2 == 1) { /* else they add up */
                ps_rowset_clear(set);
                memset(flags, 0, rows);
                compare(set, flags, rows);
            }
        }
        free(flags);
        ps_rowset_destroy(set);
    }
    ps_rowset_destroy(NULL);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_listed_ascending_each_once),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
