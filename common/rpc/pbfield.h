/* SPDX-License-Identifier: Apache-2.0 */
/* pbfield.h - reads and writes fields of proto3 messages by descriptor. Pure; any thread.
 *
 * A *slot* is where one value lies: the member of the struct, or one element of a repeated member.
 * Its type is that of protobuf-c's generated struct: char * (string), ProtobufCBinaryData (bytes),
 * ProtobufCMessage * (message), protobuf_c_boolean, int (enum), or the number. All memory comes
 * from malloc, so protobuf_c_message_free_unpacked(message, NULL) frees what is made here.
 */
#ifndef PS_COMMON_RPC_PBFIELD_H
#define PS_COMMON_RPC_PBFIELD_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>

/* Returns an empty message of `type`. Never NULL. */
ProtobufCMessage *ps_pb_create(const ProtobufCMessageDescriptor *type);

/* Returns the field with this name, as in the .proto file or in lowerCamelCase; NULL if there is
 * none. `name` has `len` bytes. */
const ProtobufCFieldDescriptor *ps_pb_field_find(const ProtobufCMessageDescriptor *type,
                                                 const char *name, size_t len);

/* Returns whether `field` is a map. protobuf-c represents a map as repeated messages of a type
 * ...Entry with the fields key (fields[0]) and value (fields[1]). */
bool ps_pb_is_map(const ProtobufCFieldDescriptor *field);

/* Returns whether `field` is repeated; a map is. */
bool ps_pb_is_repeated(const ProtobufCFieldDescriptor *field);
bool ps_pb_is_timestamp(const ProtobufCFieldDescriptor *field);

/* Returns how many values the field has: the elements of a repeated field; 1 or 0 for a message
 * or a member of a oneof that is set or not; 1 for a plain number, text or enum. */
size_t ps_pb_count(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field);

/* Returns the slot of value `i`, which is less than ps_pb_count. */
void *ps_pb_slot(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field, size_t i);

/* Returns whether the slot holds what proto3 does not send: 0, "" or no bytes. */
bool ps_pb_is_default(const ProtobufCFieldDescriptor *field, const void *slot);

/* Returns whether two slots of the field hold the same number or text. Not for messages and
 * bytes. */
bool ps_pb_is_same(const ProtobufCFieldDescriptor *field, const void *a, const void *b);

/* Returns the slot of a field that is not repeated, for writing. In a oneof it clears the member
 * that was set before. */
void *ps_pb_select(ProtobufCMessage *message, const ProtobufCFieldDescriptor *field);

/* Appends an empty element and returns its slot. The slot of a message is NULL; the caller must
 * replace it. */
void *ps_pb_append(ProtobufCMessage *message, const ProtobufCFieldDescriptor *field);

/* Resets the field to its value in a new message and frees what it owned. */
void ps_pb_clear(ProtobufCMessage *message, const ProtobufCFieldDescriptor *field);

/* Replaces the value of a string slot and frees the old one. Takes ownership of `text`. */
void ps_pb_put_string(const ProtobufCFieldDescriptor *field, void *slot, char *text);

/* Replaces the value of a bytes slot and frees the old one. Takes ownership of `data`. */
void ps_pb_put_bytes(void *slot, uint8_t *data, size_t len);

/* Returns the message in the slot; creates it if there is none. */
ProtobufCMessage *ps_pb_message_in(const ProtobufCFieldDescriptor *field, void *slot);

#endif
