/* SPDX-License-Identifier: Apache-2.0 */
/* server_call.c - begins and ends calls; see server_impl.h. */
#include "common/rpc/server_impl.h"

#include "common/base/clock.h"
#include "common/base/container_of.h"
#include "common/base/xalloc.h"
#include "common/rpc/error_wire.h"
#include "common/rpc/guard.h"
#include "common/rpc/unread.h"

#include <assert.h>
#include <grpc/support/alloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Frees a call of an instance and counts it as over. Runs on the loop of the server, because only
 * its thread may end the server. */
static void on_freed(ps_event *self, bool ok)
{
    ps_call *call = PS_CONTAINER_OF(self, ps_call, matched);
    ps_server *server = call->server;

    (void)ok;
    free(call);
    ps_server_call_over(server);
}

static void call_free(ps_call *call)
{
    ps_server *server = call->server;

    ps_received_fini(&call->in);
    grpc_metadata_array_destroy(&call->metadata);
    grpc_call_details_destroy(&call->details);
    gpr_free(call->peer);
    free(call->end_error);
    ps_server_drop_stream(call);
    if (call->grpc != NULL) {
        grpc_call_unref(call->grpc);
        atomic_fetch_sub(&server->live, 1);
    }
    if (call->loop != server->loop) {
        call->matched.fire = on_freed;
        ps_loop_post(server->loop, &call->matched);
        return;
    }
    free(call);
    ps_server_call_over(server);
}

void ps_call_batch(ps_call *call, const grpc_op *ops, size_t count, ps_event *event)
{
    grpc_call_error err = grpc_call_start_batch(call->grpc, ops, count, event, NULL);

    assert(err == GRPC_CALL_OK);
    (void)err;
    call->pending++;
}

void ps_call_unpend(ps_call *call)
{
    if (--call->pending == 0 && call->answered) {
        call_free(call);
    }
}

/* --- unread answers ------------------------------------------------------------ */

static bool bounds_unread(const ps_call *call)
{
    const ps_method *m = call->route->method;

    return m->bounds_unread || (!m->streams_in && !m->streams_out);
}

void ps_call_count(ps_call *call, ps_traffic *traffic)
{
    ps_traffic *t = call->traffic;

    traffic->bytes_in += t->bytes_in;
    traffic->bytes_out += t->bytes_out;
    traffic->messages_in += t->messages_in;
    traffic->messages_out += t->messages_out;
    call->traffic = traffic;
}

void ps_call_count_unread(ps_call *call, grpc_byte_buffer *message)
{
    size_t bytes = ps_wire_bytes(message);

    if (bytes >= PS_UNREAD_LEAST && bounds_unread(call)) {
        call->unread = bytes;
        ps_unread_add(call->server->unread, ps_call_peer(call), bytes);
    }
}

void ps_call_count_read(ps_call *call)
{
    if (call->unread > 0) {
        ps_unread_remove(call->server->unread, ps_call_peer(call), call->unread);
        call->unread = 0;
    }
}

bool ps_call_has_unread(ps_call *call, ps_error *error)
{
    if (ps_unread_is_low(call->server->unread) || !bounds_unread(call) ||
        !ps_unread_is_full(call->server->unread, ps_call_peer(call))) {
        return false;
    }
    ps_error_init(error,
                  ps_fail(PS_RESOURCE_EXHAUSTED,
                          "you have not read the answers before; a connection may have %d MiB of "
                          "them: read them, or make fewer calls at a time",
                          PS_UNREAD_CONNECTION >> 20),
                  "UNREAD_ANSWERS");
    return true;
}

/* --- the end ----------------------------------------------------------------- */

/* Tells the audit of the call's route, if it has one, how the call has ended. */
static void tell_audit(ps_call *call, ps_code code, const char *reason)
{
    const ps_route *r = call->route;

    if (r != NULL && r->audit != NULL) {
        const ps_ended_call end = {.method = r->type->name,
                                   .caller = &call->caller.who,
                                   .credential = ps_call_credential(call),
                                   .from = ps_call_peer(call),
                                   .about = call->about,
                                   .code = code,
                                   .reason = reason};

        r->audit(r->state, &end);
    }
}

static void tell_gone(ps_call *call)
{
    void (*gone)(void *arg, ps_call *call) = call->gone;

    call->answered = true; /* from now on no answer is sent */
    call->gone = NULL;
    if (gone != NULL) {
        gone(call->gone_arg, call);
    }
}

static void on_closed(ps_event *self, bool ok)
{
    ps_call *call = PS_CONTAINER_OF(self, ps_call, closed);

    (void)ok;
    if (!call->answered && call->cancelled != 0) {
        ps_guard_waste(ps_call_peer(call));
    }
    if (!call->answered && (call->gone != NULL || !call->handed)) {
        tell_audit(call, PS_CANCELLED, "");
        tell_gone(call);
    }
    ps_call_unpend(call);
}

