/* SPDX-License-Identifier: Apache-2.0 */
/* pbtext.h - values of protobuf fields as text: times, bytes, enums. Pure. */
#ifndef PS_COMMON_RPC_PBTEXT_H
#define PS_COMMON_RPC_PBTEXT_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PS_PB_TIME_BYTES = 40 };

/* RFC 3339 in UTC with 0, 3, 6 or 9 digits of a second:
 * "2026-11-20T11:26:00.250Z". False outside years 1 to 9999 or if nanos is not
 * 0 to 999999999. */
bool ps_pb_time_print(int64_t seconds, int32_t nanos, char text[PS_PB_TIME_BYTES]);

/* The reverse; takes any offset ("+01:00") and 1 to 9 digits of a second. */
bool ps_pb_time_parse(const char *text, int64_t *seconds, int32_t *nanos);

/* RFC 4648, padded; the caller frees. */
char *ps_pb_base64_print(const uint8_t *data, size_t len);

/* The reverse; takes both alphabets, with or without padding. The caller frees
 * *data (never NULL). False if the text is no base64. */
bool ps_pb_base64_parse(const char *text, uint8_t **data, size_t *len);

/* The value of this name, in any letter case, with or without the prefix that
 * is the enum's own name: JOB_STATE_DONE, done. NULL if none. */
const ProtobufCEnumValue *ps_pb_enum_find(const ProtobufCEnumDescriptor *type, const char *name);

/* The value of this number; NULL if none. */
const ProtobufCEnumValue *ps_pb_enum_value(const ProtobufCEnumDescriptor *type, int value);

/* The shortest decimal that rounds to this float, as a double: 0.1f is 0.1. */
double ps_pb_float_widen(float value);

#endif
