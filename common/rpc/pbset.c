/* SPDX-License-Identifier: Apache-2.0 */
/* pbset.c - sets one field of a protobuf message from text; see pbjson.h.
 *
 * Text becomes the JSON value that the field wants and then goes through the reader, so that the
 * same code checks flags and files.
 */
#include "common/rpc/pbjson.h"

#include "common/base/shorten.h"
#include "common/base/xalloc.h"
#include "common/rpc/pbfield.h"
#include "common/rpc/pbjson_impl.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* --- text to JSON ---------------------------------------------------------- */

static json_t *integer_of(const char *text)
{
    long long v;
    char *end;

    errno = 0;
    v = strtoll(text, &end, 10);
    /* a number above INT64_MAX stays a string, which the reader of uint64 accepts */
    return end != text && *end == '\0' && errno == 0 ? json_integer(v) : json_string_nocheck(text);
}

static json_t *real_of(const char *text)
{
    char *end;
    double v = strtod(text, &end);

    return end != text && *end == '\0' && isfinite(v) ? json_real(v) : json_string_nocheck(text);
}

static json_t *boolean_of(const char *text)
{
    if (strcasecmp(text, "true") == 0 || strcmp(text, "1") == 0) {
        return json_true();
    }
    if (strcasecmp(text, "false") == 0 || strcmp(text, "0") == 0) {
        return json_false();
    }
    return json_string_nocheck(text);
}

json_t *ps_pb_text_to_json(const ProtobufCFieldDescriptor *field, const char *text)
{
    switch (field->type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        return integer_of(text);
    case PROTOBUF_C_TYPE_FLOAT:
    case PROTOBUF_C_TYPE_DOUBLE:
        return real_of(text);
    case PROTOBUF_C_TYPE_BOOL:
        return boolean_of(text);
    case PROTOBUF_C_TYPE_ENUM:
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
    case PROTOBUF_C_TYPE_MESSAGE:
        return json_string_nocheck(text);
    }
    abort(); /* generated descriptors have no other type */
}

/* Returns "128, 64" as a list of the field's values; "" is the empty list. */
static json_t *list_of(const ProtobufCFieldDescriptor *field, const char *text)
{
    json_t *list = json_array();

    while (*text != '\0') {
        size_t n = strcspn(text, ",");
        char *item;

        while (n > 0 && isspace((unsigned char)*text)) {
            text++;
            n--;
        }
        item = ps_xstrndup(text, n);
        json_array_append_new(list, ps_pb_text_to_json(field, item));
        free(item);
        text += n;
        text += *text == ',';
    }
    return list;
}

/* Sets the field from `text`: a plain value; a list of plain values, as JSON if it begins with '[';
 * or JSON for a message, a list of messages or a map. */
static void set_field(ps_pb_reader *r, ProtobufCMessage *message,
                      const ProtobufCFieldDescriptor *field, const char *text)
{
    bool is_plain = field->type != PROTOBUF_C_TYPE_MESSAGE || ps_pb_is_timestamp(field);
    json_error_t error;
    json_t *json;

    if (is_plain && !ps_pb_is_repeated(field)) {
        json = ps_pb_text_to_json(field, text);
    } else if (is_plain && text[0] != '[') {
        json = list_of(field, text);
    } else {
        json = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    }
    if (json == NULL) {
        ps_pb_violate(r, "'%s' is no JSON (%s)", PS_SHORT(text, 40), error.text);
        return;
    }
    if (field->type == PROTOBUF_C_TYPE_MESSAGE) {
        ps_pb_clear(message, field); /* a value for the whole field replaces what the field has */
    }
    ps_pb_read_field(r, message, field, json);
    json_decref(json);
}

/* --- paths ----------------------------------------------------------------- */

/* Takes ".key" or "[key]" off the path and stores a copy of the key in *key, which the caller
 * frees. A key in brackets may have dots. With `to_end` the key behind a dot is all that is left of
 * the path. Returns false, after a violation, if there is no key. */
static bool take_part(ps_pb_reader *r, const char **path, bool to_end, char **key)
{
    const char *start = *path + 1;
    size_t n;

    if (**path == '[') {
        n = strcspn(start, "]");
        *path = start + n;
        if (**path == ']') {
            ++*path;
        } else {
            n = 0;
        }
    } else {
        n = to_end ? strlen(start) : strcspn(start, ".[");
        *path = start + n;
    }
    if (n == 0) {
        ps_pb_violate(r, "a part of the path is missing after it");
        return false;
    }
    *key = ps_xstrndup(start, n);
    return true;
}

static void set_in_message(ps_pb_reader *r, ProtobufCMessage *message, const char *path,
                           const char *text);