static void on_ended(ps_event *self, bool ok)
{
    ps_call *call = PS_CONTAINER_OF(self, ps_call, ended);

    (void)ok; /* if sending the status failed, the client is gone and nobody is left to tell */
    ps_call_count_read(call);
    ps_call_unpend(call);
}

void ps_call_end_now(ps_call *call, grpc_byte_buffer *reply, const ps_error *error)
{
    grpc_slice text = grpc_empty_slice();
    grpc_metadata trailer;
    grpc_op ops[3] = {0};
    size_t n = 0;

    if (!call->headers_sent) {
        call->headers_sent = true;
        ops[n++].op = GRPC_OP_SEND_INITIAL_METADATA;
    }
    if (reply != NULL) {
        ops[n].op = GRPC_OP_SEND_MESSAGE;
        ops[n++].data.send_message.send_message = reply;
        ps_call_count_unread(call, reply);
    }
    ops[n].op = GRPC_OP_SEND_STATUS_FROM_SERVER;
    if (error != NULL) {
        text = grpc_slice_from_copied_string(error->status.text);
        memset(&trailer, 0, sizeof trailer);
        trailer.key = grpc_slice_from_static_string(PS_ERROR_TRAILER);
        trailer.value = ps_error_pack(error);
        ops[n].data.send_status_from_server.status = (grpc_status_code)error->status.code;
        ops[n].data.send_status_from_server.status_details = &text;
        ops[n].data.send_status_from_server.trailing_metadata = &trailer;
        ops[n].data.send_status_from_server.trailing_metadata_count = 1;
    }
    ps_call_batch(call, ops, n + 1, &call->ended);
    if (error != NULL) {
        grpc_slice_unref(trailer.value);
        grpc_slice_unref(text);
    }
}

void ps_call_end(ps_call *call, grpc_byte_buffer *reply, const ps_error *error)
{
    assert(!call->answered);
    call->answered = true;
    if (call->route != NULL && call->route->durations != NULL) {
        ps_histogram_add(call->route->durations, ps_clock_us() - call->begun_us);
    }
    tell_audit(call, error != NULL ? error->status.code : PS_OK,
               error != NULL ? error->reason : "");
    if (!call->sending || call->is_one_batch) {
        ps_call_end_now(call, reply, error);
        return;
    }
    assert(reply == NULL);
    call->end_waits = true;
    if (error != NULL) {
        call->end_error = ps_xmalloc(sizeof *error);
        *call->end_error = *error;
    }
}

void ps_call_reply(ps_call *call, const ProtobufCMessage *reply)
{
    grpc_byte_buffer *buffer = ps_wire_pack(reply, NULL, 0);
    ps_error error;

    assert(reply->descriptor == call->route->type->output && !call->headers_sent);
    if (ps_wire_bytes(buffer) >= PS_UNREAD_LEAST && ps_call_has_unread(call, &error)) {
        ps_guard_waste(ps_call_peer(call));
        ps_call_end(call, NULL, &error);
    } else {
        ps_call_end(call, buffer, NULL);
    }
    grpc_byte_buffer_destroy(buffer);
}

void ps_call_finish(ps_call *call)
{
    assert(call->route->method->streams_out);
    ps_call_end(call, NULL, NULL);
}

void ps_call_fail_error(ps_call *call, const ps_error *why)
{
    assert(!ps_is_ok(&why->status));
    ps_call_end(call, NULL, why);
}

void ps_call_fail(ps_call *call, ps_status why)
{
    ps_error error;

    ps_error_init(&error, why, NULL);
    ps_call_fail_error(call, &error);
}

void ps_call_hang_up(ps_call *call, const ps_status *why)
{
    ps_error error;

    ps_error_init(&error, *why, ps_wire_reason(why));
    ps_call_refuse(call, &error);
}

void ps_call_refuse(ps_call *call, const ps_error *error)
{
    ps_guard_waste(ps_call_peer(call));
    ps_call_end(call, NULL, error);
    tell_gone(call);
}

void ps_call_on_gone(ps_call *call, void (*gone)(void *arg, ps_call *call), void *arg)
{
    call->gone = gone;
    call->gone_arg = arg;
}

void ps_call_about(ps_call *call, const char *what)
{
    snprintf(call->about, sizeof call->about, "%s", what);
}

const char *ps_call_peer(ps_call *call)
{
    if (call->peer == NULL) {
        call->peer = grpc_call_get_peer(call->grpc);
    }
    return call->peer;
}

const ps_principal *ps_call_caller(const ps_call *call)
{
    return &call->caller.who;
}

const char *ps_call_credential(const ps_call *call)
{
    return call->caller.serial[0] != '\0' ? call->caller.serial : call->caller.token;
}

int64_t ps_call_expires(const ps_call *call)
{
    return call->caller.not_after;
}

/* --- the beginning ----------------------------------------------------------- */

