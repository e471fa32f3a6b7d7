/* SPDX-License-Identifier: Apache-2.0 */
/* kinds_world.c - see kinds_world.h. */
#include "tests/support/kinds_world.h"

#include "common/rpc/serve.h"
#include "tests/support/cmocka_all.h"

#include "common/base/container_of.h"

#include "kinds.pb-c.h"

#include <grpc/support/time.h>
#include <stdio.h>
#include <string.h>

static void handle_echo(void *state, const ProtobufCMessage *request, ps_payload *payload,
                        ps_call *call)
{
    (void)state;
    (void)payload;
    ps_call_reply(call, request);
}

static const ps_method methods[] = {{.name = "Echo", .handle = handle_echo, .may = PS_MAY_ALL}};

static const ps_service service = {
    .type = &psgd__test__kinds_service__descriptor, .methods = methods, .method_count = 1};

static void on_down(ps_event *self, bool ok)
{
    kinds_world *w = PS_CONTAINER_OF(self, kinds_world, down);

    (void)ok;
    w->server = NULL;
    w->is_down = true;
}

void kinds_world_begin(kinds_world *w)
{
    char target[32];
    ps_status st;

    memset(w, 0, sizeof *w);
    w->down.fire = on_down;
    st = ps_loop_create(&w->loop);
    assert_true(ps_is_ok(&st));
    st = ps_serve(w->loop, &service, 1, "127.0.0.1:0", &w->server);
    assert_true(ps_is_ok(&st));
    snprintf(target, sizeof target, "127.0.0.1:%d", ps_server_port(w->server));
    w->channel = ps_channel_create(w->loop, target);
}

void kinds_world_pump(kinds_world *w, const bool *flag)
{
    gpr_timespec until =
        gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_micros(TIMEOUT_US, GPR_TIMESPAN));

    while (!*flag) {
        grpc_event ev = grpc_completion_queue_next(ps_loop_cq(w->loop), until, NULL);
        ps_event *event = ev.tag;

        assert_int_equal(ev.type, GRPC_OP_COMPLETE);
        event->fire(event, ev.success != 0);
    }
}

void kinds_world_stop(kinds_world *w, int64_t grace_us)
{
    ps_server_stop(w->server, grace_us, &w->down);
}

void kinds_world_end(kinds_world *w)
{
    if (!w->is_down) {
        kinds_world_stop(w, 0);
        kinds_world_pump(w, &w->is_down);
    }
    ps_channel_destroy(w->channel);
    ps_loop_destroy(w->loop);
}
