/* SPDX-License-Identifier: Apache-2.0 */
/* out_room.h - allocates memory in the part of the shared memory where results stand. New vectors
 * are put there as long as half of it is free, so that a vector that becomes a result needs no
 * copy. They live until the call is answered, or with it others that are made together; no value of
 * the code lives longer. */
#ifndef PS_COMMON_SANDBOX_OUT_ROOM_H
#define PS_COMMON_SANDBOX_OUT_ROOM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Makes out[0..bytes) the room, all of it free. */
void ps_out_room_begin(uint8_t *out, size_t bytes);
/* Returns so many bytes, aligned to 64, or NULL if there are fewer. */
void *ps_out_room_take(size_t bytes);
/* Returns so many bytes, aligned to 64, from the first half of the room, or NULL if it has fewer
 * left: for values that can be put elsewhere too. The second half stays for results. */
void *ps_out_room_spare(size_t bytes);
/* Makes all of the room behind its first `at` bytes free. */
void ps_out_room_end(size_t at);
/* Returns whether p points into the room; *at is then the offset of p in the room in bytes. */
bool ps_out_room_has(const void *p, size_t *at);

#endif
