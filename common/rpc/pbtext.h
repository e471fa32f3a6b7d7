/* SPDX-License-Identifier: Apache-2.0 */
/* pbtext.h - converts values of protobuf fields (times, bytes, enums) to text and back. Pure. */
#ifndef PS_COMMON_RPC_PBTEXT_H
#define PS_COMMON_RPC_PBTEXT_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PS_PB_TIME_BYTES = 40 };

/* Writes a time as RFC 3339 in UTC with 0, 3, 6 or 9 digits of a second:
 * "2026-11-20T11:26:00.250Z". Returns false outside the years 1 to 9999, or if `nanos` is not 0
 * to 999999999. */
bool ps_pb_time_print(int64_t seconds, int32_t nanos, char text[PS_PB_TIME_BYTES]);

/* Reads a time in RFC 3339, with any offset ("+01:00") and up to 9 digits of a second. Returns
 * false if `text` is not one. */
bool ps_pb_time_parse(const char *text, int64_t *seconds, int32_t *nanos);

/* Returns `len` bytes as padded base64 (RFC 4648); the caller frees it. */
char *ps_pb_base64_print(const uint8_t *data, size_t len);

/* Decodes base64 of either alphabet, with or without padding. The caller frees *data, which is
 * never NULL. Returns false if `text` is not base64. */
bool ps_pb_base64_parse(const char *text, uint8_t **data, size_t *len);

/* Returns the value with this name, or NULL. The letter case does not matter, and the prefix of
 * the enum may be left out: JOB_STATE_DONE, done. */
const ProtobufCEnumValue *ps_pb_enum_find(const ProtobufCEnumDescriptor *type, const char *name);

/* Returns the value with this number, or NULL. */
const ProtobufCEnumValue *ps_pb_enum_value(const ProtobufCEnumDescriptor *type, int value);

/* Returns the double that prints as the shortest decimal that rounds to this float: 0.1f becomes
 * 0.1. */
double ps_pb_float_widen(float value);

#endif
