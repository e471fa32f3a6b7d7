/* SPDX-License-Identifier: Apache-2.0 */
/* link.c - a node's registration with one coordinator, or with that of several which leads: it
 * registers, then sends heartbeats at the interval it was given, and at once after a change.
 *
 * One call is in progress at a time. If a coordinator does not answer, the node tries again for
 * ever, with growing pauses; of several it tries the next. Only registrations, and the loss and
 * the return of a coordinator, are logged.
 */
#include "common/base/clock.h"
#include "common/base/container_of.h"
#include "common/base/draw.h"
#include "common/base/log.h"
#include "common/base/utf8.h"
#include "common/base/xalloc.h"
#include "common/nn/blas.h"
#include "common/node/node_impl.h"
#include "common/rpc/follow.h"
#include "common/trace/trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOG_PIECE_BYTES = 32 << 10 };
static const int64_t call_timeout_us = 5000000;
static const int64_t first_pause_us = 200000, longest_pause_us = 5000000;
/* timeout and longest pause if the link has several coordinators: it then asks the next one */
static const int64_t call_timeout_of_several_us = 1500000, longest_pause_of_several_us = 300000;
/* pause before another coordinator is called that has not failed */
static const int64_t move_us = 50000;
/* timeout of the last heartbeat, which says that the node leaves */
static const int64_t farewell_us = 1000000;
/* pause between heartbeats while more than half a LOG_PIECE_BYTES of the log is to be sent */
static const int64_t more_log_us = 20000;
/* pause between heartbeats while workers stand still, until an answer says where they end or that
 * they go on from the checkpoint */
static const int64_t held_us = 20000;

/* the error of a node that releases an attempt which it had finished */
static char given_up[] = "it has given up its part of the job, which it had finished";

struct ps_link {
    ps_node *node;
    ps_follow *follow; /* NULL: end_link was called */
    ps_timer timer;
    ps_unary *call; /* the call in progress; NULL: none is */
    bool is_registered;
    bool is_away, is_closed;
    bool is_leaving; /* the last heartbeat is sent when the call in progress has ended */
    bool again;      /* something changed during the call, so the next one follows at once */
    uint32_t heartbeat_ms;
    int64_t pause_us;
    uint64_t failures;
    int64_t sent_ns;      /* when the heartbeat in progress was sent, by this node's clock */
    ps_trace_clock clock; /* round trips since registration; they give the clocks' difference */
    /* The attempt that the heartbeat in progress, or else the last one, reports; "": none. */
    char job_id[PS_JOB_ID_MAX];
    uint32_t attempt;
    char *log_piece; /* (LOG_PIECE_BYTES) */
};

bool ps_link_knows(const ps_link *link, const char *address)
{
    return ps_follow_knows(link->follow, address);
}

ps_channel *ps_link_channel(const ps_link *link)
{
    return ps_follow_channel(link->follow);
}

bool ps_link_is_registered(const ps_link *link)
{
    return link->is_registered && !link->is_away;
}

const char *ps_link_address(const ps_link *link)
{
    return ps_follow_address(link->follow);
}

ps_trace_alignment ps_link_align(const ps_link *link, int64_t at_ns)
{
    return ps_trace_clock_at(&link->clock, at_ns);
}

static int64_t call_timeout(const ps_link *link)
{
    return ps_follow_has_others(link->follow) ? call_timeout_of_several_us : call_timeout_us;
}

static void free_link(ps_link *link)
{
    ps_node *node = link->node;

    free(link->log_piece);
    free(link);
    ps_node_gone(node);
}

static void say_farewell(ps_link *link);

/* Goes on with a closed link whose call in progress has ended: sends the last heartbeat if
 * is_leaving is set, else frees the link. */
static void call_ended(ps_link *link)
{
    if (link->is_leaving) {
        say_farewell(link);
    } else {
        free_link(link);
    }
}

/* Returns 0.75 to 1.25 times `us`, so that nodes that lost a coordinator at the same time do not
 * all return at the same time. */
static int64_t jittered(const ps_link *link, int64_t us)
{
    return (int64_t)((double)us *
                     (0.75 + 0.5 * ps_draw_unit(link->node->incarnation, link->failures)));
}

static bool is_session_link(const ps_link *link)
{
    return link->node->link == link;
}

