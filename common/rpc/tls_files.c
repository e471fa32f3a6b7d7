/* SPDX-License-Identifier: Apache-2.0 */
/* tls_files.c - see tls_files.h. */
#include "common/rpc/tls_files.h"

#include "common/base/files.h"
#include "common/base/log.h"
#include "common/base/xalloc.h"
#include "common/rpc/tls_handshake.h"

#include <openssl/err.h>
#include <stdlib.h>
#include <string.h>

enum { PEM_MAX = 1 << 20 };

struct ps_tls_files {
    char *flags, *ca, *cert, *key;     /* texts of ps_tls_files_conf; cert and key "": none */
    char *ca_pem, *cert_pem, *key_pem; /* the texts of these files when all of them could be used
                                        * last; NULL: none */
};

static bool is_given(const char *path)
{
    return path != NULL && path[0] != '\0';
}

/* Returns an error that names the file that libssl has refused, its flag, and why. */
static ps_status unusable(const ps_tls_files *f, const char *which, const char *path)
{
    unsigned long error = ERR_peek_error();
    const char *reason = error != 0 ? ERR_reason_error_string(error) : NULL;

    ERR_clear_error();
    return ps_fail(PS_FAILED_PRECONDITION, "%s-%s %s: %s", f->flags, which, PS_PATH_SHOWN(path),
                   reason != NULL ? reason : "it is not PEM");
}

/* Makes a context of libssl with the current files. Fails if libssl refuses one of them. */
static ps_status make_context(const ps_tls_files *f, SSL_CTX **out)
{
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    ps_status st = ps_ok();

    ERR_clear_error();
    if (context == NULL) {
        st = ps_fail(PS_INTERNAL, "libssl has no memory");
    } else if (SSL_CTX_load_verify_locations(context, f->ca, NULL) != 1) {
        st = unusable(f, "ca", f->ca);
    } else if (f->cert[0] != '\0' && SSL_CTX_use_certificate_chain_file(context, f->cert) != 1) {
        st = unusable(f, "cert", f->cert);
    } else if (f->cert[0] != '\0' &&
               SSL_CTX_use_PrivateKey_file(context, f->key, SSL_FILETYPE_PEM) != 1) {
        st = unusable(f, "key", f->key);
    }
    if (ps_is_ok(&st)) {
        *out = context;
    } else {
        SSL_CTX_free(context);
    }
    return st;
}

static ps_status read_one(const ps_tls_files *f, const char *which, const char *path, char **text)
{
    size_t n;

    return path[0] == '\0'
               ? ps_ok()
               : ps_wrap(ps_file_read(path, PEM_MAX, text, &n), "%s-%s", f->flags, which);
}

/* Reads the files again. If one of them cannot be used, the texts read before stay. */
static ps_status read_all(ps_tls_files *f)
{
    char *ca = NULL, *cert = NULL, *key = NULL;
    SSL_CTX *context = NULL;
    ps_status st = read_one(f, "ca", f->ca, &ca);

    if (ps_is_ok(&st)) {
        st = read_one(f, "cert", f->cert, &cert);
    }
    if (ps_is_ok(&st)) {
        st = read_one(f, "key", f->key, &key);
    }
    if (ps_is_ok(&st)) {
        /* made only to check the files, and that key and cert match */
        st = make_context(f, &context);
    }
    SSL_CTX_free(context);
    if (!ps_is_ok(&st)) {
        free(ca);
        free(cert);
        free(key);
        return st;
    }
    free(f->ca_pem);
    free(f->cert_pem);
    free(f->key_pem);
    f->ca_pem = ca;
    f->cert_pem = cert;
    f->key_pem = key;
    return st;
}

ps_status ps_tls_files_create(const ps_tls_files_conf *conf, ps_tls_files **out)
{
    ps_tls_files *f;
    ps_status st;

    if (!is_given(conf->ca)) {
        return ps_fail(PS_INVALID_ARGUMENT, "%s-ca is missing: name the file of the authority",
                       conf->flags);
    }
    if (is_given(conf->cert) != is_given(conf->key)) {
        return ps_fail(PS_INVALID_ARGUMENT, "%s-%s is missing: set %s-cert and %s-key, or neither",
                       conf->flags, is_given(conf->cert) ? "key" : "cert", conf->flags,
                       conf->flags);
    }
    f = ps_xcalloc(1, sizeof *f);
    f->flags = ps_xstrdup(conf->flags);
    f->ca = ps_xstrdup(conf->ca);
    f->cert = ps_xstrdup(is_given(conf->cert) ? conf->cert : "");
    f->key = ps_xstrdup(is_given(conf->key) ? conf->key : "");
    st = read_all(f);
    if (ps_is_ok(&st)) {
        *out = f;
    } else {
        ps_tls_files_destroy(f);
    }
    return st;
}

void ps_tls_files_destroy(ps_tls_files *f)
{
    if (f == NULL) {
        return;
    }
    free(f->flags);
    free(f->ca);
    free(f->cert);
    free(f->key);
    free(f->ca_pem);
    free(f->cert_pem);
    free(f->key_pem);
    free(f);
}

grpc_channel_credentials *ps_tls_files_credentials(ps_tls_files *f)
{
    ps_status st = read_all(f);
    grpc_ssl_pem_key_cert_pair own = {f->key_pem, f->cert_pem};

    if (!ps_is_ok(&st)) {
        ps_log(PS_LOG_WARN, "tls", "%s; what was read before stays", st.text);
    }
    return grpc_ssl_credentials_create(f->ca_pem, f->cert_pem != NULL ? &own : NULL, NULL, NULL);
}

static ps_status word(const void *arg, const ps_handshake_end *end)
{
    const ps_tls_files *f = arg;

    if (end->untaken != NULL) {
        return ps_fail(PS_UNAUTHENTICATED, "its certificate is not taken here: %s (%s-ca %s)",
                       end->untaken, f->flags, PS_PATH_SHOWN(f->ca));
    }
    if (end->is_plaintext) {
        return ps_fail(PS_UNAUTHENTICATED, "it does not speak TLS");
    }
    if (f->cert[0] == '\0') {
        return ps_fail(PS_UNAUTHENTICATED,
                       "it does not take a client without a certificate; set %s-cert and %s-key: "
                       "%s",
                       f->flags, f->flags, end->reason);
    }
    return ps_fail(PS_UNAUTHENTICATED, "it does not take the certificate %s (%s-cert): %s",
                   PS_PATH_SHOWN(f->cert), f->flags, end->reason);
}

ps_status ps_tls_files_probe(const ps_tls_files *f, const char *address, int64_t timeout_us)
{
    ps_handshake h = {.address = address, .checks_host = true, .word = word, .arg = f};
    ps_status st = make_context(f, &h.context);

    if (!ps_is_ok(&st)) {
        return ps_wrap(st, "%s", address);
    }
    st = ps_handshake_try(&h, timeout_us);
    SSL_CTX_free(h.context);
    return st;
}
