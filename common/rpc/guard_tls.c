/* SPDX-License-Identifier: Apache-2.0 */
/* guard_tls.c - has the guard count frames under TLS; see guard_tls.h.
 *
 * gRPC reads encrypted bytes from a connection, writes them to libssl by BIO_write, and then reads
 * what is decrypted by SSL_read. libssl knows no descriptor. So this file defines both functions:
 * BIO_write sees that its bytes are those that this thread has just read from a connection, and the
 * next SSL_read of the thread is of the same connection. Sessions that have a descriptor are not
 * gRPC's. What came with the end of the handshake was copied before; it is counted, and belongs to
 * a connection as soon as more comes.
 *
 * A connection that floods is not told so: SSL_read decrypts and discards what is left, and says
 * that it needs more.
 */
#include "common/rpc/guard_tls.h"

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/xalloc.h"
#include "common/rpc/guard.h"

#include <dlfcn.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* What the guard keeps with a TLS session of a server. gRPC reads a session by one thread at a
 * time. */
typedef struct session {
    ps_guard_ref ref;
    ps_flood flood;
    bool is_over; /* the connection has exceeded a bound; gRPC gets no more bytes of it */
} session;

/* The functions of libssl and libcrypto, or of a sanitizer, that this file replaces and calls. Set
 * once, by find_once. */
static struct {
    int (*ssl_read)(SSL *ssl, void *bytes, int n);
    int (*bio_write)(BIO *bio, const void *bytes, int n);
} next;

static int session_index; /* index at which an SSL keeps its session; negative: none */

/* The connection whose bytes this thread has given to libssl, until its next SSL_read. */
static _Thread_local ps_guard_ref fed;

static void free_session(void *parent, void *ptr, CRYPTO_EX_DATA *data, int index, long n,
                         void *arg)
{
    (void)parent;
    (void)data;
    (void)index;
    (void)n;
    (void)arg;
    free(ptr);
}

static void find_once(void)
{
    void *ssl_read = dlsym(RTLD_NEXT, "SSL_read"), *bio_write = dlsym(RTLD_NEXT, "BIO_write");

    memcpy(&next.ssl_read, &ssl_read, sizeof next.ssl_read);
    memcpy(&next.bio_write, &bio_write, sizeof next.bio_write);
    session_index = SSL_get_ex_new_index(0, NULL, NULL, NULL, free_session);
}

/* Finds the functions of libssl that this file replaces. Returns whether they are there. */
static bool find_next(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, find_once);
    return next.ssl_read != NULL && next.bio_write != NULL && session_index >= 0;
}

void ps_guard_expect_tls(void)
{
    if (!find_next()) {
        ps_log(PS_LOG_WARN, "rpc", "frames under TLS are not bounded: libssl is not found");
    }
    ps_guard_leave_frames_to_tls();
}

/* Replaces libcrypto's BIO_write: notes the connection from which this thread has read `bytes`, for
 * SSL_read. */
int BIO_write(BIO *bio, const void *bytes, int n)
{
    ps_guard_ref ref;

    if (!find_next()) {
        return -1;
    }
    if (n > 0 && ps_guard_has_tls() && ps_guard_fed(bytes, (size_t)n, &ref)) {
        fed = ref;
    }
    return next.bio_write(bio, bytes, n);
}

/* Returns the session of an SSL of a server, which is made at the first call. Returns NULL if
 * libssl has no memory. */
static session *session_of(SSL *ssl)
{
    session *s = SSL_get_ex_data(ssl, session_index);

    if (s == NULL) {
        s = ps_xcalloc(1, sizeof *s);
        ps_flood_init(&s->flood, false, ps_clock_us());
        if (!SSL_set_ex_data(ssl, session_index, s)) {
            free(s);
            s = NULL;
        }
    }
    return s;
}

/* Counts the frames in n decrypted bytes. Returns whether gRPC may have them: false if the session
 * has exceeded a bound. */
static bool may_have(session *s, const uint8_t *bytes, size_t n)
{
    ps_flood_kind kind;

    if (s->is_over) {
        return false;
    }
    s->is_over = s->ref.id != 0 ? !ps_guard_take(&s->ref, &s->flood, bytes, n)
                                : ps_flood_read(&s->flood, bytes, n, &kind) == PS_FLOOD_CLOSE;
    return !s->is_over;
}

/* Replaces libssl's SSL_read: counts the frames in what gRPC's servers decrypt, and discards the
 * bytes of a session that has exceeded a bound. */
int SSL_read(SSL *ssl, void *bytes, int size)
{
    session *s;
    int n;

    if (!find_next()) {
        return -1;
    }
    if (!ps_guard_has_tls() || !SSL_is_server(ssl) || SSL_get_fd(ssl) >= 0) { /* not of a gRPC
                                                                               * server */
        return next.ssl_read(ssl, bytes, size);
    }
    s = session_of(ssl);
    if (s == NULL) {
        return -1;
    }
    if (fed.id != 0) {
        s->ref = fed;
        fed.id = 0;
    }
    n = next.ssl_read(ssl, bytes, size);
    while (n > 0 && !may_have(s, bytes, (size_t)n)) {
        n = next.ssl_read(ssl, bytes, size);
    }
    return n;
}
