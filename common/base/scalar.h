/* SPDX-License-Identifier: Apache-2.0 */
/* scalar.h - numbers as people write them. */
#ifndef PS_COMMON_BASE_SCALAR_H
#define PS_COMMON_BASE_SCALAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All of the text is the value, in the C locale's notation, or false: no
 * spaces, no second thoughts. *out is set on success only. */
bool ps_scalar_int(const char *text, int64_t *out);   /* -12, +3, 0x1f, 0o17 */
bool ps_scalar_double(const char *text, double *out); /* 1, -.5, 1e-3; finite */
bool ps_scalar_bool(const char *text, bool *out);     /* true, false, yes, no, on, off, 1, 0 */

/* "10s", "250ms", "1.5h", "1m30s"; units us, ms, s, m, h, d. Not negative. A
 * bare 0 needs no unit. */
bool ps_scalar_duration(const char *text, int64_t *out_us);

/* "250ms", "1m30s": what ps_scalar_duration reads, as short as it goes. */
enum { PS_DURATION_BYTES = 64 };
void ps_scalar_format_duration(int64_t us, char out[PS_DURATION_BYTES]);

#endif
