/* SPDX-License-Identifier: Apache-2.0 */
/* fields.c - see fields.h. */
#include "common/artifact/fields.h"

#include <string.h>

/* Wire types. */
enum { VARINT = 0, FIXED64 = 1, LENGTH = 2, FIXED32 = 5 };

static void put_varint(ps_strbuf *message, uint64_t value)
{
    while (value >= 0x80) {
        ps_strbuf_putc(message, (char)(unsigned char)(value | 0x80));
        value >>= 7;
    }
    ps_strbuf_putc(message, (char)(unsigned char)value);
}

static void put_fixed(ps_strbuf *message, uint64_t value, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        ps_strbuf_putc(message, (char)(unsigned char)(value >> (8 * i)));
    }
}

static void put_key(ps_strbuf *message, uint32_t field, unsigned type)
{
    put_varint(message, (uint64_t)field << 3 | type);
}

void ps_field_u64(ps_strbuf *message, uint32_t field, uint64_t value)
{
    put_key(message, field, VARINT);
    put_varint(message, value);
}

void ps_field_f32(ps_strbuf *message, uint32_t field, float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof bits);
    put_key(message, field, FIXED32);
    put_fixed(message, bits, sizeof bits);
}

void ps_field_f64(ps_strbuf *message, uint32_t field, double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof bits);
    put_key(message, field, FIXED64);
    put_fixed(message, bits, sizeof bits);
}

void ps_field_head(ps_strbuf *message, uint32_t field, uint64_t n)
{
    put_key(message, field, LENGTH);
    put_varint(message, n);
}

void ps_field_bytes(ps_strbuf *message, uint32_t field, const void *bytes, size_t n)
{
    ps_field_head(message, field, n);
    ps_strbuf_append(message, bytes, n);
}

void ps_field_text(ps_strbuf *message, uint32_t field, const char *text)
{
    ps_field_bytes(message, field, text, strlen(text));
}

void ps_field_message(ps_strbuf *message, uint32_t field, ps_strbuf *inner)
{
    ps_field_bytes(message, field, ps_strbuf_text(inner), inner->len);
    ps_strbuf_clear(inner);
}