static void failed(ps_link *link, const ps_error *error, const char *what)
{
    int64_t longest_us =
        ps_follow_has_others(link->follow) ? longest_pause_of_several_us : longest_pause_us;
    ps_next next;

    if (!link->is_away) {
        ps_log(PS_LOG_WARN, "link", "coordinator %s: %s: %s; trying again",
               ps_follow_address(link->follow), what, error->status.text);
    }
    link->is_away = true;
    if (is_session_link(link)) { /* no coordinator is there who could store the last checkpoint */
        ps_node_last_checkpoint(link->node, 0);
    }
    link->failures++;
    next = ps_follow_failed(link->follow, error);
    if (next != PS_NEXT_NONE && is_session_link(link) && link->node->ready) {
        ps_ready_repeat(link->node->ready);
    }
    if (next == PS_NEXT_NOW) {
        ps_loop_after(link->node->loop, &link->timer, jittered(link, move_us));
        return;
    }
    ps_loop_after(link->node->loop, &link->timer, jittered(link, link->pause_us));
    link->pause_us = 2 * link->pause_us < longest_us ? 2 * link->pause_us : longest_us;
}

static void succeeded(ps_link *link)
{
    if (link->is_away) {
        ps_log(PS_LOG_INFO, "link", "coordinator %s answers again",
               ps_follow_address(link->follow));
    }
    link->is_away = false;
    link->pause_us = first_pause_us;
}

/* Returns whether the last heartbeat reported an attempt that the node still holds or releases. */
static bool is_same_attempt(const ps_link *link)
{
    const ps_agent *shown = ps_node_shown(link->node);

    return link->job_id[0] != '\0' && strcmp(shown->job_id, link->job_id) == 0 &&
           shown->attempt == link->attempt;
}

/* --- registration ---------------------------------------------------------- */

static void registered(void *arg, const ps_error *error, const ProtobufCMessage *message)
{
    const Psgd__V1__RegisterNodeResponse *reply = (const Psgd__V1__RegisterNodeResponse *)message;
    ps_link *link = arg;

    link->call = NULL;
    if (link->is_closed) {
        call_ended(link);
        return;
    }
    if (!ps_is_ok(&error->status)) {
        failed(link, error, "cannot register");
        return;
    }
    succeeded(link);
    link->is_registered = true;
    link->clock = (ps_trace_clock){0}; /* the coordinator may be another one than before */
    link->heartbeat_ms = reply->heartbeat_ms < 10      ? 10
                         : reply->heartbeat_ms > 60000 ? 60000
                                                       : reply->heartbeat_ms;
    ps_log(PS_LOG_INFO, "link", "registered with %s as %s", ps_follow_address(link->follow),
           link->node->node_id);
    ps_loop_after(link->node->loop, &link->timer, 0);
}

static void do_register(ps_link *link)
{
    Psgd__V1__RegisterNodeRequest request = PSGD__V1__REGISTER_NODE_REQUEST__INIT;
    char kernels[PS_NN_KERNELS_BYTES];

    request.node_id = link->node->node_id;
    request.incarnation = link->node->incarnation;
    request.role = link->node->hooks->role;
    request.address = link->node->address;
    request.version = (char *)PS_VERSION;
    request.kernels = ps_nn_kernels(kernels);
    request.threads = link->node->threads;
    request.loop = link->node->computes;
    request.links = (Psgd__V1__LinkProtection)link->node->links;
    link->call =
        ps_unary_start(ps_link_channel(link), &psgd__v1__coordinator_service__descriptor,
                       "RegisterNode", &request.base, call_timeout(link), registered, link);
}

/* --- heartbeat ------------------------------------------------------------- */

