/* SPDX-License-Identifier: Apache-2.0 */
/* driver_collect.c - collects the files of one node: first its last counters, then Collect.
 *
 * A node that is still running, or does not answer, is called again until the commit's deadline
 * or lease ends this. Tasks check and write chunks, one after the other for each node, while the
 * next chunks arrive.
 *
 * The files of a node's checkpoint, and its part of a timeline, are collected in the same way while
 * the job trains. A failure then ends the checkpoint or timeline, and nothing is repeated. What a
 * node gives after a loss (driver_rescue.c) is asked for until the node has it.
 */
#include "services/coordinator/driver_impl.h"

#include "common/base/clock.h"
#include "common/base/container_of.h"
#include "common/base/log.h"
#include "common/base/xalloc.h"
#include "common/node/node.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert((int)PS_INTAKE_FILES_MAX >= (int)PS_NODE_FILES_MAX, "all files of a node are kept");

enum {
    STATUS_US = 2000000,
    RETRY_US = 200000,
    RESCUE_RETRY_US = 5000,
    WRITING_MAX = 4 /* while so many chunks of a node wait for the disk, none is requested */
};

struct ps_collect {
    ps_attempt_node *node; /* NULL: the collection was stopped */
    ps_attempt *a;
    ps_unary *status_call;
    ps_stream *stream;
    ps_timer retry;
    /* clock of the checkpoint, or state after a loss, that is collected; 0: none is */
    uint64_t checkpoint;
    /* 0: no timeline is collected; else the first step of the timeline that is */
    uint64_t trace;
    ps_collect **slot; /* the member of the node that points to this: collect, saving or tracing */
    /* collects the state of a server, or of all ranks of a mesh, after a loss; asks again until the
     * node can give it */
    bool rescues;
    bool of_copies; /* `rescues` collects the state of the server of which this one has copies */
    /* collects what a worker has kept of its contributions to the lost servers, and its ranks if
     * these have state */
    bool is_kept;
    bool parks; /* collects no files: has the ranks of a worker stand still; is_kept is set too */
    const char *folder; /* folder in which the files are written; borrowed */
    ps_strand *strand;  /* the node's strand, on which all its files are written */
    ps_intake intake;   /* used by tasks of the strand */
    size_t writing;     /* number of chunks that tasks have not written yet */
    bool is_paused;     /* no further chunk is requested until a task has written one */
    bool is_ending;     /* the stream has ended with `end`; the files are not closed yet */
    ps_error end;
    ps_task close;
    ps_status closed;  /* result of closing the files */
    ps_status failure; /* first failure to write a chunk, which cancels the stream */
};

/* A chunk that a task writes. */
typedef struct chunk {
    ps_task task;
    ps_collect *c;
    Psgd__V1__CollectResponse *head;
    ps_status status;
    size_t n;
    uint8_t bytes[];
} chunk;

static void open_stream(ps_collect *c);
static void end_files(ps_collect *c);

static void drop(ps_collect *c)
{
    ps_attempt *a = c->a;

    free(c);
    ps_attempt_settle(a);
}

/* Ends the collection of the node's files of a checkpoint, or of a server's state after a loss, and
 * reports the result. Frees c. */
static void conclude_checkpoint(ps_collect *c, const ps_status *result)
{
    ps_attempt_node *node = c->node;

    *c->slot = NULL;
    ps_checkpoint_collected(node, result, c->intake.files, c->intake.file_count);
    drop(c);
}

/* Ends the collection of the node's part of a timeline, and reports the result. Frees c. */
static void conclude_trace(ps_collect *c, const ps_status *result)
{
    *c->slot = NULL;
    ps_trace_collected(c->node, result);
    drop(c);
}

/* Ends the collection of what a worker has kept, or the wait until its ranks stand still, and
 * reports the result. Frees c. */
static void conclude_kept(ps_collect *c, const ps_status *result)
{
    *c->slot = NULL;
    ps_rescue_kept(c->node, result, c->intake.files, c->intake.file_count);
    drop(c);
}

