/* SPDX-License-Identifier: Apache-2.0 */
/* authority.c - see authority.h. */
#include "common/pki/authority.h"

#include "common/base/files.h"
#include "common/base/shorten.h"
#include "common/base/xalloc.h"
#include "common/pki/certificate_impl.h"
#include "common/pki/credentials.h"
#include "common/pki/issued.h"

#include <openssl/rand.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    SERIAL_BITS = 127,   /* bits of a serial number: it takes 16 bytes and is positive in DER */
    LISTED_MAX = 100000, /* with more certificates ps_authority_list fails; each takes about 4 KiB
                          * of memory */
    CRL_VALID_S = 10 * 365 * 86400,
    LOCK_TRIES = 250, /* attempts to get the lock, for 5 s in all; others hold it for
                       * milliseconds */
    LOCK_PAUSE_MS = 20
};

/* An open authority. Its folder is locked while `lock` is not -1. */
typedef struct authority {
    const char *dir;
    int lock;
    EVP_PKEY *key;
    X509 *root;
    X509_CRL *crl; /* NULL: nothing was revoked */
} authority;

static const char *const entries[] = {"root.key", NULL};

static void close_authority(authority *a)
{
    EVP_PKEY_free(a->key);
    X509_free(a->root);
    X509_CRL_free(a->crl);
    if (a->lock >= 0) {
        close(a->lock);
    }
}

/* Reads the file `name` of the authority in `dir`, and writes its path to `path`. The caller frees
 * *bytes. */
static ps_status read_file(const char *dir, const char *name, size_t max_bytes,
                           char path[PS_PATH_MAX], char **bytes, size_t *n)
{
    ps_status st = ps_path_join(path, PS_PATH_MAX, dir, name);

    return ps_is_ok(&st) ? ps_file_read(path, max_bytes, bytes, n) : st;
}

static ps_status write_file(const char *dir, const char *name, const ps_strbuf *text)
{
    char path[PS_PATH_MAX];
    ps_status st = ps_path_join(path, sizeof path, dir, name);

    return ps_is_ok(&st) ? ps_file_write_private(path, text->data, text->len) : st;
}

static ps_status read_crl(authority *a)
{
    char path[PS_PATH_MAX], *bytes = NULL;
    size_t n = 0;
    ps_status st = read_file(a->dir, "crl.pem", PS_CRL_FILE_MAX, path, &bytes, &n);

    if (st.code == PS_NOT_FOUND) {
        return ps_ok();
    }
    if (ps_is_ok(&st)) {
        st = ps_x509_read_crl(PS_PATH_SHOWN(path), bytes, n, &a->crl);
    }
    free(bytes);
    return st;
}

ps_status ps_authority_lock(const char *dir, int *lock)
{
    ps_status st = ps_ok();

    for (int i = 0; i < LOCK_TRIES; i++) {
        st = ps_dir_lock(dir, entries, lock);
        if (st.code != PS_UNAVAILABLE) {
            return st;
        }
        poll(NULL, 0, LOCK_PAUSE_MS);
    }
    return st;
}

static ps_status open_authority(const char *dir, authority *a)
{
    char path[PS_PATH_MAX], *bytes = NULL;
    size_t n = 0;
    ps_status st;

    *a = (authority){.dir = dir, .lock = -1};
    st = read_file(dir, "root.key", PS_PKI_FILE_MAX, path, &bytes, &n);
    if (st.code == PS_NOT_FOUND) {
        return ps_fail(PS_NOT_FOUND, "no authority in %s; 'psgd pki init' makes one",
                       PS_PATH_SHOWN(dir));
    }
    if (ps_is_ok(&st)) {
        st = ps_x509_read_key(PS_PATH_SHOWN(path), bytes, n, &a->key);
    }
    ps_credentials_forget(bytes, n);
    if (!ps_is_ok(&st)) {
        return st;
    }
    st = ps_authority_lock(dir, &a->lock);
    bytes = NULL;
    if (ps_is_ok(&st)) {
        st = read_file(dir, "root.pem", PS_PKI_FILE_MAX, path, &bytes, &n);
    }
    if (ps_is_ok(&st)) {
        st = ps_x509_read(PS_PATH_SHOWN(path), bytes, n, 0, &a->root);
    }
    free(bytes);
    if (ps_is_ok(&st) && (a->root == NULL || X509_check_private_key(a->root, a->key) != 1)) {
        st = ps_x509_fail(PS_FAILED_PRECONDITION, "%s is not the certificate of root.key beside it",
                          PS_PATH_SHOWN(path));
    }
    return ps_is_ok(&st) ? read_crl(a) : st;
}

