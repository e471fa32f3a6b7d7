/* SPDX-License-Identifier: Apache-2.0 */
/* request.c - see request.h. */
#include "common/pki/request.h"

#include "common/pki/certificate_impl.h"

#include <openssl/pem.h>
#include <stdio.h>
#include <string.h>

/* Adds the alternative names of `subject`, its principal and hosts, to a request. */
static ps_status add_names(X509_REQ *request, const ps_subject *subject)
{
    GENERAL_NAMES *names = NULL;
    STACK_OF(X509_EXTENSION) *extensions = NULL;
    ps_status st = ps_x509_names(subject, &names);

    if (ps_is_ok(&st) &&
        (X509V3_add1_i2d(&extensions, NID_subject_alt_name, names, 0, X509V3_ADD_DEFAULT) != 1 ||
         X509_REQ_add_extensions(request, extensions) != 1)) {
        st = ps_x509_fail(PS_INTERNAL, "alternative names cannot be added");
    }
    sk_X509_EXTENSION_pop_free(extensions, X509_EXTENSION_free);
    GENERAL_NAMES_free(names);
    return st;
}

ps_status ps_request_make(const ps_subject *subject, ps_strbuf *key_pem, ps_strbuf *pem)
{
    X509_REQ *request = X509_REQ_new();
    EVP_PKEY *key = NULL;
    ps_status st = ps_x509_new_key(&key);

    if (ps_is_ok(&st) &&
        (request == NULL || X509_REQ_set_version(request, X509_REQ_VERSION_1) != 1 ||
         X509_REQ_set_pubkey(request, key) != 1)) {
        st = ps_x509_fail(PS_INTERNAL, "a request cannot be made");
    }
    if (ps_is_ok(&st)) {
        st = add_names(request, subject);
    }
    if (ps_is_ok(&st) && X509_REQ_sign(request, key, EVP_sha256()) <= 0) {
        st = ps_x509_fail(PS_INTERNAL, "a request cannot be signed");
    }
    if (ps_is_ok(&st)) {
        st = ps_x509_put_key(key_pem, key);
    }
    if (ps_is_ok(&st)) {
        st = ps_x509_put_request(pem, request);
    }
    X509_REQ_free(request);
    EVP_PKEY_free(key);
    return st;
}

/* Writes the fingerprint of a public key: the SHA-256 of its DER as AB:CD:... */
static ps_status fingerprint(EVP_PKEY *key, char out[PS_FINGERPRINT_BYTES])
{
    uint8_t *der = NULL, digest[32];
    int n = i2d_PUBKEY(key, &der);
    bool ok = n > 0 && EVP_Digest(der, (size_t)n, digest, NULL, EVP_sha256(), NULL) == 1;

    OPENSSL_free(der);
    for (size_t i = 0; ok && i < sizeof digest; i++) {
        snprintf(out + 3 * i, 4, i + 1 < sizeof digest ? "%02X:" : "%02X", digest[i]);
    }
    return ok ? ps_ok() : ps_x509_fail(PS_INTERNAL, "no fingerprint");
}

ps_status ps_request_take(const char *what, const char *pem, size_t n, ps_request *out,
                          EVP_PKEY **key)
{
    BIO *bio = BIO_new_mem_buf(pem, n <= PS_PKI_FILE_MAX ? (int)n : 0);
    X509_REQ *request = NULL;
    STACK_OF(X509_EXTENSION) *extensions = NULL;
    GENERAL_NAMES *names;
    ps_status st = ps_ok();

    *out = (ps_request){0};
    *key = NULL;
    if (n > PS_PKI_FILE_MAX) {
        st = ps_fail(PS_INVALID_ARGUMENT, "%s: %zu bytes; at most %d are allowed", what, n,
                     PS_PKI_FILE_MAX);
        goto out;
    }
    request = PEM_read_bio_X509_REQ(bio, NULL, NULL, NULL);
    if (request == NULL) {
        st = ps_x509_fail(PS_INVALID_ARGUMENT, "%s: no request for a certificate (PKCS #10, PEM)",
                          what);
        goto out;
    }
    *key = X509_REQ_get_pubkey(request);
    st = ps_x509_check_key(what, *key);
    if (!ps_is_ok(&st)) {
        goto out;
    }
    if (X509_REQ_verify(request, *key) != 1) {
        st = ps_x509_fail(PS_INVALID_ARGUMENT, "%s: it is not signed by its own key", what);
        goto out;
    }
    extensions = X509_REQ_get_extensions(request);
    names = X509V3_get_d2i(extensions, NID_subject_alt_name, NULL, NULL);
    st = ps_x509_subject(what, names, &out->subject);
    GENERAL_NAMES_free(names);
    if (ps_is_ok(&st)) {
        st = fingerprint(*key, out->key_fingerprint);
    }

out:
    ERR_clear_error();
    if (!ps_is_ok(&st)) {
        EVP_PKEY_free(*key);
        *key = NULL;
    }
    sk_X509_EXTENSION_pop_free(extensions, X509_EXTENSION_free);
    X509_REQ_free(request);
    BIO_free(bio);
    return st;
}

ps_status ps_request_read(const char *what, const char *pem, size_t n, ps_request *out)
{
    EVP_PKEY *key;
    ps_status st = ps_request_take(what, pem, n, out, &key);

    EVP_PKEY_free(key);
    return st;
}
