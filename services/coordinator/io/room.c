/* SPDX-License-Identifier: Apache-2.0 */
/* room.c - see room.h. */
#include "services/coordinator/io/room.h"

#include "common/base/files.h"
#include "common/base/log.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

static uint64_t free_in(const char *folder)
{
    uint64_t bytes = UINT64_MAX;
    ps_status st = ps_disk_free(folder, &bytes);

    return ps_is_ok(&st) ? bytes : UINT64_MAX; /* unknown: the space does not count as low */
}

static uint64_t reserve_bytes(const ps_room *room)
{
    uint64_t quarter = room->min_free_bytes / 4;

    if (room->is_of_checkpoints) {
        return 0;
    }
    return quarter < PS_ROOM_RESERVE_BYTES ? quarter : PS_ROOM_RESERVE_BYTES;
}

static void make_reserve(ps_room *room)
{
    int fd = open(room->reserve, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    if (fd < 0) {
        return; /* the folder does not exist, or the disk is full: the next call tries again */
    }
    room->has_reserve = posix_fallocate(fd, 0, (off_t)reserve_bytes(room)) == 0;
    close(fd);
    if (!room->has_reserve) {
        unlink(room->reserve);
    }
}

void ps_room_init(ps_room *room, const char *folder, bool is_of_checkpoints,
                  uint64_t min_free_bytes)
{
    *room = (ps_room){
        .folder = folder, .is_of_checkpoints = is_of_checkpoints, .min_free_bytes = min_free_bytes};
    pthread_mutex_init(&room->looking, NULL);
    pthread_mutex_init(&room->lock, NULL);
    snprintf(room->reserve, sizeof room->reserve, "%s/reserve", folder);
    room->has_reserve = !is_of_checkpoints && access(room->reserve, F_OK) == 0;
    ps_room_look(room);
}

void ps_room_fini(ps_room *room)
{
    pthread_mutex_destroy(&room->looking);
    pthread_mutex_destroy(&room->lock);
}

uint64_t ps_room_free(ps_room *room, bool *is_low)
{
    uint64_t free_bytes;

    pthread_mutex_lock(&room->lock);
    free_bytes = room->free_bytes;
    if (is_low) {
        *is_low = room->is_low;
    }
    pthread_mutex_unlock(&room->lock);
    return free_bytes;
}

/* Returns the free bytes. Removes the file `reserve` if the disk is full, and makes it again when
 * there is space. */
static uint64_t keep_reserve(ps_room *room)
{
    uint64_t free_bytes = free_in(room->folder);

    if (room->has_reserve && free_bytes < PS_ROOM_LAST_BYTES) {
        unlink(room->reserve);
        room->has_reserve = false;
        free_bytes = free_in(room->folder);
        ps_log(PS_LOG_WARN, "disk",
               "full: the file of --data-dir named reserve is removed to make space");
    } else if (!room->has_reserve && reserve_bytes(room) > 0 && free_bytes != UINT64_MAX &&
               free_bytes >= room->min_free_bytes + 2 * reserve_bytes(room)) {
        make_reserve(room);
    }
    return free_bytes;
}

void ps_room_look(ps_room *room)
{
    uint64_t free_bytes;
    bool was_low, is_low;

    pthread_mutex_lock(&room->looking);
    free_bytes = keep_reserve(room);
    pthread_mutex_lock(&room->lock);
    was_low = room->is_low;
    is_low = room->is_low = free_bytes < room->min_free_bytes;
    room->free_bytes = free_bytes;
    pthread_mutex_unlock(&room->lock);
    if (is_low && !was_low) {
        ps_status st = ps_room_check(room);

        ps_log(PS_LOG_WARN, "disk", "%s", st.text);
    } else if (was_low && !is_low) {
        ps_log(PS_LOG_INFO, "disk", "free space again: %s",
               room->is_of_checkpoints ? "checkpoints are stored"
                                       : "jobs are accepted and started");
    }
    pthread_mutex_unlock(&room->looking);
}

ps_status ps_room_check(ps_room *room)
{
    bool is_low = false;
    uint64_t free_bytes = ps_room_free(room, &is_low);

    if (!is_low) {
        return ps_ok();
    }
    if (room->is_of_checkpoints) {
        return ps_fail(PS_RESOURCE_EXHAUSTED,
                       "--checkpoint-path has %llu bytes free, %llu are needed (--min-free)",
                       (unsigned long long)free_bytes, (unsigned long long)room->min_free_bytes);
    }
    return ps_fail(PS_RESOURCE_EXHAUSTED,
                   "the coordinator's disk has %llu bytes free, %llu are needed for new jobs "
                   "(--min-free); make room",
                   (unsigned long long)free_bytes, (unsigned long long)room->min_free_bytes);
}

ps_status ps_room_for(const char *folder, uint64_t bytes)
{
    uint64_t room = free_in(folder);

    if (room == UINT64_MAX || (room >= PS_ROOM_LAST_BYTES && room - PS_ROOM_LAST_BYTES >= bytes)) {
        return ps_ok();
    }
    return ps_fail(PS_RESOURCE_EXHAUSTED, "%llu bytes are needed, %llu are free",
                   (unsigned long long)bytes + PS_ROOM_LAST_BYTES, (unsigned long long)room);
}