ps_status ps_authority_fingerprint(const char *dir, char out[PS_FINGERPRINT_BYTES])
{
    authority a;
    ps_certificate root;
    ps_status st = open_authority(dir, &a);

    if (ps_is_ok(&st)) {
        st = ps_x509_facts("root.pem", a.root, true, &root);
    }
    if (ps_is_ok(&st)) {
        memcpy(out, root.fingerprint, sizeof root.fingerprint);
    }
    close_authority(&a);
    return st;
}

/* --- certificates ---------------------------------------------------------------- */

/* Adds the extension `nid` to a certificate; `value` is its text in the notation of openssl.cnf.
 * Returns false if libcrypto fails. */
static bool add_extension(X509 *certificate, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX context;
    X509_EXTENSION *extension;
    bool ok;

    X509V3_set_ctx(&context, issuer, certificate, NULL, NULL, 0);
    extension = X509V3_EXT_conf_nid(NULL, &context, nid, value);
    ok = extension != NULL && X509_add_ext(certificate, extension, -1) == 1;
    X509_EXTENSION_free(extension);
    return ok;
}

/* Sets the version, a random serial number, both names, the times and the key of a certificate.
 * `name` is the common name of its subject. Returns false if libcrypto fails. */
static bool set_fields(X509 *certificate, X509 *issuer, const char *name, EVP_PKEY *key,
                       time_t begin, time_t end)
{
    BIGNUM *number = BN_new();
    X509_NAME *subject = X509_get_subject_name(certificate);
    bool ok =
        number != NULL && BN_rand(number, SERIAL_BITS, BN_RAND_TOP_ONE, BN_RAND_BOTTOM_ANY) == 1 &&
        BN_to_ASN1_INTEGER(number, X509_get_serialNumber(certificate)) != NULL &&
        X509_set_version(certificate, X509_VERSION_3) == 1 &&
        X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, (const uint8_t *)name, -1, -1, 0) ==
            1 &&
        X509_set_issuer_name(certificate, X509_get_subject_name(issuer)) == 1 &&
        X509_set_pubkey(certificate, key) == 1 &&
        ASN1_TIME_set(X509_getm_notBefore(certificate), begin) != NULL &&
        ASN1_TIME_set(X509_getm_notAfter(certificate), end) != NULL;

    BN_free(number);
    return ok;
}

/* Makes the root certificate of `key`, which ends valid_s seconds from now. The caller frees *out,
 * also after a failure. */
