/* SPDX-License-Identifier: Apache-2.0 */
/* record.c - see record.h. */
#include "common/script/record.h"

#include "common/base/bytes.h"

#include <math.h>
#include <string.h>

/* Moves *at behind a scalar. Returns false if there is no whole scalar, its number is not finite,
 * or its text has more than `most` bytes. */
static bool skip_scalar(const uint8_t *bytes, size_t n, size_t *at, uint32_t most)
{
    size_t left = n - *at, len = 1;

    if (left == 0) {
        return false;
    }
    switch (bytes[*at]) {
    case PS_RECORD_INTEGER:
        len += 8;
        break;
    case PS_RECORD_NUMBER: {
        double x;
        uint64_t bits = left >= 9 ? ps_get_u64(bytes + *at + 1) : 0;

        memcpy(&x, &bits, sizeof x);
        if (!isfinite(x)) {
            return false;
        }
        len += 8;
        break;
    }
    case PS_RECORD_STRING: {
        uint32_t text = left >= 5 ? ps_get_u32(bytes + *at + 1) : 0;

        if (text > most) {
            return false;
        }
        len += 4 + (size_t)text;
        break;
    }
    case PS_RECORD_FALSE:
    case PS_RECORD_TRUE:
        break;
    default:
        return false;
    }
    if (len > left) {
        return false;
    }
    *at += len;
    return true;
}

static bool skip_list(const uint8_t *bytes, size_t n, size_t *at)
{
    uint32_t count;

    if (n - *at < 5) {
        return false;
    }
    count = ps_get_u32(bytes + *at + 1);
    *at += 5;
    if (count > PS_RECORD_LIST_MAX) {
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (!skip_scalar(bytes, n, at, PS_RECORD_STRING_MAX)) {
            return false;
        }
    }
    return true;
}

bool ps_record_next(const uint8_t *bytes, size_t n, size_t *at, ps_keyed *out)
{
    size_t begin = *at, end = begin, value;

    if (begin >= n || bytes[begin] > PS_RECORD_STRING ||
        !skip_scalar(bytes, n, &end, PS_RECORD_KEY_MAX)) {
        return false;
    }
    value = end;
    if (end < n && bytes[end] == PS_RECORD_LIST
            ? !skip_list(bytes, n, &end)
            : !skip_scalar(bytes, n, &end, PS_RECORD_STRING_MAX)) {
        return false;
    }
    *out = (ps_keyed){.at = bytes + begin, .key_bytes = value - begin, .value_bytes = end - value};
    *at = end;
    return true;
}

ps_scalar_value ps_record_scalar(const uint8_t **at)
{
    const uint8_t *p = *at;
    ps_scalar_value x = {.kind = p[0]};
    uint64_t bits;

    p++;
    if (x.kind == PS_RECORD_INTEGER || x.kind == PS_RECORD_NUMBER) {
        bits = ps_get_u64(p);
        p += 8;
        if (x.kind == PS_RECORD_INTEGER) {
            x.integer = (int64_t)bits;
        } else {
            memcpy(&x.number, &bits, sizeof x.number);
        }
    } else if (x.kind == PS_RECORD_STRING) {
        x.len = ps_get_u32(p);
        x.text = (const char *)p + 4;
        p += 4 + (size_t)x.len;
    }
    *at = p;
    return x;
}

int ps_record_compare(const ps_keyed *a, const ps_keyed *b)
{
    const uint8_t *at_a = a->at, *at_b = b->at;
    ps_scalar_value x = ps_record_scalar(&at_a), y = ps_record_scalar(&at_b);
    int order;

    if (x.kind != y.kind) {
        return x.kind - y.kind;
    }
    if (x.kind == PS_RECORD_INTEGER) {
        return (x.integer > y.integer) - (x.integer < y.integer);
    }
    order = memcmp(x.text, y.text, x.len < y.len ? x.len : y.len);
    return order != 0 ? order : (x.len > y.len) - (x.len < y.len);
}

uint32_t ps_record_value(const ps_keyed *record, const uint8_t **at, bool *is_list)
{
    const uint8_t *value = record->at + record->key_bytes;

    *is_list = value[0] == PS_RECORD_LIST;
    *at = *is_list ? value + 5 : value;
    return *is_list ? ps_get_u32(value + 1) : 1;
}

size_t ps_record_scalar_bytes(const ps_scalar_value *x)
{
    return x->kind == PS_RECORD_STRING                                   ? 5 + (size_t)x->len
           : x->kind == PS_RECORD_INTEGER || x->kind == PS_RECORD_NUMBER ? 9
                                                                         : 1;
}

uint8_t *ps_record_put(uint8_t *at, const ps_scalar_value *x)
{
    *at++ = (uint8_t)x->kind;
    switch (x->kind) {
    case PS_RECORD_INTEGER:
        ps_put_u64(at, (uint64_t)x->integer);
        return at + 8;
    case PS_RECORD_NUMBER:
        ps_put_f64(at, x->number);
        return at + 8;
    case PS_RECORD_STRING:
        ps_put_u32(at, x->len);
        memcpy(at + 4, x->text, x->len);
        return at + 4 + x->len;
    default:
        return at;
    }
}

bool ps_records_are_sorted(const uint8_t *bytes, size_t n)
{
    ps_keyed before = {.at = NULL}, now;
    size_t at = 0;

    while (ps_record_next(bytes, n, &at, &now)) {
        if (before.at != NULL && ps_record_compare(&before, &now) >= 0) {
            return false;
        }
        before = now;
    }
    return at == n;
}
