/* SPDX-License-Identifier: Apache-2.0 */
/* spill.h - bytes that are written once and then read at any place: in memory while they are
 * few, else in an unlinked file.
 *
 * So a data set larger than memory costs a process at most `memory_max`, and the system's file
 * cache does the rest. One thread writes; after ps_spill_end any thread may read.
 */
#ifndef PS_COMMON_DATA_SPILL_H
#define PS_COMMON_DATA_SPILL_H

#include "common/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ps_spill ps_spill;

/* Creates an empty spill. `scratch` is the folder for the file, kept; NULL: /var/tmp, which is
 * on disk. */
ps_spill *ps_spill_create(const char *scratch, size_t memory_max);
/* Frees the spill and its file. NULL is allowed. */
void ps_spill_destroy(ps_spill *spill);

/* Appends n bytes. Returns disk errors; RESOURCE_EXHAUSTED if the disk is full, or without
 * memory. */
PS_MUST_USE ps_status ps_spill_add(ps_spill *spill, const void *bytes, size_t n);
/* Ends writing. Call it once, before the first read. Returns disk errors. */
PS_MUST_USE ps_status ps_spill_end(ps_spill *spill);

/* Returns the number of bytes appended so far. */
uint64_t ps_spill_bytes(const ps_spill *spill);

/* Returns whether the bytes are in a file and not in memory. */
bool ps_spill_is_in_file(const ps_spill *spill);

/* Copies n bytes from offset `at`, which must exist. Returns false if the disk fails. */
bool ps_spill_read(const ps_spill *spill, uint64_t at, size_t n, void *out);

/* Returns n bytes from offset `at`: their place in memory, or `room` after reading them into
 * it. Returns NULL if the disk fails. */
const void *ps_spill_at(const ps_spill *spill, uint64_t at, size_t n, void *room);

#endif
