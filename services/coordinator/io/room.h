/* SPDX-License-Identifier: Apache-2.0 */
/* room.h - watches the free space on the disk of the data directory, or of --checkpoint-path.
 *
 * Below min_free_bytes the space is low: no checkpoint is stored on this disk and, if it is that of
 * the data directory, no new job is accepted or started, so that running jobs can end. A file
 * `reserve` in the data directory occupies some space. When the disk is full the file is removed,
 * so that the registry can still store how jobs end and delete jobs. ps_room_look and ps_room_for
 * ask the file system; ps_room_free and ps_room_check return what ps_room_look found last, and
 * never wait. Any thread.
 */
#ifndef PS_COORDINATOR_ROOM_H
#define PS_COORDINATOR_ROOM_H

#include "common/base/status.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    PS_ROOM_LAST_BYTES = 1 << 20,   /* files of jobs leave this much free for the registry */
    PS_ROOM_RESERVE_BYTES = 4 << 20 /* limit of the file `reserve` */
};

typedef struct ps_room {
    char reserve[900];       /* path of the file `reserve` */
    const char *folder;      /* the data directory, or the folder of checkpoints; kept */
    bool is_of_checkpoints;  /* folder is that of checkpoints, so there is no file `reserve` */
    uint64_t min_free_bytes; /* 0: never low, and no file `reserve` */
    bool has_reserve;        /* guarded by `looking` */
    pthread_mutex_t looking; /* held during ps_room_look */
    pthread_mutex_t lock;    /* guards the members below */
    uint64_t free_bytes;     /* found by the last ps_room_look; UINT64_MAX: unknown */
    bool is_low;
} ps_room;

/* Initialises the struct and calls ps_room_look. `folder` may not exist yet. */
void ps_room_init(ps_room *room, const char *folder, bool is_of_checkpoints,
                  uint64_t min_free_bytes);
void ps_room_fini(ps_room *room);

/* Asks the file system for the free bytes. Removes the file `reserve` if the disk is full, and
 * creates it again when there is space; logs a change of is_low. Waits for the disk, so do not call
 * it on the loop's thread. */
void ps_room_look(ps_room *room);

/* Returns the free bytes that the last ps_room_look found; UINT64_MAX: unknown. Writes whether the
 * space was low to *is_low, which may be NULL. */
uint64_t ps_room_free(ps_room *room, bool *is_low);

/* Returns RESOURCE_EXHAUSTED, with free and needed bytes, if the last ps_room_look found the space
 * low. */
PS_MUST_USE ps_status ps_room_check(ps_room *room);

/* Returns RESOURCE_EXHAUSTED if a file of `bytes` in `folder` would leave less than
 * PS_ROOM_LAST_BYTES. Asks the file system. Any thread. */
PS_MUST_USE ps_status ps_room_for(const char *folder, uint64_t bytes);

#endif
