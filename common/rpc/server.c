/* SPDX-License-Identifier: Apache-2.0 */
/* server.c - listens, routes and stops; see server.h.
 *
 * The server asks gRPC for any next call and looks up the method by its path. So unary, streaming
 * and unknown methods are handled alike. Methods of instances are registered with gRPC instead: it
 * has to know the loop of a call before it hands the call over.
 */
#include "common/base/container_of.h"
#include "common/base/linked.h"
#include "common/base/log.h"
#include "common/base/xalloc.h"
#include "common/rpc/accept_check.h"
#include "common/rpc/args.h"
#include "common/rpc/flood.h"
#include "common/rpc/guard.h"
#include "common/rpc/guard_tls.h"
#include "common/rpc/listen.h"
#include "common/rpc/server_impl.h"
#include "common/rpc/tls_impl.h"
#include "common/rpc/unread.h"

#include <assert.h>
#include <grpc/grpc_security.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    /* calls that the server requests from gRPC in advance, for all methods together but those of
     * instances */
    OUTSTANDING = 16,
    OUTSTANDING_EACH = 4,  /* calls that gRPC is asked for at a time, for each method of each
                            * instance */
    MEMBERS_US = 1000000,  /* microseconds between two checks whether callers of streams are still
                            * members */
    KEPT_CALL_US = 2000000 /* a handler that keeps a call for so long after the server has shut down
                            * aborts the process */
};

static uint32_t hash_path(const uint8_t *path, size_t len)
{
    uint32_t h = 2166136261U; /* FNV-1a */

    for (size_t i = 0; i < len; i++) {
        h = (h ^ path[i]) * 16777619U;
    }
    return h;
}

const ps_route *ps_server_route(const ps_server *server, const uint8_t *path, size_t len)
{
    uint32_t hash = hash_path(path, len);

    for (size_t i = hash;; i++) {
        const ps_route *r = &server->slots[i & (server->slot_count - 1)];

        if (r->path == NULL) {
            return NULL;
        }
        if (r->hash == hash && strlen(r->path) == len && memcmp(r->path, path, len) == 0) {
            return r;
        }
    }
}

/* Returns the free slot for a path that the table does not have yet. */
static ps_route *empty_slot(const ps_server *server, const char *path)
{
    for (size_t i = hash_path((const uint8_t *)path, strlen(path));; i++) {
        ps_route *r = &server->slots[i & (server->slot_count - 1)];

        if (r->path == NULL) {
            return r;
        }
        assert(strcmp(r->path, path) != 0); /* equal: the caller has given a service twice */
    }
}

static void add_route(ps_server *server, const ps_service *service,
                      const ProtobufCMethodDescriptor *type, const ps_method *method)
{
    const char *instance = service->instance != NULL ? service->instance : "";
    size_t size = strlen(service->type->name) + strlen(type->name) + strlen(instance) + 4;
    char *path = ps_xmalloc(size), kinds[PS_MAY_BYTES], name[128];
    ps_route *r;

    snprintf(path, size, "/%s/%s%s%s", service->type->name, type->name,
             service->instance != NULL ? "/" : "", instance);
    ps_log(PS_LOG_DEBUG, "rpc", "%s may be called by %s%s", path, ps_may_text(method->may, kinds),
           method->changes ? "; the audit has a line of it" : "");
    snprintf(name, sizeof name, "%s/%s", service->type->short_name, type->name);
    r = service->instance != NULL ? &server->instances[server->instance_count++]
                                  : empty_slot(server, path);
    *r = (ps_route){.path = path,
                    .hash = hash_path((const uint8_t *)path, strlen(path)),
                    .type = type,
                    .method = method,
                    .admit = service->admit,
                    .state = service->state,
                    .audit = method->changes ? service->audit : NULL,
                    .durations =
                        method->streams_in || method->streams_out ? NULL : ps_durations_of(name),
                    .loop = service->loop != NULL ? service->loop : server->loop};
}

