/* SPDX-License-Identifier: Apache-2.0 */
/* decimal.c - see decimal.h. */
#include "common/data/decimal.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

bool ps_text_number(const char *text, size_t len, double *value)
{
    char copy[64], *end = NULL;
    double v;

    while (len > 0 && *text == ' ') {
        text++;
        len--;
    }
    while (len > 0 && text[len - 1] == ' ') {
        len--;
    }
    if (len == 0 || len >= sizeof copy) {
        return false;
    }
    memcpy(copy, text, len); /* strtod needs a NUL behind the number, where the text may go on */
    copy[len] = '\0';
    /* strtod would also accept nan, inf and 0x; only decimal numbers are allowed. */
    if (strspn(copy, "0123456789+-.eE") < len) {
        return false;
    }
    v = strtod(copy, &end);
    if (*end != '\0' || end == copy || !isfinite(v)) {
        return false;
    }
    *value = v;
    return true;
}

bool ps_text_float(const char *text, size_t len, float *value)
{
    double number;

    if (!ps_text_number(text, len, &number) || fabs(number) > (double)FLT_MAX) {
        return false;
    }
    *value = (float)number;
    return true;
}
