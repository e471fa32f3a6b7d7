/* SPDX-License-Identifier: Apache-2.0 */
/* web.c - see web.h. The HTTP thread: requests, what is refused, and bytes on their way out.
 *
 * A page of another site must not act here: a browser would send what that page asks for. So a
 * request must name, as Host, a host that this page can have; else a name of the other site could
 * lead here. A request of another origin is refused. POST needs the content type of JSON, which the
 * form of a page cannot have.
 */
#include "services/coordinator/web/web.h"

#include "common/base/log.h"
#include "common/base/shorten.h"
#include "common/base/xalloc.h"
#include "common/rpc/pbjson.h"
#include "psgd/v1/coordinator.pb-c.h"
#include "services/coordinator/web/web_impl.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONNECTION_BYTES = 16384, BLOCK_BYTES = 65536 };

static const char api[] = "/api/v1/";

/* --- answers -------------------------------------------------------------------------- */

static const char policy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

static enum MHD_Result queue(const ps_web *web, struct MHD_Connection *connection, unsigned code,
                             struct MHD_Response *response, const char *type, const char *caching)
{
    static const char *const same[][2] = {{"Content-Security-Policy", policy},
                                          {"X-Content-Type-Options", "nosniff"},
                                          {"X-Frame-Options", "DENY"},
                                          {"Referrer-Policy", "no-referrer"},
                                          {"Cross-Origin-Resource-Policy", "same-origin"}};
    enum MHD_Result result;

    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++) {
        web->http.add_response_header(response, same[i][0], same[i][1]);
    }
    if (code == MHD_HTTP_UNAUTHORIZED) {
        web->http.add_response_header(response, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
    }
    web->http.add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    web->http.add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, caching);
    result = web->http.queue_response(connection, code, response);
    web->http.destroy_response(response);
    return result;
}

/* Answers with `text`, which the HTTP library frees. */
static enum MHD_Result answer_text(const ps_web *web, struct MHD_Connection *connection,
                                   unsigned code, const char *type, char *text, size_t length)
{
    struct MHD_Response *response =
        web->http.create_response_from_buffer(length, text, MHD_RESPMEM_MUST_FREE);

    if (!response) {
        free(text);
        return MHD_NO;
    }
    return queue(web, connection, code, response, type, "no-store");
}

static enum MHD_Result refuse_error(const ps_web *web, struct MHD_Connection *connection,
                                    unsigned code, const ps_error *error)
{
    unsigned by_error;
    json_t *json = ps_web_error_json(error, &by_error);
    char *text = json_dumps(json, JSON_COMPACT);

    json_decref(json);
    return answer_text(web, connection, code != 0 ? code : by_error,
                       "application/json; charset=utf-8", text, strlen(text));
}

/* Refuses a request without a call to the service. Answers with the HTTP status `code`, and an
 * error with `text` as JSON. */
static enum MHD_Result refuse(const ps_web *web, struct MHD_Connection *connection, unsigned code,
                              const char *text)
{
    ps_error error;

    ps_error_init(
        &error,
        ps_fail(code == MHD_HTTP_SERVICE_UNAVAILABLE ? PS_UNAVAILABLE : PS_INVALID_ARGUMENT, "%s",
                text),
        NULL);
    return refuse_error(web, connection, code, &error);
}

static const char *header(const ps_web *web, struct MHD_Connection *connection, const char *name)
{
    return web->http.lookup_connection_value(connection, MHD_HEADER_KIND, name);
}

