/* SPDX-License-Identifier: Apache-2.0 */
/* tls_probe.c - a handshake of psgd's own, which says what is wrong; see tls.h.
 *
 * gRPC tells a caller only that it could not connect. This connects beside it, and reads until the
 * server has said something: under TLS 1.3 a server refuses a client after the client's handshake.
 */
#include "common/base/clock.h"
#include "common/base/strbuf.h"
#include "common/rpc/dial.h"
#include "common/rpc/tls_impl.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* One probe. */
typedef struct probe {
    const char *address;
    int fd;
    int64_t until_us;
    SSL_CTX *context;
    SSL *ssl;
} probe;

/* Waits until the socket can be read (or written). Returns false at the deadline. */
static bool wait_for(const probe *p, short events)
{
    struct pollfd pfd = {.fd = p->fd, .events = events};
    int64_t left_us = p->until_us - ps_clock_us();

    return left_us > 0 && poll(&pfd, 1, (int)(left_us / 1000) + 1) == 1;
}

static ps_status connect_to(probe *p)
{
    ps_status st = ps_dial(p->address, p->until_us - ps_clock_us(), &p->fd);

    if (st.code == PS_NOT_FOUND) {
        st.code = PS_UNAVAILABLE;
    }
    return st;
}

/* Waits for what SSL wants. Returns false if it has failed or the deadline has passed. */
static bool wait_for_ssl(const probe *p, int result, bool *timed_out)
{
    int error = SSL_get_error(p->ssl, result);
    bool wants = error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE;

    *timed_out = wants && !wait_for(p, error == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT);
    return wants && !*timed_out;
}

/* Says why the other side ended a handshake, by what is on libssl's list of errors. */
static ps_status refused(const probe *p, const ps_certificate *own)
{
    unsigned long error = ERR_peek_last_error();
    long verdict = SSL_get_verify_result(p->ssl);
    const char *reason = error != 0 ? ERR_reason_error_string(error) : NULL;
    char who[PS_PRINCIPAL_TEXT_BYTES];
    int code = ERR_GET_REASON(error);

    ERR_clear_error();
    if (verdict != X509_V_OK) {
        return ps_fail(PS_UNAUTHENTICATED, "its certificate is not taken here: %s",
                       X509_verify_cert_error_string(verdict));
    }
    if (error != 0 && (code == SSL_R_WRONG_VERSION_NUMBER || code == SSL_R_PACKET_LENGTH_TOO_LONG ||
                       code == SSL_R_HTTP_REQUEST)) {
        return ps_fail(PS_UNAUTHENTICATED, "it does not speak TLS; start it with --tls-dir");
    }
    return ps_fail(PS_UNAUTHENTICATED, "it does not take the certificate of %s (--tls-dir): %s",
                   ps_principal_text(&own->subject.who, who),
                   reason != NULL ? reason : "it closed the connection");
}

/* Checks whose certificate the other side has shown. */
static ps_status check_peer(const probe *p, const ps_tls *tls, ps_principal_kind kind,
                            const char *name)
{
    X509 *certificate = SSL_get1_peer_certificate(p->ssl);
    BIO *bio = BIO_new(BIO_s_mem());
    ps_strbuf pem = {0};
    ps_principal who;
    ps_status st;
    char *text;
    long n;

    if (certificate == NULL || PEM_write_bio_X509(bio, certificate) != 1) {
        st = ps_fail(PS_UNAUTHENTICATED, "it has no certificate");
    } else {
        n = BIO_get_mem_data(bio, &text);
        ps_strbuf_append(&pem, text, (size_t)n);
        st = ps_tls_check_peer((ps_tls *)tls, ps_strbuf_text(&pem), kind, name, &who);
    }
    ps_strbuf_fini(&pem);
    BIO_free(bio);
    X509_free(certificate);
    return st;
}

/* Shakes hands, and waits for the first bytes of the server. */
static ps_status shake_hands(probe *p, const ps_tls *tls, ps_principal_kind kind, const char *name)
{
    const ps_certificate *own = ps_tls_own(tls);
    bool timed_out = false;
    ps_status st;
    char byte;
    int n;

    ERR_clear_error();
    do {
        n = SSL_connect(p->ssl);
    } while (n != 1 && wait_for_ssl(p, n, &timed_out));
    if (n == 1) {
        st = check_peer(p, tls, kind, name);
        if (!ps_is_ok(&st)) {
            return st;
        }
        do {
            n = SSL_read(p->ssl, &byte, 1);
        } while (n != 1 && wait_for_ssl(p, n, &timed_out));
    }
    if (timed_out) {
        return ps_fail(PS_UNAVAILABLE, "it does not answer the handshake");
    }
    return n == 1 ? ps_ok() : refused(p, own);
}

static ps_status set_up(probe *p, const char *dir)
{
    static const unsigned char h2[] = {2, 'h', '2'};
    ps_credentials_paths at;
    ps_status st = ps_credentials_find(dir, &at);

    if (!ps_is_ok(&st)) {
        return st;
    }
    p->context = SSL_CTX_new(TLS_client_method());
    if (p->context == NULL || SSL_CTX_set_min_proto_version(p->context, TLS1_2_VERSION) != 1 ||
        SSL_CTX_set_alpn_protos(p->context, h2, sizeof h2) != 0 ||
        SSL_CTX_load_verify_locations(p->context, at.root, NULL) != 1 ||
        SSL_CTX_use_certificate_file(p->context, at.identity, SSL_FILETYPE_PEM) != 1 ||
        SSL_CTX_use_PrivateKey_file(p->context, at.identity, SSL_FILETYPE_PEM) != 1) {
        ERR_clear_error();
        return ps_fail(PS_FAILED_PRECONDITION, "%s cannot be used", PS_PATH_SHOWN(dir));
    }
    SSL_CTX_set_verify(p->context, SSL_VERIFY_PEER, NULL);
    p->ssl = SSL_new(p->context);
    return p->ssl != NULL && SSL_set_fd(p->ssl, p->fd) == 1
               ? ps_ok()
               : ps_fail(PS_INTERNAL, "libssl has no memory");
}

ps_status ps_tls_probe(const ps_tls *tls, const char *address, ps_principal_kind kind,
                       const char *name, int64_t timeout_us)
{
    probe p = {.address = address, .fd = -1, .until_us = ps_clock_us() + timeout_us};
    ps_status st = connect_to(&p);

    if (ps_is_ok(&st)) {
        st = set_up(&p, ps_tls_dir(tls));
    }
    if (ps_is_ok(&st)) {
        st = shake_hands(&p, tls, kind, name);
    }
    SSL_free(p.ssl);
    SSL_CTX_free(p.context);
    if (p.fd >= 0) {
        close(p.fd);
    }
    return ps_wrap(st, "%s", address);
}
