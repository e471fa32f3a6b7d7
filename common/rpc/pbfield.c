/* SPDX-License-Identifier: Apache-2.0 */
/* pbfield.c - see pbfield.h. */
#include "common/rpc/pbfield.h"

#include "common/base/xalloc.h"

#include "google/protobuf/timestamp.pb-c.h"

#include <assert.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static void *member(const ProtobufCMessage *message, unsigned offset)
{
    return (char *)(uintptr_t)message + offset;
}

static bool is_in_oneof(const ProtobufCFieldDescriptor *field)
{
    return (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0;
}

ProtobufCMessage *ps_pb_create(const ProtobufCMessageDescriptor *type)
{
    ProtobufCMessage *message = ps_xmalloc(type->sizeof_message);

    protobuf_c_message_init(type, message);
    return message;
}

/* Returns whether `name` is the camel case of `snake`, as "blockSize" is of "block_size". */
static bool is_camel_of(const char *snake, const char *name, size_t len)
{
    size_t i = 0;

    for (const char *s = snake; *s != '\0'; s++, i++) {
        char want = *s;

        if (want == '_') {
            s++;
            want = (char)toupper((unsigned char)*s);
        }
        if (i >= len || name[i] != want) {
            return false;
        }
    }
    return i == len;
}

const ProtobufCFieldDescriptor *ps_pb_field_find(const ProtobufCMessageDescriptor *type,
                                                 const char *name, size_t len)
{
    for (unsigned i = 0; i < type->n_fields; i++) {
        const char *own = type->fields[i].name;

        if ((strlen(own) == len && memcmp(own, name, len) == 0) || is_camel_of(own, name, len)) {
            return &type->fields[i];
        }
    }
    return NULL;
}

bool ps_pb_is_repeated(const ProtobufCFieldDescriptor *field)
{
    return field->label == PROTOBUF_C_LABEL_REPEATED;
}

bool ps_pb_is_map(const ProtobufCFieldDescriptor *field)
{
    const ProtobufCMessageDescriptor *entry = field->descriptor;
    size_t len;

    if (!ps_pb_is_repeated(field) || field->type != PROTOBUF_C_TYPE_MESSAGE) {
        return false;
    }
    len = strlen(entry->short_name);
    return len > 5 && strcmp(entry->short_name + len - 5, "Entry") == 0 && entry->n_fields == 2 &&
           entry->fields[0].id == 1 && strcmp(entry->fields[0].name, "key") == 0 &&
           entry->fields[1].id == 2 && strcmp(entry->fields[1].name, "value") == 0;
}

bool ps_pb_is_timestamp(const ProtobufCFieldDescriptor *field)
{
    return field->type == PROTOBUF_C_TYPE_MESSAGE &&
           field->descriptor == &google__protobuf__timestamp__descriptor;
}

static size_t size_of_value(ProtobufCType type)
{
    switch (type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
        return sizeof(uint32_t);
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        return sizeof(uint64_t);
    case PROTOBUF_C_TYPE_FLOAT:
        return sizeof(float);
    case PROTOBUF_C_TYPE_DOUBLE:
        return sizeof(double);
    case PROTOBUF_C_TYPE_BOOL:
        return sizeof(protobuf_c_boolean);
    case PROTOBUF_C_TYPE_ENUM:
        return sizeof(int);
    case PROTOBUF_C_TYPE_STRING:
        return sizeof(char *);
    case PROTOBUF_C_TYPE_BYTES:
        return sizeof(ProtobufCBinaryData);
    case PROTOBUF_C_TYPE_MESSAGE:
        return sizeof(ProtobufCMessage *);
    }
    abort(); /* generated descriptors have no other type */
}

size_t ps_pb_count(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
    if (ps_pb_is_repeated(field)) {
        return *(size_t *)member(message, field->quantifier_offset);
    }
    if (is_in_oneof(field) && *(uint32_t *)member(message, field->quantifier_offset) != field->id) {
        return 0;
    }
    if (field->type == PROTOBUF_C_TYPE_MESSAGE) {
        return *(ProtobufCMessage **)member(message, field->offset) != NULL;
    }
    return 1;
}

void *ps_pb_slot(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field, size_t i)
{
    void *at = member(message, field->offset);

    if (!ps_pb_is_repeated(field)) {
        assert(i == 0);
        return at;
    }
    return *(char **)at + i * size_of_value(field->type);
}

bool ps_pb_is_default(const ProtobufCFieldDescriptor *field, const void *slot)
{
    static const char zeros[sizeof(ProtobufCBinaryData)];

    switch (field->type) {
    case PROTOBUF_C_TYPE_STRING: {
        const char *text = *(char *const *)slot;

        return text == NULL || *text == '\0';
    }
    case PROTOBUF_C_TYPE_BYTES:
        return ((const ProtobufCBinaryData *)slot)->len == 0;
    default:
        /* compares bits, not values: -0.0 is no default, and is sent */
        return memcmp(slot, zeros, size_of_value(field->type)) == 0;
    }
}

bool ps_pb_is_same(const ProtobufCFieldDescriptor *field, const void *a, const void *b)
{
    assert(field->type != PROTOBUF_C_TYPE_MESSAGE && field->type != PROTOBUF_C_TYPE_BYTES);
    if (field->type == PROTOBUF_C_TYPE_STRING) {
        return strcmp(*(char *const *)a, *(char *const *)b) == 0;
    }
    return memcmp(a, b, size_of_value(field->type)) == 0;
}

/* Frees the memory that the slot owns and sets the slot to the value of a field that was not set.
 */
static void reset(const ProtobufCFieldDescriptor *field, void *slot)
{
    switch (field->type) {
    case PROTOBUF_C_TYPE_STRING:
        ps_pb_put_string(field, slot,
                         ps_pb_is_repeated(field) ? NULL : (char *)(uintptr_t)field->default_value);
        break;
    case PROTOBUF_C_TYPE_BYTES:
        ps_pb_put_bytes(slot, NULL, 0);
        break;
    case PROTOBUF_C_TYPE_MESSAGE: {
        ProtobufCMessage **message = slot;

        protobuf_c_message_free_unpacked(*message, NULL);
        *message = NULL;
        break;
    }
    default:
        memset(slot, 0, size_of_value(field->type));
    }
}

void ps_pb_clear(ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
    void *at = member(message, field->offset);

    if (ps_pb_is_repeated(field)) {
        size_t *n = member(message, field->quantifier_offset);

        for (size_t i = 0; i < *n; i++) {
            reset(field, ps_pb_slot(message, field, i));
        }
        free(*(void **)at);
        *(void **)at = NULL;
        *n = 0;
    } else if (ps_pb_count(message, field) != 0) {
        reset(field, at);
        if (is_in_oneof(field)) {
            memset(at, 0, size_of_value(field->type));
            *(uint32_t *)member(message, field->quantifier_offset) = 0;
        }
    }
}

void *ps_pb_select(ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
    void *at = member(message, field->offset);

    assert(!ps_pb_is_repeated(field));
    if (is_in_oneof(field) && ps_pb_count(message, field) == 0) {
        const ProtobufCMessageDescriptor *type = message->descriptor;

        for (unsigned i = 0; i < type->n_fields; i++) {
            if (is_in_oneof(&type->fields[i]) &&
                type->fields[i].quantifier_offset == field->quantifier_offset) {
                ps_pb_clear(message, &type->fields[i]);
            }
        }
        memset(at, 0, size_of_value(field->type));
        *(uint32_t *)member(message, field->quantifier_offset) = field->id;
    }
    return at;
}

void *ps_pb_append(ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
    size_t *n = member(message, field->quantifier_offset);
    void **values = member(message, field->offset);
    size_t size = size_of_value(field->type);

    /* Grows the list by one element only: the struct has no room for a capacity, and protobuf-c
     * allocates exactly n elements when it unpacks. Lists that people write are short. */
    *values = ps_xrealloc(*values, (*n + 1) * size);
    memset((char *)*values + *n * size, 0, size);
    ++*n;
    return ps_pb_slot(message, field, *n - 1);
}

void ps_pb_put_string(const ProtobufCFieldDescriptor *field, void *slot, char *text)
{
    char **at = slot;

    if (*at != field->default_value) {
        free(*at);
    }
    *at = text;
}

void ps_pb_put_bytes(void *slot, uint8_t *data, size_t len)
{
    ProtobufCBinaryData *bytes = slot;

    free(bytes->data);
    bytes->data = data;
    bytes->len = len;
}

ProtobufCMessage *ps_pb_message_in(const ProtobufCFieldDescriptor *field, void *slot)
{
    ProtobufCMessage **message = slot;

    if (*message == NULL) {
        *message = ps_pb_create(field->descriptor);
    }
    return *message;
}
