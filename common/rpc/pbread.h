/* SPDX-License-Identifier: Apache-2.0 */
/* pbread.h - the reader behind ps_pb_from_json and ps_pb_set; only they use it. */
#ifndef PS_COMMON_RPC_PBREAD_H
#define PS_COMMON_RPC_PBREAD_H

#include "common/base/strbuf.h"
#include "common/rpc/error.h"

#include <jansson.h>
#include <protobuf-c/protobuf-c.h>

/* Where reading stands, and what was wrong so far. */
typedef struct ps_pb_reader {
    ps_error *error;
    size_t wrong;    /* violations found */
    char first[240]; /* the first one's path and the beginning of its text */
    ps_strbuf path;  /* of the value being read */
    unsigned depth;  /* of messages */
} ps_pb_reader;

void ps_pb_reader_init(ps_pb_reader *r, const char *at, ps_error *error);

/* The verdict; gives it to the error, too. Frees the path. */
PS_MUST_USE ps_status ps_pb_reader_fini(ps_pb_reader *r);

/* Notes that the value at the path is wrong. */
PS_PRINTF(2, 3) void ps_pb_violate(ps_pb_reader *r, const char *fmt, ...);

/* "VALUE is not WANTED", where a long value is cut. */
void ps_pb_violate_type(ps_pb_reader *r, const json_t *json, const char *wanted);

/* Add a part to the path; give the length to ps_strbuf_truncate before. */
void ps_pb_enter_name(ps_pb_reader *r, const char *name);
void ps_pb_enter_index(ps_pb_reader *r, size_t i);

void ps_pb_read_message(ps_pb_reader *r, ProtobufCMessage *message, const json_t *json);
void ps_pb_read_field(ps_pb_reader *r, ProtobufCMessage *message,
                      const ProtobufCFieldDescriptor *field, const json_t *json);
void ps_pb_read_value(ps_pb_reader *r, const ProtobufCFieldDescriptor *field, void *slot,
                      const json_t *json);

/* The entry of a map with this key, made if there is none; NULL, with a
 * violation, if the key is wrong. */
ProtobufCMessage *ps_pb_read_key(ps_pb_reader *r, ProtobufCMessage *message,
                                 const ProtobufCFieldDescriptor *map, const char *key);

/* Says which fields a message of `type` has. */
void ps_pb_violate_unknown(ps_pb_reader *r, const ProtobufCMessageDescriptor *type);

/* Text as the JSON that a field of that type wants; as a string, which will be
 * refused, if it cannot be. The caller's. */
json_t *ps_pb_text_to_json(const ProtobufCFieldDescriptor *field, const char *text);

#endif
