/* SPDX-License-Identifier: Apache-2.0 */
/* credentials.c - see credentials.h. */
#include "common/pki/credentials.h"

#include "common/base/xalloc.h"
#include "common/pki/certificate_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

ps_status ps_credentials_find(const char *dir, ps_credentials_paths *out)
{
    const struct {
        const char *name;
        char *path;
    } files[] = {{"root.pem", out->root},
                 {"identity.pem", out->identity},
                 {"crl.pem", out->crl},
                 {"next.key", out->next_key},
                 {"request.pem", out->request}};
    ps_status st = ps_ok();

    for (size_t i = 0; i < sizeof files / sizeof files[0] && ps_is_ok(&st); i++) {
        st = ps_path_join(files[i].path, PS_PATH_MAX, dir, files[i].name);
    }
    return st;
}

/* Overwrites and frees a text that has a private key in it. */
static void forget(ps_strbuf *text)
{
    if (text->data != NULL) {
        OPENSSL_cleanse(text->data, text->cap);
    }
    ps_strbuf_fini(text);
}

void ps_credentials_forget(char *bytes, size_t n)
{
    if (bytes != NULL) {
        OPENSSL_cleanse(bytes, n);
    }
    free(bytes);
}

ps_status ps_credentials_request(const char *dir, const ps_subject *subject, ps_request *out)
{
    ps_credentials_paths at;
    ps_strbuf key = {0}, request = {0};
    ps_status st = ps_credentials_find(dir, &at);

    if (ps_is_ok(&st)) {
        st = ps_dir_make(dir);
    }
    if (ps_is_ok(&st)) {
        st = ps_request_make(subject, &key, &request);
    }
    if (ps_is_ok(&st)) {
        st = ps_request_read("the request", request.data, request.len, out);
    }
    if (ps_is_ok(&st)) {
        st = ps_file_write_private(at.next_key, key.data, key.len);
    }
    if (ps_is_ok(&st)) {
        st = ps_file_write_private(at.request, request.data, request.len);
    }
    forget(&key);
    ps_strbuf_fini(&request);
    return st;
}

/* --- checks ------------------------------------------------------------------------ */

/* Checks that `root` is a root certificate, which has signed itself, and that its key has signed
 * `certificate`. */
static ps_status check_signature(const char *what, X509 *certificate, X509 *root)
{
    EVP_PKEY *key = X509_get0_pubkey(root);
    ps_status st = ps_x509_check_key("root.pem", key);

    if (ps_is_ok(&st) && (X509_check_ca(root) != 1 || X509_verify(root, key) != 1)) {
        st = ps_x509_fail(PS_INVALID_ARGUMENT, "root.pem: it is no root certificate");
    }
    if (ps_is_ok(&st) && X509_verify(certificate, key) != 1) {
        st = ps_x509_fail(PS_FAILED_PRECONDITION, "%s: it is not signed by the root certificate",
                          what);
    }
    ERR_clear_error();
    return st;
}

static ps_status check_times(const char *what, const ps_certificate *facts)
{
    int64_t now = (int64_t)time(NULL);
    char text[PS_PKI_TIME_BYTES];

    if (facts->not_after <= now) {
        return ps_fail(PS_FAILED_PRECONDITION,
                       "%s: the certificate expired at %s; 'psgd pki renew' asks for another", what,
                       ps_pki_time(facts->not_after, text));
    }
    if (facts->not_before > now) {
        return ps_fail(PS_FAILED_PRECONDITION,
                       "%s: the certificate is valid from %s; is the clock right?", what,
                       ps_pki_time(facts->not_before, text));
    }
    return ps_ok();
}

/* Reads the first certificate of the file `path`. If the file is missing and `may_miss`, *out is
 * NULL and the call succeeds. If the file has no certificate, the call fails. */
