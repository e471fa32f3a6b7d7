/* SPDX-License-Identifier: Apache-2.0 */
/* record_owner.h - which server reduces the records of a key. */
#ifndef PS_COMMON_SCRIPT_RECORD_OWNER_H
#define PS_COMMON_SCRIPT_RECORD_OWNER_H

#include "common/script/record.h"

/* Returns the server, of `servers` > 0, that has the record's key. It follows from the key's bytes
 * (XXH3-64). */
uint32_t ps_record_owner(const ps_keyed *record, uint32_t servers);

/* Copies n bytes of sorted records to `out` (n), ordered by the server that has their key; the
 * records of each server stay sorted. at (servers + 1): the records of server i are the bytes
 * [at[i], at[i + 1]) of `out`. */
void ps_records_split(const uint8_t *records, size_t n, uint32_t servers, uint8_t *out, size_t *at);

/* Returns whether n bytes, which may be anything, are sorted records of keys that `server` has. */
bool ps_records_are_of(const uint8_t *records, size_t n, uint32_t server, uint32_t servers);

#endif
