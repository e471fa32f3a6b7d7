/* SPDX-License-Identifier: Apache-2.0 */
/* ops.c - see ops.h.
 *
 * A request waits on a condition variable until the loop has written its page. Only the loop uses
 * `page` while `is_asked`, else only the thread of libmicrohttpd. If the loop is late, the thread
 * gives up; later requests fail too, until the loop has handled `asked`.
 */
#include "common/ops/ops.h"

#include "common/base/address.h"
#include "common/base/container_of.h"
#include "common/base/log.h"
#include "common/base/shorten.h"
#include "common/base/xalloc.h"
#include "common/ops/http.h"
#include "common/ops/metrics.h"
#include "common/rpc/accept.h"
#include "common/rpc/durations.h"
#include "common/rpc/guard.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PORT_DEFAULT = 0, CONNECTION_BYTES = 16384 };

typedef unsigned write_fn(ps_ops *ops);

struct ps_ops {
    ps_loop *loop;
    ps_ops_source source;
    ps_http http;
    ps_tls *tls; /* NULL: HTTP, and everybody who reaches it is answered */
    struct MHD_Daemon *daemon;
    ps_event asked;

    pthread_mutex_t mutex; /* guards the members below */
    pthread_cond_t changed;
    write_fn *write;  /* writes the page that is asked for */
    ps_strbuf page;   /* the page that `write` has written */
    unsigned code;    /* HTTP status of the page; 0: the page is not written yet */
    bool is_asked;    /* `asked` is posted and was not handled yet */
    bool is_stopping; /* ps_ops_stop was called: each request for a page fails at once */
};

/* --- pages, on the loop's thread ------------------------------------------------ */

typedef struct durations {
    ps_strbuf *out;
    bool is_begun;
} durations;

/* Appends the histogram of a method's durations, unless the method was never called. */
static void add_duration(void *arg, const char *method, const ps_histogram *histogram)
{
    static const char name[] = "psgd_rpc_duration_seconds";
    durations *d = arg;
    bool was_called = false;

    for (int i = 0; i <= PS_HISTOGRAM_EDGES; i++) {
        was_called = was_called || atomic_load(&histogram->counts[i]) > 0;
    }
    if (!was_called) {
        return;
    }
    if (!d->is_begun) {
        ps_metrics_begin(d->out, name, "histogram",
                         "unary calls that were answered, from the request to the answer");
        d->is_begun = true;
    }
    ps_metrics_histogram(d->out, name, PS_LABELS({"method", method}), histogram);
}

static unsigned write_metrics(ps_ops *ops)
{
    durations called = {.out = &ops->page};

    ps_metrics_process(&ops->page);
    ps_metrics_one(&ops->page, "psgd_connections_refused_total", "counter",
                   "connections refused: too many, or too fast", (double)ps_accept_refused());
    ps_metrics_one(&ops->page, "psgd_connections_closed_total", "counter",
                   "connections closed for what the client sent", (double)ps_guard_closed());
    ps_durations_each(add_duration, &called);
    ops->source.metrics(ops->source.state, &ops->page);
    return MHD_HTTP_OK;
}

static unsigned write_health(ps_ops *ops)
{
    ps_strbuf_puts(&ops->page, "ok\n");
    return MHD_HTTP_OK;
}

static unsigned write_ready(ps_ops *ops)
{
    ps_status st = ops->source.ready(ops->source.state);

    ps_strbuf_printf(&ops->page, "%s\n", ps_is_ok(&st) ? "ok" : st.text);
    return ps_is_ok(&st) ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE;
}

static const struct {
    const char *path, *type;
    write_fn *write;
    bool is_open; /* everybody gets the page, as a probe has no certificate; false: see admit */
} pages[] = {
    {"/metrics", "text/plain; version=0.0.4; charset=utf-8", write_metrics, false},
    {"/healthz", "text/plain; charset=utf-8", write_health, true},
    {"/readyz", "text/plain; charset=utf-8", write_ready, true},
};

enum { PAGES = sizeof pages / sizeof pages[0] };

static void destroy(ps_ops *ops)
{
    pthread_cond_destroy(&ops->changed);
    pthread_mutex_destroy(&ops->mutex);
    ps_strbuf_fini(&ops->page);
    free(ops);
}

static void on_asked(ps_event *event, bool ok)
{
    ps_ops *ops = PS_CONTAINER_OF(event, ps_ops, asked);
    bool is_last;

    pthread_mutex_lock(&ops->mutex);
    ops->is_asked = false;
    is_last = ops->is_stopping;
    if (ok && !is_last) {
        ps_strbuf_clear(&ops->page);
        ops->code = ops->write(ops);
        pthread_cond_signal(&ops->changed);
    }
    pthread_mutex_unlock(&ops->mutex);
    if (is_last) {
        destroy(ops);
    }
}

