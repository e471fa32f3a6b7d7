/* SPDX-License-Identifier: Apache-2.0 */
/* scalar.c - see scalar.h. */
#include "common/base/scalar.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    int64_t us;
} units[] = {{"d", 86400000000}, {"h", 3600000000}, {"m", 60000000},
             {"s", 1000000},     {"ms", 1000},      {"us", 1}};

enum { N_UNITS = sizeof units / sizeof units[0] };

bool ps_scalar_int(const char *text, int64_t *out)
{
    bool is_negative = text[0] == '-';
    const char *digits = text + (text[0] == '-' || text[0] == '+');
    const char *allowed = "0123456789";
    uint64_t value;
    int base = 10;
    char *end;

    if (digits == text && digits[0] == '0' && digits[1] == 'x') {
        base = 16;
        allowed = "0123456789abcdefABCDEF";
        digits += 2;
    } else if (digits == text && digits[0] == '0' && digits[1] == 'o') {
        base = 8;
        allowed = "01234567";
        digits += 2;
    }
    if (digits[0] == '\0' || strspn(digits, allowed) != strlen(digits)) {
        return false;
    }
    errno = 0;
    value = strtoull(digits, &end, base);
    if (errno != 0 || value > (uint64_t)INT64_MAX + is_negative) {
        return false;
    }
    *out = is_negative ? (int64_t)(0 - value) : (int64_t)value;
    return true;
}

/* Returns whether all of `text` is a decimal number: [-+]? ( digits [ . digits? ] | . digits ) (
 * [eE] [-+]? digits )? */
static bool looks_decimal(const char *text)
{
    static const char digits[] = "0123456789";
    const char *p = text + (text[0] == '-' || text[0] == '+');
    size_t n = strspn(p, digits);

    p += n;
    if (*p == '.') {
        size_t fraction = strspn(p + 1, digits);

        p += 1 + fraction;
        n += fraction;
    }
    if (n > 0 && (*p == 'e' || *p == 'E')) {
        p += 1 + (p[1] == '-' || p[1] == '+');
        n = strspn(p, digits);
        p += n;
    }
    return n > 0 && *p == '\0';
}

bool ps_scalar_double(const char *text, double *out)
{
    double value;

    /* strtod expects a point, not a comma, because the programs never call setlocale. */
    if (!looks_decimal(text)) {
        return false;
    }
    value = strtod(text, NULL);
    if (!isfinite(value)) {
        return false;
    }
    *out = value;
    return true;
}

bool ps_scalar_bool(const char *text, bool *out)
{
    static const char *const words[][2] = {
        {"true", "false"}, {"yes", "no"}, {"on", "off"}, {"1", "0"}};

    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        for (int w = 0; w < 2; w++) {
            if (strcmp(text, words[i][w]) == 0) {
                *out = w == 0;
                return true;
            }
        }
    }
    return false;
}

bool ps_scalar_duration(const char *text, int64_t *out_us)
{
    double sum = 0;

    if (strcmp(text, "0") == 0) {
        *out_us = 0;
        return true;
    }
    do {
        size_t n = strspn(text, "0123456789."), unit = 0, n_unit;
        char number[32];
        double value;

        if (n == 0 || n >= sizeof number) {
            return false;
        }
        memcpy(number, text, n);
        number[n] = '\0';
        text += n;
        n_unit = strspn(text, "abcdefghijklmnopqrstuvwxyz");
        while (unit < N_UNITS && (strlen(units[unit].name) != n_unit ||
                                  strncmp(units[unit].name, text, n_unit) != 0)) {
            unit++;
        }
        if (unit == N_UNITS || !ps_scalar_double(number, &value)) {
            return false;
        }
        sum += value * (double)units[unit].us;
        text += n_unit;
    } while (*text != '\0');
    if (sum > 9e15) { /* 285 years; above 2^53 a double does not resolve microseconds */
        return false;
    }
    *out_us = (int64_t)(sum + 0.5);
    return true;
}

void ps_scalar_format_duration(int64_t us, char out[PS_DURATION_BYTES])
{
    size_t n = 0;

    assert(us >= 0);
    if (us == 0) {
        snprintf(out, PS_DURATION_BYTES, "0s");
        return;
    }
    for (size_t i = 0; i < N_UNITS; i++) {
        int64_t count = us / units[i].us;

        us %= units[i].us;
        if (count > 0) {
            n += (size_t)snprintf(out + n, PS_DURATION_BYTES - n, "%lld%s", (long long)count,
                                  units[i].name);
        }
    }
}
