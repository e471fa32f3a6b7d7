/* SPDX-License-Identifier: Apache-2.0 */
/* wire_check.c - checks for what protobuf-c's unpacking accepts and psgd refuses; see
 * ps_wire_check.
 *
 * protobuf-c does not check that a string is UTF-8 and has no NUL. Both have to be checked on the
 * wire, because unpacking loses the length of a string.
 */
#include "common/base/utf8.h"
#include "common/rpc/wire.h"

#include <string.h>

typedef struct span {
    const uint8_t *at, *end;
} span;

static bool take_varint(span *s, uint64_t *out)
{
    uint64_t v = 0;

    for (unsigned shift = 0; shift < 64; shift += 7) {
        uint8_t byte;

        if (s->at == s->end) {
            return false;
        }
        byte = *s->at++;
        v |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *out = v;
            return true;
        }
    }
    return false;
}

static bool take(span *s, uint64_t n, span *out)
{
    if (n > (uint64_t)(s->end - s->at)) {
        return false;
    }
    *out = (span){s->at, s->at + n};
    s->at += n;
    return true;
}

typedef enum verdict { FINE, MALFORMED, BAD_STRING, TOO_DEEP } verdict;

static verdict check_string(span text)
{
    size_t n = (size_t)(text.end - text.at);

    if (n != 0 && (memchr(text.at, 0, n) != NULL || !ps_utf8_is_valid((const char *)text.at, n))) {
        return BAD_STRING;
    }
    return FINE;
}

static verdict check_message(const ProtobufCMessageDescriptor *type, span s, unsigned depth,
                             const char **where);

static verdict check_bytes_field(const ProtobufCFieldDescriptor *field, span value, unsigned depth,
                                 const char **where)
{
    if (field == NULL) {
        return FINE; /* unknown: the field is of a newer schema, so nothing is checked */
    }
    if (field->type == PROTOBUF_C_TYPE_STRING) {
        *where = field->name;
        return check_string(value);
    }
    if (field->type == PROTOBUF_C_TYPE_MESSAGE) {
        return check_message(field->descriptor, value, depth + 1, where);
    }
    return FINE;
}

static verdict check_message(const ProtobufCMessageDescriptor *type, span s, unsigned depth,
                             const char **where)
{
    if (depth > PS_WIRE_DEPTH_MAX) {
        return TOO_DEEP;
    }
    while (s.at != s.end) {
        verdict v = FINE;
        uint64_t key, n;
        span value;

        if (!take_varint(&s, &key) || key >> 3 == 0 || key >> 3 > UINT32_MAX >> 3) {
            return MALFORMED;
        }
        switch (key & 7) {
        case PROTOBUF_C_WIRE_TYPE_VARINT:
            if (!take_varint(&s, &n)) {
                return MALFORMED;
            }
            break;
        case PROTOBUF_C_WIRE_TYPE_64BIT:
        case PROTOBUF_C_WIRE_TYPE_32BIT:
            if (!take(&s, (key & 7) == PROTOBUF_C_WIRE_TYPE_64BIT ? 8 : 4, &value)) {
                return MALFORMED;
            }
            break;
        case PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED:
            if (!take_varint(&s, &n) || !take(&s, n, &value)) {
                return MALFORMED;
            }
            v = check_bytes_field(
                protobuf_c_message_descriptor_get_field(type, (unsigned)(key >> 3)), value, depth,
                where);
            break;
        default: /* groups exist in proto2 only */
            return MALFORMED;
        }
        if (v != FINE) {
            return v;
        }
    }
    return FINE;
}

ps_status ps_wire_check(const ProtobufCMessageDescriptor *type, const uint8_t *bytes, size_t n)
{
    const char *where = "";

    switch (check_message(type, (span){bytes, bytes + n}, 0, &where)) {
    case FINE:
        break;
    case MALFORMED:
        return ps_fail(PS_INVALID_ARGUMENT, "%s: malformed message", type->name);
    case BAD_STRING:
        return ps_fail(PS_INVALID_ARGUMENT, "%s: the string '%s' is not UTF-8 or contains a NUL",
                       type->name, where);
    case TOO_DEEP:
        return ps_fail(PS_INVALID_ARGUMENT, "%s: messages nested deeper than %d", type->name,
                       PS_WIRE_DEPTH_MAX);
    }
    return ps_ok();
}