static ps_status read_root(const char *path, bool may_miss, X509 **out)
{
    char *bytes = NULL;
    size_t n = 0;
    ps_status st = ps_file_read(path, PS_PKI_FILE_MAX, &bytes, &n);

    *out = NULL;
    if (st.code == PS_NOT_FOUND && may_miss) {
        return ps_ok();
    }
    if (ps_is_ok(&st)) {
        st = ps_x509_read(PS_PATH_SHOWN(path), bytes, n, 0, out);
    }
    if (ps_is_ok(&st) && *out == NULL) {
        st = ps_fail(PS_INVALID_ARGUMENT, "%s: no certificate in PEM", PS_PATH_SHOWN(path));
    }
    free(bytes);
    return st;
}

/* Refuses a file with a private key for which its group or others have rights. One right is
 * allowed: its group may read it, if root owns it and this process is not root. Kubernetes mounts
 * keys for other users in this way. */
static ps_status check_mode(const char *path)
{
    struct stat facts;

    if (stat(path, &facts) != 0) {
        return ps_fail_errno(errno, "%s", PS_PATH_SHOWN(path));
    }
    if ((facts.st_mode & (facts.st_uid == 0 && geteuid() != 0 ? 037 : 077)) != 0) {
        return ps_fail(PS_FAILED_PRECONDITION,
                       "%s: it has a private key and mode %04o; 0600 is allowed: chmod 600 it",
                       PS_PATH_SHOWN(path), (unsigned)facts.st_mode & 07777);
    }
    return ps_ok();
}

ps_status ps_credentials_check(const char *dir, ps_certificate *own)
{
    ps_credentials_paths at = {.root = ""};
    ps_status st = ps_credentials_find(dir, &at);
    const char *what = PS_PATH_SHOWN(at.identity);
    X509 *root = NULL, *certificate = NULL;
    EVP_PKEY *key = NULL;
    char *bytes = NULL;
    size_t n = 0;

    if (ps_is_ok(&st)) {
        st = read_root(at.root, false, &root);
    }
    if (ps_is_ok(&st)) {
        st = check_mode(at.identity);
    }
    if (ps_is_ok(&st)) {
        st = ps_file_read(at.identity, PS_PKI_FILE_MAX, &bytes, &n);
    }
    if (ps_is_ok(&st)) {
        st = ps_x509_read_key(what, bytes, n, &key);
    }
    if (ps_is_ok(&st)) {
        st = ps_x509_read(what, bytes, n, 0, &certificate);
    }
    if (ps_is_ok(&st) && (certificate == NULL || X509_check_private_key(certificate, key) != 1)) {
        st = ps_x509_fail(PS_FAILED_PRECONDITION,
                          "%s: it needs a private key and the certificate of this key", what);
    }
    if (ps_is_ok(&st)) {
        st = ps_x509_facts(what, certificate, false, own);
    }
    if (ps_is_ok(&st)) {
        st = check_signature(what, certificate, root);
    }
    if (ps_is_ok(&st)) {
        st = check_times(what, own);
    }
    ps_credentials_forget(bytes, n);
    EVP_PKEY_free(key);
    X509_free(certificate);
    X509_free(root);
    return st;
}

/* Verifies a client's certificate as libssl does in a handshake: `root` has signed it, and it is
 * valid now and for clients. */
static ps_status verify_client(const char *what, X509 *certificate, X509 *root)
{
    X509_STORE *store = X509_STORE_new();
    X509_STORE_CTX *context = X509_STORE_CTX_new();
    ps_status st = ps_ok();

    if (store == NULL || context == NULL || X509_STORE_add_cert(store, root) != 1 ||
        X509_STORE_CTX_init(context, store, certificate, NULL) != 1 ||
        X509_STORE_CTX_set_default(context, "ssl_client") != 1) {
        st = ps_x509_fail(PS_INTERNAL, "%s cannot be verified", what);
    } else if (X509_verify_cert(context) != 1) {
        st = ps_fail(PS_UNAUTHENTICATED, "%s is not taken here: %s", what,
                     X509_verify_cert_error_string(X509_STORE_CTX_get_error(context)));
    }
    ERR_clear_error();
    X509_STORE_CTX_free(context);
    X509_STORE_free(store);
    return st;
}

