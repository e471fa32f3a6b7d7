/* SPDX-License-Identifier: Apache-2.0 */
/* channel.c - connections, and how calls end; see client.h and client_impl.h. */
#include "common/rpc/client_impl.h"

#include "common/base/container_of.h"
#include "common/base/xalloc.h"
#include "common/rpc/args.h"
#include "common/rpc/error_wire.h"
#include "common/rpc/tls_files.h"

#include <assert.h>
#include <grpc/grpc_security.h>
#include <grpc/support/time.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Creates a channel to `target`. Takes over one reference to `creds`, and `expected` (NULL:
 * none). */
static ps_channel *create(ps_loop *loop, const char *target, grpc_channel_credentials *creds,
                          ps_tls_expected *expected)
{
    static const ps_int_arg table[] = {
        {GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, PS_MESSAGE_MAX},
        {GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, PS_WINDOW_BYTES},
        {GRPC_ARG_HTTP2_MAX_FRAME_SIZE, PS_FRAME_BYTES},
        {GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100},
        {GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 2000},
        {GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 5000}, /* gRPC takes it as the time-out of one attempt
                                                    * to connect */
        {GRPC_ARG_DNS_MIN_TIME_BETWEEN_RESOLUTIONS_MS, 1000},
        {GRPC_ARG_KEEPALIVE_TIME_MS, 20000},
        {GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20000},
        {GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0}, /* 0: no limit */
        {GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1},
        {GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1},
        /* The retry filter of gRPC 1.51 loses cancellations, so a cancelled stream may never
         * end. It also keeps a copy of what was sent. */
        {GRPC_ARG_ENABLE_RETRIES, 0},
        {GRPC_ARG_ENABLE_HTTP_PROXY, 0}, /* else gRPC uses the proxy that the environment names */
    };
    ps_channel *channel = ps_xcalloc(1, sizeof *channel);
    grpc_arg args[PS_INT_ARGS_MAX];
    grpc_channel_args all = ps_int_args(args, table, sizeof table / sizeof table[0]);

    channel->loop = loop;
    channel->expected = expected;
    channel->target = ps_xstrdup(target);
    channel->grpc = grpc_channel_create(target, creds, &all);
    grpc_channel_credentials_release(creds);
    return channel;
}

static ps_channel *create_member(ps_loop *loop, const char *target, bool is_guest)
{
    ps_tls *tls = ps_loop_tls(loop);
    ps_tls_expected *expected = NULL;
    grpc_channel_credentials *creds = tls != NULL
                                          ? ps_tls_channel_credentials(tls, is_guest, &expected)
                                          : grpc_insecure_credentials_create();

    return create(loop, target, creds, expected);
}

ps_channel *ps_channel_create(ps_loop *loop, const char *target)
{
    return create_member(loop, target, false);
}

ps_channel *ps_channel_create_guest(ps_loop *loop, const char *target)
{
    return create_member(loop, target, true);
}

void ps_channel_bring(ps_channel *channel, const char *token)
{
    if (channel->brings != NULL) {
        grpc_call_credentials_release(channel->brings);
    }
    channel->brings = channel->expected != NULL && token[0] != '\0'
                          ? grpc_access_token_credentials_create(token, NULL)
                          : NULL;
}

ps_channel *ps_channel_create_files(ps_loop *loop, const char *target, ps_tls_files *files)
{
    return create(loop, target, ps_tls_files_credentials(files), NULL);
}

ps_channel *ps_channel_create_instance(ps_loop *loop, const char *target, const char *instance)
{
    ps_channel *channel = ps_channel_create(loop, target);

    channel->instance = ps_xstrdup(instance);
    return channel;
}

void ps_channel_expect(ps_channel *channel, ps_principal_kind kind, const char *name)
{
    if (channel->expected != NULL) {
        ps_tls_expect(channel->expected, kind, name);
    }
}

void ps_channel_fail_fast(ps_channel *channel)
{
    channel->fails_fast = true;
}

static void free_if_over(ps_channel *channel)
{
    if (channel->destroyed && channel->calls == 0) {
        grpc_channel_destroy(channel->grpc);
        free(channel->target);
        free(channel->instance);
        ps_channel_bring(channel, "");
        ps_tls_expected_release(channel->expected);
        free(channel);
    }
}

