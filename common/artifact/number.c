/* SPDX-License-Identifier: Apache-2.0 */
/* number.c - see number.h. */
#include "common/artifact/number.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Replaces what stands between the first digits and the next digit or `e` by a point. It is another
 * decimal mark, of one byte or more, if the caller of the library has called setlocale. */
void ps_number_put_point(char *text)
{
    size_t before = strspn(text, "-0123456789");
    size_t mark = strcspn(text + before, "0123456789e");

    if (mark > 0) {
        text[before] = '.';
        memmove(text + before + 1, text + before + mark, strlen(text + before + mark) + 1);
    }
}

const char *ps_number_text(double value, char out[PS_NUMBER_BYTES])
{
    if (isnan(value)) {
        return strcpy(out, "nan");
    }
    if (isinf(value)) {
        return strcpy(out, value < 0 ? "-inf" : "inf");
    }
    snprintf(out, PS_NUMBER_BYTES, "%.9g", value);
    ps_number_put_point(out);
    return out;
}
