/* SPDX-License-Identifier: Apache-2.0 */
/* disk.c - the free space of a node's disk: a task reads it, heartbeats report it. */
#include "common/base/clock.h"
#include "common/base/container_of.h"
#include "common/base/files.h"
#include "common/base/xalloc.h"
#include "common/node/node_impl.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    LOOK_US = 1000000,   /* least time between the beginnings of two reads */
    FULL_BYTES = 2 << 20 /* with less free space, RESOURCE_EXHAUSTED always means a full disk */
};

typedef struct looking {
    ps_task task;
    ps_node *node;
    char folder[512];
    uint64_t free_bytes;
} looking;

static uint64_t free_in(const char *folder)
{
    uint64_t bytes = UINT64_MAX;
    ps_status st = ps_disk_free(folder, &bytes);

    return ps_is_ok(&st) ? bytes : UINT64_MAX; /* unknown: never counts as low */
}

static void look(ps_task *task)
{
    looking *l = PS_CONTAINER_OF(task, looking, task);

    l->free_bytes = free_in(l->folder);
}

static void looked(ps_task *task)
{
    looking *l = PS_CONTAINER_OF(task, looking, task);
    ps_node *node = l->node;

    if (task->was_run) {
        node->disk.free_bytes = l->free_bytes;
    }
    node->disk.is_looking = false;
    free(l);
    ps_node_gone(node);
}

void ps_node_disk_init(ps_node *node, uint64_t min_free_bytes)
{
    node->disk.min_free_bytes = min_free_bytes;
    node->disk.free_bytes = free_in(node->data_dir);
    node->disk.looked_us = ps_clock_us();
}

/* Starts a task that reads the free space, if the last one began LOOK_US ago or earlier and has
 * ended. */
static void look_again(ps_node *node)
{
    int64_t now_us = ps_clock_us();
    looking *l;

    if (node->disk.is_looking || node->is_closing || now_us - node->disk.looked_us < LOOK_US) {
        return;
    }
    l = ps_xcalloc(1, sizeof *l);
    l->task.run = look;
    l->task.done = looked;
    l->node = node;
    snprintf(l->folder, sizeof l->folder, "%s", node->data_dir);
    node->disk.is_looking = true;
    node->disk.looked_us = now_us;
    node->alive++;
    ps_tasks_submit(node->log_tasks, NULL, &l->task);
}

void ps_node_disk_tell(ps_node *node, Psgd__V1__DiskInfo *disk)
{
    psgd__v1__disk_info__init(disk);
    disk->free_bytes = node->disk.free_bytes;
    disk->needed_bytes = node->disk.min_free_bytes;
    disk->is_low = node->disk.free_bytes < node->disk.min_free_bytes;
    look_again(node);
}

bool ps_node_disk_is_full(const ps_node *node, const ps_status *st)
{
    uint64_t least =
        node->disk.min_free_bytes > FULL_BYTES ? node->disk.min_free_bytes : FULL_BYTES;

    return st->code == PS_RESOURCE_EXHAUSTED && free_in(node->data_dir) < least;
}