ps_status ps_credentials_check_client(const char *dir, const char *what, const void *der, size_t n,
                                      ps_certificate *out)
{
    const unsigned char *at = der;
    ps_credentials_paths paths;
    X509 *root = NULL, *certificate = NULL;
    ps_status st = ps_credentials_find(dir, &paths);

    if (ps_is_ok(&st)) {
        st = read_root(paths.root, false, &root);
    }
    if (ps_is_ok(&st) && (n > PS_PKI_FILE_MAX || !(certificate = d2i_X509(NULL, &at, (long)n)))) {
        st = ps_x509_fail(PS_UNAUTHENTICATED, "%s cannot be read", what);
    }
    if (ps_is_ok(&st)) {
        st = verify_client(what, certificate, root);
    }
    if (ps_is_ok(&st)) {
        st = ps_x509_facts(what, certificate, false, out);
    }
    if (!ps_is_ok(&st)) {
        st.code = PS_UNAUTHENTICATED;
    }
    X509_free(certificate);
    X509_free(root);
    return st;
}

ps_status ps_credentials_fingerprint(const char *dir, char out[PS_FINGERPRINT_BYTES])
{
    ps_credentials_paths at;
    ps_certificate facts;
    X509 *root = NULL;
    ps_status st = ps_credentials_find(dir, &at);

    if (ps_is_ok(&st)) {
        st = read_root(at.root, false, &root);
    }
    if (ps_is_ok(&st)) {
        st = ps_x509_facts(PS_PATH_SHOWN(at.root), root, true, &facts);
    }
    if (ps_is_ok(&st)) {
        memcpy(out, facts.fingerprint, sizeof facts.fingerprint);
    }
    X509_free(root);
    return st;
}

/* --- installation -------------------------------------------------------------------- */

/* The certificates and the list of revoked ones in an authority's answer. A member is NULL if the
 * answer does not have it. */
typedef struct answer {
    X509 *certificate, *root;
    X509_CRL *crl;
} answer;

/* Checks that the root certificate of the answer can be trusted: it has the fingerprint that the
 * user gave, or, if the user gave none (NULL), is the installed one. */
static ps_status check_root(const char *what, X509 *root, X509 *installed, const char *fingerprint)
{
    ps_certificate facts;
    ps_status st = ps_x509_facts(what, root, true, &facts);

    if (!ps_is_ok(&st)) {
        return st;
    }
    if (fingerprint != NULL && !ps_fingerprint_is(fingerprint, facts.fingerprint)) {
        return ps_fail(PS_FAILED_PRECONDITION,
                       "%s: the fingerprint of its root certificate is %s, not the one of "
                       "--fingerprint; do not install it",
                       what, facts.fingerprint);
    }
    if (fingerprint == NULL && installed == NULL) {
        return ps_fail(PS_INVALID_ARGUMENT,
                       "%s: --fingerprint is needed, the one that 'psgd pki init' printed; get it "
                       "on another way than this file",
                       what);
    }
    if (fingerprint == NULL && X509_cmp(root, installed) != 0) {
        return ps_fail(PS_FAILED_PRECONDITION,
                       "%s: its root certificate %s is not the one that is installed; if it is a "
                       "new one, say its --fingerprint",
                       what, facts.fingerprint);
    }
    return ps_ok();
}

/* Checks that the certificate of the answer is for the key in next.key, signed by the root of the
 * answer, and valid now. Writes key and certificate to identity.pem, and what the certificate says
 * to *own. */
