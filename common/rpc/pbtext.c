/* SPDX-License-Identifier: Apache-2.0 */
/* pbtext.c - see pbtext.h. */
#include "common/rpc/pbtext.h"

#include "common/base/xalloc.h"

#include <assert.h>
#include <ctype.h>
#include <limits.h>
#include <math.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

/* Seconds of 0001-01-01T00:00:00Z and of 10000-01-01T00:00:00Z. */
#define TIME_MIN INT64_C(-62135596800)
#define TIME_END INT64_C(253402300800)

bool ps_pb_time_print(int64_t seconds, int32_t nanos, char text[PS_PB_TIME_BYTES])
{
    time_t t = (time_t)seconds;
    struct tm tm;
    size_t n;

    if (seconds < TIME_MIN || seconds >= TIME_END || nanos < 0 || nanos > 999999999) {
        return false;
    }
    gmtime_r(&t, &tm);
    n = (size_t)snprintf(text, PS_PB_TIME_BYTES, "%04d-%02d-%02dT%02d:%02d:%02d", tm.tm_year + 1900,
                         tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec);
    if (nanos == 0) {
        snprintf(text + n, PS_PB_TIME_BYTES - n, "Z");
    } else if (nanos % 1000000 == 0) {
        snprintf(text + n, PS_PB_TIME_BYTES - n, ".%03dZ", nanos / 1000000);
    } else if (nanos % 1000 == 0) {
        snprintf(text + n, PS_PB_TIME_BYTES - n, ".%06dZ", nanos / 1000);
    } else {
        snprintf(text + n, PS_PB_TIME_BYTES - n, ".%09dZ", nanos);
    }
    return true;
}

/* Takes exactly `digits` digits off *at, then the character `end` unless it is 0. Returns false if
 * they are not there. */
static bool take_number(const char **at, int digits, char end, int *out)
{
    int v = 0;

    for (int i = 0; i < digits; i++, (*at)++) {
        if (!isdigit((unsigned char)**at)) {
            return false;
        }
        v = v * 10 + (**at - '0');
    }
    *out = v;
    if (end != '\0') {
        return *(*at)++ == end;
    }
    return true;
}

/* Takes a fraction of a second, such as ".25", off *at and stores it as nanoseconds. Stores 0 if
 * there is no point. Returns false if no digit follows the point, or more than 9 do. */
static bool take_fraction(const char **at, int32_t *nanos)
{
    int32_t v = 0, unit = 100000000;

    *nanos = 0;
    if (**at != '.') {
        return true;
    }
    ++*at;
    if (!isdigit((unsigned char)**at)) {
        return false;
    }
    for (; isdigit((unsigned char)**at); ++*at, unit /= 10) {
        if (unit == 0) {
            return false;
        }
        v += (**at - '0') * unit;
    }
    *nanos = v;
    return true;
}

/* Takes "Z" or an offset from UTC such as "+01:30" off *at and stores it in seconds. Returns false
 * if neither is there. */
static bool take_offset(const char **at, int64_t *offset)
{
    int hours, minutes;
    int64_t sign;

    *offset = 0;
    if (**at == 'Z' || **at == 'z') {
        ++*at;
        return true;
    }
    if (**at != '+' && **at != '-') {
        return false;
    }
    sign = **at == '-' ? -1 : 1;
    ++*at;
    if (!take_number(at, 2, ':', &hours) || !take_number(at, 2, '\0', &minutes) || hours > 23 ||
        minutes > 59) {
        return false;
    }
    *offset = sign * (hours * 3600 + minutes * 60);
    return true;
}

