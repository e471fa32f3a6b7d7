/* SPDX-License-Identifier: Apache-2.0 */
/* driver_presence.c - notices that the process of a member was killed: at once, not when its lease
 * ends.
 *
 * A stream to the member, Watch of the standard health service, stays open from CanCommit (from
 * PreCommit if the user named the nodes) until Abort has ended. The kernel breaks the stream when
 * the process ends. A task then connects to the member's address; if that is refused, the process
 * is gone. Whatever else breaks a stream is left to the lease, and the stream is opened again. The
 * task also runs if the member does not answer on its first stream soon: a process that ended
 * before has no connection that could break.
 */
#include "services/coordinator/driver_impl.h"

#include "common/base/container_of.h"
#include "common/base/xalloc.h"
#include "common/rpc/dial.h"
#include "common/rpc/health.h"

#include <stdio.h>
#include <stdlib.h>

static const int64_t first_us = 50000, again_us = 200000, dial_us = 1000000;

struct ps_presence {
    /* NULL: stopped; this is freed when neither stream, task nor timer is left */
    ps_attempt_node *node;
    ps_attempt *a;
    ps_stream *stream; /* NULL: none is open */
    ps_timer again;
    ps_task knock;
    bool was_heard; /* the member has answered on some stream, so it has the service */
    bool is_heard; /* the member has answered on the stream that is open: `knock` is not repeated */
    /* `knock` runs, or `again` is armed; from the start or the break of a stream until is_heard */
    bool is_looking;
    bool is_armed; /* the timer `again` is armed */
    bool is_refused;
    char address[PS_COMMIT_ADDRESS_MAX];
};

static void look(ps_presence *p);

/* Frees the presence if it was stopped and has no stream, task or timer any more. */
static void settle(ps_presence *p)
{
    ps_attempt *a = p->a;

    if (!p->node && !p->stream && !p->is_looking) {
        free(p);
        ps_attempt_settle(a);
    }
}

/* Ends the presence, as ps_presence_stop does, because it cannot notice anything. */
static void leave(ps_presence *p)
{
    p->node->presence = NULL;
    p->node = NULL;
    settle(p);
}

static void on_message(void *arg, const ProtobufCMessage *head, ps_payload *payload)
{
    ps_presence *p = arg;

    (void)head;
    (void)payload;
    p->was_heard = p->is_heard = true;
    if (p->node) {
        ps_stream_read(p->stream);
    }
}

static void on_end(void *arg, const ps_error *error)
{
    ps_presence *p = arg;

    (void)error;
    p->stream = NULL;
    p->is_heard = false;
    if (!p->node) {
        settle(p);
    } else if (!p->was_heard) {
        leave(p); /* the member lacks the service: only the lease notices its end */
    } else if (!p->is_looking) {
        look(p);
    }
}

static void open_stream(ps_presence *p)
{
    static const ps_stream_events events = {.on_message = on_message, .on_end = on_end};

    p->stream = ps_health_watch(p->node->channel, &events, p);
    ps_stream_read(p->stream);
}

static void knock(ps_task *task)
{
    ps_presence *p = PS_CONTAINER_OF(task, ps_presence, knock);

    p->is_refused = ps_dial_is_refused(p->address, dial_us);
}

static void on_again(ps_event *event, bool ok)
{
    ps_presence *p = PS_CONTAINER_OF(event, ps_presence, again.event);

    p->is_looking = p->is_armed = false;
    if (!p->node || !ok) {
        settle(p);
    } else if (!p->is_heard) {
        look(p); /* a stream that finds no connection stays open and silent */
    }
}

static void wait_again(ps_presence *p, int64_t us)
{
    p->is_armed = true;
    p->again.event.fire = on_again;
    ps_loop_after(p->a->c->loop, &p->again, us);
}

static void knocked(ps_task *task)
{
    ps_presence *p = PS_CONTAINER_OF(task, ps_presence, knock);
    ps_attempt *a = p->a;

    if (!p->node || !task->was_run) {
        p->is_looking = false;
        settle(p);
    } else if (p->is_refused) {
        size_t index = p->node->index;

        p->is_looking = false;
        a->pending++; /* keeps the attempt, which may end in the pump */
        ps_commit_gone(&a->commit, index, ps_coordinator_now_us(a->c));
        ps_attempt_pump(a);
        ps_attempt_settle(a);
    } else {
        /* Something may listen at the address: only the connection broke, or the process is ending
         * and has not closed its last descriptors yet. */
        if (!p->stream) {
            open_stream(p);
        }
        wait_again(p, again_us);
    }
}

/* Starts a task that tests whether the member's address refuses connections. If it does, reports to
 * the commit that the member is gone. Otherwise this is repeated after again_us, until the member
 * answers on a stream or the presence is stopped. */
static void look(ps_presence *p)
{
    p->is_looking = true;
    p->is_refused = false;
    p->knock = (ps_task){.run = knock, .done = knocked};
    ps_tasks_submit(p->a->c->knocks, NULL, &p->knock);
}

void ps_presence_start(ps_attempt_node *node)
{
    ps_presence *p;

    if (node->presence) {
        return;
    }
    p = ps_xcalloc(1, sizeof *p);
    p->node = node;
    p->a = node->a;
    snprintf(p->address, sizeof p->address, "%s", ps_attempt_node_member(node)->address);
    node->presence = p;
    p->a->pending++;
    open_stream(p);
    p->is_looking = true;
    wait_again(p, first_us);
}

void ps_presence_stop(ps_attempt_node *node)
{
    ps_presence *p = node->presence;

    if (!p) {
        return;
    }
    node->presence = NULL;
    p->node = NULL;
    if (p->stream) {
        ps_stream_cancel(p->stream);
    }
    if (p->is_armed) {
        wait_again(p, 0);
    }
    settle(p);
}
