/* SPDX-License-Identifier: Apache-2.0 */
/* number.h - a number as text for files that other programs read. */
#ifndef PS_COMMON_ARTIFACT_NUMBER_H
#define PS_COMMON_ARTIFACT_NUMBER_H

enum { PS_NUMBER_BYTES = 32 };

/* "%.9g", which brings a float32 back to the bit, with a point whatever the
 * locale; "nan", "inf" and "-inf" for the rest. Returns out. */
const char *ps_number_text(double value, char out[PS_NUMBER_BYTES]);

/* Puts a point where printf in some locale has put another decimal mark, of one
 * byte or more. A text without one stays. */
void ps_number_put_point(char *text);

#endif