/* Ends the collection of the attempt's files because a disk is full: the node's if is_its_disk,
 * else the coordinator's. The commit repeats it later. Frees c. */
static void wait_for_room(ps_collect *c, bool is_its_disk, const ps_status *why)
{
    ps_attempt *a = c->a;

    c->node->collect = NULL;
    ps_commit_held(&a->commit, c->node->index, is_its_disk, why, ps_coordinator_now_us(a->c));
    ps_attempt_pump(a);
    drop(c);
}

/* Ends the collection of the attempt's files and reports the result to the commit. Frees c. */
static void conclude(ps_collect *c, const ps_status *result)
{
    ps_attempt *a = c->a;

    if (!ps_is_ok(result)) {
        ps_log(PS_LOG_WARN, "job", "%s: the files of %s could not be collected: %s", a->job_id,
               ps_attempt_node_member(c->node)->id, result->text);
    }
    if (c->intake.has_diverged) {
        ps_commit_diverged(&a->commit, c->node->index);
    }
    c->node->collect = NULL;
    ps_commit_collected(&a->commit, c->node->index, result, ps_coordinator_now_us(a->c));
    ps_attempt_pump(a);
    drop(c);
}

static void on_retry(ps_event *event, bool ok)
{
    ps_collect *c = PS_CONTAINER_OF(event, ps_collect, retry.event);

    if (!ok || !c->node) {
        drop(c);
    } else {
        open_stream(c);
    }
}

static void write_chunk(ps_task *task)
{
    chunk *k = PS_CONTAINER_OF(task, chunk, task);

    k->status = ps_intake_chunk(&k->c->intake, k->head, k->bytes, k->n);
}

/* Handles the end of a task that wrote a chunk. Cancels the stream at the first failure. Closes the
 * files if the stream has ended and this was its last chunk; otherwise requests the next chunk, if
 * none was requested (is_paused). */
static void written(ps_task *task)
{
    chunk *k = PS_CONTAINER_OF(task, chunk, task);
    ps_collect *c = k->c;

    c->writing--;
    if (ps_is_ok(&c->failure) && !ps_is_ok(&k->status)) {
        c->failure = k->status;
        if (c->stream) {
            ps_stream_cancel(c->stream);
        }
    }
    psgd__v1__collect_response__free_unpacked(k->head, NULL);
    free(k);
    if (c->is_ending && c->writing == 0) {
        end_files(c);
    } else if (c->is_paused && c->stream && ps_is_ok(&c->failure)) {
        c->is_paused = false;
        ps_stream_read(c->stream);
    }
}

static void on_message(void *arg, const ProtobufCMessage *head, ps_payload *payload)
{
    ps_collect *c = arg;
    size_t n = ps_payload_len(payload);
    const uint8_t *bytes;
    chunk *k;

    if (!c->node || !ps_is_ok(&c->failure)) {
        return;
    }
    if (c->checkpoint == 0 && c->trace == 0 && !c->is_kept) {
        ps_commit_seen(&c->a->commit, c->node->index, ps_coordinator_now_us(c->a->c));
    }
    k = ps_xmalloc(sizeof *k + n);
    *k = (chunk){.task = {.run = write_chunk, .done = written}, .c = c, .n = n};
    k->status = ps_fail(PS_CANCELLED, "the coordinator is stopping");
    k->head = (Psgd__V1__CollectResponse *)ps_message_copy(head);
    bytes = ps_payload_view(payload, 0, n, k->bytes);
    if (n > 0 && bytes != k->bytes) {
        memcpy(k->bytes, bytes, n);
    }
    c->writing++;
    ps_coordinator_write(c->a->c, c->strand, &k->task);
    c->is_paused = c->writing >= WRITING_MAX;
    if (!c->is_paused) {
        ps_stream_read(c->stream);
    }
}

/* Adds the collected files to the job, except those of names with a dot in front: the coordinator
 * makes other files of them. */
static void list_files(ps_collect *c)
{
    const ps_member *m = ps_attempt_node_member(c->node);

    for (size_t i = 0; i < c->intake.file_count; i++) {
        const ps_intake_file *f = &c->intake.files[i];

        if (f->name[0] != '.') {
            ps_job_add_artifact(c->a->job->record.job, f->name, f->kind, f->size, f->sha256, m->id);
        }
    }
}

