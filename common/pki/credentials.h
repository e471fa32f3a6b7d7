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

/* Makes a new key and a request for `subject`. Writes next.key and request.pem, which replace older
 * ones. *out becomes what the request says. */
PS_MUST_USE ps_status ps_credentials_request(const char *dir, const ps_subject *subject,
                                             ps_request *out);

/* Installs the answer of an authority (`n` bytes of PEM). The certificate in it must be for
 * next.key and signed by the root in the answer. That root must have the `fingerprint` that the
 * user gives; NULL: it must be the installed root. An answer without a certificate only brings a
 * list of revoked certificates; *own then stays as it was. Texts of errors begin with `what`. */
PS_MUST_USE ps_status ps_credentials_install(const char *dir, const char *what, const char *pem,
                                             size_t n, const char *fingerprint,
                                             ps_certificate *own);

/* Checks that the files can be used now, and reads the certificate. The error names the file and
 * the reason: missing, readable by others (the key), not signed by the root, expired, not valid
 * yet. */
PS_MUST_USE ps_status ps_credentials_check(const char *dir, ps_certificate *own);

/* Checks the certificate of a client (`n` bytes of DER) against root.pem, and reads it. Texts of
 * errors about the certificate begin with `what`. Each failure is UNAUTHENTICATED: the certificate
 * is not valid now, or it or root.pem cannot be read. */
PS_MUST_USE ps_status ps_credentials_check_client(const char *dir, const char *what,
                                                  const void *der, size_t n, ps_certificate *out);

/* Writes the fingerprint of root.pem. */
PS_MUST_USE ps_status ps_credentials_fingerprint(const char *dir, char out[PS_FINGERPRINT_BYTES]);

/* Overwrites and frees memory that has a key in it. NULL is allowed. */
void ps_credentials_forget(char *bytes, size_t n);

/* The serial numbers that were revoked. */
typedef struct ps_revoked ps_revoked;

/* Reads crl.pem, which must be signed by root.pem. If there is no crl.pem, returns OK and sets *out
 * to NULL. */
PS_MUST_USE ps_status ps_revoked_read(const char *dir, ps_revoked **out);

/* Returns whether the certificate with this serial number, written as in ps_certificate, was
 * revoked. `revoked` NULL: none was. */
bool ps_revoked_has(const ps_revoked *revoked, const char *serial);

/* Frees the serial numbers. NULL is allowed. */
void ps_revoked_destroy(ps_revoked *revoked);

#endif
