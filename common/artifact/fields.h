/* SPDX-License-Identifier: Apache-2.0 */
/* fields.h - protobuf messages written field by field, for file formats of others.
 *
 * A message is the text of its fields one after the other; one within another is
 * a field of bytes. Numbers of fields are those of the format's .proto. Nothing
 * is left out: a zero is written too. Encoding:
 * https://protobuf.dev/programming-guides/encoding
 */
#ifndef PS_COMMON_ARTIFACT_FIELDS_H
#define PS_COMMON_ARTIFACT_FIELDS_H

#include "common/base/strbuf.h"

#include <stdint.h>

void ps_field_u64(ps_strbuf *message, uint32_t field, uint64_t value); /* also int64, enum, bool */
void ps_field_f32(ps_strbuf *message, uint32_t field, float value);
void ps_field_f64(ps_strbuf *message, uint32_t field, double value);
void ps_field_text(ps_strbuf *message, uint32_t field, const char *text);
void ps_field_bytes(ps_strbuf *message, uint32_t field, const void *bytes, size_t n);
/* A message within `message`; empties `inner` and keeps its memory. */
void ps_field_message(ps_strbuf *message, uint32_t field, ps_strbuf *inner);
/* The head of a field of n bytes; the bytes follow where the caller puts them. */
void ps_field_head(ps_strbuf *message, uint32_t field, uint64_t n);

#endif
