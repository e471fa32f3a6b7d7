/* SPDX-License-Identifier: Apache-2.0 */
/* out_room.c - see out_room.h. */
#include "common/sandbox/out_room.h"

/* The one room of the process. */
static struct {
    uint8_t *p;
    size_t bytes, used;
} room;

void ps_out_room_begin(uint8_t *out, size_t bytes)
{
    room.p = out;
    room.bytes = bytes;
    room.used = 0;
}

/* Takes the next `bytes` bytes of the room, aligned to 64. Returns NULL if they would end behind
 * `most`. */
static void *take(size_t bytes, size_t most)
{
    size_t at = (room.used + 63) / 64 * 64;

    if (at > most || bytes > most - at) {
        return NULL;
    }
    room.used = at + bytes;
    return room.p + at;
}

void *ps_out_room_take(size_t bytes)
{
    return take(bytes, room.bytes);
}

void *ps_out_room_spare(size_t bytes)
{
    return take(bytes, room.bytes / 2);
}

void ps_out_room_end(size_t at)
{
    room.used = at;
}

bool ps_out_room_has(const void *p, size_t *at)
{
    uintptr_t from = (uintptr_t)room.p, place = (uintptr_t)p;

    *at = place - from;
    return place >= from && *at < room.bytes;
}
