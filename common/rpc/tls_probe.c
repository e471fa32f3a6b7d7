/* SPDX-License-Identifier: Apache-2.0 */
/* tls_probe.c - says why a handshake with a member of psgd's authority fails; see tls.h. */
#include "common/base/files.h"
#include "common/rpc/tls_handshake.h"
#include "common/rpc/tls_impl.h"

#include <openssl/err.h>

/* The principal whose certificate a probe expects the server to show. */
typedef struct expected {
    const ps_tls *tls;
    ps_principal_kind kind;
    const char *name;
} expected;

static ps_status check(const void *arg, const char *pem)
{
    const expected *e = arg;
    ps_principal who;

    return ps_tls_check_peer((ps_tls *)e->tls, pem, e->kind, e->name, &who);
}

static ps_status word(const void *arg, const ps_handshake_end *end)
{
    const expected *e = arg;
    char who[PS_PRINCIPAL_TEXT_BYTES];

    if (end->untaken != NULL) {
        return ps_fail(PS_UNAUTHENTICATED, "its certificate is not taken here: %s", end->untaken);
    }
    if (end->is_plaintext) {
        return ps_fail(PS_UNAUTHENTICATED, "it does not speak TLS; start it with --tls-dir");
    }
    if (ps_tls_own(e->tls)->subject.who.kind == PS_PRINCIPAL_NONE) {
        return ps_fail(
            PS_UNAUTHENTICATED,
            "it takes nobody without a certificate: psgd-coordinator --tokens lets users "
            "with a token in (%s)",
            end->reason);
    }
    return ps_fail(PS_UNAUTHENTICATED, "it does not take the certificate of %s (--tls-dir): %s",
                   ps_principal_text(&ps_tls_own(e->tls)->subject.who, who), end->reason);
}

static ps_status make_context(const char *dir, bool is_guest, SSL_CTX **out)
{
    ps_credentials_paths at;
    ps_status st = ps_credentials_find(dir, &at);
    SSL_CTX *context;

    if (!ps_is_ok(&st)) {
        return st;
    }
    context = SSL_CTX_new(TLS_client_method());
    if (context == NULL || SSL_CTX_load_verify_locations(context, at.root, NULL) != 1 ||
        (!is_guest && (SSL_CTX_use_certificate_file(context, at.identity, SSL_FILETYPE_PEM) != 1 ||
                       SSL_CTX_use_PrivateKey_file(context, at.identity, SSL_FILETYPE_PEM) != 1))) {
        ERR_clear_error();
        SSL_CTX_free(context);
        return ps_fail(PS_FAILED_PRECONDITION, "%s cannot be used", PS_PATH_SHOWN(dir));
    }
    *out = context;
    return st;
}

ps_status ps_tls_probe(const ps_tls *tls, const char *address, ps_principal_kind kind,
                       const char *name, int64_t timeout_us)
{
    expected e = {tls, kind, name};
    ps_handshake h = {.address = address, .check = check, .word = word, .arg = &e};
    ps_status st = make_context(ps_tls_dir(tls),
                                ps_tls_own(tls)->subject.who.kind == PS_PRINCIPAL_NONE, &h.context);

    if (!ps_is_ok(&st)) {
        return ps_wrap(st, "%s", address);
    }
    st = ps_handshake_try(&h, timeout_us);
    SSL_CTX_free(h.context);
    return st;
}