/* Handles the end of the task that closed the files: all chunks are written, and an unfinished file
 * is removed. Collects again soon, waits for room, or concludes with the result. */
static void files_ended(ps_task *task)
{
    ps_collect *c = PS_CONTAINER_OF(task, ps_collect, close);
    ps_error *error = &c->end;
    ps_status st = error->status;

    c->is_ending = false;
    if (!c->node) {
        drop(c);
        return;
    }
    if (ps_is_ok(&st)) {
        st = c->closed;
    }
    if ((c->rescues || c->is_kept) && ps_is_ok(&c->failure) && st.code == PS_UNAVAILABLE &&
        ps_commit_is_there(ps_attempt_node_member(c->node))) {
        c->retry.event.fire = on_retry;
        ps_loop_after(c->a->c->loop, &c->retry, RESCUE_RETRY_US);
        return;
    }
    if (c->checkpoint > 0 || c->trace > 0 || c->is_kept) {
        st = ps_is_ok(&c->failure) ? st : c->failure;
        (c->is_kept ? conclude_kept : c->trace > 0 ? conclude_trace : conclude_checkpoint)(c, &st);
        return;
    }
    if (!ps_is_ok(&c->failure) && ps_commit_may_pass(c->failure.code)) {
        wait_for_room(c, false, &c->failure);
        return;
    }
    if (strcmp(error->reason, PS_NODE_NO_ROOM) == 0) {
        wait_for_room(c, true, &st);
        return;
    }
    if (!ps_is_ok(&c->failure)) {
        st = c->failure;
    } else if (st.code == PS_UNAVAILABLE || st.code == PS_FAILED_PRECONDITION ||
               st.code == PS_DATA_LOSS || st.code == PS_DEADLINE_EXCEEDED ||
               st.code == PS_ABORTED) { /* aborted: the node gives the attempt up, and says why */
        ps_log(PS_LOG_DEBUG, "job", "%s: collect from %s: %s, again soon", c->a->job_id,
               ps_attempt_node_member(c->node)->id, st.text);
        c->retry.event.fire = on_retry;
        ps_loop_after(c->a->c->loop, &c->retry, RETRY_US);
        return;
    }
    if (ps_is_ok(&st)) {
        list_files(c);
    }
    conclude(c, &st);
}

static void close_files(ps_task *task)
{
    ps_collect *c = PS_CONTAINER_OF(task, ps_collect, close);

    c->closed = ps_intake_end(&c->intake);
    ps_intake_fini(&c->intake);
}

static void end_files(ps_collect *c)
{
    c->close = (ps_task){.run = close_files, .done = files_ended, .runs_at_end = true};
    ps_coordinator_write(c->a->c, c->strand, &c->close);
}

static void on_end(void *arg, const ps_error *error)
{
    ps_collect *c = arg;

    c->stream = NULL;
    c->end = *error;
    c->is_ending = true;
    if (c->writing == 0) {
        end_files(c);
    }
}

static void open_stream(ps_collect *c)
{
    static const ps_stream_events events = {.on_message = on_message, .on_end = on_end};
    Psgd__V1__CollectRequest q = PSGD__V1__COLLECT_REQUEST__INIT;
    const ps_member *m = ps_attempt_node_member(c->node);
    bool is_of_all = c->rescues && c->a->plan->mesh != NULL; /* a worker gives all ranks */
    const ps_leaver who = {
        .plan = c->a->plan,
        .placement = &c->a->placement,
        .is_server = m->role == PSGD__V1__NODE_ROLE__NODE_ROLE_PSERVER,
        .rank = is_of_all      ? 0
                : c->of_copies ? ps_placement_copied(&c->a->placement, m->rank)
                               : m->rank,
        .rank_count = is_of_all ? c->a->placement.rank_count : m->rank_count,
        .is_checkpoint = c->checkpoint > 0,
        .is_kept = c->is_kept,
        .is_trace = c->trace > 0,
    };

    ps_intake_init(&c->intake, c->folder, c->node->log_name, &who);
    c->is_paused = false;
    c->failure = ps_ok();
    c->stream = ps_stream_open(c->node->channel, &psgd__v1__node_service__descriptor, "Collect",
                               c->a->commit.conf.collect_us, 0, &events, c);
    q.job_id = c->a->job_id;
    q.attempt = c->a->number;
    q.checkpoint = c->checkpoint;
    q.trace = c->trace;
    q.rescues = c->rescues;
    q.copies = c->of_copies;
    q.parks = c->parks;
    if (c->is_kept && !c->parks) {
        q.lost_servers = c->a->rescue.lost;
        q.n_lost_servers = c->a->rescue.lost_count;
        q.ranks = c->a->commit.conf.carries;
    }
    ps_stream_send(c->stream, &q.base, NULL, 0);
    ps_stream_half_close(c->stream);
    ps_stream_read(c->stream);
}

