/* SPDX-License-Identifier: Apache-2.0 */
/* etcd.c - see etcd.h. Only the loop's thread uses the channel; other threads post it errands. */
#include "services/coordinator/io/etcd.h"

#include "common/base/address.h"
#include "common/base/clock.h"
#include "common/base/container_of.h"
#include "common/base/shorten.h"
#include "common/base/strbuf.h"
#include "common/base/xalloc.h"
#include "common/rpc/client.h"
#include "common/rpc/loop_thread.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ETCD_PORT = 2379, STREAM_BYTES = 4096 };

static const int64_t try_us = 700000; /* longest wait for the answer of one member */
/* pause after a member was silent, before the next is called; the second one once all were */
static const int64_t pause_us = 30000, pause_of_all_us = 250000;
static const int64_t probe_us = 500000;

static const char plain[] = "etcd://", protected[] = "etcds://";

struct ps_etcd {
    ps_loop_thread *thread;
    char *members[PS_ETCD_MEMBERS_MAX];
    size_t count;
    char *listed; /* all members, as "host:port,host:port" */
    char prefix[PS_ETCD_PREFIX_MAX];
    ps_tls_files *files;  /* NULL: plaintext */
    atomic_bool answered; /* a call has succeeded since the start */
    ps_channel *channel;  /* to members[at]; NULL: none yet. Loop's thread */
    size_t at;            /* index of the member that is called. Loop's thread */
    uint64_t turns;       /* times that `at` has moved on. Loop's thread */
};

/* A call, which is tried at one member after the other. The thread that makes the call waits until
 * a try is done. */
typedef struct errand {
    ps_event event;
    ps_etcd *etcd;
    const ProtobufCServiceDescriptor *service;
    const char *method;
    const ProtobufCMessage *request;
    int64_t timeout_us;
    ps_etcd_take_fn *take;
    void *arg;
    ps_stream *stream; /* the stream that renews a lease; NULL: the errand is a unary call */
    uint64_t turn;     /* value of etcd->turns when the try began */
    bool is_taken;     /* the stream has brought the answer */
    ps_status status;
    pthread_mutex_t mutex; /* guards is_done */
    pthread_cond_t changed;
    bool is_done; /* the try has ended, and `status` is set */
} errand;

/* --- on the loop's thread ------------------------------------------------------ */

static ps_channel *channel_for(errand *e)
{
    ps_etcd *etcd = e->etcd;

    e->turn = etcd->turns;
    if (!etcd->channel) {
        ps_loop *loop = ps_loop_thread_loop(etcd->thread);
        const char *member = etcd->members[etcd->at];

        etcd->channel = etcd->files ? ps_channel_create_files(loop, member, etcd->files)
                                    : ps_channel_create(loop, member);
        ps_channel_fail_fast(etcd->channel);
    }
    return etcd->channel;
}

/* Returns whether a call ended so because the member did not answer: then another member may. */
static bool is_silence(const ps_status *st)
{
    return st->code == PS_UNAVAILABLE || st->code == PS_DEADLINE_EXCEEDED ||
           st->code == PS_CANCELLED;
}

static void end(errand *e, const ps_status *st)
{
    e->status = *st;
    if (ps_is_ok(st)) {
        atomic_store(&e->etcd->answered, true);
    }
    /* Moves on to the next member, unless another call has done so since this try began. */
    if (is_silence(st) && e->turn == e->etcd->turns) {
        ps_channel_destroy(e->etcd->channel);
        e->etcd->channel = NULL;
        e->etcd->at = (e->etcd->at + 1) % e->etcd->count;
        e->etcd->turns++;
    }
    pthread_mutex_lock(&e->mutex);
    e->is_done = true;
    pthread_cond_signal(&e->changed);
    pthread_mutex_unlock(&e->mutex);
}

static void replied(void *arg, const ps_error *error, const ProtobufCMessage *reply)
{
    errand *e = arg;

    if (ps_is_ok(&error->status) && e->take) {
        e->take(e->arg, reply);
    }
    end(e, &error->status);
}

static void call(ps_event *event, bool ok)
{
    errand *e = PS_CONTAINER_OF(event, errand, event);
    ps_status st = ps_fail(PS_CANCELLED, "stopped");

    if (!ok) {
        end(e, &st);
        return;
    }
    (void)ps_unary_start(channel_for(e), e->service, e->method, e->request, e->timeout_us, replied,
                         e);
}

static void renewed(void *arg, const ProtobufCMessage *head, ps_payload *payload)
{
    errand *e = arg;

    (void)payload;
    e->is_taken = true;
    e->take(e->arg, head);
    ps_stream_cancel(e->stream);
}

static void renewal_ended(void *arg, const ps_error *error)
{
    errand *e = arg;
    ps_status st = e->is_taken                ? ps_ok()
                   : ps_is_ok(&error->status) ? ps_fail(PS_UNAVAILABLE, "no answer")
                                              : error->status;

    end(e, &st);
}

