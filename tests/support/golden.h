/* SPDX-License-Identifier: Apache-2.0 */
/* golden.h - reads expected tensors from the files in tests/golden, and compares computed ones with
 * them. */
#ifndef PS_TESTS_SUPPORT_GOLDEN_H
#define PS_TESTS_SUPPORT_GOLDEN_H

#include <stddef.h>

enum { GOLDEN_VALUES_MAX = 512 };

typedef struct golden_tensor {
    size_t n;
    float v[GOLDEN_VALUES_MAX];
} golden_tensor;

/* Returns the tensor `name` of tests/golden/`file`.txt. Asserts that there is one. */
golden_tensor golden_read(const char *file, const char *name);

/* Asserts that each of got (want->n) differs from the expected value by at most 1e-5 times the
 * larger of two numbers: the magnitude of the expected value, and, for sums that cancel, `share`
 * times the greatest magnitude in the tensor. `what` is for messages. */
void golden_compare(const float *got, const golden_tensor *want, double share, const char *what);

#endif