/* --- requests, on the thread of libmicrohttpd ------------------------------------- */

static void until(struct timespec *at, int64_t ms)
{
    clock_gettime(CLOCK_MONOTONIC, at);
    at->tv_sec += ms / 1000;
    at->tv_nsec += ms % 1000 * 1000000;
    if (at->tv_nsec >= 1000000000) {
        at->tv_sec++;
        at->tv_nsec -= 1000000000;
    }
}

/* Has the loop write a page, waits for it up to PS_OPS_WAIT_MS, and moves it to *text, which the
 * caller frees. Returns the HTTP status. It is 503, and *text says so, if the page does not come in
 * time, the loop has not handled an earlier request yet, or ps_ops_stop was called. */
static unsigned ask(ps_ops *ops, write_fn *write, char **text, size_t *length)
{
    struct timespec end;
    unsigned code;
    int rc = 0;

    until(&end, PS_OPS_WAIT_MS);
    pthread_mutex_lock(&ops->mutex);
    if (!ops->is_asked && !ops->is_stopping) {
        ops->write = write;
        ops->code = 0;
        ops->is_asked = true;
        ps_loop_post(ops->loop, &ops->asked);
        while (ops->code == 0 && !ops->is_stopping && rc == 0) {
            rc = pthread_cond_timedwait(&ops->changed, &ops->mutex, &end);
        }
    }
    code = ops->is_asked || ops->is_stopping ? 0 : ops->code;
    if (code != 0) {
        *length = ops->page.len;
        *text = ps_strbuf_take(&ops->page);
    }
    pthread_mutex_unlock(&ops->mutex);
    if (code == 0) {
        ps_strbuf late = {0};

        ps_strbuf_printf(&late, "the service has not answered for %d ms\n", PS_OPS_WAIT_MS);
        *length = late.len;
        *text = ps_strbuf_take(&late);
        code = MHD_HTTP_SERVICE_UNAVAILABLE;
    }
    return code;
}

static enum MHD_Result reply(const ps_ops *ops, struct MHD_Connection *connection, unsigned code,
                             const char *type, char *text, size_t length)
{
    const ps_http *http = &ops->http;
    struct MHD_Response *response =
        http->create_response_from_buffer(length, text, MHD_RESPMEM_MUST_FREE);
    enum MHD_Result result;

    if (response == NULL) {
        free(text);
        return MHD_NO;
    }
    http->add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    http->add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    http->add_response_header(response, "X-Content-Type-Options", "nosniff");
    if (code == MHD_HTTP_UNAUTHORIZED && ps_tls_takes_tokens(ops->tls)) {
        http->add_response_header(response, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
    }
    if (code == MHD_HTTP_METHOD_NOT_ALLOWED) {
        http->add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
    }
    result = http->queue_response(connection, code, response);
    http->destroy_response(response);
    return result;
}

static enum MHD_Result refuse(const ps_ops *ops, struct MHD_Connection *connection, unsigned code,
                              const char *why)
{
    ps_strbuf text = {0};

    ps_strbuf_printf(&text, "%s\n", why);
    return reply(ops, connection, code, "text/plain; charset=utf-8", text.data, text.len);
}

/* Checks that the client may see the numbers of all jobs: it is an observer or an admin, by its
 * certificate, or if it has none by a token. Fails with PERMISSION_DENIED for others, and with
 * other codes for unknown clients. */
static ps_status admit(const ps_ops *ops, struct MHD_Connection *connection)
{
    char text[PS_PRINCIPAL_TEXT_BYTES];
    const char *token;
    ps_tls_identity client;
    ps_status st = ps_http_client(&ops->http, connection, ops->tls, &client);

    token = ps_http_bearer(&ops->http, connection);
    if (st.code == PS_NOT_FOUND && token != NULL) {
        st = ps_tls_identify_token(ops->tls, token, strlen(token), &client);
    } else if (st.code == PS_NOT_FOUND) {
        st = ps_fail(PS_UNAUTHENTICATED, "a certificate of observer/NAME or admin/NAME is needed%s",
                     ps_tls_takes_tokens(ops->tls) ? ", or 'Authorization: Bearer TOKEN'" : "");
    }
    if (ps_is_ok(&st) && client.who.kind != PS_PRINCIPAL_OBSERVER &&
        client.who.kind != PS_PRINCIPAL_ADMIN) {
        st = ps_fail(PS_PERMISSION_DENIED,
                     "%s may not see the numbers of all jobs; allowed: "
                     "admin, observer",
                     ps_principal_text(&client.who, text));
    }
    return st;
}

static enum MHD_Result answer(void *state, struct MHD_Connection *connection, const char *url,
                              const char *method, const char *version, const char *upload,
                              size_t *upload_size, void **per_request)
{
    static int begun; /* only its address is used, as the mark of a request that has begun */
    ps_ops *ops = state;

    (void)version;
    (void)upload;
    /* The first call for a request: only its head was read. Answer at the next call. */
    if (*per_request == NULL) {
        *per_request = &begun;
        return MHD_YES;
    }
    *upload_size = 0;
    if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0) {
        return refuse(ops, connection, MHD_HTTP_METHOD_NOT_ALLOWED, "GET and HEAD are allowed");
    }
    for (size_t i = 0; i < PAGES; i++) {
        if (strcmp(url, pages[i].path) == 0) {
            size_t length = 0;
            char *text = NULL;
            unsigned code;
            ps_status st = pages[i].is_open || ops->tls == NULL ? ps_ok() : admit(ops, connection);

            if (!ps_is_ok(&st)) {
                return refuse(ops, connection,
                              st.code == PS_PERMISSION_DENIED ? MHD_HTTP_FORBIDDEN
                                                              : MHD_HTTP_UNAUTHORIZED,
                              st.text);
            }
            code = ask(ops, pages[i].write, &text, &length);
            return reply(ops, connection, code, pages[i].type, text, length);
        }
    }
    return refuse(ops, connection, MHD_HTTP_NOT_FOUND, "there are /metrics, /healthz and /readyz");
}