static const ps_method *find_method(const ps_service *service, const char *name)
{
    for (size_t i = 0; i < service->method_count; i++) {
        if (strcmp(service->methods[i].name, name) == 0) {
            return &service->methods[i];
        }
    }
    return NULL;
}

static ps_status add_service(ps_server *server, const ps_service *service)
{
    const ProtobufCServiceDescriptor *type = service->type;

    for (unsigned i = 0; i < type->n_methods; i++) {
        const ps_method *m = find_method(service, type->methods[i].name);

        if (m == NULL) {
            return ps_fail(PS_FAILED_PRECONDITION, "%s: no handler for %s", type->name,
                           type->methods[i].name);
        }
        if (m->may == 0) {
            return ps_fail(PS_FAILED_PRECONDITION, "%s: nobody may call %s", type->name, m->name);
        }
        add_route(server, service, &type->methods[i], m);
    }
    if (service->method_count != type->n_methods) {
        return ps_fail(PS_FAILED_PRECONDITION, "%s: %zu handlers for %u methods", type->name,
                       service->method_count, type->n_methods);
    }
    return ps_ok();
}

static void make_slots(ps_server *server, const ps_service *services, size_t count)
{
    size_t methods = 0, of_instances = 0;

    for (size_t i = 0; i < count; i++) {
        assert((services[i].instance == NULL) == (services[i].loop == NULL));
        *(services[i].instance != NULL ? &of_instances : &methods) += services[i].type->n_methods;
    }
    server->instances = ps_xcalloc(of_instances + 1, sizeof server->instances[0]);
    server->slot_count = 16;
    while (server->slot_count < 2 * methods) {
        server->slot_count *= 2;
    }
    server->slots = ps_xcalloc(server->slot_count, sizeof server->slots[0]);
}

static ps_status add_services(ps_server *server, const ps_service *services, size_t count)
{
    const ps_server_own *own = &server->own;
    size_t total = count + own->count;
    ps_service *all = ps_xcalloc(total + 1, sizeof all[0]);
    ps_status st = ps_ok();

    memcpy(all, services, count * sizeof all[0]);
    if (own->count > 0) {
        memcpy(all + count, own->services, own->count * sizeof all[0]);
    }
    make_slots(server, all, total);
    for (size_t i = 0; i < total && ps_is_ok(&st); i++) {
        st = add_service(server, &all[i]);
    }
    free(all);
    return st;
}

static void server_free(ps_server *server)
{
    if (server->grpc != NULL) {
        grpc_server_destroy(server->grpc);
    }
    for (size_t i = 0; i < server->slot_count; i++) {
        free(server->slots[i].path);
    }
    for (size_t i = 0; i < server->instance_count; i++) {
        free(server->instances[i].path);
    }
    free(server->slots);
    free(server->instances);
    server->own.destroy(server->own.arg);
    pthread_mutex_destroy(&server->mutex);
    ps_unread_destroy(server->unread);
    free(server);
}

/* Frees the server and fires `done`, if gRPC has shut the server down and no call is left. */
static void end_if_over(ps_server *server)
{
    ps_event *done = server->done;

    if (!server->is_down || atomic_load(&server->calls) != 0) {
        return;
    }
    ps_loop_cancel(server->loop, &server->grace);
    server_free(server);
    done->fire(done, true);
}

void ps_server_call_over(ps_server *server)
{
    atomic_fetch_sub(&server->calls, 1);
    end_if_over(server);
}

static void on_down(ps_event *self, bool ok)
{
    ps_server *server = PS_CONTAINER_OF(self, ps_server, down);

    (void)ok;
    server->is_down = true;
    ps_loop_after(server->loop, &server->grace, KEPT_CALL_US);
    end_if_over(server);
}

void ps_server_list_stream(ps_call *call)
{
    ps_server *server = call->server;

    pthread_mutex_lock(&server->mutex);
    call->is_listed = true;
    PS_LINK_FIRST(server->streams, call);
    pthread_mutex_unlock(&server->mutex);
}

