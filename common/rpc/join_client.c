/* SPDX-License-Identifier: Apache-2.0 */
/* join_client.c - see join_client.h. */
#include "common/rpc/join_client.h"

#include "common/base/clock.h"
#include "common/pki/certificate.h"
#include "common/rpc/dial.h"
#include "common/rpc/tls_handshake.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { LENGTH_BYTES = 4 };

typedef struct joining {
    const char *fingerprint;
    int fd;
    int64_t until_us;
    SSL_CTX *context;
    SSL *ssl;
    ps_status problem; /* why the server's certificate chain was refused; OK: it was not */
} joining;

/* --- the chain ------------------------------------------------------------------------ */

/* Writes the SHA-256 of a certificate as 64 hexadecimal digits. Returns false if libcrypto fails.
 */
static bool digest_of(X509 *certificate, char out[PS_FINGERPRINT_BYTES])
{
    unsigned char digest[32];
    unsigned n = sizeof digest;
    bool ok = X509_digest(certificate, EVP_sha256(), digest, &n) == 1 && n == sizeof digest;

    for (size_t i = 0; ok && i < sizeof digest; i++) {
        snprintf(out + 2 * i, 3, "%02X", digest[i]);
    }
    return ok;
}

/* Returns the certificate of the chain that has the fingerprint, NULL if none has. */
static X509 *find_root(const joining *j, STACK_OF(X509) * chain)
{
    char digest[PS_FINGERPRINT_BYTES];

    for (int i = 0; i < sk_X509_num(chain); i++) {
        if (digest_of(sk_X509_value(chain, i), digest) &&
            ps_fingerprint_is(j->fingerprint, digest)) {
            return sk_X509_value(chain, i);
        }
    }
    return NULL;
}

/* Checks that `root` has signed the certificate `own`, directly or by others of the chain, that
 * `own` is for servers, and that it is valid now. */
static ps_status check_chain(X509 *own, STACK_OF(X509) * chain, X509 *root)
{
    X509_STORE *store = X509_STORE_new();
    X509_STORE_CTX *check = X509_STORE_CTX_new();
    ps_status st = ps_fail(PS_INTERNAL, "libcrypto has no memory");

    if (store != NULL && check != NULL && X509_STORE_add_cert(store, root) == 1 &&
        X509_STORE_CTX_init(check, store, own, chain) == 1 &&
        X509_STORE_CTX_set_default(check, "ssl_server") == 1) {
        st = X509_verify_cert(check) == 1
                 ? ps_ok()
                 : ps_fail(PS_UNAUTHENTICATED, "its certificate is not taken: %s",
                           X509_verify_cert_error_string(X509_STORE_CTX_get_error(check)));
    }
    X509_STORE_CTX_free(check);
    X509_STORE_free(store);
    ERR_clear_error();
    return st;
}

/* Checks that the certificate `own` names a coordinator. */
static ps_status check_who(X509 *own)
{
    BIO *bio = BIO_new(BIO_s_mem());
    char who[PS_PRINCIPAL_TEXT_BYTES], *pem;
    ps_certificate facts;
    ps_status st = ps_fail(PS_INTERNAL, "libcrypto has no memory");

    if (bio != NULL && PEM_write_bio_X509(bio, own) == 1) {
        long n = BIO_get_mem_data(bio, &pem);

        st = ps_certificate_read("its certificate", pem, (size_t)n, &facts);
        if (ps_is_ok(&st) && facts.subject.who.kind != PS_PRINCIPAL_COORDINATOR) {
            st = ps_fail(PS_UNAUTHENTICATED, "its certificate is of %s; a coordinator is expected",
                         ps_principal_text(&facts.subject.who, who));
        }
    }
    BIO_free(bio);
    return st;
}

/* Verifies the server's chain in libssl's place, which needs the root certificate: here only its
 * fingerprint is known. Writes the reason of a refusal to j->problem. */
static int verify(X509_STORE_CTX *found, void *arg)
{
    joining *j = arg;
    X509 *own = X509_STORE_CTX_get0_cert(found);
    STACK_OF(X509) *chain = X509_STORE_CTX_get0_untrusted(found);
    X509 *root = find_root(j, chain);

    j->problem = root != NULL ? check_chain(own, chain, root)
                              : ps_fail(PS_UNAUTHENTICATED,
                                        "no certificate there has the fingerprint of the token: "
                                        "it is another authority, or not the coordinator at all; "
                                        "nothing was sent to it");
    if (ps_is_ok(&j->problem)) {
        j->problem = check_who(own);
    }
    if (!ps_is_ok(&j->problem)) {
        j->problem.code = PS_UNAUTHENTICATED;
        X509_STORE_CTX_set_error(found, X509_V_ERR_APPLICATION_VERIFICATION);
    }
    return ps_is_ok(&j->problem) ? 1 : 0;
}

/* --- the connection -------------------------------------------------------------------- */

static bool wait_for_ssl(const joining *j, int result, bool *timed_out)
{
    return ps_handshake_wait(j->ssl, j->fd, j->until_us, result, timed_out);
}

static ps_status ended(bool timed_out, const char *what)
{
    unsigned long error = ERR_peek_last_error();
    const char *reason = error != 0 ? ERR_reason_error_string(error) : NULL;
    ps_status st = timed_out ? ps_fail(PS_UNAVAILABLE, "it does not answer (%s)", what)
                             : ps_fail(PS_UNAVAILABLE, "it ended the connection (%s)%s%s", what,
                                       reason != NULL ? ": " : "", reason != NULL ? reason : "");

    ERR_clear_error();
    return st;
}