static ps_status make_root(EVP_PKEY *key, int64_t valid_s, X509 **out)
{
    X509 *root = X509_new();
    time_t now = time(NULL);

    *out = root;
    if (root == NULL ||
        !set_fields(root, root, "psgd root", key, now - PS_PKI_EARLY_S, now + (time_t)valid_s) ||
        !add_extension(root, root, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") ||
        !add_extension(root, root, NID_key_usage, "critical,keyCertSign,cRLSign") ||
        !add_extension(root, root, NID_subject_key_identifier, "hash") ||
        X509_sign(root, key, EVP_sha256()) <= 0) {
        return ps_x509_fail(PS_INTERNAL, "the root certificate cannot be made");
    }
    return ps_ok();
}

ps_status ps_authority_create(const char *dir, int64_t valid_s, ps_certificate *facts)
{
    char path[PS_PATH_MAX];
    ps_strbuf key_pem = {0}, root_pem = {0};
    EVP_PKEY *key = NULL;
    X509 *root = NULL;
    int lock = -1;
    ps_status st = ps_path_join(path, sizeof path, dir, "root.key");

    if (ps_is_ok(&st)) {
        st = ps_dir_lock(dir, entries, &lock);
    }
    if (ps_is_ok(&st) && access(path, F_OK) == 0) {
        st = ps_fail(PS_ALREADY_EXISTS,
                     "%s is there already; another authority needs another folder",
                     PS_PATH_SHOWN(path));
    }
    if (ps_is_ok(&st)) {
        st = ps_x509_new_key(&key);
    }
    if (ps_is_ok(&st)) {
        st = make_root(key, valid_s, &root);
    }
    if (ps_is_ok(&st)) {
        st = ps_x509_put_key(&key_pem, key);
    }
    if (ps_is_ok(&st)) {
        st = ps_x509_put(&root_pem, root);
    }
    if (ps_is_ok(&st)) {
        st = ps_x509_facts("root.pem", root, true, facts);
    }
    if (ps_is_ok(&st)) {
        /* written first: a folder without root.key is no authority yet */
        st = write_file(dir, "root.pem", &root_pem);
    }
    if (ps_is_ok(&st)) {
        st = write_file(dir, "root.key", &key_pem);
    }
    if (key_pem.data != NULL) {
        OPENSSL_cleanse(key_pem.data, key_pem.cap);
    }
    ps_strbuf_fini(&key_pem);
    ps_strbuf_fini(&root_pem);
    X509_free(root);
    EVP_PKEY_free(key);
    if (lock >= 0) {
        close(lock);
    }
    return st;
}

/* Makes a certificate for `subject` that ends after valid_s seconds, or with the root if that ends
 * earlier. Those of nodes and coordinators are for servers and clients; those of users are for
 * clients only. The caller frees *out, also after a failure. */
static ps_status issue(authority *a, const ps_subject *subject, EVP_PKEY *key, int64_t valid_s,
                       X509 **out)
{
    bool serves =
        subject->who.kind == PS_PRINCIPAL_NODE || subject->who.kind == PS_PRINCIPAL_COORDINATOR;
    X509 *certificate = X509_new();
    time_t now = time(NULL), end = now + (time_t)valid_s;
    GENERAL_NAMES *names = NULL;
    ps_certificate root;
    ps_status st = ps_x509_facts("root.pem", a->root, true, &root);

    *out = certificate;
    if (ps_is_ok(&st) && root.not_after <= (int64_t)now) {
        st = ps_fail(PS_FAILED_PRECONDITION, "the root certificate has expired; 'psgd pki init' in "
                                             "another folder makes a new one");
    }
    if (ps_is_ok(&st)) {
        st = ps_x509_names(subject, &names);
    }
    if (!ps_is_ok(&st)) {
        return st;
    }
    end = end > (time_t)root.not_after ? (time_t)root.not_after : end;
    if (certificate == NULL ||
        !set_fields(certificate, a->root, subject->who.name, key, now - PS_PKI_EARLY_S, end) ||
        !add_extension(certificate, a->root, NID_basic_constraints, "critical,CA:FALSE") ||
        !add_extension(certificate, a->root, NID_key_usage, "critical,digitalSignature") ||
        !add_extension(certificate, a->root, NID_ext_key_usage,
                       serves ? "serverAuth,clientAuth" : "clientAuth") ||
        !add_extension(certificate, a->root, NID_subject_key_identifier, "hash") ||
        !add_extension(certificate, a->root, NID_authority_key_identifier, "keyid:always") ||
        X509_add1_ext_i2d(certificate, NID_subject_alt_name, names, 0, X509V3_ADD_DEFAULT) != 1 ||
        X509_sign(certificate, a->key, EVP_sha256()) <= 0) {
        st = ps_x509_fail(PS_INTERNAL, "the certificate cannot be made");
    }
    GENERAL_NAMES_free(names);
    return st;
}

/* Issues a certificate for `key` and stores it in issued/. Appends it to `answer`, with the root
 * and, if there is one, the list of revoked certificates. */
static ps_status answer_with(authority *a, const ps_subject *subject, EVP_PKEY *key,
                             int64_t valid_s, ps_strbuf *answer, ps_certificate *out)
{
    X509 *certificate = NULL;
    ps_status st = issue(a, subject, key, valid_s, &certificate);

    if (ps_is_ok(&st)) {
        st = ps_x509_facts("the certificate", certificate, false, out);
    }
    if (ps_is_ok(&st)) {
        st = ps_x509_put(answer, certificate);
    }
    if (ps_is_ok(&st)) {
        st = ps_issued_store(a->dir, out, answer);
    }
    if (ps_is_ok(&st)) {
        (void)ps_issued_sweep(a->dir, (int64_t)time(NULL));
    }
    if (ps_is_ok(&st)) {
        st = ps_x509_put(answer, a->root);
    }
    if (ps_is_ok(&st) && a->crl != NULL) {
        st = ps_x509_put_crl(answer, a->crl);
    }
    X509_free(certificate);
    return st;
}

ps_status ps_authority_approve_if(const char *dir, const char *what, const char *pem, size_t n,
                                  const ps_principal *who, int64_t valid_s,
                                  ps_authority_permit *permit, void *arg, ps_strbuf *answer,
                                  ps_certificate *out)
{
    char wanted[PS_PRINCIPAL_TEXT_BYTES], asked[PS_PRINCIPAL_TEXT_BYTES];
    authority a = {.lock = -1};
    ps_request request;
    EVP_PKEY *key = NULL;
    ps_status st = ps_request_take(what, pem, n, &request, &key);

    if (ps_is_ok(&st) && !ps_principal_is(&request.subject.who, who->kind, who->name)) {
        st =
            ps_fail(PS_FAILED_PRECONDITION, "%s: it asks for %s, not for %s", what,
                    ps_principal_text(&request.subject.who, asked), ps_principal_text(who, wanted));
    }
    if (ps_is_ok(&st)) {
        st = open_authority(dir, &a);
    }
    if (ps_is_ok(&st) && permit != NULL) {
        st = permit(arg);
    }
    if (ps_is_ok(&st)) {
        st = answer_with(&a, &request.subject, key, valid_s, answer, out);
    }
    EVP_PKEY_free(key);
    close_authority(&a);
    return st;
}

ps_status ps_authority_approve(const char *dir, const char *what, const char *pem, size_t n,
                               const ps_principal *who, int64_t valid_s, ps_strbuf *answer,
                               ps_certificate *out)
{
    return ps_authority_approve_if(dir, what, pem, n, who, valid_s, NULL, NULL, answer, out);
}

/* --- list and revoke --------------------------------------------------------------- */

static bool is_revoked(const authority *a, const ps_certificate *facts)
{
    BIGNUM *number = NULL;
    ASN1_INTEGER *serial = NULL;
    X509_REVOKED *found = NULL;

    if (a->crl != NULL && BN_hex2bn(&number, facts->serial) > 0) {
        serial = BN_to_ASN1_INTEGER(number, NULL);
        X509_CRL_get0_by_serial(a->crl, &found, serial);
    }
    ASN1_INTEGER_free(serial);
    BN_free(number);
    return found != NULL;
}

static int compare(const void *a, const void *b)
{
    const ps_certificate *x = &((const ps_issued *)a)->certificate;
    const ps_certificate *y = &((const ps_issued *)b)->certificate;
    int order = (int)x->subject.who.kind - (int)y->subject.who.kind;

    order = order != 0 ? order : strcmp(x->subject.who.name, y->subject.who.name);
    return order != 0 ? order : (x->not_before < y->not_before) - (x->not_before > y->not_before);
}

typedef struct listing {
    const authority *a;
    ps_issued *all;
    size_t count, cap;
} listing;

static ps_status take(void *arg, const ps_certificate *facts)
{
    listing *l = arg;

    if (l->count == LISTED_MAX) {
        return ps_fail(
            PS_RESOURCE_EXHAUSTED,
            "%s has more than %d certificates, too many for a list; revoking still works",
            PS_PATH_SHOWN(l->a->dir), LISTED_MAX);
    }
    if (l->count == l->cap) {
        l->cap = l->cap == 0 ? 16 : 2 * l->cap;
        l->all = ps_xrealloc(l->all, l->cap * sizeof *l->all);
    }
    l->all[l->count++] = (ps_issued){*facts, is_revoked(l->a, facts)};
    return ps_ok();
}

ps_status ps_authority_list(const char *dir, ps_issued **out, size_t *count)
{
    authority a;
    listing l = {.a = &a};
    ps_status st = open_authority(dir, &a);

    if (ps_is_ok(&st)) {
        st = ps_issued_each(dir, take, &l);
    }
    close_authority(&a);
    *out = ps_is_ok(&st) ? l.all : NULL;
    *count = ps_is_ok(&st) ? l.count : 0;
    if (!ps_is_ok(&st)) {
        free(l.all);
    } else if (l.count > 0) {
        qsort(l.all, l.count, sizeof *l.all, compare);
    }
    return st;
}

/* Adds a certificate to the list of revoked ones. */
static bool add_revoked(X509_CRL *crl, const ps_certificate *facts, ASN1_TIME *now)
{
    X509_REVOKED *entry = X509_REVOKED_new();
    BIGNUM *number = NULL;
    ASN1_INTEGER *serial = NULL;
    bool ok = entry != NULL && BN_hex2bn(&number, facts->serial) > 0 &&
              (serial = BN_to_ASN1_INTEGER(number, NULL)) != NULL &&
              X509_REVOKED_set_serialNumber(entry, serial) == 1 &&
              X509_REVOKED_set_revocationDate(entry, now) == 1 &&
              X509_CRL_add0_revoked(crl, entry) == 1;

    if (!ok) {
        X509_REVOKED_free(entry);
    }
    ASN1_INTEGER_free(serial);
    BN_free(number);
    return ok;
}

typedef struct revoking {
    authority *a;
    const char *which; /* a serial number or a principal */
    ASN1_TIME *now;
    size_t count;
} revoking;

/* Adds certificate `c` to the list of revoked ones if r->which is its serial number or its
 * principal, and it is not revoked yet. Expired ones are revoked too: a connection that began with
 * one may still be open. */
static ps_status revoke_one(void *arg, const ps_certificate *c)
{
    revoking *r = arg;
    char text[PS_PRINCIPAL_TEXT_BYTES];

    if ((strcmp(c->serial, r->which) != 0 &&
         strcmp(ps_principal_text(&c->subject.who, text), r->which) != 0) ||
        is_revoked(r->a, c)) {
        return ps_ok();
    }
    r->count++;
    return add_revoked(r->a->crl, c, r->now)
               ? ps_ok()
               : ps_x509_fail(PS_INTERNAL, "the list of revoked certificates cannot be made");
}

static bool begin_crl(authority *a)
{
    a->crl = X509_CRL_new();
    return a->crl != NULL && X509_CRL_set_version(a->crl, X509_CRL_VERSION_2) == 1 &&
           X509_CRL_set_issuer_name(a->crl, X509_get_subject_name(a->root)) == 1;
}

static bool sign_crl(authority *a, const ASN1_TIME *now, const ASN1_TIME *later)
{
    return X509_CRL_set1_lastUpdate(a->crl, now) == 1 &&
           X509_CRL_set1_nextUpdate(a->crl, later) == 1 && X509_CRL_sort(a->crl) == 1 &&
           X509_CRL_sign(a->crl, a->key, EVP_sha256()) > 0;
}

/* Adds the certificates of the serial number or principal `which` to the list of revoked ones, and
 * signs the list; in memory only. *count is how many were added. Fails with NOT_FOUND if none was.
 */
static ps_status revoke_all(authority *a, const char *which, size_t *count)
{
    time_t now = time(NULL);
    ASN1_TIME *at = ASN1_TIME_set(NULL, now), *later = ASN1_TIME_set(NULL, now + CRL_VALID_S);
    revoking r = {.a = a, .which = which, .now = at};
    bool ok = at != NULL && later != NULL && (a->crl != NULL || begin_crl(a));
    ps_status st = ok ? ps_issued_each(a->dir, revoke_one, &r) : ps_ok();

    ok = ok && (!ps_is_ok(&st) || r.count == 0 || sign_crl(a, at, later));
    ASN1_TIME_free(at);
    ASN1_TIME_free(later);
    *count = r.count;
    if (!ok) {
        return ps_x509_fail(PS_INTERNAL, "the list of revoked certificates cannot be made");
    }
    return !ps_is_ok(&st) || r.count > 0
               ? st
               : ps_fail(PS_NOT_FOUND,
                         "%s: no certificate that can be revoked has this serial number or "
                         "principal; 'psgd pki list' shows all",
                         PS_SHORT(which, 100));
}

ps_status ps_authority_revoke(const char *dir, const char *which, size_t *count)
{
    authority a;
    ps_strbuf pem = {0};
    ps_status st = open_authority(dir, &a);

    *count = 0;
    if (ps_is_ok(&st)) {
        st = revoke_all(&a, which, count);
    }
    if (ps_is_ok(&st)) {
        st = ps_x509_put_crl(&pem, a.crl);
    }
    if (ps_is_ok(&st)) {
        st = write_file(dir, "crl.pem", &pem);
    }
    ps_strbuf_fini(&pem);
    close_authority(&a);
    return st;
}

/* --- renewal ------------------------------------------------------------------------- */

static bool is_same_subject(const ps_subject *a, const ps_subject *b)
{
    bool is = ps_principal_is(&a->who, b->who.kind, b->who.name) && a->host_count == b->host_count;

    for (size_t i = 0; is && i < a->host_count; i++) {
        is = strcmp(a->hosts[i], b->hosts[i]) == 0;
    }
    return is;
}

ps_status ps_authority_renew(const char *dir, const char *what, const char *pem, size_t n,
                             const char *serial, int64_t valid_s, ps_strbuf *answer,
                             ps_certificate *out)
{
    char has[PS_PRINCIPAL_TEXT_BYTES], asked[PS_PRINCIPAL_TEXT_BYTES];
    authority a = {.lock = -1};
    ps_request request;
    ps_certificate old;
    EVP_PKEY *key = NULL;
    ps_status st = ps_request_take(what, pem, n, &request, &key);

    if (ps_is_ok(&st)) {
        st = open_authority(dir, &a);
    }
    if (ps_is_ok(&st)) {
        st = ps_issued_find(dir, serial, &old);
    }
    if (ps_is_ok(&st) && is_revoked(&a, &old)) {
        st = ps_fail(PS_PERMISSION_DENIED, "the certificate %s of %s was revoked", serial,
                     ps_principal_text(&old.subject.who, has));
    }
    if (ps_is_ok(&st) && old.not_after <= (int64_t)time(NULL)) {
        st = ps_fail(PS_PERMISSION_DENIED,
                     "the certificate %s of %s has expired; the node has to join again "
                     "('psgd pki token')",
                     serial, ps_principal_text(&old.subject.who, has));
    }
    if (ps_is_ok(&st) && !is_same_subject(&old.subject, &request.subject)) {
        st = ps_fail(PS_PERMISSION_DENIED,
                     "%s: it asks for %s with %zu hosts; the certificate %s is of %s with %zu, and "
                     "renewing it changes neither",
                     what, ps_principal_text(&request.subject.who, asked),
                     request.subject.host_count, serial, ps_principal_text(&old.subject.who, has),
                     old.subject.host_count);
    }
    if (ps_is_ok(&st)) {
        st = answer_with(&a, &old.subject, key, valid_s, answer, out);
    }
    EVP_PKEY_free(key);
    close_authority(&a);
    return st;
}
