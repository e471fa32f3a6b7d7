/* SPDX-License-Identifier: Apache-2.0 */
/* predict_csv.c - see predict_csv.h. */
#include "clients/psgd/predict_csv.h"

#include "common/base/files.h"
#include "common/base/scalar.h"
#include "common/base/xalloc.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES_MAX = 1 << 30, NUMBER_BYTES = 64 };

struct ps_predict_csv {
    const char *path;
    ps_data_facts facts;
    char *text; /* ended by a NUL */
    size_t len;
    size_t at;       /* offset of the next line */
    uint32_t number; /* number of the next line, from 1 */
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* Reads the finite number in field number `field`, from 0, of a line: the text from `from` to
 * `end`. The last facts.ids fields must be ids, whole numbers from 0 to facts.vocabulary - 1. */
static ps_status read_field(const ps_predict_csv *csv, uint32_t field, const char *from,
                            const char *end, float *out)
{
    char text[NUMBER_BYTES];
    double value;

    while (from < end && is_blank(*from)) {
        from++;
    }
    while (end > from && is_blank(end[-1])) {
        end--;
    }
    snprintf(text, sizeof text, "%.*s",
             (int)(end - from < NUMBER_BYTES ? end - from : NUMBER_BYTES), from);
    if (end - from >= NUMBER_BYTES || strlen(text) != (size_t)(end - from) ||
        !ps_scalar_double(text, &value) || !isfinite((float)value)) {
        return ps_fail(PS_INVALID_ARGUMENT, "field %u is \"%s\", expected a finite number",
                       field + 1, PS_SHORT(text, 24));
    }
    if (field >= csv->facts.features - csv->facts.ids &&
        !(value >= 0 && value < csv->facts.vocabulary && value == floor(value))) {
        return ps_fail(PS_INVALID_ARGUMENT, "field %u is \"%s\", expected an id from 0 to %u",
                       field + 1, PS_SHORT(text, 24), csv->facts.vocabulary - 1);
    }
    *out = (float)value;
    return ps_ok();
}

/* Reads the line `from` to `end` into x (features): a number for each feature, separated by
 * commas. */
static ps_status read_line(const ps_predict_csv *csv, const char *from, const char *end, float *x)
{
    uint32_t fields = 1;

    for (const char *c = from; c < end; c++) {
        fields += *c == ',';
    }
    if (fields != csv->facts.features) {
        return ps_fail(PS_INVALID_ARGUMENT,
                       "%u columns, expected %u: a number for each input of the network", fields,
                       csv->facts.features);
    }
    for (uint32_t i = 0; i < fields; i++) {
        const char *comma = memchr(from, ',', (size_t)(end - from));
        const char *stop = comma != NULL ? comma : end;
        ps_status st = read_field(csv, i, from, stop, &x[i]);

        if (!ps_is_ok(&st)) {
            return st;
        }
        from = stop + 1;
    }
    return ps_ok();
}

/* Reads the next line of the file into x (features), and moves csv->at behind the line. An error
 * names the file and the line. */
static ps_status next(ps_predict_csv *csv, float *x)
{
    const char *from = csv->text + csv->at;
    const char *newline = memchr(from, '\n', csv->len - csv->at);
    const char *end = newline != NULL ? newline : csv->text + csv->len;
    ps_status st = read_line(csv, from, end > from && end[-1] == '\r' ? end - 1 : end, x);

    csv->at = newline != NULL ? (size_t)(newline + 1 - csv->text) : csv->len;
    return ps_is_ok(&st) ? (csv->number++, st)
                         : ps_wrap(st, "%s: line %u", PS_SHORT(csv->path, 40), csv->number);
}

bool ps_predict_csv_is_over(const ps_predict_csv *csv)
{
    return csv->at == csv->len;
}

uint32_t ps_predict_csv_next(ps_predict_csv *csv, uint32_t most, float *x)
{
    uint32_t n = 0;

    for (; n < most && !ps_predict_csv_is_over(csv); n++) {
        ps_status st = next(csv, x + (size_t)n * csv->facts.features);

        assert(ps_is_ok(&st)); /* ps_predict_csv_open has checked every line */
    }
    return n;
}

ps_status ps_predict_csv_open(const char *path, const ps_data_facts *facts, ps_predict_csv **out)
{
    ps_predict_csv *csv = ps_xcalloc(1, sizeof *csv);
    float *x = ps_xcalloc(facts->features, sizeof *x);
    ps_status st = ps_file_read(path, BYTES_MAX, &csv->text, &csv->len);

    csv->path = path;
    csv->facts = *facts;
    csv->number = 1;
    if (ps_is_ok(&st) && csv->len == 0) {
        st = ps_fail(PS_INVALID_ARGUMENT, "%s: it is empty, expected a line for each sample",
                     PS_PATH_SHOWN(path));
    }
    while (ps_is_ok(&st) && !ps_predict_csv_is_over(csv)) {
        st = next(csv, x);
    }
    free(x);
    if (!ps_is_ok(&st)) {
        ps_predict_csv_close(csv);
        return ps_wrap(st, "--csv");
    }
    csv->at = 0;
    csv->number = 1;
    *out = csv;
    return st;
}

void ps_predict_csv_close(ps_predict_csv *csv)
{
    if (csv == NULL) {
        return;
    }
    free(csv->text);
    free(csv);
}