static void refuse_unknown_method(ps_call *call)
{
    const grpc_slice path = call->details.method;
    int len = (int)(GRPC_SLICE_LENGTH(path) < 90 ? GRPC_SLICE_LENGTH(path) : 90);
    ps_error error;

    ps_error_init(&error,
                  ps_fail(PS_UNIMPLEMENTED, "no method %.*s here", len,
                          (const char *)GRPC_SLICE_START_PTR(path)),
                  "UNKNOWN_METHOD");
    ps_guard_waste(ps_call_peer(call));
    call->handed = true;
    ps_call_end(call, NULL, &error);
}

const char *ps_may_text(ps_may may, char out[PS_MAY_BYTES])
{
    size_t n = 0;

    out[0] = '\0';
    for (ps_principal_kind k = PS_PRINCIPAL_ADMIN; k <= PS_PRINCIPAL_COORDINATOR; k++) {
        if ((may & (1U << k)) != 0 && n < PS_MAY_BYTES) {
            n += (size_t)snprintf(out + n, PS_MAY_BYTES - n, "%s%s", n > 0 ? ", " : "",
                                  ps_principal_kind_name(k));
        }
    }
    return out;
}

/* Reads who calls into call->caller. Lists a stream, so that it ends when its caller is no member
 * any more. Ends the call and returns false if the caller is unknown or may not call this method.
 * In plaintext everybody may. */
static bool is_allowed(ps_call *call)
{
    ps_tls *tls = ps_loop_tls(call->server->loop);
    char who[PS_PRINCIPAL_TEXT_BYTES], kinds[PS_MAY_BYTES];
    ps_error error;
    ps_status st;

    if (tls == NULL) {
        return true;
    }
    st = ps_tls_caller(tls, call->grpc, &call->metadata, &call->caller);
    if (ps_is_ok(&st) && (call->route->method->may & (1U << call->caller.who.kind)) != 0) {
        if (call->route->method->streams_in || call->route->method->streams_out) {
            ps_server_list_stream(call);
        }
        return true;
    }
    if (ps_is_ok(&st)) {
        st = ps_fail(PS_PERMISSION_DENIED, "%s may not call %s; allowed: %s",
                     ps_principal_text(&call->caller.who, who), call->route->type->name,
                     ps_may_text(call->route->method->may, kinds));
    }
    ps_error_init(&error, st, st.code == PS_PERMISSION_DENIED ? "NOT_ALLOWED" : "NOT_A_MEMBER");
    if (st.code == PS_UNAUTHENTICATED) {
        ps_guard_waste(ps_call_peer(call));
    }
    call->handed = true;
    ps_call_end(call, NULL, &error);
    return false;
}

static void on_matched(ps_event *self, bool ok)
{
    ps_call *call = PS_CONTAINER_OF(self, ps_call, matched);
    grpc_op op = {.op = GRPC_OP_RECV_CLOSE_ON_SERVER};

    if (!ok) { /* the server is shutting down */
        call_free(call);
        return;
    }
    atomic_fetch_add(&call->server->live, 1);
    call->begun_us = ps_clock_us();
    ps_server_request_call(call->server, call->route);

    op.data.recv_close_on_server.cancelled = &call->cancelled;
    ps_call_batch(call, &op, 1, &call->closed);
    if (call->route == NULL) {
        call->route = ps_server_route(call->server, GRPC_SLICE_START_PTR(call->details.method),
                                      GRPC_SLICE_LENGTH(call->details.method));
    }
    if (call->route == NULL) {
        refuse_unknown_method(call);
    } else if (is_allowed(call)) {
        ps_call_receive(call);
    }
}

void ps_server_request_call(ps_server *server, const ps_route *instance)
{
    ps_call *call;
    grpc_call_error err;

    if (atomic_load(&server->stopping)) {
        return;
    }
    call = ps_xcalloc(1, sizeof *call);
    call->traffic = &call->own;
    call->server = server;
    call->loop = instance != NULL ? instance->loop : server->loop;
    call->route = instance;
    call->matched.fire = on_matched;
    call->closed.fire = on_closed;
    call->received.fire = ps_call_on_received;
    call->sent.fire = ps_call_on_sent;
    call->ended.fire = on_ended;
    ps_received_init(&call->in);
    grpc_metadata_array_init(&call->metadata);
    grpc_call_details_init(&call->details);
    atomic_fetch_add(&server->calls, 1);
    if (instance != NULL) {
        err = grpc_server_request_registered_call(
            server->grpc, instance->registered, &call->grpc, &call->details.deadline,
            &call->metadata, NULL, ps_loop_cq(call->loop), ps_loop_cq(call->loop), &call->matched);
    } else {
        err = grpc_server_request_call(server->grpc, &call->grpc, &call->details, &call->metadata,
                                       ps_loop_cq(call->loop), ps_loop_cq(call->loop),
                                       &call->matched);
    }
    assert(err == GRPC_CALL_OK);
    (void)err;
}