static void obey(ps_link *link, const Psgd__V1__HeartbeatResponse *reply)
{
    ps_node *node = link->node;

    node->log_shipped = reply->log_stored;
    ps_node_heard(node);
    for (size_t i = 0; i < reply->n_lost_workers && node->hooks->lose != NULL; i++) {
        if (node->session != NULL && !node->is_releasing &&
            reply->lost_workers[i] < node->session->placement.rank_count) {
            node->hooks->lose(node->state, reply->lost_workers[i]);
        }
    }
    if (node->session != NULL && !node->is_releasing && node->hooks->hold != NULL) {
        if (reply->directive == PSGD__V1__NODE_DIRECTIVE__NODE_DIRECTIVE_HOLD) {
            node->hooks->hold(node->state);
        } else if (reply->directive == PSGD__V1__NODE_DIRECTIVE__NODE_DIRECTIVE_END) {
            node->hooks->end_at(node->state, reply->end_clock);
        }
    }
    ps_checkpoint_obey(node, reply);
    ps_trace_obey(node, reply);
    if (reply->directive == PSGD__V1__NODE_DIRECTIVE__NODE_DIRECTIVE_ABORT && !node->is_releasing) {
        ps_node_abort(node, link->job_id, link->attempt, reply->is_lost,
                      "the coordinator no longer has this attempt");
    }
}

static void heartbeat_answered(void *arg, const ps_error *error, const ProtobufCMessage *message)
{
    const Psgd__V1__HeartbeatResponse *reply = (const Psgd__V1__HeartbeatResponse *)message;
    ps_link *link = arg;
    ps_node *node = link->node;
    bool has_more, is_held;

    link->call = NULL;
    if (link->is_closed) {
        call_ended(link);
        return;
    }
    if (!ps_is_ok(&error->status)) {
        if (error->status.code == PS_NOT_FOUND) { /* the coordinator does not know this node */
            link->is_registered = false;
            ps_loop_after(node->loop, &link->timer, 0);
        } else {
            failed(link, error, "heartbeat");
        }
        return;
    }
    succeeded(link);
    ps_trace_clock_add(&link->clock, link->sent_ns, (int64_t)reply->clock_ns, ps_trace_now_ns());
    /* If the coordinator stored nothing of the piece, its disk is full: do not hurry then. */
    has_more = is_session_link(link) && is_same_attempt(link) && node->log != NULL &&
               reply->log_stored > node->log_shipped &&
               reply->log_stored + LOG_PIECE_BYTES / 2 < ps_joblog_size(node->log);
    is_held = reply->directive == PSGD__V1__NODE_DIRECTIVE__NODE_DIRECTIVE_HOLD ||
              reply->checkpoint_stays;
    ps_loop_after(node->loop, &link->timer,
                  link->again ? 0
                  : is_held   ? held_us
                  : has_more  ? more_log_us
                              : (int64_t)link->heartbeat_ms * 1000);
    if (is_session_link(link) && is_same_attempt(link)) {
        obey(link, reply); /* last, because it may close the link */
    }
}

/* Fills in what a heartbeat says of the node's attempt: job and phase. On the link to the attempt's
 * coordinator adds the failure, progress, missing workers, checkpoints and the next piece of the
 * log. */
static void fill_attempt(ps_link *link, Psgd__V1__HeartbeatRequest *request)
{
    ps_node *node = link->node;
    const ps_agent *shown = ps_node_shown(node);
    size_t n;

    link->job_id[0] = '\0';
    request->phase = (Psgd__V1__NodePhase)shown->phase;
    if (shown->phase == PS_PHASE_IDLE) {
        return;
    }
    snprintf(link->job_id, sizeof link->job_id, "%s", shown->job_id);
    link->attempt = shown->attempt;
    request->job_id = link->job_id;
    request->attempt = shown->attempt;
    if (!is_session_link(link)) {
        return;
    }
    if (node->is_releasing && shown->phase == PS_PHASE_FINISHED) {
        /* Without progress, which proves the end, a coordinator must not take it. It ignores this
         * if it was told of the end before. */
        request->phase = PSGD__V1__NODE_PHASE__NODE_PHASE_FAILED;
        request->error_code = PS_CANCELLED;
        request->error = given_up;
    } else if (shown->phase == PS_PHASE_FAILED) {
        request->error_code = (uint32_t)shown->error.code;
        request->diverged = shown->has_diverged;
        request->error = (char *)shown->error.text;
        if (!ps_utf8_is_valid(shown->error.text, strlen(shown->error.text))) {
            request->error = (char *)ps_code_name(shown->error.code);
        }
    }
    if (node->session != NULL && !node->is_releasing && node->hooks->progress != NULL) {
        request->n_progress = node->hooks->progress(node->state, &request->progress);
    }
    if (node->session != NULL && !node->is_releasing && node->hooks->missing != NULL) {
        request->n_missing_workers =
            node->hooks->missing(node->state, &request->missing_workers, &request->missing_clock);
    }
    ps_checkpoint_tell(node, request);
    if (node->log != NULL) {
        n = ps_joblog_read(node->log, node->log_shipped, link->log_piece, LOG_PIECE_BYTES);
        request->log_offset = node->log_shipped;
        request->log_bytes = (ProtobufCBinaryData){n, (uint8_t *)link->log_piece};
    }
}

