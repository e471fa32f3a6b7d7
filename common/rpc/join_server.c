/* SPDX-License-Identifier: Apache-2.0 */
/* join_server.c - see join_server.h. One thread serves all connections; nothing but the making of
 * an answer (conf.answer) blocks it. */
#include "common/rpc/join_server.h"

#include "common/base/address.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/xalloc.h"
#include "common/pki/credentials.h"
#include "common/pki/join.h"
#include "common/rpc/guard.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    JOINS_MAX = 64,
    JOINS_OF_ONE = 8,
    CONNECTIONS_MAX = 600, /* most connections of an address within VISITS_US; further ones are
                            * closed */
    REFUSALS_MAX = 10,     /* an address with so many refused requests within VISITS_US gets no more
                            * connections */
    VISITS_US = 60 * 1000000,
    HOSTS = 256, /* addresses that are counted; a new one replaces the oldest */
    JOIN_US = 10 * 1000000,
    CONTEXT_US = 1000000,
    DEAF_US = 100000,
    LENGTH_BYTES = 4,
    WAITING_MAX = 16
};

/* The IP address of a client; of IPv6 only the network, its first 64 bits. */
typedef struct host {
    unsigned char bytes[16];
} host;

/* What an address has done within the minute (VISITS_US) from began_us on. */
typedef struct visits {
    host from;
    int64_t began_us; /* 0: a free place */
    unsigned connections, refusals;
} visits;

/* A connection; fd < 0: a free place. */
typedef struct joining {
    int fd;
    host from;
    char peer[PS_GUARD_ADDRESS_BYTES];
    int64_t until_us;
    SSL *ssl;
    short wants;  /* POLLIN or POLLOUT, for which SSL waits */
    bool is_open; /* the handshake is over */
    unsigned char head[LENGTH_BYTES];
    char *request; /* (PS_JOIN_MESSAGE_MAX) */
    size_t taken;  /* bytes of head and request that have come */
    ps_strbuf answer;
    size_t sent;
} joining;

struct ps_join_server {
    ps_join_conf conf;
    char tls_dir[PS_PATH_MAX];
    int fd, port, stop; /* stop: an eventfd that is written to end the thread */
    pthread_t thread;
    SSL_CTX *context;
    int64_t context_us;    /* when the files of `context` were last read */
    int64_t deaf_until_us; /* no connection is accepted before this time; 0: no limit */
    joining joins[JOINS_MAX];
    visits hosts[HOSTS];
};

/* --- addresses ----------------------------------------------------------------------------- */

static host host_of(const struct sockaddr *address)
{
    host h = {{0}};

    if (address->sa_family == AF_INET) {
        memcpy(h.bytes, &((const struct sockaddr_in *)(const void *)address)->sin_addr, 4);
    } else if (address->sa_family == AF_INET6) {
        const struct in6_addr *six =
            &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr;

        memcpy(h.bytes, IN6_IS_ADDR_V4MAPPED(six) ? six->s6_addr + 12 : six->s6_addr,
               IN6_IS_ADDR_V4MAPPED(six) ? 4 : 8);
    }
    return h;
}

