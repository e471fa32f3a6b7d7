/* SPDX-License-Identifier: Apache-2.0 */
/* test_buf.c - buffers that lie in one block keep it until the last of them is dropped. */
#include "common/base/buf.h"
#include "tests/support/cmocka_all.h"

#include <string.h>

enum { BUFS = 5 };

static const size_t caps[BUFS] = {1, 64, 65, 0, 4096};

static void buffers_of_a_home_are_apart_and_outlive_it(void **state)
{
    ps_buf *home, *bufs[BUFS];
    size_t bytes = 0;

    (void)state;
    for (size_t i = 0; i < BUFS; i++) {
        bytes += ps_buf_bytes_in(caps[i]);
    }
    home = ps_buf_create(bytes);
    for (size_t i = 0; i < BUFS; i++) {
        bufs[i] = ps_buf_create_in(home, caps[i]);
        assert_int_equal((uintptr_t)bufs[i]->data % 64, 0);
        assert_int_equal(bufs[i]->cap, caps[i]);
        assert_int_equal(bufs[i]->len, 0);
        memset(bufs[i]->data, (int)i + 1, caps[i]);
    }
    assert_int_equal(home->len, bytes);
    assert_int_equal(atomic_load(&home->refs), BUFS + 1);
    ps_buf_unref(home);
    ps_buf_unref(ps_buf_ref(bufs[1])); /* another holder's reference is not the last one */
    assert_int_equal(atomic_load(&home->refs), BUFS);
    for (size_t i = 0; i < BUFS; i++) {
        for (size_t k = 0; k < caps[i]; k++) {
            assert_int_equal(bufs[i]->data[k], i + 1);
        }
        assert_int_equal(atomic_load(&home->refs), BUFS - i);
        ps_buf_unref(bufs[i]); /* the last one frees the block: AddressSanitizer looks */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buffers_of_a_home_are_apart_and_outlive_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
