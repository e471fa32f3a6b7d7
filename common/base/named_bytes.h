/* SPDX-License-Identifier: Apache-2.0 */
/* named_bytes.h - bytes by name, one after the other in a block of memory of a fixed size.
 *
 *   block   u64 bytes of the records, which follow
 *   record  u32 bytes of the name with its NUL, u32 0, u64 bytes of the value; the name, the value
 *
 * Numbers are the host's, and aligned nowhere. A block of zeros has no record. A block is whole if
 * it is of this form, names are valid and differ, and there are at most PS_NAMED_MAX of them.
 */
#ifndef PS_COMMON_BASE_NAMED_BYTES_H
#define PS_COMMON_BASE_NAMED_BYTES_H

#include "common/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PS_NAMED_MAX = 256,        /* most records */
    PS_NAMED_NAME_MAX = 64,    /* most bytes of a name: of A-Z a-z 0-9 . _ - */
    PS_NAMED_BLOCK_BYTES = 8,  /* bytes of a block without records */
    PS_NAMED_RECORD_BYTES = 16 /* bytes of a record without name and value */
};

/* A record; its pointers point into the block. */
typedef struct ps_named {
    const char *name;
    const uint8_t *value; /* (len) */
    size_t len;
} ps_named;

/* Returns the bytes of the block that are in use, head and records: at most `size`. Never fails; of
 * a block that is not whole the number means nothing. */
size_t ps_named_used(const uint8_t *block, size_t size);

/* Checks a block of `size` bytes. DATA_LOSS: it is not whole; the text says what is wrong. */
PS_MUST_USE ps_status ps_named_check(const uint8_t *block, size_t size);

/* Finds record number `index`, from 0. Returns false if there are fewer records before the end or
 * before the first damaged one. */
bool ps_named_at(const uint8_t *block, size_t size, size_t index, ps_named *out);

/* Finds a record by its name. Returns false if none before the end or the first damaged one has
 * it. */
bool ps_named_find(const uint8_t *block, size_t size, const char *name, ps_named *out);

/* Stores `value` (len) under `name`, in place of the value that has the name; `value` NULL removes
 * that record. A new value as long as the old one stays at its place; any other becomes the last
 * record. The block is whole, and `value` is not a part of it. On failure nothing is changed.
 *
 * INVALID_ARGUMENT: the name is not allowed; the text says which are. RESOURCE_EXHAUSTED: there is
 * no room; the text says how much there is, or how many records are allowed. */
PS_MUST_USE ps_status ps_named_put(uint8_t *block, size_t size, const char *name, const void *value,
                                   size_t len);

#endif
