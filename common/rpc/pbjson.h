/* SPDX-License-Identifier: Apache-2.0 */
/* pbjson.h - any proto3 message as JSON and back, by its descriptor.
 *
 * As the standard JSON of protobuf, with these differences: names are those of
 * the .proto file, whole numbers are JSON integers of any width (only those
 * above 2^63-1 are strings), and numbers given as strings are refused.
 *
 *     bool, string           as they are
 *     float, double          number, or "NaN", "Infinity", "-Infinity"
 *     bytes                  base64
 *     enum                   its full name; its number if it has none
 *     Timestamp              "2026-11-20T11:26:00.250Z"; null if it has no date
 *     map                    object
 *     member of a oneof      only the one that is set
 *
 * Pure; any thread. Nesting beyond PS_PB_DEPTH_MAX is cut (null) and refused.
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

/* A new object, the caller's. Bytes that are not UTF-8 in a string become
 * U+FFFD. Print doubles with JSON_REAL_PRECISION(17) for exactness, 15 for
 * people. */
json_t *ps_pb_to_json(const ProtobufCMessage *message, unsigned flags);

/* A new message of `type` from `json`, for protobuf_c_message_free_unpacked(m,
 * NULL). Field names may also be in lowerCamelCase, enum values in any letter
 * case, with their type's prefix or without, or their number; null is a field
 * left out.
 *
 * INVALID_ARGUMENT  every wrong field is one violation of *error, with its path
 *                   after `at` ("spec": "spec.layers[2].params.units"); *error
 *                   takes the status unless it has a failure already
 * `error` must be zeroed or initialised. *out is set on success only. */
PS_MUST_USE ps_status ps_pb_from_json(const ProtobufCMessageDescriptor *type, const json_t *json,
                                      const char *at, ps_error *error, ProtobufCMessage **out);

/* The same into a message that is there and whose memory is malloc's: fields
 * given replace those there, lists as a whole, maps key by key, messages field
 * by field. After a failure the message is valid, but only partly changed. */
PS_MUST_USE ps_status ps_pb_merge_json(ProtobufCMessage *message, const json_t *json,
                                       const char *at, ps_error *error);

/* Sets one field from text, as a flag --set does it; memory and errors as in
 * ps_pb_merge_json.
 *
 *     workers                        4
 *     model.widths                   128,64         a list of plain values
 *     optimizer.rule.params.lr       0.01           a key of a map: the rest of the path
 *     model.layers[0].kind           dense          also layers.0; one past the end appends
 *     optimizer                      {"side": "worker"}   JSON where it is no plain value
 */
PS_MUST_USE ps_status ps_pb_set(ProtobufCMessage *message, const char *path, const char *text,
                                ps_error *error);

#endif
