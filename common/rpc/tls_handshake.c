/* SPDX-License-Identifier: Apache-2.0 */
/* tls_handshake.c - see tls_handshake.h. */
#include "common/rpc/tls_handshake.h"

#include "common/base/address.h"
#include "common/base/clock.h"
#include "common/base/strbuf.h"
#include "common/rpc/dial.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <unistd.h>

/* One call of ps_handshake_try. */
typedef struct attempt {
    const ps_handshake *h;
    int fd;
    int64_t until_us;
    SSL *ssl;
} attempt;

bool ps_handshake_wait(SSL *ssl, int fd, int64_t until_us, int result, bool *timed_out)
{
    int error = SSL_get_error(ssl, result);
    struct pollfd pfd = {.fd = fd, .events = error == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT};
    int64_t left_us = until_us - ps_clock_us();
    bool wants = error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE;

    *timed_out = wants && (left_us <= 0 || poll(&pfd, 1, (int)(left_us / 1000) + 1) != 1);
    return wants && !*timed_out;
}

static ps_status connect_to(attempt *t)
{
    ps_status st = ps_dial(t->h->address, t->until_us - ps_clock_us(), &t->fd);

    if (st.code == PS_NOT_FOUND) {
        st.code = PS_UNAVAILABLE;
    }
    return st;
}

static bool wait_for_ssl(const attempt *t, int result, bool *timed_out)
{
    return ps_handshake_wait(t->ssl, t->fd, t->until_us, result, timed_out);
}

/* Returns an error that says why a handshake has failed, in the words of h->word. The reason comes
 * from libssl's list of errors. */
static ps_status refused(const attempt *t)
{
    unsigned long error = ERR_peek_last_error();
    long verdict = SSL_get_verify_result(t->ssl);
    const char *reason = error != 0 ? ERR_reason_error_string(error) : NULL;
    int code = ERR_GET_REASON(error);
    ps_handshake_end end = {.untaken = verdict != X509_V_OK ? X509_verify_cert_error_string(verdict)
                                                            : NULL,
                            .is_plaintext = error != 0 && (code == SSL_R_WRONG_VERSION_NUMBER ||
                                                           code == SSL_R_PACKET_LENGTH_TOO_LONG ||
                                                           code == SSL_R_HTTP_REQUEST),
                            .reason = reason != NULL ? reason : "it closed the connection"};

    ERR_clear_error();
    return t->h->word(t->h->arg, &end);
}

/* Has h->check check the certificate that the server has shown. Fails if there is none. */
static ps_status check_peer(const attempt *t)
{
    X509 *certificate = SSL_get1_peer_certificate(t->ssl);
    BIO *bio = BIO_new(BIO_s_mem());
    ps_strbuf pem = {0};
    ps_status st;
    char *text;
    long n;

    if (certificate == NULL || PEM_write_bio_X509(bio, certificate) != 1) {
        st = ps_fail(PS_UNAUTHENTICATED, "it has no certificate");
    } else {
        n = BIO_get_mem_data(bio, &text);
        ps_strbuf_append(&pem, text, (size_t)n);
        st = t->h->check(t->h->arg, ps_strbuf_text(&pem));
    }
    ps_strbuf_fini(&pem);
    BIO_free(bio);
    X509_free(certificate);
    return st;
}

/* Does the handshake and waits for the first bytes of the server: in TLS 1.3 a server refuses the
 * client's certificate only after the client's part of the handshake. */
static ps_status shake_hands(attempt *t)
{
    bool timed_out = false;
    ps_status st;
    char byte;
    int n;

    ERR_clear_error();
    do {
        n = SSL_connect(t->ssl);
    } while (n != 1 && wait_for_ssl(t, n, &timed_out));
    if (n == 1) {
        st = t->h->check != NULL ? check_peer(t) : ps_ok();
        if (!ps_is_ok(&st)) {
            return st;
        }
        do {
            n = SSL_read(t->ssl, &byte, 1);
        } while (n != 1 && wait_for_ssl(t, n, &timed_out));
    }
    if (timed_out) {
        return ps_fail(PS_UNAVAILABLE, "it does not answer the handshake");
    }
    return n == 1 ? ps_ok() : refused(t);
}

/* Has libssl check that the certificate is of the host in h->address, a name or an IP address. */
static bool expect_host(const attempt *t)
{
    X509_VERIFY_PARAM *param = SSL_get0_param(t->ssl);
    ps_address address;
    ps_status st = ps_address_parse(t->h->address, "", 0, &address);

    return ps_is_ok(&st) && (X509_VERIFY_PARAM_set1_ip_asc(param, address.host) == 1 ||
                             X509_VERIFY_PARAM_set1_host(param, address.host, 0) == 1);
}

static ps_status set_up(attempt *t)
{
    static const unsigned char h2[] = {2, 'h', '2'};
    SSL_CTX *context = t->h->context;

    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
    if (SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) == 1 &&
        SSL_CTX_set_alpn_protos(context, h2, sizeof h2) == 0) {
        t->ssl = SSL_new(context);
    }
    return t->ssl != NULL && SSL_set_fd(t->ssl, t->fd) == 1 &&
                   (!t->h->checks_host || expect_host(t))
               ? ps_ok()
               : ps_fail(PS_INTERNAL, "libssl has no memory");
}

ps_status ps_handshake_try(const ps_handshake *h, int64_t timeout_us)
{
    attempt t = {.h = h, .fd = -1, .until_us = ps_clock_us() + timeout_us};
    ps_status st = connect_to(&t);

    if (ps_is_ok(&st)) {
        st = set_up(&t);
    }
    if (ps_is_ok(&st)) {
        st = shake_hands(&t);
    }
    SSL_free(t.ssl);
    if (t.fd >= 0) {
        close(t.fd);
    }
    return ps_wrap(st, "%s", h->address);
}
