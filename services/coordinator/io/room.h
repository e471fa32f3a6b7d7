/* SPDX-License-Identifier: Apache-2.0 */
/* room.h - how much room there is on the disk of the data directory.
 *
 * Below min_free_bytes the room is low: no new job is taken in or started, so that what runs
 * can end. A file `reserve` in the data directory holds back some of it; when nothing else is
 * left it is given back, so that the registry can still note how jobs end, and jobs can be
 * deleted. Any thread may look; whoever asks gets what was seen last, without a wait for a disk.
 */
#ifndef PS_COORDINATOR_ROOM_H
#define PS_COORDINATOR_ROOM_H

#include "common/base/status.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    PS_ROOM_LAST_BYTES = 1 << 20,   /* files of jobs leave these to the registry */
    PS_ROOM_RESERVE_BYTES = 4 << 20 /* at most in the file `reserve` */
};

typedef struct ps_room {
    char reserve[900];       /* path of the file */
    const char *folder;      /* the data directory; kept */
    uint64_t min_free_bytes; /* 0: never low, and no reserve */
    bool has_reserve;        /* guarded by `looking` */
    pthread_mutex_t looking; /* held while the disk is asked */
    pthread_mutex_t lock;    /* guards the members below */
    uint64_t free_bytes;     /* when last looked; UINT64_MAX: unknown */
    bool is_low;
} ps_room;

/* Looks. The folder may not exist yet. */
void ps_room_init(ps_room *room, const char *folder, uint64_t min_free_bytes);
void ps_room_fini(ps_room *room);

/* Looks again; gives the reserve back, or makes it anew; logs what has changed. Waits for the
 * disk: on any thread but the loop's. */
void ps_room_look(ps_room *room);

/* Returns the free bytes when last looked at; UINT64_MAX: unknown. Sets *is_low unless NULL. */
uint64_t ps_room_free(ps_room *room, bool *is_low);

/* RESOURCE_EXHAUSTED, with free and needed bytes, if the room was low when last looked at. */
PS_MUST_USE ps_status ps_room_check(ps_room *room);

/* RESOURCE_EXHAUSTED if a file of `bytes` in `folder` would not leave PS_ROOM_LAST_BYTES. Any
 * thread. */
PS_MUST_USE ps_status ps_room_for(const char *folder, uint64_t bytes);

#endif
