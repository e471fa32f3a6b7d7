/* SPDX-License-Identifier: Apache-2.0 */
/* named_bytes.c - see named_bytes.h. */
#include "common/base/named_bytes.h"

#include "common/base/plain_name.h"
#include "common/base/shorten.h"

#include <string.h>

typedef struct record_head {
    uint32_t name_bytes, unused;
    uint64_t len;
} record_head;

_Static_assert(sizeof(record_head) == PS_NAMED_RECORD_BYTES, "no padding");

static uint64_t used_of(const uint8_t *block)
{
    uint64_t used;

    memcpy(&used, block, sizeof used);
    return used;
}

size_t ps_named_used(const uint8_t *block, size_t size)
{
    if (size < PS_NAMED_BLOCK_BYTES || used_of(block) > size - PS_NAMED_BLOCK_BYTES) {
        return size;
    }
    return PS_NAMED_BLOCK_BYTES + (size_t)used_of(block);
}

/* Reads the record at offset `at` of a block of memory of which `end` bytes are in use. Returns the
 * offset behind it; 0: no valid record is there. */
static size_t read_record(const uint8_t *block, size_t end, size_t at, ps_named *out)
{
    size_t left = end - at;
    record_head head;

    if (left < sizeof head) {
        return 0;
    }
    memcpy(&head, block + at, sizeof head);
    left -= sizeof head;
    if (head.unused != 0 || head.name_bytes < 2 || head.name_bytes > PS_NAMED_NAME_MAX + 1 ||
        head.name_bytes > left || head.len > left - head.name_bytes) {
        return 0;
    }
    *out = (ps_named){.name = (const char *)block + at + sizeof head,
                      .value = block + at + sizeof head + head.name_bytes,
                      .len = (size_t)head.len};
    if (memchr(out->name, '\0', head.name_bytes) != out->name + head.name_bytes - 1 ||
        !ps_plain_name_is_valid(out->name, PS_NAMED_NAME_MAX)) {
        return 0;
    }
    return at + sizeof head + head.name_bytes + out->len;
}

ps_status ps_named_check(const uint8_t *block, size_t size)
{
    const char *names[PS_NAMED_MAX];
    size_t at = PS_NAMED_BLOCK_BYTES, end, count = 0;
    ps_named record;

    if (size < PS_NAMED_BLOCK_BYTES || used_of(block) > size - PS_NAMED_BLOCK_BYTES) {
        return ps_fail(PS_DATA_LOSS, "named values: %zu bytes are too few", size);
    }
    for (end = ps_named_used(block, size); at < end; count++) {
        size_t from = at;

        if (count == PS_NAMED_MAX) {
            return ps_fail(PS_DATA_LOSS, "named values: more than %d", PS_NAMED_MAX);
        }
        at = read_record(block, end, at, &record);
        if (at == 0) {
            return ps_fail(PS_DATA_LOSS, "named values: no record at byte %zu of %zu", from, end);
        }
        for (size_t i = 0; i < count; i++) {
            if (strcmp(names[i], record.name) == 0) {
                return ps_fail(PS_DATA_LOSS, "named values: two have the name \"%s\"", record.name);
            }
        }
        names[count] = record.name;
    }
    return ps_ok();
}

bool ps_named_at(const uint8_t *block, size_t size, size_t index, ps_named *out)
{
    size_t end = ps_named_used(block, size), at = PS_NAMED_BLOCK_BYTES;

    for (size_t i = 0; at != 0 && at < end; i++) {
        at = read_record(block, end, at, out);
        if (at != 0 && i == index) {
            return true;
        }
    }
    return false;
}

bool ps_named_find(const uint8_t *block, size_t size, const char *name, ps_named *out)
{
    size_t end = ps_named_used(block, size), at = PS_NAMED_BLOCK_BYTES;

    while (at != 0 && at < end) {
        at = read_record(block, end, at, out);
        if (at != 0 && strcmp(out->name, name) == 0) {
            return true;
        }
    }
    return false;
}

static size_t count_of(const uint8_t *block, size_t size)
{
    size_t end = ps_named_used(block, size), at = PS_NAMED_BLOCK_BYTES, count = 0;
    ps_named record;

    while (at != 0 && at < end) {
        at = read_record(block, end, at, &record);
        count += at != 0;
    }
    return count;
}

static size_t bytes_of(const char *name, size_t len)
{
    return PS_NAMED_RECORD_BYTES + strlen(name) + 1 + len;
}

/* Removes a record from a block of memory of which `used` bytes are in use. */
static void take_out(uint8_t *block, size_t used, const ps_named *record)
{
    size_t bytes = bytes_of(record->name, record->len);
    uint8_t *at = block + ((const uint8_t *)record->name - block) - PS_NAMED_RECORD_BYTES;
    uint64_t left = used - bytes - PS_NAMED_BLOCK_BYTES;

    memmove(at, at + bytes, (size_t)(block + used - (at + bytes)));
    memcpy(block, &left, sizeof left);
}

static void append(uint8_t *block, size_t used, const char *name, const void *value, size_t len)
{
    record_head head = {.name_bytes = (uint32_t)strlen(name) + 1, .len = len};
    uint64_t all = used + bytes_of(name, len) - PS_NAMED_BLOCK_BYTES;

    memcpy(block + used, &head, sizeof head);
    memcpy(block + used + sizeof head, name, head.name_bytes);
    if (len > 0) {
        memcpy(block + used + sizeof head + head.name_bytes, value, len);
    }
    memcpy(block, &all, sizeof all);
}

ps_status ps_named_put(uint8_t *block, size_t size, const char *name, const void *value, size_t len)
{
    size_t used = ps_named_used(block, size), left;
    ps_named before;
    bool is_there;

    if (!ps_plain_name_is_valid(name, PS_NAMED_NAME_MAX)) {
        return ps_fail(PS_INVALID_ARGUMENT,
                       "name: is \"%s\"; 1 to %d of A-Z a-z 0-9 . _ - are allowed",
                       PS_SHORT(name, 100), PS_NAMED_NAME_MAX);
    }
    is_there = ps_named_find(block, size, name, &before);
    if (value != NULL && is_there && before.len == len) {
        memcpy(block + (before.value - block), value, len);
        return ps_ok();
    }
    left = size - used + (is_there ? bytes_of(name, before.len) : 0);
    if (value != NULL && !is_there && count_of(block, size) == PS_NAMED_MAX) {
        return ps_fail(PS_RESOURCE_EXHAUSTED, "\"%s\": there are %d names; at most %d are allowed",
                       name, PS_NAMED_MAX, PS_NAMED_MAX);
    }
    if (value != NULL && (len > left || bytes_of(name, len) > left)) {
        return ps_fail(PS_RESOURCE_EXHAUSTED,
                       "\"%s\": %zu bytes and %zu for the name; there is room for %zu", name, len,
                       bytes_of(name, 0), left);
    }
    if (is_there) {
        take_out(block, used, &before);
        used = ps_named_used(block, size);
    }
    if (value != NULL) {
        append(block, used, name, value, len);
    }
    return ps_ok();
}