/* --- life ------------------------------------------------------------------------- */

ps_status ps_ops_check(const char *listen, const ps_protect_conf *protect, char *out)
{
    ps_status st = ps_address_complete("--ops", listen, "127.0.0.1", PORT_DEFAULT, out);

    return ps_is_ok(&st) ? ps_protect_check_at(protect, "--ops", out, "") : st;
}

static ps_status listen_at(ps_ops *ops, ps_address *address)
{
    ps_http_conf conf = {.flag = "--ops",
                         .tls_dir = ops->tls != NULL ? ps_tls_dir(ops->tls) : NULL,
                         .connections = PS_OPS_CONNECTIONS,
                         .of_host = PS_OPS_CONNECTIONS_OF_HOST,
                         .silence_s = PS_OPS_SILENCE_S,
                         .memory = CONNECTION_BYTES,
                         .answer = answer,
                         .arg = ops};
    ps_status st = ps_http_load(conf.flag, &ops->http);

    return ps_is_ok(&st) ? ps_http_start(&ops->http, &conf, address, &ops->daemon) : st;
}

ps_status ps_ops_start(ps_loop *loop, const char *listen, const char *program,
                       const ps_ops_source *source, ps_ops **out)
{
    ps_address address;
    char text[PS_ADDRESS_TEXT_BYTES];
    pthread_condattr_t monotonic;
    ps_ops *ops;
    ps_status st = ps_address_parse(listen, "127.0.0.1", PORT_DEFAULT, &address);

    if (!ps_is_ok(&st)) {
        return st;
    }
    ops = ps_xcalloc(1, sizeof *ops);
    ops->loop = loop;
    ops->tls = ps_address_is_loopback(&address) ? NULL : ps_loop_tls(loop);
    ops->source = *source;
    ops->asked.fire = on_asked;
    pthread_mutex_init(&ops->mutex, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&ops->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    st = listen_at(ops, &address);
    if (!ps_is_ok(&st)) {
        destroy(ops);
        return st;
    }
    ps_address_format(&address, text);
    printf("%s metrics on http%s://%s/metrics\n", program, ops->tls != NULL ? "s" : "", text);
    fflush(stdout);
    *out = ops;
    return ps_ok();
}

void ps_ops_stop(ps_ops *ops)
{
    bool is_asked;

    if (ops == NULL) {
        return;
    }
    pthread_mutex_lock(&ops->mutex);
    ops->is_stopping = true;
    pthread_cond_signal(&ops->changed);
    pthread_mutex_unlock(&ops->mutex);
    ps_http_stop(&ops->http, ops->daemon);
    pthread_mutex_lock(&ops->mutex);
    is_asked = ops->is_asked;
    pthread_mutex_unlock(&ops->mutex);
    if (!is_asked) { /* else on_asked, which comes later, destroys it */
        destroy(ops);
    }
}
