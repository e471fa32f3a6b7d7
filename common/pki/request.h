/* SPDX-License-Identifier: Apache-2.0 */
/* request.h - asks an authority for a certificate: a key that stays, a request that travels.
 *
 * A request is PKCS #10 in PEM. It is signed by the key, so whoever sends it has the key.
 */
#ifndef PS_COMMON_PKI_REQUEST_H
#define PS_COMMON_PKI_REQUEST_H

#include "common/base/strbuf.h"
#include "common/pki/certificate.h"

/* What a request says. */
typedef struct ps_request {
    ps_subject subject;
    char key_fingerprint[PS_FINGERPRINT_BYTES]; /* SHA-256 of the public key */
} ps_request;

/* Draws a key, and writes it and a request for `subject`, both as PEM. */
PS_MUST_USE ps_status ps_request_make(const ps_subject *subject, ps_strbuf *key,
                                      ps_strbuf *request);

/* Reads `n` bytes of PEM from somebody. `what` is how errors begin. Fails with INVALID_ARGUMENT:
 * more than PS_PKI_FILE_MAX bytes, a wrong signature, another key than P-256, other names than one
 * principal and hosts. */
PS_MUST_USE ps_status ps_request_read(const char *what, const char *pem, size_t n, ps_request *out);

struct evp_pkey_st; /* libcrypto's EVP_PKEY */

/* Reads a request as ps_request_read does, and its public key, which the caller frees by
 * EVP_PKEY_free. */
PS_MUST_USE ps_status ps_request_take(const char *what, const char *pem, size_t n, ps_request *out,
                                      struct evp_pkey_st **key);

#endif
