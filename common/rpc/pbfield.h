/* SPDX-License-Identifier: Apache-2.0 */
/* pbfield.h - reaches into proto3 messages by descriptor, as protobuf-c lays
 * them out. Pure; any thread.
 *
 * A *slot* is where one value lies: the member itself, or one element of a
 * repeated one. It holds what protobuf-c's generated struct holds there: char *
 * (string), ProtobufCBinaryData (bytes), ProtobufCMessage * (message),
 * protobuf_c_boolean, int (enum), or the number. All memory is malloc's, so
 * protobuf_c_message_free_unpacked(message, NULL) frees what is made here.
 */
#ifndef PS_COMMON_RPC_PBFIELD_H
#define PS_COMMON_RPC_PBFIELD_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>

/* An empty message. Never NULL. */
ProtobufCMessage *ps_pb_create(const ProtobufCMessageDescriptor *type);

/* By its name as in the .proto file or in lowerCamelCase; NULL if none. */
const ProtobufCFieldDescriptor *ps_pb_field_find(const ProtobufCMessageDescriptor *type,
                                                 const char *name, size_t len);

/* Whether `field` is a map: protobuf-c shows one as repeated messages of a type
 * ...Entry with the fields key (fields[0]) and value (fields[1]). */
bool ps_pb_is_map(const ProtobufCFieldDescriptor *field);
bool ps_pb_is_repeated(const ProtobufCFieldDescriptor *field); /* maps, too */
bool ps_pb_is_timestamp(const ProtobufCFieldDescriptor *field);

/* Values that the field has: elements, or 1 or 0 for a message or a member of a
 * oneof that is set or not, or 1 for a plain number, text or enum. */
size_t ps_pb_count(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field);

/* Slot of value i < ps_pb_count. */
void *ps_pb_slot(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field, size_t i);

/* Whether the value is what proto3 does not send: 0, "", no bytes. */
bool ps_pb_is_default(const ProtobufCFieldDescriptor *field, const void *slot);

/* Whether two slots of the field hold the same number or text; not for messages
 * and bytes. */
bool ps_pb_is_same(const ProtobufCFieldDescriptor *field, const void *a, const void *b);

/* Slot of a field that is not repeated, to be written; in a oneof, whichever
 * member was set before is cleared. */
void *ps_pb_select(ProtobufCMessage *message, const ProtobufCFieldDescriptor *field);

/* Slot of a new last element, empty (messages: NULL, which the caller must replace). */
void *ps_pb_append(ProtobufCMessage *message, const ProtobufCFieldDescriptor *field);

/* Back to what it was when the message was created. */
void ps_pb_clear(ProtobufCMessage *message, const ProtobufCFieldDescriptor *field);

/* Give a string, bytes or message slot a new value; it takes `text`, `data`. */
void ps_pb_put_string(const ProtobufCFieldDescriptor *field, void *slot, char *text);
void ps_pb_put_bytes(void *slot, uint8_t *data, size_t len);

/* The message in the slot, made if there is none. */
ProtobufCMessage *ps_pb_message_in(const ProtobufCFieldDescriptor *field, void *slot);

#endif
