/* SPDX-License-Identifier: Apache-2.0 */
/* report_csv.c - see report_csv.h. */
#include "common/artifact/report_csv.h"

#include "common/base/xalloc.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBER_BYTES = 64, EXACT_DIGITS = 15 };

bool ps_report_csv_init(ps_report_csv *csv, const char *text, size_t n)
{
    const char *end = n > 0 ? memchr(text, '\n', n) : NULL;
    size_t count = 1;

    *csv = (ps_report_csv){0};
    if (end == NULL || memchr(text, '\0', (size_t)(end - text)) != NULL) {
        return false;
    }
    for (const char *c = text; c < end; c++) {
        count += *c == ',';
    }
    if (count > PS_REPORT_CSV_COLUMNS_MAX) {
        return false;
    }
    csv->names = ps_xcalloc(count, sizeof *csv->names);
    for (const char *c = text; c <= end;) {
        const char *stop = memchr(c, ',', (size_t)(end - c));
        size_t bytes = (size_t)((stop != NULL ? stop : end) - c);

        if (bytes == 0 || bytes >= PS_REPORT_CSV_NAME_BYTES) {
            ps_report_csv_fini(csv);
            return false;
        }
        memcpy(csv->names[csv->n_columns++], c, bytes);
        c += bytes + 1;
    }
    csv->at = end + 1;
    csv->end = text + n;
    return true;
}

size_t ps_report_csv_find(const ps_report_csv *csv, const char *name)
{
    size_t i = 0;

    while (i < csv->n_columns && strcmp(csv->names[i], name) != 0) {
        i++;
    }
    return i;
}

/* Reads a number with strtod, from a copy that ends with a 0 byte, as the n bytes of text do not.
 * Returns NaN for what is no number, has NUMBER_BYTES or more, or is beyond
 * PS_REPORT_CSV_LARGEST. */
static double read_slowly(const char *text, size_t n)
{
    char copy[NUMBER_BYTES], *rest;
    double value;

    if (n == 0 || n >= sizeof copy) {
        return (double)NAN;
    }
    memcpy(copy, text, n);
    copy[n] = '\0';
    value = strtod(copy, &rest);
    return *rest == '\0' && rest != copy && fabs(value) <= PS_REPORT_CSV_LARGEST ? value
                                                                                 : (double)NAN;
}

/* Reads a number; NaN for what is none. One of up to 15 digits without an exponent, as nearly all
 * are, needs no strtod: digits and power are exact, so their quotient is the nearest double. */
static double read_number(const char *text, size_t n)
{
    static const double powers[] = {1,   1e1, 1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                    1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};
    bool is_negative = n > 0 && text[0] == '-', has_point = false;
    size_t i = is_negative, digits = 0, behind = 0;
    uint64_t number = 0;

    for (; i < n; i++) {
        if (text[i] >= '0' && text[i] <= '9' && digits < EXACT_DIGITS) {
            number = number * 10 + (uint64_t)(text[i] - '0');
            digits++;
            behind += has_point;
        } else if (text[i] == '.' && !has_point) {
            has_point = true;
        } else {
            return read_slowly(text, n);
        }
    }
    if (digits == 0) {
        return (double)NAN;
    }
    return (is_negative ? -1 : 1) * ((double)number / powers[behind]);
}

bool ps_report_csv_next(ps_report_csv *csv, double *values)
{
    size_t left = (size_t)(csv->end - csv->at), i = 0;
    const char *end = left > 0 ? memchr(csv->at, '\n', left) : NULL;

    if (end == NULL) {
        return false;
    }
    for (const char *c = csv->at; c <= end && i < csv->n_columns; i++) {
        const char *stop = c;

        while (stop < end && *stop != ',') {
            stop++;
        }
        values[i] = read_number(c, (size_t)(stop - c));
        c = stop + 1;
    }
    for (; i < csv->n_columns; i++) {
        values[i] = (double)NAN;
    }
    csv->at = end + 1;
    return true;
}

void ps_report_csv_go_on(ps_report_csv *csv, const char *text, size_t n)
{
    csv->at = text;
    csv->end = text + n;
}

void ps_report_csv_fini(ps_report_csv *csv)
{
    free(csv->names);
    *csv = (ps_report_csv){0};
}
