/* SPDX-License-Identifier: Apache-2.0 */
/* record.h - records: keys with values, as code of the kind compute emits them, as bytes.
 *
 * A key is an integer or a string. A value is an integer, a number, a string, true, false, or a
 * list of these. Keys are ordered: integers first, ascending, then strings by their bytes. Records
 * of a partition are in that order, each key once. Numbers are little-endian.
 *
 *   record  = key value
 *   key     = 1 i64 | 2 u32 bytes
 *   value   = scalar | 6 u32 scalar...
 *   scalar  = 1 i64 | 2 u32 bytes | 3 f64 | 4 | 5       4: false, 5: true
 */
#ifndef PS_COMMON_SCRIPT_RECORD_H
#define PS_COMMON_SCRIPT_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PS_RECORD_INTEGER = 1,
    PS_RECORD_STRING,
    PS_RECORD_NUMBER,
    PS_RECORD_FALSE,
    PS_RECORD_TRUE,
    PS_RECORD_LIST
};

enum {
    PS_RECORD_KEY_MAX = 1024,     /* bytes of a key */
    PS_RECORD_STRING_MAX = 65536, /* bytes of a string */
    PS_RECORD_LIST_MAX = 256      /* values of a list */
};

/* A scalar. Strings are borrowed. */
typedef struct ps_scalar_value {
    int kind; /* PS_RECORD_..., not LIST */
    int64_t integer;
    double number;
    const char *text; /* (len), not terminated */
    uint32_t len;
} ps_scalar_value;

/* A record within its bytes, which it borrows. */
typedef struct ps_keyed {
    const uint8_t *at; /* (key_bytes + value_bytes) */
    size_t key_bytes, value_bytes;
} ps_keyed;

/* Reads the record at *at of n bytes, which may be anything, and moves *at behind it. Returns false
 * if there is no whole record. */
bool ps_record_next(const uint8_t *bytes, size_t n, size_t *at, ps_keyed *out);

/* Returns whether n bytes, which may be anything, are whole records in ascending order of keys. */
bool ps_records_are_sorted(const uint8_t *bytes, size_t n);

/* Returns less than 0, 0 or more, as the key of a is before, equal to or after that of b. */
int ps_record_compare(const ps_keyed *a, const ps_keyed *b);

/* Reads the scalar at *at, which must be one of a record's, and moves *at behind it. */
ps_scalar_value ps_record_scalar(const uint8_t **at);

/* Returns how many scalars the value has, and where they begin. *is_list says whether it is a list.
 */
uint32_t ps_record_value(const ps_keyed *record, const uint8_t **at, bool *is_list);

/* Returns the bytes of a scalar. */
size_t ps_record_scalar_bytes(const ps_scalar_value *x);
/* Writes a scalar to `at` and returns where it ends. */
uint8_t *ps_record_put(uint8_t *at, const ps_scalar_value *x);

#endif