void ps_server_drop_stream(ps_call *call)
{
    ps_server *server = call->server;

    if (call->is_listed) { /* only this thread writes is_listed, so it is read without the mutex */
        pthread_mutex_lock(&server->mutex);
        PS_UNLINK(server->streams, call);
        pthread_mutex_unlock(&server->mutex);
    }
}

/* Cancels the streams of callers that are no longer members: whose certificate was revoked, or
 * whose token is gone or has expired. Runs every MEMBERS_US, under TLS only. */
static void on_members(ps_event *self, bool ok)
{
    ps_server *server = PS_CONTAINER_OF(self, ps_server, members.event);
    ps_tls *tls = ps_loop_tls(server->loop);

    if (!ok) {
        return;
    }
    pthread_mutex_lock(&server->mutex);
    for (ps_call *c = ps_tls_may_refuse(tls) ? server->streams : NULL; c != NULL; c = c->next) {
        ps_status st = ps_tls_check_identity(tls, &c->caller);

        if (!ps_is_ok(&st)) { /* any thread may cancel a call; on_closed then runs on the loop of
                               * the call */
            (void)grpc_call_cancel_with_status(c->grpc, GRPC_STATUS_UNAUTHENTICATED, st.text, NULL);
        }
    }
    pthread_mutex_unlock(&server->mutex);
    ps_loop_after(server->loop, &server->members, MEMBERS_US);
}

static void on_grace(ps_event *self, bool ok)
{
    ps_server *server = PS_CONTAINER_OF(self, ps_server, grace.event);

    (void)ok;
    if (server->is_down) {
        /* A handler has kept a call for KEPT_CALL_US. Aborts: gRPC still points to the call, so
         * freeing the server would be a use after free that no leak checker sees. */
        fprintf(stderr, "server: %zu calls kept after their end\n", atomic_load(&server->live));
        abort();
    }
    grpc_server_cancel_all_calls(server->grpc);
}

/* Returns the most bytes that gRPC may hold of what a server has received and not read: 512 MiB, or
 * a quarter of the memory if that is less. As they fill up gRPC shrinks flow-control windows;
 * beyond the bound it refuses streams. */
static size_t in_flight_bytes(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
    size_t wanted = (size_t)512 << 20, quarter = wanted;

    if (pages > 0 && page_bytes > 0) {
        quarter = (size_t)pages / 4 * (size_t)page_bytes;
    }
    return quarter < wanted ? quarter : wanted;
}

static grpc_server *create_grpc(void)
{
    static const ps_int_arg table[] = {
        {GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, PS_MESSAGE_MAX},
        {GRPC_ARG_MAX_CONCURRENT_STREAMS, PS_FLOOD_STREAMS_MAX},
        {GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, PS_WINDOW_BYTES},
        {GRPC_ARG_HTTP2_MAX_FRAME_SIZE, PS_FRAME_BYTES},
        {GRPC_ARG_ALLOW_REUSEPORT, 0}, /* a second server on one port must fail */
        {GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1},
        {GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 10000},
        /* a client that does not complete the handshake by then is disconnected */
        {GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, 10000},
        {GRPC_ARG_KEEPALIVE_TIME_MS, 30000},
        {GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20000},
        /* gRPC accepts no compression, else a small message could unpack to gigabytes */
        {GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET, 1},
    };
    grpc_arg args[PS_INT_ARGS_MAX + 1];
    grpc_channel_args all = ps_int_args(args, table, sizeof table / sizeof table[0]);
    grpc_resource_quota *quota = grpc_resource_quota_create("server");
    grpc_server *grpc;

    /* gRPC checks the length of a message only when it has all of it. The quota stops a client that
     * announces 4 GiB and begins to send them. */
    grpc_resource_quota_resize(quota, in_flight_bytes());
    args[all.num_args++] =
        (grpc_arg){.type = GRPC_ARG_POINTER,
                   .key = (char *)GRPC_ARG_RESOURCE_QUOTA,
                   .value.pointer = {.p = quota, .vtable = grpc_resource_quota_arg_vtable()}};
    grpc = grpc_server_create(&all, NULL);
    grpc_resource_quota_unref(quota);
    return grpc;
}

