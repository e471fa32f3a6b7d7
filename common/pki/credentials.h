/* SPDX-License-Identifier: Apache-2.0 */
/* credentials.h - the folder with which a program proves who it is, and checks others (--tls-dir).
 *
 *     root.pem       the root certificate of the authority
 *     identity.pem   the program's private key and its certificate, mode 0600
 *     crl.pem        the list of revoked certificates; may be missing
 *     next.key       the key of a request that waits for its answer, mode 0600
 *     request.pem    that request
 *
 * Key and certificate are one file, so that both change at once. Each file is written whole or not
 * at all. Any thread.
 */
#ifndef PS_COMMON_PKI_CREDENTIALS_H
#define PS_COMMON_PKI_CREDENTIALS_H

#include "common/base/files.h"
#include "common/pki/request.h"

/* Where the files are. */
typedef struct ps_credentials_paths {
    char root[PS_PATH_MAX], identity[PS_PATH_MAX], crl[PS_PATH_MAX], next_key[PS_PATH_MAX],
        request[PS_PATH_MAX];
} ps_credentials_paths;

/* Writes the paths. Fails if they are too long. */
PS_MUST_USE ps_status ps_credentials_find(const char *dir, ps_credentials_paths *out);

/* Makes a key and a request for `subject`: next.key and request.pem replace older ones. */
PS_MUST_USE ps_status ps_credentials_request(const char *dir, const ps_subject *subject,
                                             ps_request *out);

/* Installs the answer of an authority (`n` bytes of PEM). The certificate must be of next.key and
 * signed by the root beside it. The root must have the `fingerprint` that somebody gives; NULL: it
 * must be the one that is installed. Without a certificate the answer brings a list of the revoked
 * only, and `own` is as it was. `what` is how errors begin. */
PS_MUST_USE ps_status ps_credentials_install(const char *dir, const char *what, const char *pem,
                                             size_t n, const char *fingerprint,
                                             ps_certificate *own);

/* Checks that the files can be used now, and reads the certificate. The error names file and
 * reason: missing, others may read the key, not signed by the root, expired, not valid yet. */
PS_MUST_USE ps_status ps_credentials_check(const char *dir, ps_certificate *own);

/* Checks the certificate of a client (`n` bytes of DER) against root.pem, and reads it. `what` is
 * how errors begin. Fails with UNAUTHENTICATED if it is not valid now, or cannot be read. */
PS_MUST_USE ps_status ps_credentials_check_client(const char *dir, const char *what,
                                                  const void *der, size_t n, ps_certificate *out);

/* Writes the fingerprint of root.pem. */
PS_MUST_USE ps_status ps_credentials_fingerprint(const char *dir, char out[PS_FINGERPRINT_BYTES]);

/* Overwrites and frees bytes that have a key in them. NULL is allowed. */
void ps_credentials_forget(char *bytes, size_t n);

/* The serial numbers that were revoked. */
typedef struct ps_revoked ps_revoked;

/* Reads crl.pem, which must be signed by root.pem. *out is NULL, with success, if there is none. */
PS_MUST_USE ps_status ps_revoked_read(const char *dir, ps_revoked **out);

/* Returns whether a serial number, as in ps_certificate, was revoked. NULL: none was. */
bool ps_revoked_has(const ps_revoked *revoked, const char *serial);

/* Frees it. NULL is allowed. */
void ps_revoked_destroy(ps_revoked *revoked);

#endif