static bool is_same(const host *a, const host *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

/* Returns the counts of an address since began_us. They begin at 0 if the address is new, or if
 * they began VISITS_US ago. A new address takes a free place, or that of the address whose counts
 * began first. */
static visits *visits_of(ps_join_server *s, const host *from)
{
    visits *found = &s->hosts[0];
    int64_t now_us = ps_clock_us();

    for (size_t i = 0; i < HOSTS; i++) {
        visits *v = &s->hosts[i];

        if (v->began_us != 0 && is_same(&v->from, from)) {
            found = v;
            break;
        }
        if (v->began_us < found->began_us) {
            found = v; /* so far the oldest, which a new address replaces */
        }
    }
    if (!is_same(&found->from, from) || now_us - found->began_us >= VISITS_US) {
        *found = (visits){.from = *from, .began_us = now_us};
    }
    return found;
}

/* Counts a connection of the address `from`. Returns false if the address has had more than
 * CONNECTIONS_MAX connections, or REFUSALS_MAX refused requests, within VISITS_US. */
static bool may_visit(ps_join_server *s, const host *from, const char *peer)
{
    visits *v = visits_of(s, from);

    if (++v->connections == CONNECTIONS_MAX + 1) {
        ps_log(PS_LOG_WARN, "join",
               "%d connections within a minute; further ones of the address of %s are closed",
               CONNECTIONS_MAX, peer);
    }
    return v->connections <= CONNECTIONS_MAX && v->refusals < REFUSALS_MAX;
}

static void count_refusal(ps_join_server *s, const joining *j)
{
    visits *v = visits_of(s, &j->from);

    if (++v->refusals == REFUSALS_MAX) {
        ps_log(PS_LOG_WARN, "join",
               "%u requests to join were refused; the address of %s waits a "
               "minute",
               v->refusals, j->peer);
    }
}

/* --- TLS ----------------------------------------------------------------------------------- */

static int choose_protocol(SSL *ssl, const unsigned char **out, unsigned char *n,
                           const unsigned char *in, unsigned in_n, void *arg)
{
    static const unsigned char protocol[] = "\x0bpsgd-join/1";

    (void)ssl;
    (void)arg;
    return SSL_select_next_proto((unsigned char **)(uintptr_t)out, n, protocol, sizeof protocol - 1,
                                 in, in_n) == OPENSSL_NPN_NEGOTIATED
               ? SSL_TLSEXT_ERR_OK
               : SSL_TLSEXT_ERR_ALERT_FATAL;
}

/* Adds the root certificate in `path` to the chain that the server shows, so that clients can
 * compare the root's fingerprint. */
static bool add_root(SSL_CTX *context, const char *path)
{
    BIO *bio = BIO_new_file(path, "r");
    X509 *root = bio != NULL ? PEM_read_bio_X509(bio, NULL, NULL, NULL) : NULL;
    bool ok = root != NULL && SSL_CTX_add1_chain_cert(context, root) == 1;

    X509_free(root);
    BIO_free(bio);
    return ok;
}

static ps_status make_context(const char *dir, SSL_CTX **out)
{
    ps_credentials_paths at;
    SSL_CTX *context;
    ps_status st = ps_credentials_find(dir, &at);

    if (!ps_is_ok(&st)) {
        return st;
    }
    context = SSL_CTX_new(TLS_server_method());
    if (context == NULL || SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) != 1 ||
        SSL_CTX_use_certificate_file(context, at.identity, SSL_FILETYPE_PEM) != 1 ||
        SSL_CTX_use_PrivateKey_file(context, at.identity, SSL_FILETYPE_PEM) != 1 ||
        !add_root(context, at.root) || SSL_CTX_set_num_tickets(context, 0) != 1) {
        ERR_clear_error();
        SSL_CTX_free(context);
        return ps_fail(PS_FAILED_PRECONDITION, "%s: root.pem and identity.pem cannot be used",
                       PS_PATH_SHOWN(dir));
    }
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_alpn_select_cb(context, choose_protocol, NULL);
    SSL_CTX_set_mode(context, SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    *out = context;
    return ps_ok();
}

/* Makes s->context anew from the current files, at most once in CONTEXT_US. If a file cannot be
 * used, the context that was made before stays. */
static void refresh_context(ps_join_server *s)
{
    int64_t now_us = ps_clock_us();
    SSL_CTX *context;
    ps_status st;

    if (now_us - s->context_us < CONTEXT_US) {
        return;
    }
    s->context_us = now_us;
    st = make_context(s->tls_dir, &context);
    if (ps_is_ok(&st)) {
        SSL_CTX_free(s->context);
        s->context = context;
    }
}

/* --- a connection ---------------------------------------------------------------------------- */

static void end_join(joining *j)
{
    if (j->is_open) {
        (void)SSL_shutdown(j->ssl);
    }
    ERR_clear_error();
    SSL_free(j->ssl);
    if (j->request != NULL) {
        OPENSSL_cleanse(j->request, PS_JOIN_MESSAGE_MAX);
        free(j->request);
    }
    ps_strbuf_fini(&j->answer);
    close(j->fd);
    *j = (joining){.fd = -1};
}

static void begin_join(ps_join_server *s, int fd, const struct sockaddr *address)
{
    host from = host_of(address);
    char peer[PS_GUARD_ADDRESS_BYTES];
    joining *place = NULL;
    unsigned of_one = 0;
    bool may;

    ps_guard_address(address, peer);
    may = may_visit(s, &from, peer);

    for (size_t i = 0; may && i < JOINS_MAX; i++) {
        if (s->joins[i].fd < 0) {
            place = &s->joins[i];
        } else {
            of_one += is_same(&s->joins[i].from, &from);
        }
    }
    if (may) {
        refresh_context(s);
    }
    if (place == NULL || of_one >= JOINS_OF_ONE || fcntl(fd, F_SETFL, O_NONBLOCK) != 0 ||
        fcntl(fd, F_SETFD, FD_CLOEXEC) != 0) {
        close(fd);
        return;
    }
    *place = (joining){.fd = fd,
                       .from = from,
                       .until_us = ps_clock_us() + JOIN_US,
                       .ssl = SSL_new(s->context),
                       .wants = POLLIN};
    memcpy(place->peer, peer, sizeof peer);
    if (place->ssl == NULL || SSL_set_fd(place->ssl, fd) != 1) {
        end_join(place);
        return;
    }
    place->request = ps_xmalloc(PS_JOIN_MESSAGE_MAX);
}

static size_t length_of(const joining *j)
{
    size_t n = 0;

    for (size_t i = 0; i < LENGTH_BYTES; i++) {
        n = n << 8 | j->head[i];
    }
    return n;
}

/* Has conf.answer answer the request, and appends the answer, with its length before it, to the
 * bytes to send. */
static void answer(ps_join_server *s, joining *j)
{
    ps_strbuf text = {0};
    unsigned char head[LENGTH_BYTES];

    if (!s->conf.answer(s->conf.arg, j->peer, j->request, length_of(j), &text)) {
        count_refusal(s, j);
    }
    for (size_t i = 0; i < LENGTH_BYTES; i++) {
        head[i] = (unsigned char)(text.len >> (8 * (LENGTH_BYTES - 1 - i)));
    }
    ps_strbuf_append(&j->answer, head, sizeof head);
    ps_strbuf_append(&j->answer, text.data, text.len);
    ps_strbuf_fini(&text);
}

/* Does the next step of a connection: handshake, length, request, answer. Returns 1 or more if a
 * further step may follow at once, and 0 if the connection is over: the answer was sent, or the
 * length is not allowed. Returns a negative result of SSL if it has to wait or has failed. */
static int step(ps_join_server *s, joining *j)
{
    size_t length;
    int n;

    if (!j->is_open) {
        n = SSL_accept(j->ssl);
        j->is_open = n == 1;
        return n == 1 ? 1 : n == 0 ? -1 : n;
    }
    if (j->taken < LENGTH_BYTES) {
        n = SSL_read(j->ssl, j->head + j->taken, (int)(LENGTH_BYTES - j->taken));
        j->taken += n > 0 ? (size_t)n : 0;
        if (j->taken == LENGTH_BYTES && (length_of(j) == 0 || length_of(j) > PS_JOIN_MESSAGE_MAX)) {
            count_refusal(s, j);
            return 0;
        }
        return n > 0 ? n : -1;
    }
    length = LENGTH_BYTES + length_of(j);
    if (j->taken < length) {
        n = SSL_read(j->ssl, j->request + (j->taken - LENGTH_BYTES), (int)(length - j->taken));
        j->taken += n > 0 ? (size_t)n : 0;
        if (j->taken == length) {
            answer(s, j);
        }
        return n > 0 ? n : -1;
    }
    n = SSL_write(j->ssl, j->answer.data + j->sent, (int)(j->answer.len - j->sent));
    j->sent += n > 0 ? (size_t)n : 0;
    return j->sent == j->answer.len ? 0 : n > 0 ? n : -1;
}

/* Does steps of a connection until it has to wait for the socket, or ends it. */
static void go_on(ps_join_server *s, joining *j)
{
    int n, error;

    do {
        ERR_clear_error();
        n = step(s, j);
    } while (n > 0);
    error = n == 0 ? SSL_ERROR_ZERO_RETURN : SSL_get_error(j->ssl, n);
    if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) {
        j->wants = error == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT;
    } else {
        j->is_open = j->is_open && n == 0;
        end_join(j);
    }
}

