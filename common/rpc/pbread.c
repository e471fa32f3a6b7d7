/* SPDX-License-Identifier: Apache-2.0 */
/* pbread.c - a protobuf message from JSON; see pbjson.h.
 *
 * The reader goes on after a wrong field, so that one answer names them all.
 */
#include "common/rpc/pbread.h"

#include "common/base/utf8.h"
#include "common/base/xalloc.h"
#include "common/rpc/pbfield.h"
#include "common/rpc/pbjson.h"
#include "common/rpc/pbtext.h"

#include "google/protobuf/timestamp.pb-c.h"

#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void ps_pb_reader_init(ps_pb_reader *r, const char *at, ps_error *error)
{
    *r = (ps_pb_reader){.error = error};
    ps_strbuf_puts(&r->path, at);
}

ps_status ps_pb_reader_fini(ps_pb_reader *r)
{
    ps_status st = ps_ok();

    ps_strbuf_fini(&r->path);
    if (r->wrong == 1) {
        st = ps_fail(PS_INVALID_ARGUMENT, "%s", r->first);
    } else if (r->wrong > 1) {
        st = ps_fail(PS_INVALID_ARGUMENT, "%zu fields are wrong; %s", r->wrong, r->first);
    }
    if (!ps_is_ok(&st) && ps_is_ok(&r->error->status)) {
        r->error->status = st;
    }
    return st;
}

void ps_pb_violate(ps_pb_reader *r, const char *fmt, ...)
{
    const char *path = ps_strbuf_text(&r->path);
    char text[sizeof r->error->violations[0].text];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    ps_error_violate(r->error, path, "%s", text);
    if (r->wrong++ == 0) {
        size_t n = (size_t)snprintf(r->first, sizeof r->first, "%.60s: ", path);

        snprintf(r->first + n, sizeof r->first - n, "%s", text);
    }
}

void ps_pb_enter_name(ps_pb_reader *r, const char *name)
{
    if (r->path.len > 0) {
        ps_strbuf_putc(&r->path, '.');
    }
    ps_strbuf_puts(&r->path, name);
}

void ps_pb_enter_index(ps_pb_reader *r, size_t i)
{
    ps_strbuf_printf(&r->path, "[%zu]", i);
}

/* "VALUE is not WANTED", with a value that is long cut. */
static void violate_type(ps_pb_reader *r, const json_t *json, const char *wanted)
{
    enum { SHOWN = 48 };
    char *text = json_dumps(json, JSON_ENCODE_ANY | JSON_COMPACT);
    const char *value = text == NULL ? "this" : text;

    ps_pb_violate(r, "%.*s%s is not %s", SHOWN, value, strlen(value) > SHOWN ? "..." : "", wanted);
    free(text);
}

/* --- values ---------------------------------------------------------------- */

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
        violate_type(r, json, "a whole number of -2147483648 to 2147483647");
    }
}

static void read_uint32(ps_pb_reader *r, uint32_t *slot, const json_t *json)
{
    if (integer_in(json, 0, UINT32_MAX)) {
        *slot = (uint32_t)json_integer_value(json);
    } else {
        violate_type(r, json, "a whole number of 0 to 4294967295");
    }
}

static void read_int64(ps_pb_reader *r, int64_t *slot, const json_t *json)
{
    if (json_is_integer(json)) {
        *slot = json_integer_value(json);
    } else {
        violate_type(r, json, "a whole number of -9223372036854775808 to 9223372036854775807");
    }
}

/* A decimal above INT64_MAX, which JSON integers cannot hold here. */
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
        violate_type(r, json, "a whole number of 0 to 18446744073709551615");
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
        violate_type(r, json, "a number");
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
        violate_type(r, json, "a number of -3.4028235e38 to 3.4028235e38");
    } else {
        *slot = (float)v;
    }
}

static void read_bool(ps_pb_reader *r, protobuf_c_boolean *slot, const json_t *json)
{
    if (json_is_boolean(json)) {
        *slot = json_is_true(json);
    } else {
        violate_type(r, json, "true or false");
    }
}

