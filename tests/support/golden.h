/* SPDX-License-Identifier: Apache-2.0 */
/* golden.h - tensors of the files in tests/golden, and how near to them is near enough. */
#ifndef PS_TESTS_SUPPORT_GOLDEN_H
#define PS_TESTS_SUPPORT_GOLDEN_H

#include <stddef.h>

enum { GOLDEN_VALUES_MAX = 512 };

typedef struct golden_tensor {
    size_t n;
    float v[GOLDEN_VALUES_MAX];
} golden_tensor;

/* The tensor of that name in FILE.txt; asserts that there is one. */
golden_tensor golden_read(const char *file, const char *name);

/* Asserts 1e-5 relative to the value or, for sums that cancel, to this share of the
 * greatest value of the tensor. */
void golden_compare(const float *got, const golden_tensor *want, double share, const char *what);

#endif