static void renew(ps_event *event, bool ok)
{
    static const ps_stream_events events = {.on_message = renewed, .on_end = renewal_ended};
    errand *e = PS_CONTAINER_OF(event, errand, event);
    ps_status st = ps_fail(PS_CANCELLED, "stopped");

    if (!ok) {
        end(e, &st);
        return;
    }
    e->stream = ps_stream_open(channel_for(e), e->service, e->method, e->timeout_us, STREAM_BYTES,
                               &events, e);
    ps_stream_send(e->stream, e->request, NULL, 0);
    ps_stream_read(e->stream);
}

/* --- on the caller's thread ---------------------------------------------------- */

/* Waits until a try of the call is done, or until `deadline_us` (INT64_MAX: without limit). The
 * caller holds e->mutex. */
static void wait(errand *e, int64_t deadline_us)
{
    struct timespec at = {.tv_sec = deadline_us / 1000000, .tv_nsec = deadline_us % 1000000 * 1000};
    int err = 0;

    while (!e->is_done && err != ETIMEDOUT) {
        err = deadline_us == INT64_MAX ? pthread_cond_wait(&e->changed, &e->mutex)
                                       : pthread_cond_timedwait(&e->changed, &e->mutex, &at);
    }
}

static int64_t min_us(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Returns `text` without the only member's address that it begins with. */
static const char *without_member(const ps_etcd *etcd, const char *text)
{
    size_t n = strlen(etcd->listed);

    return strncmp(text, etcd->listed, n) == 0 && strncmp(text + n, ": ", 2) == 0 ? text + n + 2
                                                                                  : text;
}

/* Returns UNAVAILABLE for a call that no member has answered, with a reason. gRPC does not tell why
 * a TLS handshake fails; so, under TLS and until a call has succeeded for the first time, probes
 * each member to find out. */
static ps_status silent(const errand *e)
{
    ps_etcd *etcd = e->etcd;
    ps_status st = ps_ok();

    for (size_t i = 0; etcd->files && !atomic_load(&etcd->answered) && i < etcd->count; i++) {
        st = ps_tls_files_probe(etcd->files, etcd->members[i], probe_us);
        if (st.code == PS_UNAUTHENTICATED || st.code == PS_FAILED_PRECONDITION) {
            return ps_fail(PS_UNAVAILABLE, "etcd at %s", st.text);
        }
    }
    return ps_fail(PS_UNAVAILABLE, "etcd at %s does not answer: %s", PS_SHORT(etcd->listed, 150),
                   etcd->count == 1 ? without_member(etcd, e->status.text) : e->status.text);
}

/* Tries the call at one member after the other, until one answers or `deadline_us` is over. Returns
 * what the member said, or UNAVAILABLE. */
static ps_status run(errand *e, int64_t deadline_us)
{
    pthread_condattr_t attr;
    size_t silences = 0;
    int64_t now_us;

    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC); /* the clock of ps_clock_us */
    pthread_cond_init(&e->changed, &attr);
    pthread_condattr_destroy(&attr);
    pthread_mutex_init(&e->mutex, NULL);
    e->status = ps_fail(PS_UNAVAILABLE, "no time left");
    while ((now_us = ps_clock_us()) < deadline_us) {
        e->timeout_us = min_us(try_us, deadline_us - now_us);
        e->is_done = e->is_taken = false;
        ps_loop_post(ps_loop_thread_loop(e->etcd->thread), &e->event);
        pthread_mutex_lock(&e->mutex);
        wait(e, INT64_MAX); /* the try ends by e->timeout_us at the latest */
        e->is_done = false;
        if (is_silence(&e->status)) {
            silences++;
            wait(e,
                 min_us(deadline_us,
                        ps_clock_us() + (silences < e->etcd->count ? pause_us : pause_of_all_us)));
        }
        pthread_mutex_unlock(&e->mutex);
        if (!is_silence(&e->status)) {
            break;
        }
    }
    pthread_cond_destroy(&e->changed);
    pthread_mutex_destroy(&e->mutex);
    return is_silence(&e->status) ? silent(e) : e->status;
}

ps_status ps_etcd_call(ps_etcd *etcd, const ProtobufCServiceDescriptor *service, const char *method,
                       const ProtobufCMessage *request, int64_t deadline_us, ps_etcd_take_fn *take,
                       void *arg)
{
    errand e = {.event.fire = call,
                .etcd = etcd,
                .service = service,
                .method = method,
                .request = request,
                .take = take,
                .arg = arg};

    return run(&e, deadline_us);
}

static void take_ttl(void *arg, const ProtobufCMessage *reply)
{
    *(int64_t *)arg = ((const Etcdserverpb__LeaseKeepAliveResponse *)reply)->ttl;
}

ps_status ps_etcd_keep_alive(ps_etcd *etcd, int64_t lease, int64_t deadline_us, int64_t *ttl_s)
{
    Etcdserverpb__LeaseKeepAliveRequest q = ETCDSERVERPB__LEASE_KEEP_ALIVE_REQUEST__INIT;
    errand e = {.event.fire = renew,
                .etcd = etcd,
                .service = &etcdserverpb__lease__descriptor,
                .method = "LeaseKeepAlive",
                .request = &q.base,
                .take = take_ttl,
                .arg = ttl_s};

    q.id = lease;
    return run(&e, deadline_us);
}

