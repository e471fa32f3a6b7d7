/* SPDX-License-Identifier: Apache-2.0 */
/* certificate_impl.h - certificates as objects of libcrypto. Private to common/pki. Texts of errors
 * begin with `what`. */
#ifndef PS_COMMON_PKI_CERTIFICATE_IMPL_H
#define PS_COMMON_PKI_CERTIFICATE_IMPL_H

#include "common/base/strbuf.h"
#include "common/pki/certificate.h"

#include <openssl/err.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

/* Returns a failure with libcrypto's reason, and clears libcrypto's errors. */
PS_MUST_USE PS_PRINTF(2, 3) ps_status ps_x509_fail(ps_code code, const char *fmt, ...);

/* Reads certificate number `index`, from 0, in PEM of n bytes. If there are fewer, returns OK and
 * sets *out to NULL. */
PS_MUST_USE ps_status ps_x509_read(const char *what, const char *pem, size_t n, size_t index,
                                   X509 **out);

/* Reads the first private key in PEM of n bytes. Returns INVALID_ARGUMENT if it is encrypted or not
 * of P-256. */
PS_MUST_USE ps_status ps_x509_read_key(const char *what, const char *pem, size_t n, EVP_PKEY **out);

/* Reads the first list of revoked certificates in PEM of n bytes. If there is none, returns OK and
 * sets *out to NULL. */
PS_MUST_USE ps_status ps_x509_read_crl(const char *what, const char *pem, size_t n, X509_CRL **out);

/* Checks that a public key is of P-256. */
PS_MUST_USE ps_status ps_x509_check_key(const char *what, EVP_PKEY *key);

/* Creates a random key of P-256. */
PS_MUST_USE ps_status ps_x509_new_key(EVP_PKEY **out);

/* Append a certificate, a private key, a list of revoked certificates, or a request to `pem`, as
 * PEM. */
PS_MUST_USE ps_status ps_x509_put(ps_strbuf *pem, X509 *certificate);
PS_MUST_USE ps_status ps_x509_put_key(ps_strbuf *pem, EVP_PKEY *key);
PS_MUST_USE ps_status ps_x509_put_crl(ps_strbuf *pem, X509_CRL *crl);
PS_MUST_USE ps_status ps_x509_put_request(ps_strbuf *pem, X509_REQ *request);

/* Returns the alternative names of a subject; the caller frees them by GENERAL_NAMES_free. */
PS_MUST_USE ps_status ps_x509_names(const ps_subject *subject, GENERAL_NAMES **out);

/* Reads a subject from alternative names: exactly one URI psgd://KIND/NAME, at most
 * PS_PKI_HOSTS_MAX hosts, nothing else. `names` may be NULL. */
PS_MUST_USE ps_status ps_x509_subject(const char *what, const GENERAL_NAMES *names,
                                      ps_subject *out);

/* Reads what a certificate says. is_root: the certificate names no principal, and out->subject
 * stays empty. */
PS_MUST_USE ps_status ps_x509_facts(const char *what, X509 *certificate, bool is_root,
                                    ps_certificate *out);

#endif
