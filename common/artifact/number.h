/* SPDX-License-Identifier: Apache-2.0 */
/* number.h - a number as text for files that other programs read. */
#ifndef PS_COMMON_ARTIFACT_NUMBER_H
#define PS_COMMON_ARTIFACT_NUMBER_H

enum { PS_NUMBER_BYTES = 32 };

/* "%.9g", which brings a float32 back to the bit, with a point whatever the
 * locale; "nan", "inf" and "-inf" for the rest. Returns out. */
const char *ps_number_text(double value, char out[PS_NUMBER_BYTES]);

#endif