static enum MHD_Result answer_asset(const ps_web *web, struct MHD_Connection *connection,
                                    const ps_web_asset *asset)
{
    const char *encodings = header(web, connection, MHD_HTTP_HEADER_ACCEPT_ENCODING);
    const char *had = header(web, connection, MHD_HTTP_HEADER_IF_NONE_MATCH);
    bool is_same = had && strcmp(had, asset->tag) == 0;
    bool is_packed = asset->packed && encodings && strstr(encodings, "gzip");
    size_t size = is_same     ? 0
                  : is_packed ? asset->packed_size
                              : (size_t)(asset->end - asset->start);
    struct MHD_Response *response = web->http.create_response_from_buffer(
        size, is_packed ? asset->packed : (void *)(uintptr_t)asset->start, MHD_RESPMEM_PERSISTENT);

    if (!response) {
        return MHD_NO;
    }
    if (is_packed && !is_same) {
        web->http.add_response_header(response, MHD_HTTP_HEADER_CONTENT_ENCODING, "gzip");
    }
    web->http.add_response_header(response, MHD_HTTP_HEADER_VARY, "Accept-Encoding");
    web->http.add_response_header(response, MHD_HTTP_HEADER_ETAG, asset->tag);
    return queue(web, connection, is_same ? MHD_HTTP_NOT_MODIFIED : MHD_HTTP_OK, response,
                 asset->type, "no-cache");
}

/* --- what is refused -------------------------------------------------------------------- */

