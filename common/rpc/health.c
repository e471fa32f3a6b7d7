/* SPDX-License-Identifier: Apache-2.0 */
/* health.c - see health.h.
 *
 * A watcher stores the status that it was sent last. Whenever it may send and the status has
 * changed, it sends the new one. So a slow reader costs one message, however often the status
 * changes meanwhile.
 */
#include "common/rpc/health.h"

#include "common/base/xalloc.h"

#include "common/base/shorten.h"
#include "grpc/health/v1/health.pb-c.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

typedef Grpc__Health__V1__HealthCheckRequest check_request;
typedef Grpc__Health__V1__HealthCheckResponse check_response;
typedef Grpc__Health__V1__HealthCheckResponse__ServingStatus serving_status;

/* Short names of the values of ServingStatus. */
enum {
    UNKNOWN = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__UNKNOWN,
    SERVING = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVING,
    NOT_SERVING = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__NOT_SERVING,
    SERVICE_UNKNOWN = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVICE_UNKNOWN
};

typedef struct entry entry;
struct entry {
    entry *next;
    int status;
    char name[];
};

typedef struct watcher watcher;
struct watcher {
    watcher *next, **link; /* `link` points to the pointer that points to this watcher */
    ps_health *health;
    ps_call *call;
    int told; /* the status that the watcher sent last; UNKNOWN: none yet */
    char name[];
};

struct ps_health {
    bool stopped;
    entry *entries;
    watcher *watchers;
};

static entry *find_entry(const ps_health *health, const char *name)
{
    entry *e = health->entries;

    while (e != NULL && strcmp(e->name, name) != 0) {
        e = e->next;
    }
    return e;
}

static void add_entry(ps_health *health, const char *name, int status)
{
    size_t len = strlen(name) + 1;
    entry *e = ps_xmalloc(sizeof *e + len);

    memcpy(e->name, name, len);
    e->status = status;
    e->next = health->entries;
    health->entries = e;
}

ps_health *ps_health_create(const ps_service *services, size_t count)
{
    ps_health *health = ps_xcalloc(1, sizeof *health);

    add_entry(health, "", SERVING);
    for (size_t i = 0; i < count; i++) {
        add_entry(health, services[i].type->name, SERVING);
    }
    return health;
}

void ps_health_destroy(ps_health *health)
{
    if (health == NULL) {
        return;
    }
    assert(health->watchers == NULL);
    while (health->entries != NULL) {
        entry *e = health->entries;

        health->entries = e->next;
        free(e);
    }
    free(health);
}

static void remove_watcher(watcher *w)
{
    *w->link = w->next;
    if (w->next != NULL) {
        w->next->link = w->link;
    }
    free(w);
}

static void tell(watcher *w);

static void on_told(void *arg, ps_call *call)
{
    (void)call;
    tell(arg);
}

/* Sends the current status of the watched service if the call may send and the status differs from
 * the one sent last. Ends the watcher if the server stops. May free `w`. */
static void tell(watcher *w)
{
    check_response reply = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;
    const entry *e = find_entry(w->health, w->name);
    int status = e == NULL ? SERVICE_UNKNOWN : e->status;

    if (!ps_call_can_send(w->call)) {
        return; /* on_told calls this again */
    }
    if (w->told != status) {
        w->told = status;
        reply.status = (serving_status)status;
        ps_call_send(w->call, &reply.base, NULL, 0, on_told, w);
    } else if (w->health->stopped) {
        ps_call *call = w->call;

        remove_watcher(w);
        ps_call_fail(call, ps_fail(PS_UNAVAILABLE, "the server is stopping"));
    }
}

static void on_gone(void *arg, ps_call *call)
{
    (void)call;
    remove_watcher(arg);
}

static void tell_all(ps_health *health)
{
    watcher *next;

    for (watcher *w = health->watchers; w != NULL; w = next) {
        next = w->next;
        tell(w);
    }
}

void ps_health_set(ps_health *health, const char *service, bool serving)
{
    int status = serving && !health->stopped ? SERVING : NOT_SERVING;
    entry *e = find_entry(health, service);

    if (e == NULL) {
        add_entry(health, service, status);
    } else {
        e->status = status;
    }
    tell_all(health);
}

void ps_health_stop(ps_health *health)
{
    health->stopped = true;
    for (entry *e = health->entries; e != NULL; e = e->next) {
        e->status = NOT_SERVING;
    }
    tell_all(health);
}

static void handle_check(void *state, const ProtobufCMessage *request, ps_payload *payload,
                         ps_call *call)
{
    const ps_health *health = state;
    const check_request *req = (const check_request *)request;
    const entry *e = find_entry(health, req->service);
    check_response reply = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;

    (void)payload;
    if (e == NULL) {
        ps_call_fail(call,
                     ps_fail(PS_NOT_FOUND, "no service '%s' here", PS_SHORT(req->service, 80)));
        return;
    }
    reply.status = (serving_status)e->status;
    ps_call_reply(call, &reply.base);
}

static void handle_watch(void *state, const ProtobufCMessage *request, ps_payload *payload,
                         ps_call *call)
{
    ps_health *health = state;
    const check_request *req = (const check_request *)request;
    size_t len = strlen(req->service) + 1;
    watcher *w = malloc(sizeof *w + len);

    (void)payload;
    if (w == NULL) {
        ps_call_fail(call, ps_fail(PS_RESOURCE_EXHAUSTED, "no memory for one more Watch"));
        return;
    }
    memcpy(w->name, req->service, len);
    w->health = health;
    w->call = call;
    w->told = UNKNOWN;
    w->next = health->watchers;
    w->link = &health->watchers;
    if (w->next != NULL) {
        w->next->link = &w->next;
    }
    health->watchers = w;
    ps_call_on_gone(call, on_gone, w);
    tell(w);
}

static const ps_method health_methods[] = {
    {.name = "Check", .handle = handle_check, .may = PS_MAY_ALL},
    {.name = "Watch", .handle = handle_watch, .may = PS_MAY_ALL, .streams_out = true},
};

ps_service ps_health_service(ps_health *health)
{
    return (ps_service){
        .type = &grpc__health__v1__health__descriptor,
        .methods = health_methods,
        .method_count = sizeof health_methods / sizeof health_methods[0],
        .state = health,
    };
}

ps_stream *ps_health_watch(ps_channel *channel, const ps_stream_events *events, void *arg)
{
    check_request request = GRPC__HEALTH__V1__HEALTH_CHECK_REQUEST__INIT;
    ps_stream *stream = ps_stream_open(channel, &grpc__health__v1__health__descriptor, "Watch",
                                       PS_NO_TIMEOUT, 0, events, arg);

    ps_stream_send(stream, &request.base, NULL, 0);
    ps_stream_half_close(stream);
    return stream;
}
