/* SPDX-License-Identifier: Apache-2.0 */
/* certificate_impl.h - certificates as libcrypto has them. Private to common/pki. */
#ifndef PS_COMMON_PKI_CERTIFICATE_IMPL_H
#define PS_COMMON_PKI_CERTIFICATE_IMPL_H

#include "common/base/strbuf.h"
#include "common/pki/certificate.h"

#include <openssl/err.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

/* Returns a failure with libcrypto's reason, and clears libcrypto's errors. */
PS_MUST_USE PS_PRINTF(2, 3) ps_status ps_x509_fail(ps_code code, const char *fmt, ...);

/* Reads the n-th certificate (from 0) of PEM. *out is NULL, with success, if there are fewer. */
PS_MUST_USE ps_status ps_x509_read(const char *what, const char *pem, size_t n, size_t index,
                                   X509 **out);

/* Reads the first private key of PEM. One that is encrypted or not of P-256 is INVALID_ARGUMENT. */
PS_MUST_USE ps_status ps_x509_read_key(const char *what, const char *pem, size_t n, EVP_PKEY **out);

/* Reads the first list of revoked certificates of PEM. *out is NULL, with success, if there is
 * none. */
PS_MUST_USE ps_status ps_x509_read_crl(const char *what, const char *pem, size_t n, X509_CRL **out);

/* Checks that a public key is of P-256. */
PS_MUST_USE ps_status ps_x509_check_key(const char *what, EVP_PKEY *key);

/* Draws a key of P-256. */
PS_MUST_USE ps_status ps_x509_new_key(EVP_PKEY **out);

/* Append PEM. */
PS_MUST_USE ps_status ps_x509_put(ps_strbuf *pem, X509 *certificate);
PS_MUST_USE ps_status ps_x509_put_key(ps_strbuf *pem, EVP_PKEY *key);
PS_MUST_USE ps_status ps_x509_put_crl(ps_strbuf *pem, X509_CRL *crl);
PS_MUST_USE ps_status ps_x509_put_request(ps_strbuf *pem, X509_REQ *request);

/* Returns the alternative names of a subject; the caller frees them by GENERAL_NAMES_free. */
PS_MUST_USE ps_status ps_x509_names(const ps_subject *subject, GENERAL_NAMES **out);

/* Reads a subject: exactly one URI psgd://KIND/NAME, at most PS_PKI_HOSTS_MAX hosts, nothing else.
 * `names` may be NULL. */
PS_MUST_USE ps_status ps_x509_subject(const char *what, const GENERAL_NAMES *names,
                                      ps_subject *out);

/* Reads what a certificate says. `subject` of a root stays empty. */
PS_MUST_USE ps_status ps_x509_facts(const char *what, X509 *certificate, bool is_root,
                                    ps_certificate *out);

#endif