/* --- the thread ------------------------------------------------------------------------------ */

static void take_waiting(ps_join_server *s)
{
    for (int i = 0; i < WAITING_MAX; i++) {
        struct sockaddr_storage from;
        socklen_t size = sizeof from;
        int fd = accept(s->fd, (struct sockaddr *)&from, &size);

        if (fd < 0) {
            /* without a free descriptor, for instance, the connection stays waiting, and poll would
             * return at once, again and again */
            s->deaf_until_us = errno == EAGAIN ? 0 : ps_clock_us() + DEAF_US;
            return;
        }
        begin_join(s, fd, (struct sockaddr *)&from);
    }
}

/* Waits until a connection comes, one in progress can go on, or the time of one is over. Begins the
 * new ones. got[i] is what poll reports of joins[i]. Returns false when the server ends. */
static bool wait_for(ps_join_server *s, short got[JOINS_MAX])
{
    struct pollfd list[JOINS_MAX + 2] = {{.fd = s->stop, .events = POLLIN},
                                         {.fd = s->fd, .events = POLLIN}};
    int64_t now_us = ps_clock_us(), next_us = INT64_MAX;

    if (s->deaf_until_us > now_us) {
        list[1].fd = -1;
        next_us = s->deaf_until_us;
    }
    for (size_t i = 0; i < JOINS_MAX; i++) {
        const joining *j = &s->joins[i];

        list[i + 2] = (struct pollfd){.fd = j->fd, .events = j->wants};
        if (j->fd >= 0 && j->until_us < next_us) {
            next_us = j->until_us;
        }
    }
    if (poll(list, JOINS_MAX + 2,
             next_us == INT64_MAX ? -1
             : next_us > now_us   ? (int)((next_us - now_us) / 1000) + 1
                                  : 0) < 0 &&
        errno != EINTR) {
        ps_log(PS_LOG_ERROR, "join", "nobody can join any more: %s", strerror(errno));
        return false;
    }
    for (size_t i = 0; i < JOINS_MAX; i++) {
        got[i] = list[i + 2].revents;
    }
    if (list[1].revents != 0) {
        take_waiting(s);
    }
    return list[0].revents == 0;
}