/* Returns whether the certificate of --tls-dir names the host `name`. */
static bool is_certified(const ps_web *web, const char *name)
{
    const ps_subject *own = web->tls != NULL ? &ps_tls_own(web->tls)->subject : NULL;

    for (size_t i = 0; own != NULL && i < own->host_count; i++) {
        if (strcasecmp(name, own->hosts[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* Returns whether `host`, with or without a port, is a name that the page can have: any IP address,
 * the host of --web, localhost, or a host of the certificate. */
static bool is_own_host(const ps_web *web, const char *host)
{
    char name[PS_ADDRESS_HOST_BYTES];
    unsigned char bytes[16];
    const char *end = host[0] == '[' ? strchr(host, ']') : strrchr(host, ':');
    size_t skip = host[0] == '[', n = end ? (size_t)(end - host) - skip : strlen(host);

    if (n == 0 || n >= sizeof name) {
        return false;
    }
    memcpy(name, host + skip, n);
    name[n] = '\0';
    return strcasecmp(name, "localhost") == 0 || strcasecmp(name, web->host) == 0 ||
           is_certified(web, name) || inet_pton(AF_INET, name, bytes) == 1 ||
           inet_pton(AF_INET6, name, bytes) == 1;
}

/* Returns why the request is refused for its headers Host, Origin and Sec-Fetch-Site; NULL: it is
 * not. */
static const char *find_fault(const ps_web *web, struct MHD_Connection *connection)
{
    const char *host = header(web, connection, MHD_HTTP_HEADER_HOST);
    const char *origin = header(web, connection, MHD_HTTP_HEADER_ORIGIN);
    const char *site = header(web, connection, "Sec-Fetch-Site");
    const char *scheme = web->tls != NULL ? "https://" : "http://";
    size_t n = strlen(scheme);

    if (!host || !is_own_host(web, host)) {
        return "Host: an address, localhost, the host of --web or one of the certificate is "
               "allowed";
    }
    if (origin && (strncmp(origin, scheme, n) != 0 || strcmp(origin + n, host) != 0)) {
        return "Origin: a page of another site may not call this one";
    }
    if (site && strcmp(site, "same-origin") != 0 && strcmp(site, "none") != 0) {
        return "Sec-Fetch-Site: a page of another site may not call this one";
    }
    return NULL;
}

static bool is_json(const char *type)
{
    static const char json[] = "application/json";

    return type && strncasecmp(type, json, sizeof json - 1) == 0 &&
           strchr("; ", type[sizeof json - 1]) != NULL;
}

/* --- requests of methods ------------------------------------------------------------------ */

/* Returns the method of this name; NULL: there is none that users may call and that takes a single
 * request. */
static const ps_method *find_method(const ps_service *service, const char *name)
{
    for (size_t i = 0; i < service->method_count; i++) {
        const ps_method *m = &service->methods[i];

        if (strcmp(m->name, name) == 0 && (m->may & PS_MAY_SEE) && !m->streams_in) {
            return m;
        }
    }
    return NULL;
}

static ps_web_kind kind_of(const ps_method *method, const ProtobufCMessageDescriptor *output)
{
    return !method->streams_out                                                 ? PS_WEB_UNARY
           : protobuf_c_message_descriptor_get_field_by_name(output, "payload") ? PS_WEB_FILE
                                                                                : PS_WEB_EVENTS;
}

typedef struct query {
    ps_web_request *r;
    ps_error *error;
    ps_status status;
} query;

static enum MHD_Result take_argument(void *arg, enum MHD_ValueKind kind, const char *key,
                                     const char *value)
{
    query *q = arg;

    (void)kind;
    q->status = ps_pb_set(q->r->message, key, value ? value : "", q->error);
    return ps_is_ok(&q->status) ? MHD_YES : MHD_NO;
}

/* Makes the message of the request: with has_body from the JSON of the body, else from the query.
 * For a stream of events, sets after_sequence to the header Last-Event-ID, if there is one. */
static ps_status read_message(ps_web_request *r, const ProtobufCMessageDescriptor *type,
                              bool has_body, ps_error *error)
{
    query q = {.r = r, .error = error, .status = ps_ok()};
    const char *last = header(r->web, r->connection, "Last-Event-ID");
    json_error_t why;
    json_t *json = has_body && r->body.len > 0
                       ? json_loadb(r->body.data, r->body.len, JSON_REJECT_DUPLICATES, &why)
                       : json_object();

    if (!json) {
        ps_status st = ps_fail(PS_INVALID_ARGUMENT, "the body is not JSON: line %d: %s", why.line,
                               PS_SHORT(why.text, 100));

        ps_error_init(error, st, NULL);
        return st;
    }
    q.status = ps_pb_from_json(type, json, "", error, &r->message);
    json_decref(json);
    if (ps_is_ok(&q.status) && !has_body) {
        r->web->http.get_connection_values(r->connection, MHD_GET_ARGUMENT_KIND, take_argument, &q);
    }
    if (ps_is_ok(&q.status) && r->kind == PS_WEB_EVENTS && last) {
        q.status = ps_pb_set(r->message, "after_sequence", last, error);
    }
    return q.status;
}

/* Has the loop make the call; the connection waits meanwhile. Refuses the request if the page is
 * being stopped, or if it is for a file and PS_WEB_FILES_MAX are being sent. */
static enum MHD_Result hand_over(ps_web_request *r)
{
    ps_web *web = r->web;
    bool is_refused;

    pthread_mutex_lock(&web->mutex);
    is_refused = web->is_stopping || (r->kind == PS_WEB_FILE && web->files >= PS_WEB_FILES_MAX);
    if (!is_refused) {
        web->calls++;
        web->files += r->kind == PS_WEB_FILE;
        r->holders++;
        r->is_suspended = true;
        web->http.suspend_connection(r->connection);
        ps_web_post(r);
    }
    pthread_mutex_unlock(&web->mutex);
    return is_refused ? refuse(web, r->connection, MHD_HTTP_SERVICE_UNAVAILABLE,
                               "the page is being stopped, or sends too many files; try again")
                      : MHD_YES;
}

static enum MHD_Result call(ps_web_request *r, const char *name, bool has_body)
{
    ps_web *web = r->web;
    const ProtobufCMethodDescriptor *type;
    ps_error error = {0};
    ps_status st;
    bool is_curves = strcmp(name, "curves") == 0 && !has_body;

    /* Curves are the page's own; first GetJob is called, which refuses who may not see the job. */
    name = is_curves ? "GetJob" : name;
    r->method = find_method(web->service, name);
    if (!r->method) {
        return refuse(web, r->connection, MHD_HTTP_NOT_FOUND,
                      "no method of CoordinatorService for users; docs/web.md lists them");
    }
    if (!has_body && r->method->changes) {
        return refuse(web, r->connection, MHD_HTTP_METHOD_NOT_ALLOWED,
                      "the method changes something: POST it as application/json");
    }
    type = protobuf_c_service_descriptor_get_method_by_name(web->service->type, name);
    r->kind = is_curves ? PS_WEB_CURVES : kind_of(r->method, type->output);
    st = read_message(r, type->input, has_body, &error);
    if (!ps_is_ok(&st)) {
        error.status = st;
        return refuse_error(web, r->connection, 0, &error);
    }
    if (r->kind == PS_WEB_FILE && ((Psgd__V1__ReclaimLogsRequest *)r->message)->name[0] == '\0') {
        return refuse(web, r->connection, MHD_HTTP_BAD_REQUEST,
                      "name: the name of one file is needed");
    }
    return hand_over(r);
}

/* --- users: by certificates and tokens, under TLS -------------------------------------------- */

/* A page of another site does not get a browser to send the cookie (SameSite), and no script reads
 * it (HttpOnly). Browsers take a name with this prefix by TLS only, and from this host only. */
#define COOKIE "__Host-psgd"

/* Copies `text` if it has the form of a token. Returns whether it has. */
static bool copy_token(char to[PS_TOKEN_BYTES], const char *text)
{
    bool is = text != NULL && strlen(text) == PS_TOKEN_BYTES - 1 &&
              strspn(text, "psgd_0123456789abcdef") == PS_TOKEN_BYTES - 1;

    if (is) {
        memcpy(to, text, PS_TOKEN_BYTES);
    }
    return is;
}

/* Finds who the user of a request is, under TLS: by the certificate of the connection, else by
 * "Authorization: Bearer TOKEN", else by the cookie of a browser that has logged in. Sets r->token,
 * which the call brings as proof. Fails with UNAUTHENTICATED if there is none of the three. */
static ps_status take_user(ps_web_request *r)
{
    const ps_http *http = &r->web->http;
    const char *text = ps_http_bearer(http, r->connection);
    ps_tls_identity user;
    ps_status st = ps_http_client(http, r->connection, r->web->tls, &user);

    if (ps_is_ok(&st)) {
        ps_tls_vouch(r->web->tls, &user, r->token);
    }
    if (st.code != PS_NOT_FOUND) {
        return st;
    }
    if (text == NULL) {
        text = http->lookup_connection_value(r->connection, MHD_COOKIE_KIND, COOKIE);
    }
    return copy_token(r->token, text)
               ? ps_tls_identify_token(r->web->tls, r->token, PS_TOKEN_BYTES - 1, &user)
               : ps_fail(PS_UNAUTHENTICATED,
                         "Authorization: 'Bearer TOKEN' is needed, or a log-in on the page, or a "
                         "certificate; 'psgd token create' makes a token");
}

/* Has the browser keep the token of {"token": TOKEN} as a cookie, or forget it if that is "". Does
 * not check that the token is known: the next call does. */
static enum MHD_Result log_in(ps_web_request *r)
{
    const ps_web *web = r->web;
    json_t *json = json_loadb(r->body.data, r->body.len, JSON_REJECT_DUPLICATES, NULL);
    const char *text = json_string_value(json_object_get(json, "token"));
    char token[PS_TOKEN_BYTES] = "";
    bool is_out = text != NULL && text[0] == '\0', is_in = copy_token(token, text);
    struct MHD_Response *response;
    char cookie[160];

    json_decref(json);
    if (!is_in && !is_out) {
        return refuse(web, r->connection, MHD_HTTP_BAD_REQUEST,
                      "token: \"psgd_\" and 64 hexadecimal digits, as 'psgd token create' prints "
                      "them, are needed");
    }
    snprintf(cookie, sizeof cookie, COOKIE "=%s; Path=/; Secure; HttpOnly; SameSite=Strict%s",
             token, is_out ? "; Max-Age=0" : "");
    response =
        web->http.create_response_from_buffer(2, (void *)(uintptr_t) "{}", MHD_RESPMEM_PERSISTENT);
    if (!response) {
        return MHD_NO;
    }
    web->http.add_response_header(response, MHD_HTTP_HEADER_SET_COOKIE, cookie);
    return queue(web, r->connection, MHD_HTTP_OK, response, "application/json; charset=utf-8",
                 "no-store");
}

/* --- routes --------------------------------------------------------------------------------- */

/* Writes the next bytes of a stream to `to`. If there are none, ends the answer when the stream has
 * ended; else suspends the connection. */
static ssize_t read_out(void *arg, uint64_t at, char *to, size_t most)
{
    ps_web_request *r = arg;
    ps_web *web = r->web;
    size_t n;
    ssize_t result;

    (void)at;
    pthread_mutex_lock(&web->mutex);
    n = r->out.len - r->sent;
    n = n < most ? n : most;
    if (n > 0) {
        memcpy(to, r->out.data + r->sent, n);
    }
    r->sent += n;
    if (n > 0 && r->sent == r->out.len) {
        ps_strbuf_fini(&r->out); /* a stream holds no memory while it waits */
        r->sent = 0;
        if (!r->is_ended) {
            r->wants_more = true;
            ps_web_post(r);
        }
    }
    result = (ssize_t)n;
    if (n == 0 && r->is_ended) {
        result = MHD_CONTENT_READER_END_OF_STREAM;
    } else if (n == 0) {
        r->is_suspended = true;
        web->http.suspend_connection(r->connection);
    }
    pthread_mutex_unlock(&web->mutex);
    return result;
}

/* Answers with the reply of the call, or, if the call streams, begins to answer with the stream. */
static enum MHD_Result answer_call(ps_web_request *r)
{
    ps_web *web = r->web;
    struct MHD_Response *response;
    bool is_whole;
    unsigned code;
    char *text = NULL;
    size_t length = 0;

    pthread_mutex_lock(&web->mutex);
    code = r->code;
    is_whole = code != MHD_HTTP_OK || r->kind == PS_WEB_UNARY || r->kind == PS_WEB_CURVES;
    if (is_whole) {
        length = r->out.len;
        text = ps_strbuf_take(&r->out);
    }
    pthread_mutex_unlock(&web->mutex);
    if (is_whole) {
        return answer_text(web, r->connection, code, "application/json; charset=utf-8",
                           text ? text : ps_xstrdup(""), length);
    }
    response =
        web->http.create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK_BYTES, read_out, r, NULL);
    if (!response) {
        return MHD_NO;
    }
    if (r->kind == PS_WEB_FILE) {
        web->http.add_response_header(response, "Content-Disposition", "attachment");
    }
    return queue(web, r->connection, code, response,
                 r->kind == PS_WEB_EVENTS ? "text/event-stream" : "application/octet-stream",
                 "no-store");
}

static enum MHD_Result route(ps_web_request *r, const char *url, const char *method)
{
    ps_web *web = r->web;
    bool is_post = strcmp(method, MHD_HTTP_METHOD_POST) == 0;
    bool is_get = strcmp(method, MHD_HTTP_METHOD_GET) == 0;
    const char *fault = find_fault(web, r->connection);
    const ps_web_asset *asset;

    if (fault) {
        return refuse(web, r->connection, MHD_HTTP_FORBIDDEN, fault);
    }
    if (r->body.len > PS_WEB_BODY_MAX) {
        return refuse(web, r->connection, MHD_HTTP_CONTENT_TOO_LARGE,
                      "the body has more than 524288 bytes");
    }
    if (strncmp(url, api, sizeof api - 1) == 0) {
        if (!is_post && !is_get) {
            return refuse(web, r->connection, MHD_HTTP_METHOD_NOT_ALLOWED,
                          "GET and POST are allowed");
        }
        if (is_post && !is_json(header(web, r->connection, MHD_HTTP_HEADER_CONTENT_TYPE))) {
            return refuse(web, r->connection, MHD_HTTP_UNSUPPORTED_MEDIA_TYPE,
                          "Content-Type: application/json is needed");
        }
        if (web->tls != NULL && is_post && strcmp(url + sizeof api - 1, "login") == 0) {
            return log_in(r);
        }
        if (web->tls != NULL) {
            ps_error error;
            ps_status st = take_user(r);

            if (!ps_is_ok(&st)) {
                ps_error_init(&error, st, "NOT_A_MEMBER");
                return refuse_error(web, r->connection, MHD_HTTP_UNAUTHORIZED, &error);
            }
        }
        return call(r, url + sizeof api - 1, is_post);
    }
    if (!is_get && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0) {
        return refuse(web, r->connection, MHD_HTTP_METHOD_NOT_ALLOWED, "GET and HEAD are allowed");
    }
    asset = ps_web_asset_find(url);
    return asset ? answer_asset(web, r->connection, asset)
                 : refuse(web, r->connection, MHD_HTTP_NOT_FOUND, "there are / and /api/v1/METHOD");
}

static enum MHD_Result answer(void *state, struct MHD_Connection *connection, const char *url,
                              const char *method, const char *version, const char *upload,
                              size_t *upload_size, void **per_request)
{
    ps_web *web = state;
    ps_web_request *r = *per_request;

    (void)version;
    if (!r) {
        r = ps_xcalloc(1, sizeof *r);
        r->web = web;
        r->connection = connection;
        r->holders = 1;
        r->posted.fire = ps_web_posted;
        *per_request = r;
        return MHD_YES;
    }
    if (*upload_size > 0) {
        size_t n = *upload_size;

        *upload_size = 0;
        if (r->body.len > PS_WEB_BODY_MAX) {
            return MHD_YES; /* route() refuses the request when its body has ended */
        }
        if (web->bodies + n > PS_WEB_BODIES_MAX) {
            return MHD_NO;
        }
        web->bodies += n;
        ps_strbuf_append(&r->body, upload, n);
        return MHD_YES;
    }
    if (r->is_routed) {
        return answer_call(r);
    }
    r->is_routed = true;
    return route(r, url, method);
}

static void completed(void *state, struct MHD_Connection *connection, void **per_request,
                      enum MHD_RequestTerminationCode why)
{
    ps_web *web = state;
    ps_web_request *r = *per_request;

    (void)connection;
    (void)why;
    if (!r) {
        return;
    }
    *per_request = NULL;
    web->bodies -= r->body.len;
    pthread_mutex_lock(&web->mutex);
    r->is_closed = true;
    r->connection = NULL;
    if (r->holders > 1 && !r->is_ended) {
        ps_web_post(r);
    }
    ps_web_drop(r);
    pthread_mutex_unlock(&web->mutex);
}

/* --- life ----------------------------------------------------------------------------------- */

ps_status ps_web_check(const char *web, const ps_protect_conf *protect, char *out)
{
    ps_address address;
    ps_status st = ps_address_parse(protect->listen, "127.0.0.1", 0, &address);
    bool is_local = ps_is_ok(&st) && ps_address_is_loopback(&address);
    bool has_tls = protect->tls_dir && protect->tls_dir[0] != '\0';
    bool has_tokens = protect->tokens && protect->tokens[0] != '\0';

    out[0] = '\0';
    if (!ps_is_ok(&st) || (web && strcmp(web, "off") == 0) ||
        ((!web || web[0] == '\0') && (has_tls || !is_local))) {
        return st;
    }
    if (has_tls && !has_tokens) {
        return ps_fail(
            PS_INVALID_ARGUMENT,
            "--web %s: with --tls-dir it needs --tokens, because users of the page prove "
            "by tokens who they are; 'psgd token create' makes one",
            PS_SHORT(web, 80));
    }
    st = ps_address_complete("--web", web && web[0] != '\0' ? web : "127.0.0.1", "127.0.0.1",
                             PS_WEB_PORT, out);
    return ps_is_ok(&st) ? ps_protect_check_at(protect, "--web", out, " --tokens FILE") : st;
}

static void connect_calls(void *arg)
{
    ps_web *web = arg;

    ps_loop_after(web->loop, &web->beat, 0);
}

static void disconnect_calls(void *arg)
{
    ps_web *web = arg;

    ps_channel_destroy(web->channel);
    ps_channel_destroy(web->self);
}

static void destroy(ps_web *web)
{
    ps_curves_destroy(web->curves);
    free(web->past_id);
    pthread_cond_destroy(&web->idle);
    pthread_mutex_destroy(&web->mutex);
    free(web);
}

ps_status ps_web_start(const char *at, const char *target, ps_tls *tls, const ps_service *service,
                       ps_web **out)
{
    ps_web *web = ps_xcalloc(1, sizeof *web);
    ps_http_conf conf = {.flag = "--web",
                         .tls_dir = tls != NULL ? ps_tls_dir(tls) : NULL,
                         .flags = MHD_ALLOW_SUSPEND_RESUME,
                         .connections = PS_WEB_CONNECTIONS,
                         .of_host = tls != NULL ? PS_WEB_CONNECTIONS_OF_HOST : PS_WEB_CONNECTIONS,
                         .silence_s = PS_WEB_SILENCE_S,
                         .memory = CONNECTION_BYTES,
                         .answer = answer,
                         .completed = completed,
                         .arg = web};
    ps_address address;
    char text[PS_ADDRESS_TEXT_BYTES];
    ps_status st = ps_address_parse(at, "127.0.0.1", PS_WEB_PORT, &address);

    web->tls = tls;
    web->service = service;
    web->beat.event.fire = ps_web_beat;
    web->curves = ps_curves_create();
    pthread_mutex_init(&web->mutex, NULL);
    pthread_cond_init(&web->idle, NULL);
    if (ps_is_ok(&st)) {
        memcpy(web->host, address.host, sizeof web->host);
        st = ps_http_load(conf.flag, &web->http);
    }
    if (ps_is_ok(&st)) {
        ps_web_assets_pack();
        st = ps_loop_thread_start("web", &web->thread);
    }
    if (!ps_is_ok(&st)) {
        destroy(web);
        return st;
    }
    web->loop = ps_loop_thread_loop(web->thread);
    ps_loop_use_tls(web->loop, tls);
    web->channel = ps_channel_create_guest(web->loop, target);
    ps_channel_expect(web->channel, PS_PRINCIPAL_COORDINATOR, "");
    web->self = ps_channel_create(web->loop, target);
    ps_channel_expect(web->self, PS_PRINCIPAL_COORDINATOR, "");
    st = ps_http_start(&web->http, &conf, &address, &web->daemon);
    if (!ps_is_ok(&st)) {
        ps_loop_thread_run(web->thread, disconnect_calls, web);
        ps_loop_thread_stop(web->thread);
        destroy(web);
        return st;
    }
    ps_loop_thread_run(web->thread, connect_calls, web);
    ps_address_format(&address, text);
    ps_log(PS_LOG_INFO, "web", "page at http%s://%s/", tls != NULL ? "s" : "", text);
    *out = web;
    return ps_ok();
}

void ps_web_stop(ps_web *web)
{
    if (!web) {
        return;
    }
    pthread_mutex_lock(&web->mutex);
    web->is_stopping = true;
    pthread_mutex_unlock(&web->mutex);
    ps_web_drain(web);
    pthread_mutex_lock(&web->mutex);
    while (web->calls > 0) {
        pthread_cond_wait(&web->idle, &web->mutex);
    }
    pthread_mutex_unlock(&web->mutex);
    ps_http_stop(&web->http, web->daemon);
    ps_loop_thread_run(web->thread, disconnect_calls, web);
    ps_loop_thread_stop(web->thread);
    destroy(web);
}
