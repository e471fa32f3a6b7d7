/* SPDX-License-Identifier: Apache-2.0 */
/* driver_collect.c - the files of one node: its last counters, then Collect.
 *
 * A node that is not over yet, or cannot be reached, is asked again until the
 * commit's deadline or lease says otherwise.
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

enum { STATUS_US = 2000000, RETRY_US = 200000 };

struct ps_collect {
    ps_peer *peer; /* NULL: stopped */
    ps_attempt *a;
    ps_unary *status_call;
    ps_stream *stream;
    ps_timer retry;
    ps_intake intake;
    bool has_intake;
    ps_status failure; /* of a chunk: the stream was cancelled for it */
};

static void open_stream(ps_collect *c);

static void drop(ps_collect *c)
{
    ps_attempt *a = c->a;

    if (c->has_intake) {
        ps_intake_fini(&c->intake);
    }
    free(c);
    ps_attempt_settle(a);
}

/* Ends it: a disk is full, the commit asks again later. */
static void wait_for_room(ps_collect *c, bool is_its_disk, const ps_status *why)
{
    ps_attempt *a = c->a;

    c->peer->collect = NULL;
    ps_commit_held(&a->commit, c->peer->index, is_its_disk, why, ps_loop_now_us(a->c->loop));
    ps_attempt_pump(a);
    drop(c);
}

/* Ends it and tells the commit. */
static void conclude(ps_collect *c, const ps_status *result)
{
    ps_attempt *a = c->a;

    if (!ps_is_ok(result)) {
        ps_log(PS_LOG_WARN, "job", "%s: the files of %s could not be had: %s", a->job_id,
               ps_peer_member(c->peer)->id, result->text);
    }
    c->peer->collect = NULL;
    ps_commit_collected(&a->commit, c->peer->index, result, ps_loop_now_us(a->c->loop));
    ps_attempt_pump(a);
    drop(c);
}

static void on_retry(ps_event *event, bool ok)
{
    ps_collect *c = PS_CONTAINER_OF(event, ps_collect, retry.event);

    if (!ok || !c->peer) {
        drop(c);
    } else {
        open_stream(c);
    }
}

static void on_message(void *arg, const ProtobufCMessage *head, ps_payload *payload)
{
    ps_collect *c = arg;

    if (!c->peer || !ps_is_ok(&c->failure)) {
        return;
    }
    ps_commit_seen(&c->a->commit, c->peer->index, ps_loop_now_us(c->a->c->loop));
    c->failure =
        ps_intake_chunk(&c->intake, (const Psgd__V1__CollectResponse *)(const void *)head, payload);
    if (ps_is_ok(&c->failure)) {
        ps_stream_read(c->stream);
    } else {
        ps_stream_cancel(c->stream);
    }
}

/* The files are the job's from now on. */
static void list_files(ps_collect *c)
{
    const ps_member *m = ps_peer_member(c->peer);

    for (size_t i = 0; i < c->intake.file_count; i++) {
        const ps_intake_file *f = &c->intake.files[i];

        if (f->name[0] != '.') {
            ps_job_add_artifact(c->a->job->record.job, f->name, f->kind, f->size, f->sha256, m->id);
        }
    }
}

static void on_end(void *arg, const ps_error *error)
{
    ps_collect *c = arg;
    ps_status st = error->status;

    c->stream = NULL;
    if (!c->peer) {
        drop(c);
        return;
    }
    if (ps_is_ok(&st)) {
        st = ps_intake_end(&c->intake);
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
               st.code == PS_DATA_LOSS || st.code == PS_DEADLINE_EXCEEDED) {
        ps_log(PS_LOG_DEBUG, "job", "%s: collect from %s: %s, again soon", c->a->job_id,
               ps_peer_member(c->peer)->id, st.text);
        c->retry.event.fire = on_retry;
        ps_loop_after(c->a->c->loop, &c->retry, RETRY_US);
        return;
    }
    if (ps_is_ok(&st)) {
        list_files(c);
    }
    conclude(c, &st);
}

static void open_stream(ps_collect *c)
{
    static const ps_stream_events events = {.on_message = on_message, .on_end = on_end};
    Psgd__V1__CollectRequest q = PSGD__V1__COLLECT_REQUEST__INIT;

    if (c->has_intake) {
        ps_intake_fini(&c->intake);
    }
    ps_intake_init(&c->intake, c->a->folder, c->peer->log_name, ps_peer_member(c->peer)->rank);
    c->has_intake = true;
    c->failure = ps_ok();
    c->stream = ps_stream_open(c->peer->channel, &psgd__v1__node_service__descriptor, "Collect",
                               c->a->commit.conf.collect_us, 0, &events, c);
    q.job_id = c->a->job_id;
    q.attempt = c->a->number;
    ps_stream_send(c->stream, &q.base, NULL, 0);
    ps_stream_half_close(c->stream);
    ps_stream_read(c->stream);
}

static void on_status(void *arg, const ps_error *error, const ProtobufCMessage *reply)
{
    const Psgd__V1__GetStatusResponse *r = (const void *)reply;
    ps_collect *c = arg;

    c->status_call = NULL;
    if (!c->peer) {
        drop(c);
        return;
    }
    if (ps_is_ok(&error->status) && r->n_progress > 0) {
        ps_progress_take(c->a, c->peer, r->progress, r->n_progress, ps_clock_us());
    }
    if (ps_is_ok(&error->status) && r->counters) {
        if (c->peer->counters) {
            psgd__v1__server_counters__free_unpacked(c->peer->counters, NULL);
        }
        c->peer->counters = (void *)ps_message_copy(&r->counters->base);
    }
    open_stream(c);
}

void ps_collect_start(ps_peer *peer)
{
    Psgd__V1__GetStatusRequest q = PSGD__V1__GET_STATUS_REQUEST__INIT;
    ps_collect *c = ps_xcalloc(1, sizeof *c);

    c->peer = peer;
    c->a = peer->a;
    peer->collect = c;
    c->a->pending++;
    c->status_call = ps_unary_start(peer->channel, &psgd__v1__node_service__descriptor, "GetStatus",
                                    &q.base, STATUS_US, on_status, c);
}

void ps_collect_stop(ps_collect *collect)
{
    ps_collect *c = collect;

    c->peer->collect = NULL;
    c->peer = NULL;
    if (c->status_call) {
        ps_unary_cancel(c->status_call);
    } else if (c->stream) {
        ps_stream_cancel(c->stream);
    } else {
        ps_loop_after(c->a->c->loop, &c->retry, 0); /* it ends at its retry */
    }
}
