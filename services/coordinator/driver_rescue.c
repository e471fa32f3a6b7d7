/* SPDX-License-Identifier: Apache-2.0 */
/* driver_rescue.c - after the loss of a worker of a job whose ranks have no state of their own, or
 * of a server of which another one has copies: stores the state of the servers as a checkpoint,
 * from which the next attempt goes on.
 *
 * A slice of any server is at one of two clocks: the oldest that is not complete everywhere, or the
 * next one. Servers keep what slices were before their last step, so all can give their state at
 * the older clock. If that fails, the next attempt goes on from the last checkpoint. */
#include "services/coordinator/driver_impl.h"

#include "common/base/log.h"
#include "common/job/checkpoint_clocks.h"
#include "services/coordinator/io/checkpoint_store.h"

#include <inttypes.h>

enum { STATUS_US = 5000000 };

static void end(ps_attempt *a, const ps_status *why)
{
    a->rescue.is_running = a->rescue.is_waiting = false;
    if (!ps_is_ok(why)) {
        ps_log_with(PS_LOG_WARN, "job", PS_LOG_FIELDS(PS_LOG_STR("job", a->job_id)),
                    "goes back to its last checkpoint: %s", why->text);
    }
    ps_commit_rescued(&a->commit, ps_coordinator_now_us(a->c));
    ps_attempt_pump(a);
}

/* Returns the member that gives the state of server `node`: itself, or if it is lost the one with
 * its copies. */
static size_t giver(const ps_attempt *a, size_t node)
{
    return ps_commit_is_there(&a->commit.members[node]) ? node : ps_commit_copier(&a->commit, node);
}

/* Returns whether the node is a server with a part of the model. */
static bool has_state(const ps_attempt *a, size_t node)
{
    const ps_member *m = &a->commit.members[node];

    return m->role == PSGD__V1__NODE_ROLE__NODE_ROLE_PSERVER &&
           a->placement.owned_count[m->rank] > 0;
}

/* Collects the files of the next server from rescue.at on, or stores what is here. */
static void collect_next(ps_attempt *a)
{
    while (a->rescue.at < a->commit.count && !has_state(a, a->rescue.at)) {
        a->rescue.at++;
    }
    if (a->rescue.at < a->commit.count) {
        size_t from = giver(a, a->rescue.at);

        ps_collect_rescued(&a->nodes[from], a->rescue.clock, from != a->rescue.at,
                           a->checkpoints.folder);
    } else {
        ps_checkpoint_store_rescued(a, a->rescue.clock);
    }
}

static void collect(ps_attempt *a)
{
    uint64_t first = a->package ? a->package->first_clock : 0;
    ps_status st;

    a->rescue.has_failed = a->rescue.has_failed || a->rescue.clock == UINT64_MAX;
    /* when all clocks are complete the last one is repeated: a checkpoint lies before the end */
    if (a->rescue.clock >= a->plan->total_clocks) {
        a->rescue.clock = a->plan->total_clocks - 1;
    }
    if (a->rescue.has_failed) {
        st = ps_fail(PS_UNAVAILABLE, "a server does not say at which step it is");
    } else if (a->rescue.clock <= first) {
        st = ps_ok(); /* nothing is lost */
    } else {
        st = ps_checkpoint_gather(a->checkpoints.folder, a->folder,
                                  ps_checkpoint_step(a->plan, a->rescue.clock), a->number);
        st = ps_is_ok(&st) ? ps_room_check(ps_coordinator_checkpoint_room(a->c)) : st;
    }
    if (!ps_is_ok(&st) || a->rescue.clock <= first) {
        end(a, &st);
        return;
    }
    a->checkpoints.count = 0;
    a->rescue.at = 0;
    collect_next(a);
}

static void on_status(void *arg, const ps_error *error, const ProtobufCMessage *reply)
{
    const Psgd__V1__GetStatusResponse *r = (const void *)reply;
    ps_attempt_node *node = arg;
    ps_attempt *a = node->a;

    node->asking = NULL;
    if (a->job && a->rescue.is_running && a->commit.stage == PS_STAGE_RESCUE) {
        if (ps_is_ok(&error->status) && r->counters) {
            a->rescue.clock =
                r->counters->version < a->rescue.clock ? r->counters->version : a->rescue.clock;
        } else if (!a->placement.has_copies) {
            a->rescue.has_failed = true; /* else it may be lost: its copy has its state */
        }
        if (--a->rescue.asked == 0) {
            collect(a);
        }
    }
    ps_attempt_settle(a);
}

static void ask(ps_attempt *a)
{
    Psgd__V1__GetStatusRequest q = PSGD__V1__GET_STATUS_REQUEST__INIT;

    a->rescue.is_running = true;
    a->rescue.clock = UINT64_MAX;
    a->rescue.asked = 1; /* until all are asked */
    for (size_t i = 0; i < a->commit.count; i++) {
        ps_attempt_node *node = &a->nodes[i];

        if (giver(a, i) != i) {
            continue;
        }
        if (has_state(a, i) && node->asking == NULL) {
            a->rescue.asked++;
            a->pending++;
            node->asking = ps_unary_start(node->channel, &psgd__v1__node_service__descriptor,
                                          "GetStatus", &q.base, STATUS_US, on_status, node);
        } else if (has_state(a, i)) {
            a->rescue.has_failed = true;
        }
    }
    if (--a->rescue.asked == 0) {
        collect(a);
    }
}

void ps_rescue_start(ps_attempt *a)
{
    a->rescue.is_waiting = ps_checkpoints_stop(a);
    if (!a->rescue.is_waiting) {
        ask(a);
    }
}

void ps_rescue_go_on(ps_attempt *a)
{
    if (a->job && a->rescue.is_waiting) {
        a->rescue.is_waiting = false;
        if (a->commit.stage == PS_STAGE_RESCUE) {
            ask(a);
        }
    }
}

void ps_rescue_lost(ps_attempt *a)
{
    for (size_t i = 0; i < a->commit.count && a->rescue.is_running; i++) {
        if (!has_state(a, i) || giver(a, i) == i) {
            continue;
        }
        if (a->nodes[i].asking != NULL) {
            ps_unary_cancel(a->nodes[i].asking);
        } else if (a->nodes[i].saving != NULL && a->rescue.at == i) {
            ps_collect_stop(a->nodes[i].saving);
            collect_next(a);
        }
    }
}

void ps_rescue_collected(ps_attempt_node *node, const ps_status *result)
{
    ps_attempt *a = node->a;

    if (a->commit.stage == PS_STAGE_RESCUE &&
        (ps_is_ok(result) || giver(a, node->index) != node->index)) {
        a->rescue.at += ps_is_ok(result); /* else it was lost meanwhile, and a copy is there */
        collect_next(a);
        return;
    }
    ps_checkpoint_discard_gathered(node);
    end(a, result);
}

void ps_rescue_stored(ps_attempt *a, const ps_status *result, uint64_t step)
{
    if (ps_is_ok(result)) {
        ps_log_with(PS_LOG_INFO, "job", PS_LOG_FIELDS(PS_LOG_STR("job", a->job_id)),
                    "goes on from step %" PRIu64 ", where its servers are", step);
    }
    end(a, result);
}
