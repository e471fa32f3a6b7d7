/* SPDX-License-Identifier: Apache-2.0 */
/* pbjson_impl.h - the reader behind ps_pb_from_json and ps_pb_set. Private to common/rpc. */
#ifndef PS_COMMON_RPC_PBJSON_IMPL_H
#define PS_COMMON_RPC_PBJSON_IMPL_H

#include "common/base/strbuf.h"
#include "common/rpc/error.h"

#include <jansson.h>
#include <protobuf-c/protobuf-c.h>

/* The position of the reader and what it has found wrong. */
typedef struct ps_pb_reader {
    ps_error *error;
    size_t wrong;    /* number of violations */
    char first[640]; /* path and text of the first violation */
    ps_strbuf path;  /* path of the value that is being read */
    unsigned depth;  /* nesting of messages */
} ps_pb_reader;

void ps_pb_reader_init(ps_pb_reader *r, const char *at, ps_error *error);

/* Ends reading and frees the path. Returns OK, or INVALID_ARGUMENT if there were violations. Stores
 * a failure in *error, unless *error has a failure already. */
PS_MUST_USE ps_status ps_pb_reader_fini(ps_pb_reader *r);

/* Adds a violation for the value at the current path. */
PS_PRINTF(2, 3) void ps_pb_violate(ps_pb_reader *r, const char *fmt, ...);

/* Adds the violation "VALUE is not WANTED"; a long value is cut. */
void ps_pb_violate_type(ps_pb_reader *r, const json_t *json, const char *wanted);

/* Appends ".name" to the path. To leave, give the length from before to ps_strbuf_truncate. */
void ps_pb_enter_name(ps_pb_reader *r, const char *name);

/* Appends "[i]" to the path. To leave, give the length from before to ps_strbuf_truncate. */
void ps_pb_enter_index(ps_pb_reader *r, size_t i);

void ps_pb_read_message(ps_pb_reader *r, ProtobufCMessage *message, const json_t *json);
void ps_pb_read_field(ps_pb_reader *r, ProtobufCMessage *message,
                      const ProtobufCFieldDescriptor *field, const json_t *json);
void ps_pb_read_value(ps_pb_reader *r, const ProtobufCFieldDescriptor *field, void *slot,
                      const json_t *json);

/* Returns the entry of a map with this key; creates it if there is none. Returns NULL, after a
 * violation, if the key is wrong. */
ProtobufCMessage *ps_pb_read_key(ps_pb_reader *r, ProtobufCMessage *message,
                                 const ProtobufCFieldDescriptor *map, const char *key);

/* Adds a violation that lists the fields of `type`. */
void ps_pb_violate_unknown(ps_pb_reader *r, const ProtobufCMessageDescriptor *type,
                           const char *name);

/* Returns `text` as the JSON that a field of this type wants, which the caller owns. Text that
 * cannot be converted becomes a string, which the reader then refuses. */
json_t *ps_pb_text_to_json(const ProtobufCFieldDescriptor *field, const char *text);

#endif