static ps_status install_identity(const char *what, const ps_credentials_paths *at,
                                  const answer *in, ps_certificate *own)
{
    EVP_PKEY *key = NULL;
    char *bytes = NULL;
    ps_strbuf text = {0};
    size_t n = 0;
    ps_status st = ps_file_read(at->next_key, PS_PKI_FILE_MAX, &bytes, &n);

    if (st.code == PS_NOT_FOUND) {
        return ps_fail(PS_FAILED_PRECONDITION,
                       "%s is missing: no request waits for an answer; 'psgd pki request' or "
                       "'psgd pki renew' makes one",
                       PS_PATH_SHOWN(at->next_key));
    }
    if (ps_is_ok(&st)) {
        st = ps_x509_read_key(PS_PATH_SHOWN(at->next_key), bytes, n, &key);
    }
    ps_credentials_forget(bytes, n);
    if (ps_is_ok(&st) && X509_check_private_key(in->certificate, key) != 1) {
        st = ps_x509_fail(PS_FAILED_PRECONDITION, "%s: it is not the answer to %s", what,
                          PS_PATH_SHOWN(at->request));
    }
    if (ps_is_ok(&st)) {
        st = ps_x509_facts(what, in->certificate, false, own);
    }
    if (ps_is_ok(&st)) {
        st = check_signature(what, in->certificate, in->root);
    }
    if (ps_is_ok(&st)) {
        st = check_times(what, own);
    }
    if (ps_is_ok(&st)) {
        st = ps_x509_put_key(&text, key);
    }
    if (ps_is_ok(&st)) {
        st = ps_x509_put(&text, in->certificate);
    }
    if (ps_is_ok(&st)) {
        st = ps_file_write_private(at->identity, text.data, text.len);
    }
    forget(&text);
    EVP_PKEY_free(key);
    return st;
}

/* Checks that a list of revoked certificates is signed by the root, and writes it to crl.pem. */
static ps_status install_crl(const char *what, const ps_credentials_paths *at, X509_CRL *crl,
                             X509 *root)
{
    ps_strbuf text = {0};
    ps_status st;

    if (X509_CRL_verify(crl, X509_get0_pubkey(root)) != 1) {
        return ps_x509_fail(
            PS_FAILED_PRECONDITION,
            "%s: the list of revoked certificates is not signed by the root certificate", what);
    }
    st = ps_x509_put_crl(&text, crl);
    if (ps_is_ok(&st)) {
        st = ps_file_write_private(at->crl, text.data, text.len);
    }
    ps_strbuf_fini(&text);
    return st;
}

static ps_status install_root(const ps_credentials_paths *at, X509 *root)
{
    ps_strbuf text = {0};
    ps_status st = ps_x509_put(&text, root);

    if (ps_is_ok(&st)) {
        st = ps_file_write_private(at->root, text.data, text.len);
    }
    ps_strbuf_fini(&text);
    return st;
}

static ps_status read_answer(const char *what, const char *pem, size_t n, answer *out)
{
    ps_status st = n <= PS_CRL_FILE_MAX
                       ? ps_x509_read(what, pem, n, 0, &out->certificate)
                       : ps_fail(PS_INVALID_ARGUMENT, "%s: %zu bytes; at most %d are allowed", what,
                                 n, PS_CRL_FILE_MAX);

    if (ps_is_ok(&st) && out->certificate != NULL) {
        st = ps_x509_read(what, pem, n, 1, &out->root);
    }
    if (ps_is_ok(&st)) {
        st = ps_x509_read_crl(what, pem, n, &out->crl);
    }
    if (ps_is_ok(&st) && (out->certificate != NULL) != (out->root != NULL)) {
        st = ps_fail(PS_INVALID_ARGUMENT,
                     "%s: one certificate; a certificate and its root are "
                     "allowed",
                     what);
    }
    if (ps_is_ok(&st) && out->certificate == NULL && out->crl == NULL) {
        st = ps_fail(PS_INVALID_ARGUMENT,
                     "%s: neither certificates nor a list of revoked ones in PEM", what);
    }
    return st;
}