bool ps_pb_time_parse(const char *text, int64_t *seconds, int32_t *nanos)
{
    struct tm tm = {0}, normal;
    const char *at = text;
    int64_t offset, t;

    if (!take_number(&at, 4, '-', &tm.tm_year) || !take_number(&at, 2, '-', &tm.tm_mon) ||
        !take_number(&at, 2, '\0', &tm.tm_mday) || (*at != 'T' && *at != 't' && *at != ' ')) {
        return false;
    }
    at++;
    if (!take_number(&at, 2, ':', &tm.tm_hour) || !take_number(&at, 2, ':', &tm.tm_min) ||
        !take_number(&at, 2, '\0', &tm.tm_sec) || !take_fraction(&at, nanos) ||
        !take_offset(&at, &offset) || *at != '\0') {
        return false;
    }
    tm.tm_year -= 1900;
    tm.tm_mon--;
    normal = tm;
    t = (int64_t)timegm(&normal);
    /* timegm() normalises dates that do not exist, such as 30 February; reject them. */
    if (normal.tm_mon != tm.tm_mon || normal.tm_mday != tm.tm_mday ||
        normal.tm_hour != tm.tm_hour || normal.tm_min != tm.tm_min || normal.tm_sec != tm.tm_sec) {
        return false;
    }
    *seconds = t - offset;
    return *seconds >= TIME_MIN && *seconds < TIME_END;
}

char *ps_pb_base64_print(const uint8_t *data, size_t len)
{
    char *text = ps_xmalloc((len + 2) / 3 * 4 + 1);

    assert(len < INT_MAX / 2);
    EVP_EncodeBlock((unsigned char *)text, data, (int)len);
    return text;
}

/* Checks the text itself, because EVP_DecodeBlock would take blanks, too. Both alphabets are
 * allowed, with or without padding. EVP_DecodeBlock gets one alphabet, padded, and returns a byte
 * of 0 for each character of padding, which *len leaves out. */
bool ps_pb_base64_parse(const char *text, uint8_t **data, size_t *len)
{
    size_t n = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_");
    size_t pad = strlen(text + n), missing = (4 - n % 4) % 4;
    char *block;

    if (n > INT_MAX / 2 || missing == 3 || (pad != 0 && pad != missing) ||
        strspn(text + n, "=") != pad) {
        return false;
    }
    block = ps_xmalloc(n + 3);
    for (size_t i = 0; i < n; i++) {
        block[i] = text[i];
        if (text[i] == '-' || text[i] == '_') {
            block[i] = text[i] == '-' ? '+' : '/';
        }
    }
    memset(block + n, '=', missing);
    *data = ps_xmalloc((n + missing) / 4 * 3);
    *len = (size_t)EVP_DecodeBlock(*data, (unsigned char *)block, (int)(n + missing)) - missing;
    free(block);
    return true;
}

/* Returns the length of the prefix of an enum's values: 10 for JobState, whose values begin with
 * JOB_STATE_. Returns 0 if `name` does not have the prefix. */
static size_t prefix_length(const char *type_name, const char *name)
{
    size_t n = 0;

    for (const char *t = type_name; *t != '\0'; t++) {
        if (isupper((unsigned char)*t) && t != type_name && name[n++] != '_') {
            return 0;
        }
        if (name[n++] != toupper((unsigned char)*t)) {
            return 0;
        }
    }
    return name[n] == '_' ? n + 1 : 0;
}

const ProtobufCEnumValue *ps_pb_enum_find(const ProtobufCEnumDescriptor *type, const char *name)
{
    for (unsigned i = 0; i < type->n_values; i++) {
        const char *own = type->values[i].name;
        size_t prefix = prefix_length(type->short_name, own);

        if (strcasecmp(own, name) == 0 || strcasecmp(own + prefix, name) == 0) {
            return &type->values[i];
        }
    }
    return NULL;
}

const ProtobufCEnumValue *ps_pb_enum_value(const ProtobufCEnumDescriptor *type, int value)
{
    for (unsigned i = 0; i < type->n_values; i++) {
        if (type->values[i].value == value) {
            return &type->values[i];
        }
    }
    return NULL;
}

double ps_pb_float_widen(float value)
{
    char text[32];

    if (!isfinite(value)) {
        return (double)value;
    }
    for (int digits = 6; digits < 9; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, (double)value);
        if (strtof(text, NULL) == value) {
            return strtod(text, NULL);
        }
    }
    /* fewer than nine digits do not identify this float, so its exact value is returned */
    return (double)value;
}
