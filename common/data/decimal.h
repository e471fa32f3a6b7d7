/* SPDX-License-Identifier: Apache-2.0 */
/* decimal.h - reads numbers as the files of data sets have them. */
#ifndef PS_COMMON_DATA_DECIMAL_H
#define PS_COMMON_DATA_DECIMAL_H

#include <stdbool.h>
#include <stddef.h>

/* Converts text (len) to a number, without the spaces around it. Returns false if the rest is
 * empty, longer than 63 bytes, not finite, or not a decimal number as a whole. The result is the
 * same on every host, as the programs never leave the C locale. */
bool ps_text_number(const char *text, size_t len, double *value);

/* Converts text (len) to a float as ps_text_number does. Returns false also if the number is not
 * finite as a float32. */
bool ps_text_float(const char *text, size_t len, float *value);

#endif