static void register_instances(ps_server *server)
{
    for (size_t i = 0; i < server->instance_count; i++) {
        ps_route *r = &server->instances[i];

        r->registered =
            grpc_server_register_method(server->grpc, r->path, NULL, GRPC_SRM_PAYLOAD_NONE, 0);
        assert(r->registered != NULL); /* NULL: the instance was given twice */
        grpc_server_register_completion_queue(server->grpc, ps_loop_cq(r->loop), NULL);
    }
}

static void request_calls(ps_server *server)
{
    for (size_t i = 0; i < OUTSTANDING; i++) {
        ps_server_request_call(server, NULL);
    }
    for (size_t i = 0; i < server->instance_count * OUTSTANDING_EACH; i++) {
        ps_server_request_call(server, &server->instances[i / OUTSTANDING_EACH]);
    }
}

/* Ends the process, because no new client can reach it (the check of accept_check.h has failed).
 * Its supervisor starts it again; jobs survive that as they survive a crash. */
static void end_process(void *arg, const ps_status *why)
{
    (void)arg;
    ps_log(PS_LOG_ERROR, "rpc",
           "the process accepts no connections any more and ends, so that its supervisor starts it "
           "again: %s",
           why->text);
    _exit(EXIT_FAILURE);
}

ps_status ps_server_start(ps_loop *loop, const ps_service *services, size_t count,
                          const ps_server_own *own, const char *address, ps_server **out)
{
    grpc_server_credentials *creds = NULL;
    ps_server *server = ps_xcalloc(1, sizeof *server);
    ps_status st;

    server->loop = loop;
    server->unread = ps_unread_create();
    server->own = *own;
    server->down.fire = on_down;
    server->grace.event.fire = on_grace;
    server->members.event.fire = on_members;
    pthread_mutex_init(&server->mutex, NULL);
    st = add_services(server, services, count);
    if (!ps_is_ok(&st)) {
        goto out;
    }
    server->grpc = create_grpc();
    grpc_server_register_completion_queue(server->grpc, ps_loop_cq(loop), NULL);
    if (ps_loop_tls(loop) != NULL) {
        ps_guard_expect_tls();
        creds = ps_tls_server_credentials(ps_loop_tls(loop));
    } else {
        creds = grpc_insecure_server_credentials_create();
    }
    server->port = grpc_server_add_http2_port(server->grpc, address, creds);
    if (server->port == 0) {
        st = ps_listen_failure(address);
        goto out;
    }
    register_instances(server);
    grpc_server_start(server->grpc);
    request_calls(server);
    if (ps_loop_tls(loop) != NULL) {
        ps_loop_after(loop, &server->members, MEMBERS_US);
    }
    server->accept_check = ps_accept_check_start(
        address, server->port,
        (ps_accept_check_times){PS_ACCEPT_CHECK_US, PS_ACCEPT_CHECK_PATIENCE_US,
                                PS_ACCEPT_CHECK_FAILURES},
        end_process, NULL);
    *out = server;
    server = NULL; /* the caller owns it now */

out:
    grpc_server_credentials_release(creds);
    if (server != NULL) {
        server_free(server); /* the server was not started, so it needs no shutdown */
    }
    return st;
}

int ps_server_port(const ps_server *server)
{
    return server->port;
}

void ps_server_set_serving(ps_server *server, const char *service, bool serving)
{
    server->own.set_serving(server->own.arg, service, serving);
}

void ps_server_stop(ps_server *server, int64_t grace_us, ps_event *done)
{
    assert(!atomic_load(&server->stopping));
    atomic_store(&server->stopping, true);
    server->done = done;
    /* stopped first, so that the check does not take the end of listening for a failure */
    ps_accept_check_stop(server->accept_check);
    server->own.stop(server->own.arg);
    ps_loop_cancel(server->loop, &server->members);
    ps_loop_after(server->loop, &server->grace, grace_us);
    grpc_server_shutdown_and_notify(server->grpc, ps_loop_cq(server->loop), &server->down);
}
