/* SPDX-License-Identifier: Apache-2.0 */
/* pbread.c - reads protobuf messages, lists and maps from JSON; see pbjson.h.
 *
 * The reader continues after a wrong field, so that one answer names all of them.
 */
#include "common/rpc/pbjson_impl.h"

#include "common/base/nearest.h"
#include "common/base/shorten.h"
#include "common/rpc/pbfield.h"
#include "common/rpc/pbjson.h"

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
    ps_shorten_vprint(text, sizeof text, fmt, ap);
    va_end(ap);
    ps_error_violate(r->error, path, "%s", text);
    if (r->wrong++ == 0) {
        snprintf(r->first, sizeof r->first, "%s: %s", PS_SHORT(path, 96), text);
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

void ps_pb_violate_type(ps_pb_reader *r, const json_t *json, const char *wanted)
{
    char *text = json_dumps(json, JSON_ENCODE_ANY | JSON_COMPACT);
    const char *value = text == NULL ? "this" : text;

    ps_pb_violate(r, "%s is not %s", PS_SHORT(value, 48), wanted);
    free(text);
}

/* Returns an earlier key of `object` that conflicts with `key`, or NULL. Two keys conflict if
 * they name the same field or two members of one oneof. */
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
        ps_pb_violate_type(r, json, "a list");
        return;
    }
    ps_pb_clear(message, field);
    for (size_t i = 0; i < json_array_size(json); i++) {
        void *slot = ps_pb_append(message, field);

        if (field->type == PROTOBUF_C_TYPE_MESSAGE) {
            ps_pb_message_in(field, slot); /* an element must not be NULL */
        }
        ps_pb_enter_index(r, i);
        ps_pb_read_value(r, field, slot, json_array_get(json, i));
        ps_strbuf_truncate(&r->path, len);
    }
}

/* Returns whether two entries of one map have the same key, text or number. */
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
    if (type->fields[1].type == PROTOBUF_C_TYPE_MESSAGE) {
        ps_pb_message_in(&type->fields[1], ps_pb_slot(entry, &type->fields[1], 0));
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
        ps_pb_violate_type(r, json, "an object");
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

enum { FIELDS_COMPARED = 64 };

void ps_pb_violate_unknown(ps_pb_reader *r, const ProtobufCMessageDescriptor *type,
                           const char *name)
{
    ps_strbuf names = {0};
    const char *all[FIELDS_COMPARED], *meant;
    size_t count = 0;

    for (unsigned i = 0; i < type->n_fields; i++) {
        ps_strbuf_printf(&names, "%s%s", i == 0 ? "" : ", ", type->fields[i].name);
        if (count < FIELDS_COMPARED) {
            all[count++] = type->fields[i].name;
        }
    }
    meant = ps_nearest(name, all, count);
    ps_pb_violate(r, "no such field%s%s%s; %s has %s", meant != NULL ? "; did you mean \"" : "",
                  meant != NULL ? meant : "", meant != NULL ? "\"?" : "", type->short_name,
                  type->n_fields == 0 ? "none" : ps_strbuf_text(&names));
    ps_strbuf_fini(&names);
}

void ps_pb_read_message(ps_pb_reader *r, ProtobufCMessage *message, const json_t *json)
{
    const ProtobufCMessageDescriptor *type = message->descriptor;
    json_t *object = (json_t *)(uintptr_t)json; /* jansson's iterators take no const */
    size_t len = r->path.len;
    const char *key;
    json_t *value;

    if (!json_is_object(json)) {
        ps_pb_violate_type(r, json, "an object");
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
            ps_pb_violate_unknown(r, type, key);
        } else if (json_is_null(value)) {
            /* null means that the field is not given */
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
