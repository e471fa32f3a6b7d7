/* SPDX-License-Identifier: Apache-2.0 */
/* golden.c - see golden.h. */
#include "tests/support/golden.h"

#include "tests/support/close.h"
#include "tests/support/cmocka_all.h"

#include <string.h>

golden_tensor golden_read(const char *file_name, const char *name)
{
    golden_tensor out = {0};
    char found[64] = "", path[512];
    FILE *file;

    snprintf(path, sizeof path, PS_GOLDEN_DIR "/%s.txt", file_name);
    file = fopen(path, "r");
    assert_non_null(file);
    while (fscanf(file, "%63s %zu", found, &out.n) == 2) {
        assert_true(out.n <= GOLDEN_VALUES_MAX);
        for (size_t i = 0; i < out.n; i++) {
            assert_int_equal(fscanf(file, "%f", &out.v[i]), 1);
        }
        if (strcmp(found, name) == 0) {
            break;
        }
    }
    fclose(file);
    assert_string_equal(found, name);
    return out;
}

void golden_compare(const float *got, const golden_tensor *want, double share, const char *what)
{
    double greatest = 0;

    for (size_t i = 0; i < want->n; i++) {
        greatest = fmax(greatest, fabs((double)want->v[i]));
    }
    for (size_t i = 0; i < want->n; i++) {
        double scale = fmax(fabs((double)want->v[i]), greatest * share);

        assert_true(is_close((double)got[i], (double)want->v[i], 1e-5 * scale, what, i));
    }
}
