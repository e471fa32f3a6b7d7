/* SPDX-License-Identifier: Apache-2.0 */
/* scalar.h - parses numbers, bools and durations as people write them. */
#ifndef PS_COMMON_BASE_SCALAR_H
#define PS_COMMON_BASE_SCALAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Parses a whole text such as -12, +3, 0x1f or 0o17. Returns false if any of it, a space too, is
 * not part of the number, or the number does not fit; *out is then unchanged. */
bool ps_scalar_int(const char *text, int64_t *out);

/* Parses a whole text such as 1, -.5 or 1e-3, in the notation of the C locale. Returns false if
 * it is not a finite number; *out is then unchanged. */
bool ps_scalar_double(const char *text, double *out);

/* Parses true, false, yes, no, on, off, 1 or 0. Returns false for any other text; *out is then
 * unchanged. */
bool ps_scalar_bool(const char *text, bool *out);

/* Parses "10s", "250ms", "1.5h" or "1m30s" into microseconds. Units are us, ms, s, m, h and d; a
 * bare 0 needs none. Returns false if the text is no duration, is negative or is longer than 285
 * years; *out_us is then unchanged. */
bool ps_scalar_duration(const char *text, int64_t *out_us);

/* Writes `us` >= 0 as ps_scalar_duration reads it, largest unit first: "250ms", "1m30s"; 0 is
 * "0s". */
enum { PS_DURATION_BYTES = 64 };
void ps_scalar_format_duration(int64_t us, char out[PS_DURATION_BYTES]);

#endif
