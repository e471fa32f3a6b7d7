/* SPDX-License-Identifier: Apache-2.0 */
/* driver_log.c - stores the log of a node, which is sent with its heartbeats.
 *
 * The answer to a heartbeat says how many bytes are stored so far; the node sends the
 * rest again. Of each node one part is being stored at a time, so a slow disk costs little memory.
 */
#include "services/coordinator/driver_impl.h"

#include "common/base/container_of.h"
#include "common/base/log.h"
#include "common/base/xalloc.h"

#include <stdlib.h>
#include <string.h>

typedef struct piece {
    ps_task task;
    ps_attempt_node *node;
    uint64_t offset, stored;
    ps_status status;
    size_t n;
    uint8_t bytes[];
} piece;

const char *ps_attempt_node_log_name(ps_attempt_node *p)
{
    if (!p->logs_known && ps_attempt_node_member(p)->id[0] != '\0') {
        ps_artifacts_log_name(p->log_name, p->a->plan->spec->title, ps_attempt_node_member(p)->id,
                              p->a->number);
        p->logs_known = true;
    }
    return p->log_name;
}

static void store(ps_task *task)
{
    piece *k = PS_CONTAINER_OF(task, piece, task);

    k->status = ps_artifacts_append(k->node->a->folder, k->node->log_name, k->offset, k->bytes,
                                    k->n, &k->stored);
}

static void stored(ps_task *task)
{
    piece *k = PS_CONTAINER_OF(task, piece, task);
    ps_attempt_node *p = k->node;
    ps_attempt *a = p->a;
    bool is_ok = task->was_run && ps_is_ok(&k->status);

    p->log_busy = false;
    a->logging--;
    if (is_ok) {
        p->log_known = true;
        p->log_stored = k->stored;
        /* if it is not stored, the node still has this part of its log and sends it again */
    } else if (task->was_run && !p->log_waits) {
        ps_log(PS_LOG_WARN, "job", "%s: log of %s: %s; it is stored later", a->job_id,
               ps_attempt_node_member(p)->id, k->status.text);
    }
    p->log_waits = task->was_run && !is_ok;
    if (is_ok && k->n > 0 && a->job) {
        ps_jobs_publish(a->job->board, a->job, PS_JOB_FILES);
    }
    free(k);
    if (a->store_waits && a->logging == 0 && a->job) {
        a->store_waits = false;
        ps_archive_start(a);
    }
    ps_attempt_settle(a);
}

static void start_storing(ps_attempt_node *p, const Psgd__V1__HeartbeatRequest *beat, size_t n)
{
    piece *k = ps_xmalloc(sizeof *k + n);

    *k = (piece){
        .task = {.run = store, .done = stored}, .node = p, .offset = beat->log_offset, .n = n};
    if (n > 0) {
        memcpy(k->bytes, beat->log_bytes.data, n);
    }
    p->log_busy = true;
    p->a->logging++;
    p->a->pending++;
    ps_coordinator_write(p->a->c, &p->files, &k->task);
}

void ps_attempt_node_take_log(ps_attempt_node *p, const Psgd__V1__HeartbeatRequest *beat,
                              Psgd__V1__HeartbeatResponse *answer)
{
    ps_attempt *a = p->a;
    bool has_room = ps_room_free(&a->c->room, NULL) >= PS_ROOM_LAST_BYTES;
    size_t n = has_room ? beat->log_bytes.len : 0;

    /* the manifest may have the log's size already, so the bytes are dropped */
    if (a->commit.stage >= PS_STAGE_STORE) {
        answer->log_stored = beat->log_offset + beat->log_bytes.len;
        return;
    }
    answer->log_stored = p->log_known ? p->log_stored : beat->log_offset;
    ps_attempt_node_log_name(p);
    if (!p->log_busy && (n > 0 || !p->log_known)) {
        start_storing(p, beat, n);
    }
}
