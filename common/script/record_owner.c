/* SPDX-License-Identifier: Apache-2.0 */
/* record_owner.c - see record_owner.h. */
#include "common/script/record_owner.h"

#include <string.h>
#include <xxhash.h>

uint32_t ps_record_owner(const ps_keyed *record, uint32_t servers)
{
    return (uint32_t)(XXH3_64bits(record->at, record->key_bytes) % servers);
}

void ps_records_split(const uint8_t *records, size_t n, uint32_t servers, uint8_t *out, size_t *at)
{
    ps_keyed record;
    size_t begin = 0;

    memset(at, 0, (servers + 1) * sizeof *at);
    for (size_t i = 0; ps_record_next(records, n, &i, &record);) {
        at[ps_record_owner(&record, servers)] += record.key_bytes + record.value_bytes;
    }
    for (uint32_t s = 0; s <= servers; s++) {
        size_t bytes = at[s];

        at[s] = begin;
        begin += bytes;
    }
    for (size_t i = 0; ps_record_next(records, n, &i, &record);) {
        size_t bytes = record.key_bytes + record.value_bytes,
               *end = &at[ps_record_owner(&record, servers)];

        memcpy(out + *end, record.at, bytes);
        *end += bytes;
    }
    /* at[s] is now the offset where the records of server s end, so where those of s + 1 begin */
    memmove(at + 1, at, servers * sizeof *at);
    at[0] = 0;
}

bool ps_records_are_of(const uint8_t *records, size_t n, uint32_t server, uint32_t servers)
{
    ps_keyed record;
    bool are_its = ps_records_are_sorted(records, n);

    for (size_t i = 0; are_its && ps_record_next(records, n, &i, &record);) {
        are_its = ps_record_owner(&record, servers) == server;
    }
    return are_its;
}