ps_status ps_credentials_install(const char *dir, const char *what, const char *pem, size_t n,
                                 const char *fingerprint, ps_certificate *own)
{
    ps_credentials_paths at;
    X509 *installed = NULL;
    answer in = {0};
    ps_status st = ps_credentials_find(dir, &at);

    if (ps_is_ok(&st)) {
        st = read_answer(what, pem, n, &in);
    }
    if (ps_is_ok(&st)) {
        st = read_root(at.root, in.root != NULL, &installed);
    }
    if (ps_is_ok(&st) && in.root != NULL) {
        st = check_root(what, in.root, installed, fingerprint);
    }
    /* A new root.pem is written only after a new identity.pem. So a certificate that is refused
     * leaves the old files in use. */
    if (ps_is_ok(&st) && in.certificate != NULL) {
        st = install_identity(what, &at, &in, own);
    }
    if (ps_is_ok(&st) && in.root != NULL && (installed == NULL || X509_cmp(in.root, installed))) {
        st = install_root(&at, in.root);
    }
    if (ps_is_ok(&st) && in.crl != NULL) {
        st = install_crl(what, &at, in.crl, in.root != NULL ? in.root : installed);
    }
    if (ps_is_ok(&st) && in.certificate != NULL) {
        /* next.key and request.pem are used up; if one cannot be removed, it does no harm */
        (void)unlink(at.next_key);
        (void)unlink(at.request);
    }
    X509_free(in.certificate);
    X509_free(in.root);
    X509_CRL_free(in.crl);
    X509_free(installed);
    return st;
}

/* --- revoked certificates -------------------------------------------------------------- */

struct ps_revoked {
    X509_CRL *crl;
};

ps_status ps_revoked_read(const char *dir, ps_revoked **out)
{
    ps_credentials_paths at;
    X509_CRL *crl = NULL;
    X509 *root = NULL;
    char *bytes = NULL;
    size_t n = 0;
    ps_status st = ps_credentials_find(dir, &at);

    *out = NULL;
    if (ps_is_ok(&st)) {
        st = ps_file_read(at.crl, PS_CRL_FILE_MAX, &bytes, &n);
    }
    if (st.code == PS_NOT_FOUND) {
        return ps_ok();
    }
    if (ps_is_ok(&st)) {
        st = ps_x509_read_crl(PS_PATH_SHOWN(at.crl), bytes, n, &crl);
    }
    free(bytes);
    if (ps_is_ok(&st) && crl == NULL) {
        st = ps_fail(PS_INVALID_ARGUMENT, "%s: no list of revoked certificates in PEM",
                     PS_PATH_SHOWN(at.crl));
    }
    if (ps_is_ok(&st)) {
        st = read_root(at.root, false, &root);
    }
    if (ps_is_ok(&st) && X509_CRL_verify(crl, X509_get0_pubkey(root)) != 1) {
        st = ps_x509_fail(PS_FAILED_PRECONDITION, "%s: it is not signed by root.pem",
                          PS_PATH_SHOWN(at.crl));
    }
    if (ps_is_ok(&st)) {
        *out = ps_xcalloc(1, sizeof **out);
        (*out)->crl = crl;
        crl = NULL;
    }
    X509_CRL_free(crl);
    X509_free(root);
    return st;
}

bool ps_revoked_has(const ps_revoked *revoked, const char *serial)
{
    BIGNUM *number = NULL;
    ASN1_INTEGER *value = NULL;
    X509_REVOKED *found = NULL;

    if (revoked != NULL && BN_hex2bn(&number, serial) > 0 &&
        (value = BN_to_ASN1_INTEGER(number, NULL)) != NULL) {
        X509_CRL_get0_by_serial(revoked->crl, &found, value);
    }
    ASN1_INTEGER_free(value);
    BN_free(number);
    return found != NULL;
}

void ps_revoked_destroy(ps_revoked *revoked)
{
    if (revoked != NULL) {
        X509_CRL_free(revoked->crl);
        free(revoked);
    }
}