static ps_status set_up(joining *j)
{
    static const unsigned char protocol[] = "\x0bpsgd-join/1";

    j->context = SSL_CTX_new(TLS_client_method());
    if (j->context != NULL) {
        SSL_CTX_set_verify(j->context, SSL_VERIFY_PEER, NULL);
        SSL_CTX_set_cert_verify_callback(j->context, verify, j);
    }
    if (j->context == NULL || SSL_CTX_set_min_proto_version(j->context, TLS1_3_VERSION) != 1 ||
        SSL_CTX_set_alpn_protos(j->context, protocol, sizeof protocol - 1) != 0 ||
        (j->ssl = SSL_new(j->context)) == NULL || SSL_set_fd(j->ssl, j->fd) != 1) {
        ERR_clear_error();
        return ps_fail(PS_INTERNAL, "libssl has no memory");
    }
    return ps_ok();
}

static ps_status shake_hands(joining *j)
{
    bool timed_out = false;
    int n;

    ERR_clear_error();
    do {
        n = SSL_connect(j->ssl);
    } while (n != 1 && wait_for_ssl(j, n, &timed_out));
    if (!ps_is_ok(&j->problem)) {
        ERR_clear_error();
        return j->problem;
    }
    return n == 1 ? ps_ok() : ended(timed_out, "TLS handshake");
}

static ps_status send_all(joining *j, const char *bytes, size_t n)
{
    bool timed_out = false;

    while (n > 0) {
        int done = SSL_write(j->ssl, bytes, (int)n);

        if (done > 0) {
            bytes += done;
            n -= (size_t)done;
        } else if (!wait_for_ssl(j, done, &timed_out)) {
            return ended(timed_out, "request");
        }
    }
    return ps_ok();
}

static ps_status read_all(joining *j, char *bytes, size_t n)
{
    bool timed_out = false;

    while (n > 0) {
        int done = SSL_read(j->ssl, bytes, (int)n);

        if (done > 0) {
            bytes += done;
            n -= (size_t)done;
        } else if (!wait_for_ssl(j, done, &timed_out)) {
            return ended(timed_out, "answer");
        }
    }
    return ps_ok();
}

static ps_status exchange(joining *j, const char *request, size_t n, ps_strbuf *answer)
{
    unsigned char length[LENGTH_BYTES] = {(unsigned char)(n >> 24), (unsigned char)(n >> 16),
                                          (unsigned char)(n >> 8), (unsigned char)n};
    size_t before = answer->len, size = 0;
    ps_status st = send_all(j, (const char *)length, sizeof length);

    if (ps_is_ok(&st)) {
        st = send_all(j, request, n);
    }
    if (ps_is_ok(&st)) {
        st = read_all(j, (char *)length, sizeof length);
    }
    for (size_t i = 0; i < sizeof length; i++) {
        size = size << 8 | length[i];
    }
    if (ps_is_ok(&st) && size > PS_CRL_FILE_MAX) {
        st = ps_fail(PS_UNAUTHENTICATED, "its answer has %zu bytes; at most %d are allowed", size,
                     PS_CRL_FILE_MAX);
    }
    if (ps_is_ok(&st)) {
        ps_strbuf_pad(answer, ' ', size);
        st = read_all(j, answer->data + before, size);
    }
    return st;
}

ps_status ps_join_call(const char *address, const char *fingerprint, const char *request, size_t n,
                       int64_t timeout_us, ps_strbuf *answer)
{
    joining j = {.fingerprint = fingerprint, .fd = -1, .until_us = ps_clock_us() + timeout_us};
    ps_status st = ps_dial(address, timeout_us, &j.fd);

    if (st.code == PS_NOT_FOUND) {
        st.code = PS_UNAVAILABLE;
    }
    if (ps_is_ok(&st)) {
        st = set_up(&j);
    }
    if (ps_is_ok(&st)) {
        st = shake_hands(&j);
    }
    if (ps_is_ok(&st)) {
        st = exchange(&j, request, n, answer);
    }
    SSL_free(j.ssl);
    SSL_CTX_free(j.context);
    if (j.fd >= 0) {
        close(j.fd);
    }
    return ps_wrap(st, "%s", address);
}

ps_status ps_join_local_host(const char *address, char out[PS_LOCAL_HOST_BYTES])
{
    struct addrinfo *list = NULL;
    struct sockaddr_storage local;
    socklen_t size = sizeof local;
    int fd = -1;
    ps_status st = ps_dial_look_up(address, SOCK_DGRAM, &list);

    if (!ps_is_ok(&st)) {
        return ps_wrap(st, "%s", address);
    }
    st = ps_fail(PS_UNAVAILABLE, "%s cannot be reached from here", address);
    for (struct addrinfo *at = list; at != NULL && !ps_is_ok(&st); at = at->ai_next) {
        /* a datagram socket, which sends nothing: connect() finds the route, and so the own
         * address */
        fd = socket(at->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        if (fd >= 0 && connect(fd, at->ai_addr, at->ai_addrlen) == 0 &&
            getsockname(fd, (struct sockaddr *)&local, &size) == 0 &&
            getnameinfo((struct sockaddr *)&local, size, out, PS_LOCAL_HOST_BYTES, NULL, 0,
                        NI_NUMERICHOST) == 0) {
            st = ps_ok();
        }
        if (fd >= 0) {
            close(fd);
        }
    }
    freeaddrinfo(list);
    return st;
}