static void on_status(void *arg, const ps_error *error, const ProtobufCMessage *reply)
{
    const Psgd__V1__GetStatusResponse *r = (const void *)reply;
    ps_collect *c = arg;

    c->status_call = NULL;
    if (!c->node) {
        drop(c);
        return;
    }
    if (ps_is_ok(&error->status) && r->n_progress > 0) {
        ps_progress_take(c->a, c->node, r->progress, r->n_progress, ps_clock_us());
    }
    if (ps_is_ok(&error->status) && r->counters) {
        if (c->node->counters) {
            psgd__v1__server_counters__free_unpacked(c->node->counters, NULL);
        }
        c->node->counters = (void *)ps_message_copy(&r->counters->base);
        ps_progress_servers(c->a, ps_clock_us());
    }
    open_stream(c);
}

static ps_collect *begin(ps_attempt_node *node, ps_collect **slot, const char *folder)
{
    ps_collect *c = ps_xcalloc(1, sizeof *c);

    *slot = c;
    c->slot = slot;
    c->node = node;
    c->a = node->a;
    c->strand = &node->files;
    c->folder = folder;
    c->a->pending++;
    return c;
}

void ps_collect_checkpoint(ps_attempt_node *node, uint64_t clock, const char *folder)
{
    ps_collect *c = begin(node, &node->saving, folder);

    c->checkpoint = clock;
    open_stream(c);
}

void ps_collect_trace(ps_attempt_node *node, uint64_t from_step, const char *folder)
{
    ps_collect *c = begin(node, &node->tracing, folder);

    c->trace = from_step;
    open_stream(c);
}

void ps_collect_rescued(ps_attempt_node *node, uint64_t clock, bool of_copies, const char *folder)
{
    ps_collect *c = begin(node, &node->saving, folder);

    c->checkpoint = clock;
    c->rescues = true;
    c->of_copies = of_copies;
    open_stream(c);
}

void ps_collect_parked(ps_attempt_node *node, const char *folder)
{
    ps_collect *c = begin(node, &node->saving, folder);

    c->is_kept = c->parks = true;
    open_stream(c);
}

void ps_collect_kept(ps_attempt_node *node, const char *folder)
{
    ps_collect *c = begin(node, &node->saving, folder);

    c->is_kept = true;
    open_stream(c);
}

void ps_collect_start(ps_attempt_node *node)
{
    Psgd__V1__GetStatusRequest q = PSGD__V1__GET_STATUS_REQUEST__INIT;
    ps_collect *c = begin(node, &node->collect, node->a->folder);

    c->status_call = ps_unary_start(node->channel, &psgd__v1__node_service__descriptor, "GetStatus",
                                    &q.base, STATUS_US, on_status, c);
}

void ps_collect_stop(ps_collect *collect)
{
    ps_collect *c = collect;

    *c->slot = NULL;
    c->node = NULL;
    if (c->status_call) {
        ps_unary_cancel(c->status_call);
    } else if (c->stream) {
        ps_stream_cancel(c->stream);
    } else if (!c->is_ending) {
        ps_loop_after(c->a->c->loop, &c->retry, 0); /* on_retry frees c */
    }
}
