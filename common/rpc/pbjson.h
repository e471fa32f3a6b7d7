/* SPDX-License-Identifier: Apache-2.0 */
/* pbjson.h - converts any proto3 message to JSON and back, by its descriptor.
 *
 * It is the standard JSON of protobuf with these differences: names are those of
 * the .proto file, whole numbers are JSON integers of any width (only those
 * above 2^63-1 are strings), and numbers given as strings are refused.
 *
 *   bool, string           as they are
 *   float, double          number, or "NaN", "Infinity", "-Infinity"
 *   bytes                  base64
 *   enum                   its full name; its number if it has no name
 *   Timestamp              "2026-11-20T11:26:00.250Z"; null if it is out of range
 *   map                    object
 *   member of a oneof      only the member that is set
 *
 * Pure; any thread. Messages nested deeper than PS_PB_DEPTH_MAX are written as
 * null and refused on reading.
 */
#ifndef PS_COMMON_RPC_PBJSON_H
#define PS_COMMON_RPC_PBJSON_H

#include "common/rpc/error.h"

#include <jansson.h>
#include <protobuf-c/protobuf-c.h>

enum { PS_PB_DEPTH_MAX = 16 };

enum {
    PS_PB_TERSE = 0,
    PS_PB_DEFAULTS = 1 /* also fields that are 0, "" or empty; never unset messages */
};

/* Returns the message as a new JSON object, which the caller owns. Bytes of a string that are
 * not UTF-8 become U+FFFD. Print doubles with JSON_REAL_PRECISION(17) for exactness, 15 for
 * people. */
json_t *ps_pb_to_json(const ProtobufCMessage *message, unsigned flags);

/* Creates a message of `type` from `json` in *out; free it by protobuf_c_message_free_unpacked(m,
 * NULL). Field names may also be in lowerCamelCase. Enum values are names in any letter case, with
 * or without the prefix of their type, or numbers. A field that is null counts as left out.
 *
 * Fails with INVALID_ARGUMENT. Each wrong field is then one violation of *error, its path behind
 * `at` ("spec": "spec.layers[2].params.units"). *error also takes the status unless it has a
 * failure already; it must be zeroed or initialised. *out is set on success only.
 */
PS_MUST_USE ps_status ps_pb_from_json(const ProtobufCMessageDescriptor *type, const json_t *json,
                                      const char *at, ps_error *error, ProtobufCMessage **out);

/* Merges `json` into a message whose memory comes from malloc. Given plain fields and lists
 * replace the old ones; maps are merged key by key, messages field by field. Fails as
 * ps_pb_from_json does; the message is then valid but partly changed. */
PS_MUST_USE ps_status ps_pb_merge_json(ProtobufCMessage *message, const json_t *json,
                                       const char *at, ps_error *error);

/* Sets one field from text, as the flag --set does; the value replaces the old one. Memory and
 * errors are those of ps_pb_merge_json. Examples of `path` and `text`:
 *
 *   workers                        4
 *   model.widths                   128,64         a list of plain values
 *   optimizer.rule.params.lr       0.01           a key of a map: the rest of the path
 *   model.layers[0].kind           dense          also layers.0; one past the end appends
 *   optimizer                      {"side": "worker"}   JSON for anything else;
 *                                                      fields that it lacks are unset
 */
PS_MUST_USE ps_status ps_pb_set(ProtobufCMessage *message, const char *path, const char *text,
                                ps_error *error);

#endif