static void read_enum(ps_pb_reader *r, const ProtobufCEnumDescriptor *type, int *slot,
                      const json_t *json)
{
    const ProtobufCEnumValue *value = NULL;
    char wanted[128] = "one of";
    size_t n = strlen(wanted);

    if (json_is_string(json)) {
        value = ps_pb_enum_find(type, json_string_value(json));
    } else if (integer_in(json, INT32_MIN, INT32_MAX)) {
        value = ps_pb_enum_value(type, (int)json_integer_value(json));
    }
    if (value != NULL) {
        *slot = value->value;
        return;
    }
    for (unsigned i = 0; i < type->n_values && n < sizeof wanted; i++) {
        n += (size_t)snprintf(wanted + n, sizeof wanted - n, "%s %s", i == 0 ? "" : ",",
                              type->values[i].name);
    }
    violate_type(r, json, wanted);
}

static void read_string(ps_pb_reader *r, const ProtobufCFieldDescriptor *field, char **slot,
                        const json_t *json)
{
    const char *text = json_string_value(json); /* NULL: no string */

    if (text != NULL && strlen(text) == json_string_length(json) &&
        ps_utf8_is_valid(text, strlen(text))) {
        ps_pb_put_string(field, slot, ps_xstrdup(text));
    } else {
        violate_type(r, json, text == NULL ? "a string" : "UTF-8 text without NUL");
    }
}

static void read_bytes(ps_pb_reader *r, ProtobufCBinaryData *slot, const json_t *json)
{
    uint8_t *data;
    size_t len;

    if (json_is_string(json) && ps_pb_base64_parse(json_string_value(json), &data, &len)) {
        ps_pb_put_bytes(slot, data, len);
    } else {
        violate_type(r, json, "bytes in base64");
    }
}

