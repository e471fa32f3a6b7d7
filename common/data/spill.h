/* SPDX-License-Identifier: Apache-2.0 */
/* spill.h - bytes that are written once and read at any place: in memory while they are
 * few, in a file without a name beyond.
 *
 * So a data set larger than memory costs a process no more than `memory_max`, and the
 * system's file cache does the rest. Written by one thread; after ps_spill_end read
 * from any.
 */
#ifndef PS_COMMON_DATA_SPILL_H
#define PS_COMMON_DATA_SPILL_H

#include "common/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ps_spill ps_spill;

/* `scratch`: folder for the file, kept; NULL: /var/tmp, which is on a disk. */
ps_spill *ps_spill_create(const char *scratch, size_t memory_max);
void ps_spill_destroy(ps_spill *spill); /* NULL is allowed */

/* Adds to the end. Errors of the disk: RESOURCE_EXHAUSTED when it is full. */
PS_MUST_USE ps_status ps_spill_add(ps_spill *spill, const void *bytes, size_t n);
PS_MUST_USE ps_status ps_spill_end(ps_spill *spill); /* once, before the first read */

uint64_t ps_spill_bytes(const ps_spill *spill);

bool ps_spill_is_in_file(const ps_spill *spill);

/* Copies n bytes that are there; false when the disk does not give them. */
bool ps_spill_read(const ps_spill *spill, uint64_t at, size_t n, void *out);

/* The n bytes where they lie, else in `room`, into which they are read; NULL as above. */
const void *ps_spill_at(const ps_spill *spill, uint64_t at, size_t n, void *room);

#endif