void ps_channel_destroy(ps_channel *channel)
{
    if (channel != NULL) {
        assert(!channel->destroyed);
        channel->destroyed = true;
        free_if_over(channel);
    }
}

/* A call of ps_channel_connect that has not called fn yet. */
typedef struct connecting {
    ps_event event;
    ps_channel *channel;
    gpr_timespec deadline;
    ps_connected_fn *fn;
    void *arg;
} connecting;

/* Has c->event fire when the channel is no longer in `state`, or at the deadline. */
static void watch(connecting *c, grpc_connectivity_state state)
{
    grpc_channel_watch_connectivity_state(c->channel->grpc, state, c->deadline,
                                          ps_loop_cq(c->channel->loop), &c->event);
}

static void on_state(ps_event *self, bool ok)
{
    connecting *c = PS_CONTAINER_OF(self, connecting, event);
    grpc_connectivity_state state = grpc_channel_check_connectivity_state(c->channel->grpc, 0);
    bool is_over = state == GRPC_CHANNEL_READY || state == GRPC_CHANNEL_TRANSIENT_FAILURE ||
                   state == GRPC_CHANNEL_SHUTDOWN || !ok;

    if (!is_over) {
        watch(c, state);
        return;
    }
    ps_tls_hush(false);
    c->fn(c->arg, state == GRPC_CHANNEL_READY);
    c->channel->calls--;
    free_if_over(c->channel);
    free(c);
}

void ps_channel_connect(ps_channel *channel, int64_t timeout_us, ps_connected_fn *fn, void *arg)
{
    connecting *c = ps_xcalloc(1, sizeof *c);

    *c = (connecting){.event.fire = on_state,
                      .channel = channel,
                      .deadline = gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                                               gpr_time_from_micros(timeout_us, GPR_TIMESPAN)),
                      .fn = fn,
                      .arg = arg};
    channel->calls++;
    ps_tls_hush(true);
    watch(c, grpc_channel_check_connectivity_state(channel->grpc, 1));
}

ps_traffic ps_channel_traffic(const ps_channel *channel)
{
    return channel->traffic;
}

void ps_channel_count_out(ps_channel *channel, grpc_byte_buffer *message)
{
    channel->traffic.bytes_out += ps_wire_bytes(message);
    channel->traffic.messages_out++;
}

void ps_channel_count_in(ps_channel *channel, grpc_byte_buffer *message)
{
    channel->traffic.bytes_in += ps_wire_bytes(message);
    channel->traffic.messages_in++;
}

grpc_call *ps_channel_call(ps_channel *channel, const ProtobufCServiceDescriptor *type,
                           const ProtobufCMethodDescriptor *method, int64_t timeout_us)
{
    gpr_timespec deadline = gpr_inf_future(GPR_CLOCK_MONOTONIC);
    grpc_slice slice;
    grpc_call *call;
    char path[160];
    int len = snprintf(path, sizeof path, "/%s/%s%s%s", type->name, method->name,
                       channel->instance != NULL ? "/" : "",
                       channel->instance != NULL ? channel->instance : "");

    assert(!channel->destroyed && len > 0 && (size_t)len < sizeof path);
    if (timeout_us != PS_NO_TIMEOUT) {
        deadline = gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                                gpr_time_from_micros(timeout_us, GPR_TIMESPAN));
    }
    slice = grpc_slice_from_copied_buffer(path, (size_t)len);
    call = grpc_channel_create_call(channel->grpc, NULL, GRPC_PROPAGATE_DEFAULTS,
                                    ps_loop_cq(channel->loop), slice, NULL, deadline, NULL);
    grpc_slice_unref(slice);
    if (channel->brings != NULL) {
        grpc_call_set_credentials(call, channel->brings);
    }
    channel->calls++;
    return call;
}

uint32_t ps_channel_call_flags(const ps_channel *channel)
{
    return GRPC_INITIAL_METADATA_WAIT_FOR_READY_EXPLICITLY_SET |
           (channel->fails_fast ? 0 : GRPC_INITIAL_METADATA_WAIT_FOR_READY);
}