static void *serve(void *arg)
{
    ps_join_server *s = arg;
    short got[JOINS_MAX];

    while (wait_for(s, got)) {
        int64_t now_us = ps_clock_us();

        for (size_t i = 0; i < JOINS_MAX; i++) {
            joining *j = &s->joins[i];

            if (j->fd >= 0 && got[i] != 0) {
                go_on(s, j);
            }
            if (j->fd >= 0 && j->until_us <= now_us) {
                j->is_open = false;
                end_join(j);
            }
        }
    }
    return NULL;
}

/* --- life --------------------------------------------------------------------------------------
 */

/* Binds the first address of conf.listen that can be bound. */
static ps_status open_listener(ps_join_server *s)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *list = NULL;
    struct sockaddr_storage bound;
    socklen_t size = sizeof bound;
    ps_address a;
    char port[8];
    int yes = 1, code, err = 0;
    ps_status st = ps_address_parse(s->conf.listen, "127.0.0.1", PS_JOIN_PORT, &a);

    if (!ps_is_ok(&st)) {
        return st;
    }
    snprintf(port, sizeof port, "%u", (unsigned)a.port);
    code = getaddrinfo(a.host, port, &hints, &list);
    if (code != 0) {
        return ps_fail(PS_UNAVAILABLE, "%s: %s", s->conf.listen, gai_strerror(code));
    }
    for (struct addrinfo *at = list; at != NULL && s->fd < 0; at = at->ai_next) {
        s->fd = socket(at->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        err = s->fd < 0 || setsockopt(s->fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0 ||
                      bind(s->fd, at->ai_addr, at->ai_addrlen) != 0 || listen(s->fd, 64) != 0
                  ? errno
                  : 0;
        if (err != 0 && s->fd >= 0) {
            close(s->fd);
            s->fd = -1;
        }
    }
    freeaddrinfo(list);
    if (s->fd < 0 || getsockname(s->fd, (struct sockaddr *)&bound, &size) != 0) {
        return ps_fail(PS_UNAVAILABLE, "cannot listen on %s: %s", s->conf.listen, strerror(err));
    }
    s->port = ntohs(bound.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)(void *)&bound)->sin6_port
                                                : ((struct sockaddr_in *)(void *)&bound)->sin_port);
    return ps_ok();
}

static void free_server(ps_join_server *s)
{
    for (size_t i = 0; i < JOINS_MAX; i++) {
        if (s->joins[i].fd >= 0) {
            s->joins[i].is_open = false;
            end_join(&s->joins[i]);
        }
    }
    if (s->fd >= 0) {
        close(s->fd);
    }
    if (s->stop >= 0) {
        close(s->stop);
    }
    SSL_CTX_free(s->context);
    free(s);
}

ps_status ps_join_server_start(const ps_join_conf *conf, ps_join_server **out)
{
    ps_join_server *s = ps_xcalloc(1, sizeof *s);
    ps_status st;
    int err;

    s->conf = *conf;
    s->fd = -1;
    for (size_t i = 0; i < JOINS_MAX; i++) {
        s->joins[i].fd = -1;
    }
    snprintf(s->tls_dir, sizeof s->tls_dir, "%s", conf->tls_dir);
    s->stop = eventfd(0, EFD_CLOEXEC);
    st = s->stop >= 0 ? make_context(s->tls_dir, &s->context) : ps_fail_errno(errno, "eventfd");
    if (ps_is_ok(&st)) {
        s->context_us = ps_clock_us();
        st = open_listener(s);
    }
    if (ps_is_ok(&st)) {
        err = pthread_create(&s->thread, NULL, serve, s);
        st = err == 0 ? ps_ok() : ps_fail_errno(err, "a thread for those who join");
    }
    if (!ps_is_ok(&st)) {
        free_server(s);
        return st;
    }
    s->conf.listen = s->conf.tls_dir = NULL; /* the caller owns these texts and may free them */
    *out = s;
    return ps_ok();
}

int ps_join_server_port(const ps_join_server *s)
{
    return s->port;
}

void ps_join_server_stop(ps_join_server *s)
{
    uint64_t one = 1;

    if (s == NULL) {
        return;
    }
    if (write(s->stop, &one, sizeof one) == (ssize_t)sizeof one) {
        pthread_join(s->thread, NULL);
    }
    free_server(s);
}