/* --- life ---------------------------------------------------------------------- */

static ps_status wrong(const char *url, const char *why)
{
    return ps_fail(PS_INVALID_ARGUMENT, "--registry %s: %s", PS_SHORT(url, 50), why);
}

/* Sets the members from `text`, "host:port,host:port", which it changes. */
static ps_status take_members(ps_etcd *etcd, const char *url, char *text)
{
    char *rest = NULL, full[PS_ADDRESS_TEXT_BYTES];
    ps_strbuf listed = {0};
    ps_status st = ps_ok();

    for (char *one = strtok_r(text, ",", &rest); one && ps_is_ok(&st);
         one = strtok_r(NULL, ",", &rest)) {
        if (etcd->count == PS_ETCD_MEMBERS_MAX) {
            st = wrong(url, "at most 16 members are allowed");
            break;
        }
        st = ps_address_complete("--registry", one, "127.0.0.1", ETCD_PORT, full);
        if (ps_is_ok(&st)) {
            ps_strbuf_printf(&listed, "%s%s", etcd->count > 0 ? "," : "", full);
            etcd->members[etcd->count++] = ps_xstrdup(full);
        }
    }
    etcd->listed = ps_strbuf_take(&listed);
    return ps_is_ok(&st) && etcd->count == 0 ? wrong(url, "etcd://HOST:PORT,... is allowed") : st;
}

/* Sets the prefix of keys to `text`, of letters, digits, '.', '_' and '-', with a '/' behind it. */
static ps_status take_prefix(ps_etcd *etcd, const char *url, const char *text)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    size_t n = strlen(text);

    if (n == 0 || n + 2 > sizeof etcd->prefix || strspn(text, allowed) != n) {
        return wrong(url, "the prefix behind the members: 1 to 126 of A-Z a-z 0-9 . _ - are "
                          "allowed");
    }
    memcpy(etcd->prefix, text, n);
    memcpy(etcd->prefix + n, "/", 2);
    return ps_ok();
}

static bool is_protected(const char *url)
{
    return strncmp(url, protected, strlen(protected)) == 0;
}

bool ps_etcd_is_url(const char *text)
{
    return is_protected(text) || strncmp(text, plain, strlen(plain)) == 0;
}

static bool is_given(const char *file)
{
    return file && file[0] != '\0';
}

/* Reads the TLS files for an etcds:// URL. For etcd:// refuses such files. */
static ps_status read_files(ps_etcd *etcd, const char *url, const ps_tls_files_conf *files)
{
    ps_tls_files_conf conf = *files;

    conf.flags = "--etcd";
    if (is_protected(url)) {
        return ps_tls_files_create(&conf, &etcd->files);
    }
    return is_given(conf.ca) || is_given(conf.cert) || is_given(conf.key)
               ? wrong(url, "with --etcd-ca, --etcd-cert or --etcd-key, etcds://HOST:PORT,... is "
                            "allowed")
               : ps_ok();
}

static ps_status read_url(ps_etcd *etcd, const char *url)
{
    const char *prefix = "psgd";
    char *text, *slash;
    ps_status st;

    if (!ps_etcd_is_url(url)) {
        return wrong(url, "etcd://HOST:PORT,... or etcds://HOST:PORT,... is allowed");
    }
    text = ps_xstrdup(url + strlen(is_protected(url) ? protected : plain));
    slash = strchr(text, '/');
    if (slash) {
        *slash = '\0';
        prefix = slash + 1;
    }
    st = take_prefix(etcd, url, prefix);
    if (ps_is_ok(&st)) {
        st = take_members(etcd, url, text);
    }
    free(text);
    return st;
}

ps_status ps_etcd_create(const char *url, const ps_tls_files_conf *files, ps_etcd **out)
{
    ps_etcd *etcd = ps_xcalloc(1, sizeof *etcd);
    ps_status st = read_url(etcd, url);

    if (ps_is_ok(&st)) {
        st = read_files(etcd, url, files);
    }
    if (ps_is_ok(&st)) {
        st = ps_loop_thread_start("etcd", &etcd->thread);
    }
    if (ps_is_ok(&st)) {
        *out = etcd;
    } else {
        ps_etcd_destroy(etcd);
    }
    return st;
}

static void close_channel(void *arg)
{
    ps_etcd *etcd = arg;

    ps_channel_destroy(etcd->channel);
    etcd->channel = NULL;
}

void ps_etcd_destroy(ps_etcd *etcd)
{
    if (!etcd) {
        return;
    }
    if (etcd->thread) {
        ps_loop_thread_run(etcd->thread, close_channel, etcd);
        ps_loop_thread_stop(etcd->thread);
    }
    for (size_t i = 0; i < etcd->count; i++) {
        free(etcd->members[i]);
    }
    ps_tls_files_destroy(etcd->files);
    free(etcd->listed);
    free(etcd);
}

const char *ps_etcd_members(const ps_etcd *etcd)
{
    return etcd->listed;
}

const char *ps_etcd_prefix(const ps_etcd *etcd)
{
    return etcd->prefix;
}
