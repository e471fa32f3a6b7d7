/* SPDX-License-Identifier: Apache-2.0 */
/* pbjson.c - writes a protobuf message as JSON; see pbjson.h. */
#include "common/rpc/pbjson.h"

#include "common/base/strbuf.h"
#include "common/base/utf8.h"
#include "common/rpc/pbfield.h"
#include "common/rpc/pbtext.h"

#include "google/protobuf/timestamp.pb-c.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static json_t *message_to_json(const ProtobufCMessage *message, unsigned flags, unsigned depth);

/* Appends `text` with U+FFFD for each byte that is not UTF-8. */
static void put_utf8(ps_strbuf *out, const char *text)
{
    size_t n = strlen(text);

    while (n > 0) {
        size_t len = ps_utf8_length(text, n);

        if (len == 0) {
            ps_strbuf_puts(out, "\xef\xbf\xbd");
            len = 1;
        } else {
            ps_strbuf_append(out, text, len);
        }
        text += len;
        n -= len;
    }
}

static json_t *string_to_json(const char *text)
{
    /* json_string returns NULL if the text is not UTF-8 */
    json_t *json = json_string(text == NULL ? "" : text);
    ps_strbuf clean = {0};

    if (json == NULL) {
        put_utf8(&clean, text);
        json = json_string(ps_strbuf_text(&clean));
        ps_strbuf_fini(&clean);
    }
    return json;
}

static json_t *unsigned_to_json(uint64_t v)
{
    return v <= INT64_MAX ? json_integer((json_int_t)v) : json_sprintf("%" PRIu64, v);
}

static json_t *double_to_json(double v)
{
    if (isnan(v)) {
        return json_string("NaN");
    }
    if (isinf(v)) {
        return json_string(v > 0 ? "Infinity" : "-Infinity");
    }
    return json_real(v);
}

static json_t *enum_to_json(const ProtobufCEnumDescriptor *type, int v)
{
    const ProtobufCEnumValue *value = ps_pb_enum_value(type, v);

    return value != NULL ? json_string(value->name) : json_integer(v);
}

static json_t *bytes_to_json(const ProtobufCBinaryData *bytes)
{
    char *text = ps_pb_base64_print(bytes->data, bytes->len);
    json_t *json = json_string(text);

    free(text);
    return json;
}

static json_t *time_to_json(const Google__Protobuf__Timestamp *time)
{
    char text[PS_PB_TIME_BYTES];

    return ps_pb_time_print(time->seconds, time->nanos, text) ? json_string(text) : json_null();
}

static json_t *value_to_json(const ProtobufCFieldDescriptor *field, const void *slot,
                             unsigned flags, unsigned depth)
{
    switch (field->type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
        return json_integer(*(const int32_t *)slot);
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
        return json_integer(*(const uint32_t *)slot);
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
        return json_integer(*(const int64_t *)slot);
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        return unsigned_to_json(*(const uint64_t *)slot);
    case PROTOBUF_C_TYPE_FLOAT:
        return double_to_json(ps_pb_float_widen(*(const float *)slot));
    case PROTOBUF_C_TYPE_DOUBLE:
        return double_to_json(*(const double *)slot);
    case PROTOBUF_C_TYPE_BOOL:
        return json_boolean(*(const protobuf_c_boolean *)slot);
    case PROTOBUF_C_TYPE_ENUM:
        return enum_to_json(field->descriptor, *(const int *)slot);
    case PROTOBUF_C_TYPE_STRING:
        return string_to_json(*(char *const *)slot);
    case PROTOBUF_C_TYPE_BYTES:
        return bytes_to_json(slot);
    case PROTOBUF_C_TYPE_MESSAGE:
        if (ps_pb_is_timestamp(field)) {
            return time_to_json(*(Google__Protobuf__Timestamp *const *)slot);
        }
        return message_to_json(*(ProtobufCMessage *const *)slot, flags, depth + 1);
    }
    abort(); /* generated descriptors have no other type */
}

static void put_entry(json_t *object, const ProtobufCMessage *entry, unsigned flags, unsigned depth)
{
    const ProtobufCFieldDescriptor *fields = entry->descriptor->fields;
    json_t *key = value_to_json(&fields[0], ps_pb_slot(entry, &fields[0], 0), flags, depth);
    json_t *value = ps_pb_count(entry, &fields[1]) == 0
                        ? json_object() /* a value that is an empty message may be missing in the
                                         * entry */
                        : value_to_json(&fields[1], ps_pb_slot(entry, &fields[1], 0), flags, depth);

    if (json_is_string(key)) {
        json_object_set_new(object, json_string_value(key), value);
    } else {
        char *text = json_dumps(key, JSON_ENCODE_ANY);

        json_object_set_new(object, text, value);
        free(text);
    }
    json_decref(key);
}

static json_t *repeated_to_json(const ProtobufCMessage *message,
                                const ProtobufCFieldDescriptor *field, unsigned flags,
                                unsigned depth)
{
    bool is_map = ps_pb_is_map(field);
    json_t *json = is_map ? json_object() : json_array();
    size_t n = ps_pb_count(message, field);

    for (size_t i = 0; i < n; i++) {
        const void *slot = ps_pb_slot(message, field, i);

        if (is_map) {
            put_entry(json, *(ProtobufCMessage *const *)slot, flags, depth + 1);
        } else {
            json_array_append_new(json, value_to_json(field, slot, flags, depth));
        }
    }
    return json;
}

/* Returns the field as JSON. Returns NULL if it is not set. Without PS_PB_DEFAULTS in `flags`, also
 * if it is an empty list, or has its default value and is no member of a oneof. */
static json_t *field_to_json(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field,
                             unsigned flags, unsigned depth)
{
    size_t n = ps_pb_count(message, field);
    const void *slot;

    if (ps_pb_is_repeated(field)) {
        return n > 0 || (flags & PS_PB_DEFAULTS) != 0
                   ? repeated_to_json(message, field, flags, depth)
                   : NULL;
    }
    if (n == 0) {
        return NULL;
    }
    slot = ps_pb_slot(message, field, 0);
    if ((field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) == 0 && (flags & PS_PB_DEFAULTS) == 0 &&
        ps_pb_is_default(field, slot)) {
        return NULL;
    }
    return value_to_json(field, slot, flags, depth);
}

static json_t *message_to_json(const ProtobufCMessage *message, unsigned flags, unsigned depth)
{
    const ProtobufCMessageDescriptor *type = message->descriptor;
    json_t *object;

    if (depth > PS_PB_DEPTH_MAX) {
        return json_null();
    }
    object = json_object();
    for (unsigned i = 0; i < type->n_fields; i++) {
        json_t *value = field_to_json(message, &type->fields[i], flags, depth);

        if (value != NULL) {
            json_object_set_new(object, type->fields[i].name, value);
        }
    }
    return object;
}

json_t *ps_pb_to_json(const ProtobufCMessage *message, unsigned flags)
{
    return message_to_json(message, flags, 1);
}
