/* SPDX-License-Identifier: Apache-2.0 */
/* pbvalue.c - reads one value of a protobuf message from JSON; see pbjson.h. */
#include "common/rpc/pbjson_impl.h"

#include "common/base/utf8.h"
#include "common/base/xalloc.h"
#include "common/rpc/pbfield.h"
#include "common/rpc/pbtext.h"

#include "google/protobuf/timestamp.pb-c.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool integer_in(const json_t *json, int64_t min, int64_t max)
{
    return json_is_integer(json) && json_integer_value(json) >= min &&
           json_integer_value(json) <= max;
}

static void read_int32(ps_pb_reader *r, int32_t *slot, const json_t *json)
{
    if (integer_in(json, INT32_MIN, INT32_MAX)) {
        *slot = (int32_t)json_integer_value(json);
    } else {
        ps_pb_violate_type(r, json, "a whole number of -2147483648 to 2147483647");
    }
}

static void read_uint32(ps_pb_reader *r, uint32_t *slot, const json_t *json)
{
    if (integer_in(json, 0, UINT32_MAX)) {
        *slot = (uint32_t)json_integer_value(json);
    } else {
        ps_pb_violate_type(r, json, "a whole number of 0 to 4294967295");
    }
}

static void read_int64(ps_pb_reader *r, int64_t *slot, const json_t *json)
{
    if (json_is_integer(json)) {
        *slot = json_integer_value(json);
    } else {
        ps_pb_violate_type(r, json,
                           "a whole number of -9223372036854775808 to 9223372036854775807");
    }
}

/* Parses a decimal of INT64_MAX + 1 to UINT64_MAX, which jansson's integers cannot hold. Returns
 * false if `text` is not one. */
static bool parse_large(const char *text, uint64_t *v)
{
    char *end;

    errno = 0;
    *v = strtoull(text, &end, 10);
    return text[0] >= '0' && text[0] <= '9' && *end == '\0' && errno == 0 && *v > INT64_MAX;
}

static void read_uint64(ps_pb_reader *r, uint64_t *slot, const json_t *json)
{
    uint64_t large;

    if (integer_in(json, 0, INT64_MAX)) {
        *slot = (uint64_t)json_integer_value(json);
    } else if (json_is_string(json) && parse_large(json_string_value(json), &large)) {
        *slot = large;
    } else {
        ps_pb_violate_type(r, json, "a whole number of 0 to 18446744073709551615");
    }
}

static bool parse_nonfinite(const char *text, double *v)
{
    if (strcmp(text, "NaN") == 0) {
        *v = (double)NAN;
    } else if (strcmp(text, "Infinity") == 0) {
        *v = (double)INFINITY;
    } else if (strcmp(text, "-Infinity") == 0) {
        *v = -(double)INFINITY;
    } else {
        return false;
    }
    return true;
}

static void read_double(ps_pb_reader *r, double *slot, const json_t *json)
{
    double v;

    if (json_is_number(json)) {
        *slot = json_number_value(json);
    } else if (json_is_string(json) && parse_nonfinite(json_string_value(json), &v)) {
        *slot = v;
    } else {
        ps_pb_violate_type(r, json, "a number");
    }
}

static void read_float(ps_pb_reader *r, float *slot, const json_t *json)
{
    size_t wrong = r->wrong;
    double v = 0;

    read_double(r, &v, json);
    if (r->wrong != wrong) {
        return;
    }
    if (isfinite(v) && fabs(v) > (double)FLT_MAX) {
        ps_pb_violate_type(r, json, "a number of -3.4028235e38 to 3.4028235e38");
    } else {
        *slot = (float)v;
    }
}

static void read_bool(ps_pb_reader *r, protobuf_c_boolean *slot, const json_t *json)
{
    if (json_is_boolean(json)) {
        *slot = json_is_true(json);
    } else {
        ps_pb_violate_type(r, json, "true or false");
    }
}

static void read_enum(ps_pb_reader *r, const ProtobufCEnumDescriptor *type, int *slot,
                      const json_t *json)
{
    const ProtobufCEnumValue *value = NULL;
    ps_strbuf wanted = {0};

    if (json_is_string(json)) {
        value = ps_pb_enum_find(type, json_string_value(json));
    } else if (integer_in(json, INT32_MIN, INT32_MAX)) {
        value = ps_pb_enum_value(type, (int)json_integer_value(json));
    }
    if (value != NULL) {
        *slot = value->value;
        return;
    }
    for (unsigned i = 0; i < type->n_values; i++) {
        ps_strbuf_printf(&wanted, "%s%s", i == 0 ? "one of " : ", ", type->values[i].name);
    }
    ps_pb_violate_type(r, json, ps_strbuf_text(&wanted));
    ps_strbuf_fini(&wanted);
}

static void read_string(ps_pb_reader *r, const ProtobufCFieldDescriptor *field, char **slot,
                        const json_t *json)
{
    const char *text = json_string_value(json); /* NULL if the value is not a string */

    if (text != NULL && strlen(text) == json_string_length(json) &&
        ps_utf8_is_valid(text, strlen(text))) {
        ps_pb_put_string(field, slot, ps_xstrdup(text));
    } else {
        ps_pb_violate_type(r, json, text == NULL ? "a string" : "UTF-8 text without NUL");
    }
}

static void read_bytes(ps_pb_reader *r, ProtobufCBinaryData *slot, const json_t *json)
{
    uint8_t *data;
    size_t len;

    if (json_is_string(json) && ps_pb_base64_parse(json_string_value(json), &data, &len)) {
        ps_pb_put_bytes(slot, data, len);
    } else {
        ps_pb_violate_type(r, json, "bytes in base64");
    }
}

static void read_time(ps_pb_reader *r, Google__Protobuf__Timestamp *time, const json_t *json)
{
    if (!json_is_string(json) ||
        !ps_pb_time_parse(json_string_value(json), &time->seconds, &time->nanos)) {
        ps_pb_violate_type(r, json, "a time as in \"2026-11-20T11:26:00Z\"");
    }
}

void ps_pb_read_value(ps_pb_reader *r, const ProtobufCFieldDescriptor *field, void *slot,
                      const json_t *json)
{
    switch (field->type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
        read_int32(r, slot, json);
        return;
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
        read_uint32(r, slot, json);
        return;
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
        read_int64(r, slot, json);
        return;
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        read_uint64(r, slot, json);
        return;
    case PROTOBUF_C_TYPE_FLOAT:
        read_float(r, slot, json);
        return;
    case PROTOBUF_C_TYPE_DOUBLE:
        read_double(r, slot, json);
        return;
    case PROTOBUF_C_TYPE_BOOL:
        read_bool(r, slot, json);
        return;
    case PROTOBUF_C_TYPE_ENUM:
        read_enum(r, field->descriptor, slot, json);
        return;
    case PROTOBUF_C_TYPE_STRING:
        read_string(r, field, slot, json);
        return;
    case PROTOBUF_C_TYPE_BYTES:
        read_bytes(r, slot, json);
        return;
    case PROTOBUF_C_TYPE_MESSAGE:
        if (ps_pb_is_timestamp(field)) {
            read_time(r, (Google__Protobuf__Timestamp *)ps_pb_message_in(field, slot), json);
        } else {
            ps_pb_read_message(r, ps_pb_message_in(field, slot), json);
        }
        return;
    }
    abort(); /* generated descriptors have no other type */
}