static void do_heartbeat(ps_link *link)
{
    Psgd__V1__HeartbeatRequest request = PSGD__V1__HEARTBEAT_REQUEST__INIT;
    Psgd__V1__DiskInfo disk;
    Psgd__V1__NodeLoad load;

    link->again = false;
    ps_node_disk_tell(link->node, &disk);
    request.disk = &disk;
    request.load = ps_node_load_tell(link->node, &load) ? &load : NULL;
    request.node_id = link->node->node_id;
    request.incarnation = link->node->incarnation;
    fill_attempt(link, &request);
    link->sent_ns = ps_trace_now_ns();
    link->call =
        ps_unary_start(ps_link_channel(link), &psgd__v1__coordinator_service__descriptor,
                       "Heartbeat", &request.base, call_timeout(link), heartbeat_answered, link);
}

/* --- life ------------------------------------------------------------------ */

static void its_time(ps_event *event, bool ok)
{
    ps_link *link = PS_CONTAINER_OF(event, ps_link, timer.event);

    if (!ok || link->is_closed || link->call != NULL) {
        return;
    }
    if (link->is_registered) {
        do_heartbeat(link);
    } else {
        do_register(link);
    }
}

ps_link *ps_link_open(ps_node *node, const char *addresses)
{
    ps_link *link = ps_xcalloc(1, sizeof *link);

    link->node = node;
    node->alive++;
    link->follow = ps_follow_create(node->loop, addresses);
    link->timer.event.fire = its_time;
    link->pause_us = first_pause_us;
    link->log_piece = ps_xmalloc(LOG_PIECE_BYTES);
    ps_loop_after(node->loop, &link->timer, 0);
    return link;
}

static void end_link(ps_link *link)
{
    ps_follow_destroy(link->follow);
    link->follow = NULL;
    if (link->call != NULL) {
        ps_unary_cancel(link->call); /* call_ended then frees the link */
    } else {
        free_link(link);
    }
}

static void farewell_answered(void *arg, const ps_error *error, const ProtobufCMessage *message)
{
    ps_link *link = arg;

    (void)error; /* if it failed, the coordinator notices the node's absence by the lease */
    (void)message;
    link->call = NULL;
    end_link(link);
}

static void say_farewell(ps_link *link)
{
    Psgd__V1__HeartbeatRequest request = PSGD__V1__HEARTBEAT_REQUEST__INIT;

    link->is_leaving = false;
    request.node_id = link->node->node_id;
    request.incarnation = link->node->incarnation;
    request.phase = PSGD__V1__NODE_PHASE__NODE_PHASE_IDLE;
    request.leaving = true;
    link->call = ps_unary_start(ps_link_channel(link), &psgd__v1__coordinator_service__descriptor,
                                "Heartbeat", &request.base, farewell_us, farewell_answered, link);
}

void ps_link_close(ps_link *link)
{
    if (link == NULL) {
        return;
    }
    link->is_closed = true;
    ps_loop_cancel(link->node->loop, &link->timer);
    end_link(link);
}

void ps_link_leave(ps_link *link)
{
    if (link == NULL || !link->is_registered || link->is_away) {
        ps_link_close(link);
        return;
    }
    link->is_closed = true;
    ps_loop_cancel(link->node->loop, &link->timer);
    link->is_leaving = link->call != NULL;
    if (link->is_leaving) {
        ps_unary_cancel(link->call); /* call_ended then sends the last heartbeat */
    } else {
        say_farewell(link);
    }
}

void ps_link_hurry(ps_link *link)
{
    if (link->is_closed || !link->is_registered || link->is_away) {
        return;
    }
    if (link->call != NULL) {
        link->again = true;
    } else {
        ps_loop_after(link->node->loop, &link->timer, 0);
    }
}
