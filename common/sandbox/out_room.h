/* SPDX-License-Identifier: Apache-2.0 */
/* out_room.h - the part of the shared memory where results stand. Vectors are made there, as long
 * as half of it is free, so that one which is a result needs no copy. What is made there lives as
 * long as the calls that are answered together; nothing of code lives longer.
 */
#ifndef PS_COMMON_SANDBOX_OUT_ROOM_H
#define PS_COMMON_SANDBOX_OUT_ROOM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Makes out[0..bytes) the room, all of it free. */
void ps_out_room_begin(uint8_t *out, size_t bytes);
/* Returns so many bytes, aligned to 64, or NULL if there are fewer. */
void *ps_out_room_take(size_t bytes);
/* Returns bytes likewise, but only from the first half of the room: for values that may also be
 * elsewhere. The second half stays for results. */
void *ps_out_room_spare(size_t bytes);
/* Returns whether p is in the room; *at is then how many bytes after its begin. */
bool ps_out_room_has(const void *p, size_t *at);

#endif
