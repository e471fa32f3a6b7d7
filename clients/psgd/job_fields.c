/* SPDX-License-Identifier: Apache-2.0 */
/* job_fields.c - see job_fields.h. The fields are those of the message JobSpec. */
#include "clients/psgd/job_fields.h"

#include "clients/psgd/text_table.h"

#include "common/base/strbuf.h"
#include "common/rpc/pbfield.h"

#include "psgd/v1/spec.pb-c.h"

#include <stdio.h>

enum { DEPTH_MAX = 6 };

typedef void (*visit)(void *arg, const char *path, const char *type);

/* Returns the name of the type of value that a user writes for the field, such as "text". */
static const char *type_of(const ProtobufCFieldDescriptor *field)
{
    switch (field->type) {
    case PROTOBUF_C_TYPE_STRING:
        return "text";
    case PROTOBUF_C_TYPE_BOOL:
        return "true or false";
    case PROTOBUF_C_TYPE_FLOAT:
    case PROTOBUF_C_TYPE_DOUBLE:
        return "number";
    case PROTOBUF_C_TYPE_ENUM:
        return ((const ProtobufCEnumDescriptor *)field->descriptor)->short_name;
    case PROTOBUF_C_TYPE_MESSAGE:
        return ((const ProtobufCMessageDescriptor *)field->descriptor)->short_name;
    case PROTOBUF_C_TYPE_BYTES:
        return "bytes";
    default:
        return "whole number";
    }
}

/* Calls fn for each field of `type`. For a field that is one message, calls it for the fields of
 * that message instead, down to DEPTH_MAX. *path leads to `type`, and is unchanged at the end.
 * Lists and maps are not entered, because a path cannot say which element is meant: fn is called
 * for the whole list or map. */
static void walk(const ProtobufCMessageDescriptor *type, ps_strbuf *path, int depth, visit fn,
                 void *arg)
{
    size_t len = path->len;

    for (unsigned i = 0; i < type->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &type->fields[i];
        const char *end = ps_pb_is_map(field) ? "{}" : ps_pb_is_repeated(field) ? "[]" : "";

        ps_strbuf_printf(path, "%s%s%s", len > 0 ? "." : "", field->name, end);
        if (field->type == PROTOBUF_C_TYPE_MESSAGE && end[0] == '\0' && depth < DEPTH_MAX) {
            walk(field->descriptor, path, depth + 1, fn, arg);
        } else {
            fn(arg, ps_strbuf_text(path), type_of(field));
        }
        path->len = len;
    }
}

static void walk_all(visit fn, void *arg)
{
    ps_strbuf path = {0};

    walk(&psgd__v1__job_spec__descriptor, &path, 0, fn, arg);
    ps_strbuf_fini(&path);
}

static void add_row(void *arg, const char *path, const char *type)
{
    ps_text_table_add(arg, path);
    ps_text_table_add(arg, type);
}

void ps_job_fields_show(void)
{
    ps_text_table table = {.n_columns = 2};

    add_row(&table, "FIELD", "VALUE");
    walk_all(add_row, &table);
    ps_text_table_print(&table);
    ps_text_table_fini(&table);
}

static void add_item(void *arg, const char *path, const char *type)
{
    json_array_append_new(arg, json_pack("{s:s, s:s}", "path", path, "type", type));
}

json_t *ps_job_fields_json(void)
{
    json_t *list = json_array();

    walk_all(add_item, list);
    return list;
}
