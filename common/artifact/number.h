/* SPDX-License-Identifier: Apache-2.0 */
/* number.h - writes numbers as text for files that other programs read. */
#ifndef PS_COMMON_ARTIFACT_NUMBER_H
#define PS_COMMON_ARTIFACT_NUMBER_H

enum { PS_NUMBER_BYTES = 32 };

/* Writes `value` by "%.9g", which keeps every bit of a float32, with a point in any locale. Values
 * that are not finite become "nan", "inf" and "-inf". Returns `out`. */
const char *ps_number_text(double value, char out[PS_NUMBER_BYTES]);

/* Replaces the decimal mark of printf in any locale, of one byte or more, by a point. A text
 * without a decimal mark is unchanged. */
void ps_number_put_point(char *text);

#endif