void ps_channel_call_over(ps_channel *channel, grpc_call *call)
{
    grpc_call_unref(call);
    channel->calls--;
    free_if_over(channel);
}

void ps_outcome_init(ps_outcome *o)
{
    grpc_metadata_array_init(&o->initial);
    grpc_metadata_array_init(&o->trailing);
    o->code = GRPC_STATUS_OK;
    o->text = grpc_empty_slice();
}

void ps_outcome_fini(ps_outcome *o)
{
    grpc_metadata_array_destroy(&o->initial);
    grpc_metadata_array_destroy(&o->trailing);
    grpc_slice_unref(o->text);
}

void ps_outcome_ops(ps_outcome *o, grpc_op *initial, grpc_op *status)
{
    initial->op = GRPC_OP_RECV_INITIAL_METADATA;
    initial->data.recv_initial_metadata.recv_initial_metadata = &o->initial;
    status->op = GRPC_OP_RECV_STATUS_ON_CLIENT;
    status->data.recv_status_on_client.trailing_metadata = &o->trailing;
    status->data.recv_status_on_client.status = &o->code;
    status->data.recv_status_on_client.status_details = &o->text;
}

static bool is_in_state(const ps_channel *channel, grpc_connectivity_state state)
{
    return grpc_channel_check_connectivity_state(channel->grpc, 0) == state;
}

/* Returns why gRPC could not connect, which is behind the last ": " of its text: "failed to connect
 * to all addresses; last error: UNKNOWN: Failed to connect to remote host: Connection refused". */
static const char *cause_in(const char *text)
{
    const char *cause = text;

    for (const char *at = text; (at = strstr(at, ": ")) != NULL; cause = at) {
        at += 2;
    }
    return cause;
}

/* Makes the error of a call for which there was no connection. `how`: what was tried; `cause` is
 * used if TLS has said nothing. */
static void set_unconnected(ps_error *error, const ps_channel *channel, const char *how,
                            const char *cause, const char *reason)
{
    char why[PS_TLS_PROBLEM_BYTES] = "";

    if (channel->expected != NULL) {
        ps_tls_problem(channel->expected, why);
    }
    cause = why[0] != '\0' ? why : cause;
    ps_error_init(error,
                  ps_fail(PS_UNAVAILABLE, "%s: cannot be reached%s%s%s", channel->target, how,
                          cause[0] != '\0' ? ": " : "", cause),
                  reason);
}

void ps_outcome_read(const ps_outcome *o, const ps_channel *channel, ps_error *error)
{
    const char *text = (const char *)GRPC_SLICE_START_PTR(o->text);
    int len = (int)GRPC_SLICE_LENGTH(o->text);

    if (o->code == GRPC_STATUS_OK) {
        ps_error_init(error, ps_ok(), NULL);
        return;
    }
    for (size_t i = 0; i < o->trailing.count; i++) {
        const grpc_metadata *m = &o->trailing.metadata[i];

        if (grpc_slice_str_cmp(m->key, PS_ERROR_TRAILER) == 0) {
            ps_error_init(error, ps_fail((ps_code)o->code, "%.*s", len, text), NULL);
            ps_error_unpack(error, GRPC_SLICE_START_PTR(m->value), GRPC_SLICE_LENGTH(m->value));
            return;
        }
    }
    if (o->code == GRPC_STATUS_DEADLINE_EXCEEDED && !is_in_state(channel, GRPC_CHANNEL_READY)) {
        set_unconnected(error, channel, " within the time allowed", "", "UNREACHABLE");
        return;
    }
    if (o->code == GRPC_STATUS_UNAVAILABLE && channel->fails_fast &&
        is_in_state(channel, GRPC_CHANNEL_TRANSIENT_FAILURE)) {
        char whole[PS_STATUS_TEXT_BYTES];

        snprintf(whole, sizeof whole, "%.*s", len, text);
        set_unconnected(error, channel, "", cause_in(whole), "NOT_CONNECTED");
        return;
    }
    ps_error_init(error, ps_fail((ps_code)o->code, "%s: %.*s", channel->target, len, text), NULL);
}
