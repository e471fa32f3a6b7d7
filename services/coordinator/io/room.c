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

    return ps_is_ok(&st) ? bytes : UINT64_MAX; /* unknown is not low */
}

static uint64_t reserve_bytes(const ps_room *room)
{
    uint64_t quarter = room->min_free_bytes / 4;

    return quarter < PS_ROOM_RESERVE_BYTES ? quarter : PS_ROOM_RESERVE_BYTES;
}

static void make_reserve(ps_room *room)
{
    int fd = open(room->reserve, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    if (fd < 0) {
        return; /* there is no folder yet, or no room: at a later look */
    }
    room->has_reserve = posix_fallocate(fd, 0, (off_t)reserve_bytes(room)) == 0;
    close(fd);
    if (!room->has_reserve) {
        unlink(room->reserve);
    }
}

void ps_room_init(ps_room *room, const char *folder, uint64_t min_free_bytes)
{
    *room = (ps_room){.folder = folder, .min_free_bytes = min_free_bytes};
    snprintf(room->reserve, sizeof room->reserve, "%s/reserve", folder);
    room->has_reserve = access(room->reserve, F_OK) == 0;
    ps_room_look(room);
}

void ps_room_look(ps_room *room)
{
    bool was_low = room->is_low;

    room->free_bytes = free_in(room->folder);
    if (room->has_reserve && room->free_bytes < PS_ROOM_LAST_BYTES) {
        unlink(room->reserve);
        room->has_reserve = false;
        room->free_bytes = free_in(room->folder);
        ps_log(PS_LOG_WARN, "disk", "full: the reserve is given back for what must be stored");
    } else if (!room->has_reserve && reserve_bytes(room) > 0 && room->free_bytes != UINT64_MAX &&
               room->free_bytes >= room->min_free_bytes + 2 * reserve_bytes(room)) {
        make_reserve(room);
    }
    room->is_low = room->free_bytes < room->min_free_bytes;
    if (room->is_low && !was_low) {
        ps_status st = ps_room_check(room);

        ps_log(PS_LOG_WARN, "disk", "%s", st.text);
    } else if (was_low && !room->is_low) {
        ps_log(PS_LOG_INFO, "disk", "there is room again: jobs are taken in and started");
    }
}

ps_status ps_room_check(const ps_room *room)
{
    if (!room->is_low) {
        return ps_ok();
    }
    return ps_fail(PS_RESOURCE_EXHAUSTED,
                   "the coordinator's disk has %llu bytes free, %llu are needed for new jobs "
                   "(--min-free); make room",
                   (unsigned long long)room->free_bytes, (unsigned long long)room->min_free_bytes);
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
