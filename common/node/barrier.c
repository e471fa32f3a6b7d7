/* SPDX-License-Identifier: Apache-2.0 */
/* barrier.c - Ready: each node of an attempt calls it, and the coordinator answers when all nodes
 * have called.
 *
 * If the coordinator dies meanwhile (UNAVAILABLE), the node cannot know whether the barrier was
 * opened. So it calls again until the time for READY is over. The restarted coordinator answers
 * from what it stored of the attempt.
 */
#include "common/base/container_of.h"
#include "common/base/draw.h"
#include "common/base/log.h"
#include "common/base/xalloc.h"
#include "common/node/node_impl.h"

#include <stdlib.h>

static const int64_t slack_us = 2000000; /* time for the network to carry Ready and its answer */
/* pause between two calls, times a random factor of 0.5 to 1.5 */
static const int64_t pause_us = 100000;

struct ps_ready {
    ps_node *node;
    ps_unary *call; /* NULL: no call is in progress */
    ps_timer again;
    unsigned tries;
    bool is_repeated; /* ps_ready_repeat has cancelled the call: it is made again */
    bool is_over;     /* the barrier was answered, or the attempt has ended */
};

int64_t ps_node_ready_us(const ps_node *node)
{
    uint32_t ready_ms = node->session != NULL ? node->session->plan->spec->timeouts->ready_ms : 0;

    return 2000 * (int64_t)ready_ms + slack_us;
}

static void end(ps_ready *ready)
{
    ps_node *node = ready->node;

    if (!ready->is_over) {
        node->ready = NULL;
    }
    free(ready);
    ps_node_gone(node);
}

static void answered(void *arg, const ps_error *error, const ProtobufCMessage *reply)
{
    ps_ready *ready = arg;
    ps_node *node = ready->node;
    bool is_over = ready->is_over, opened = ps_is_ok(&error->status);
    bool again = error->status.code == PS_UNAVAILABLE ||
                 (error->status.code == PS_CANCELLED && ready->is_repeated);
    double factor;

    (void)reply;
    ready->call = NULL;
    ready->is_repeated = false;
    if (!is_over && again) {
        if (ready->tries++ == 0) {
            ps_log(PS_LOG_WARN, "node", "Ready: %s; trying again", error->status.text);
        }
        factor = 0.5 + ps_draw_unit(node->incarnation, ready->tries);
        ps_loop_after(node->loop, &ready->again, (int64_t)((double)pause_us * factor));
        return;
    }
    if (!is_over) {
        node->ready = NULL;
        if (!opened) {
            ps_log(PS_LOG_WARN, "node", "the barrier did not open: %s", error->status.text);
        }
        ps_node_act(node, ps_agent_barrier(&node->agent, opened), "the barrier did not open");
        ready->is_over = true;
    }
    end(ready);
}

static void say(ps_ready *ready)
{
    Psgd__V1__ReadyRequest request = PSGD__V1__READY_REQUEST__INIT;
    ps_node *node = ready->node;

    request.node_id = node->node_id;
    request.incarnation = node->incarnation;
    request.job_id = node->agent.job_id;
    request.attempt = node->agent.attempt;
    ready->call =
        ps_unary_start(ps_link_channel(node->link), &psgd__v1__coordinator_service__descriptor,
                       "Ready", &request.base, ps_node_ready_us(node), answered, ready);
}

static void say_again(ps_event *event, bool ok)
{
    if (ok) {
        say(PS_CONTAINER_OF(event, ps_ready, again.event));
    }
}

void ps_ready_begin(ps_node *node)
{
    ps_ready *ready = ps_xcalloc(1, sizeof *ready);

    ready->node = node;
    ready->again.event.fire = say_again;
    node->ready = ready;
    node->alive++;
    say(ready);
}

void ps_ready_repeat(ps_ready *ready)
{
    if (ready->call != NULL) {
        ready->is_repeated = true;
        ps_unary_cancel(ready->call);
    }
}

void ps_ready_cancel(ps_ready *ready)
{
    ready->is_over = true;
    ready->node->ready = NULL;
    if (ready->call != NULL) {
        ps_unary_cancel(ready->call); /* `answered` then frees `ready` */
    } else {
        ps_loop_cancel(ready->node->loop, &ready->again);
        end(ready);
    }
}