/* Sets `slot`, one message, an element of a list or the value of a map, from `text`. If `path` goes
 * on, sets a field within it instead. */
static void set_slot(ps_pb_reader *r, const ProtobufCFieldDescriptor *field, void *slot,
                     const char *path, const char *text)
{
    json_t *json;

    if (*path == '.' && field->type == PROTOBUF_C_TYPE_MESSAGE && !ps_pb_is_timestamp(field)) {
        set_in_message(r, ps_pb_message_in(field, slot), path + 1, text);
    } else if (*path != '\0') {
        ps_pb_violate(r, "has no part '%s'", PS_SHORT(path, 40));
    } else if (field->type == PROTOBUF_C_TYPE_MESSAGE && !ps_pb_is_timestamp(field)) {
        json_error_t error;

        json = json_loads(text, JSON_REJECT_DUPLICATES, &error);
        if (json == NULL) {
            ps_pb_violate(r, "'%s' is no JSON (%s)", PS_SHORT(text, 40), error.text);
            return;
        }
        protobuf_c_message_free_unpacked(*(ProtobufCMessage **)slot, NULL);
        *(ProtobufCMessage **)slot = ps_pb_create(field->descriptor);
        ps_pb_read_value(r, field, slot, json);
        json_decref(json);
    } else {
        json = ps_pb_text_to_json(field, text);
        ps_pb_read_value(r, field, slot, json);
        json_decref(json);
    }
}

static void set_in_map(ps_pb_reader *r, ProtobufCMessage *message,
                       const ProtobufCFieldDescriptor *map, const char *path, const char *text)
{
    const ProtobufCMessageDescriptor *type = map->descriptor;
    const ProtobufCFieldDescriptor *value = &type->fields[1];
    ProtobufCMessage *entry;
    char *key;

    if (!take_part(r, &path, value->type != PROTOBUF_C_TYPE_MESSAGE, &key)) {
        return;
    }
    ps_pb_enter_name(r, key);
    entry = ps_pb_read_key(r, message, map, key);
    if (entry != NULL) {
        set_slot(r, value, ps_pb_select(entry, value), path, text);
    }
    free(key);
}

static void set_in_list(ps_pb_reader *r, ProtobufCMessage *message,
                        const ProtobufCFieldDescriptor *field, const char *path, const char *text)
{
    size_t n = ps_pb_count(message, field);
    unsigned long i;
    char *key, *end;
    bool is_index;

    if (!take_part(r, &path, false, &key)) {
        return;
    }
    errno = 0;
    i = strtoul(key, &end, 10);
    is_index = isdigit((unsigned char)key[0]) && *end == '\0' && errno == 0 && i <= n;
    if (!is_index) {
        ps_pb_violate(r, "'%s' is no index of 0 to %zu", PS_SHORT(key, 40), n);
    }
    free(key);
    if (!is_index) {
        return;
    }
    ps_pb_enter_index(r, i);
    if (i == n) {
        void *slot = ps_pb_append(message, field);

        if (field->type == PROTOBUF_C_TYPE_MESSAGE) {
            ps_pb_message_in(field, slot); /* an element must not be NULL */
        }
    }
    set_slot(r, field, ps_pb_slot(message, field, i), path, text);
}

static void set_in_message(ps_pb_reader *r, ProtobufCMessage *message, const char *path,
                           const char *text)
{
    const ProtobufCMessageDescriptor *type = message->descriptor;
    size_t n = strcspn(path, ".[");
    const ProtobufCFieldDescriptor *field = ps_pb_field_find(type, path, n);
    char *name = ps_xstrndup(path, n);

    ps_pb_enter_name(r, field == NULL ? name : field->name);
    path += n;
    if (field == NULL) {
        ps_pb_violate_unknown(r, type, name);
    } else if (++r->depth > PS_PB_DEPTH_MAX) {
        ps_pb_violate(r, "is nested deeper than %d messages", PS_PB_DEPTH_MAX);
    } else if (*path == '\0') {
        set_field(r, message, field, text);
    } else if (ps_pb_is_map(field)) {
        set_in_map(r, message, field, path, text);
    } else if (ps_pb_is_repeated(field)) {
        set_in_list(r, message, field, path, text);
    } else {
        set_slot(r, field, ps_pb_select(message, field), path, text);
    }
    free(name);
}

ps_status ps_pb_set(ProtobufCMessage *message, const char *path, const char *text, ps_error *error)
{
    ps_pb_reader r;

    ps_pb_reader_init(&r, "", error);
    set_in_message(&r, message, path, text);
    return ps_pb_reader_fini(&r);
}