static void read_time(ps_pb_reader *r, Google__Protobuf__Timestamp *time, const json_t *json)
{
    if (!json_is_string(json) ||
        !ps_pb_time_parse(json_string_value(json), &time->seconds, &time->nanos)) {
        violate_type(r, json, "a time as in \"2026-11-20T11:26:00Z\"");
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
    abort(); /* a descriptor is generated: it has no other type */
}

/* --- fields and messages --------------------------------------------------- */

/* Whether an earlier key of the object speaks of the same thing: the same
 * field under its other name, or another member of the same oneof. */
static const char *rival_key(const ProtobufCMessageDescriptor *type, json_t *object,
                             const char *key, const ProtobufCFieldDescriptor *field)
{
    const char *other;
    json_t *value;

    json_object_foreach(object, other, value)
    {
        const ProtobufCFieldDescriptor *f = ps_pb_field_find(type, other, strlen(other));

        if (strcmp(other, key) == 0) {
            return NULL;
        }
        if (f != NULL && !json_is_null(value) &&
            (f == field || ((field->flags & f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0 &&
                            f->quantifier_offset == field->quantifier_offset))) {
            return other;
        }
    }
    return NULL;
}

static void read_list(ps_pb_reader *r, ProtobufCMessage *message,
                      const ProtobufCFieldDescriptor *field, const json_t *json)
{
    size_t len = r->path.len;

    if (!json_is_array(json)) {
        violate_type(r, json, "a list");
        return;
    }
    ps_pb_clear(message, field);
    for (size_t i = 0; i < json_array_size(json); i++) {
        void *slot = ps_pb_append(message, field);

        if (field->type == PROTOBUF_C_TYPE_MESSAGE) {
            ps_pb_message_in(field, slot); /* an element is never NULL */
        }
        ps_pb_enter_index(r, i);
        ps_pb_read_value(r, field, slot, json_array_get(json, i));
        ps_strbuf_truncate(&r->path, len);
    }
}

/* Whether two entries of one map have the same key: text, or a number. */
static bool is_same_key(const ProtobufCMessage *a, const ProtobufCMessage *b)
{
    const ProtobufCFieldDescriptor *key = &a->descriptor->fields[0];

    return ps_pb_is_same(key, ps_pb_slot(a, key, 0), ps_pb_slot(b, key, 0));
}

ProtobufCMessage *ps_pb_read_key(ps_pb_reader *r, ProtobufCMessage *message,
                                 const ProtobufCFieldDescriptor *map, const char *key)
{
    const ProtobufCMessageDescriptor *type = map->descriptor;
    ProtobufCMessage *entry = ps_pb_create(type);
    size_t wrong = r->wrong;
    json_t *json = ps_pb_text_to_json(&type->fields[0], key);
    void *slot;

    ps_pb_read_value(r, &type->fields[0], ps_pb_slot(entry, &type->fields[0], 0), json);
    json_decref(json);
    if (r->wrong != wrong) {
        protobuf_c_message_free_unpacked(entry, NULL);
        return NULL;
    }
    for (size_t i = 0; i < ps_pb_count(message, map); i++) {
        ProtobufCMessage *old = *(ProtobufCMessage **)ps_pb_slot(message, map, i);

        if (is_same_key(old, entry)) {
            protobuf_c_message_free_unpacked(entry, NULL);
            return old;
        }
    }
    slot = ps_pb_append(message, map);
    *(ProtobufCMessage **)slot = entry;
    return entry;
}

static void read_map(ps_pb_reader *r, ProtobufCMessage *message,
                     const ProtobufCFieldDescriptor *map, const json_t *json)
{
    const ProtobufCMessageDescriptor *type = map->descriptor;
    size_t len = r->path.len;
    const char *key;
    json_t *value;

    if (!json_is_object(json)) {
        violate_type(r, json, "an object");
        return;
    }
    json_object_foreach((json_t *)(uintptr_t)json, key, value)
    {
        ProtobufCMessage *entry;

        ps_pb_enter_name(r, key);
        entry = ps_pb_read_key(r, message, map, key);
        if (entry != NULL) {
            ps_pb_read_value(r, &type->fields[1], ps_pb_select(entry, &type->fields[1]), value);
        }
        ps_strbuf_truncate(&r->path, len);
    }
}

void ps_pb_read_field(ps_pb_reader *r, ProtobufCMessage *message,
                      const ProtobufCFieldDescriptor *field, const json_t *json)
{
    if (ps_pb_is_map(field)) {
        read_map(r, message, field, json);
    } else if (ps_pb_is_repeated(field)) {
        read_list(r, message, field, json);
    } else {
        ps_pb_read_value(r, field, ps_pb_select(message, field), json);
    }
}

void ps_pb_violate_unknown(ps_pb_reader *r, const ProtobufCMessageDescriptor *type)
{
    ps_strbuf names = {0};

    for (unsigned i = 0; i < type->n_fields; i++) {
        ps_strbuf_printf(&names, "%s%s", i == 0 ? "" : ", ", type->fields[i].name);
    }
    ps_pb_violate(r, "no such field; %s has %s", type->short_name,
                  type->n_fields == 0 ? "none" : ps_strbuf_text(&names));
    ps_strbuf_fini(&names);
}

void ps_pb_read_message(ps_pb_reader *r, ProtobufCMessage *message, const json_t *json)
{
    const ProtobufCMessageDescriptor *type = message->descriptor;
    json_t *object = (json_t *)(uintptr_t)json; /* jansson's iterators have no const */
    size_t len = r->path.len;
    const char *key;
    json_t *value;

    if (!json_is_object(json)) {
        violate_type(r, json, "an object");
        return;
    }
    if (++r->depth > PS_PB_DEPTH_MAX) {
        ps_pb_violate(r, "is nested deeper than %d messages", PS_PB_DEPTH_MAX);
        r->depth--;
        return;
    }
    json_object_foreach(object, key, value)
    {
        const ProtobufCFieldDescriptor *field = ps_pb_field_find(type, key, strlen(key));
        const char *rival = field == NULL ? NULL : rival_key(type, object, key, field);

        ps_pb_enter_name(r, field == NULL ? key : field->name);
        if (field == NULL) {
            ps_pb_violate_unknown(r, type);
        } else if (json_is_null(value)) {
            /* left out */
        } else if (rival != NULL) {
            ps_pb_violate(r, "cannot be given together with '%s'", rival);
        } else {
            ps_pb_read_field(r, message, field, value);
        }
        ps_strbuf_truncate(&r->path, len);
    }
    r->depth--;
}

ps_status ps_pb_merge_json(ProtobufCMessage *message, const json_t *json, const char *at,
                           ps_error *error)
{
    ps_pb_reader r;

    ps_pb_reader_init(&r, at, error);
    ps_pb_read_message(&r, message, json);
    return ps_pb_reader_fini(&r);
}

ps_status ps_pb_from_json(const ProtobufCMessageDescriptor *type, const json_t *json,
                          const char *at, ps_error *error, ProtobufCMessage **out)
{
    ProtobufCMessage *message = ps_pb_create(type);
    ps_status st = ps_pb_merge_json(message, json, at, error);

    if (ps_is_ok(&st)) {
        *out = message;
    } else {
        protobuf_c_message_free_unpacked(message, NULL);
    }
    return st;
}
