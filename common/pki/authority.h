/* SPDX-License-Identifier: Apache-2.0 */
/* authority.h - a folder that issues and revokes certificates.
 *
 *     root.key       the private key of the authority, mode 0600; whoever has it is everybody
 *     root.pem       the root certificate, which all members have
 *     issued/S.pem   each certificate, by its serial number, until 30 days after its end (issued.h)
 *     crl.pem        the list of those that are revoked, signed by the root
 *     join-tokens    the tokens by which nodes join (join.h)
 *
 * Every function locks the folder, for which it waits up to 5 s. Any thread.
 */
#ifndef PS_COMMON_PKI_AUTHORITY_H
#define PS_COMMON_PKI_AUTHORITY_H

#include "common/base/strbuf.h"
#include "common/pki/request.h"

/* Makes an authority in `dir`, which it creates; `root` receives what its certificate says. It is
 * valid for `valid_s` seconds. Fails with ALREADY_EXISTS if there is one. */
PS_MUST_USE ps_status ps_authority_create(const char *dir, int64_t valid_s, ps_certificate *root);

/* Checks that the authority in `dir` can be used, and writes the fingerprint of its root. */
PS_MUST_USE ps_status ps_authority_fingerprint(const char *dir, char out[PS_FINGERPRINT_BYTES]);

/* Issues a certificate for the request in `n` bytes of PEM, which must ask for `who`. It begins
 * five minutes ago, for clocks that differ, and ends after `valid_s` seconds or with the root.
 * Appends to `answer` the certificate, the root and the list of those revoked, as PEM. `what` is
 * how errors about the request begin. */
PS_MUST_USE ps_status ps_authority_approve(const char *dir, const char *what, const char *pem,
                                           size_t n, const ps_principal *who, int64_t valid_s,
                                           ps_strbuf *answer, ps_certificate *out);

/* Issues another certificate for whom the certificate with this serial number is: for the key of
 * the request in `n` bytes of PEM, which must ask for the same principal and hosts. The old one
 * stays valid. Otherwise as ps_authority_approve. PERMISSION_DENIED: it was revoked, or the request
 * asks for another; NOT_FOUND: it was not issued here. */
PS_MUST_USE ps_status ps_authority_renew(const char *dir, const char *what, const char *pem,
                                         size_t n, const char *serial, int64_t valid_s,
                                         ps_strbuf *answer, ps_certificate *out);

/* A certificate that was issued. */
typedef struct ps_issued {
    ps_certificate certificate;
    bool is_revoked;
} ps_issued;

/* Reads all certificates that were issued, by principal and then the newest first. The caller frees
 * *out. A file that cannot be read is an error that names it. */
PS_MUST_USE ps_status ps_authority_list(const char *dir, ps_issued **out, size_t *count);

/* Revokes the certificate with a serial number, or all of a principal, also those that have
 * expired: *count is how many; NOT_FOUND if there is none. */
PS_MUST_USE ps_status ps_authority_revoke(const char *dir, const char *which, size_t *count);

/* ---- For join.c: what is done with the lock of an authority's folder ---- */

/* Locks the folder; *lock holds it until it is closed. Waits up to 5 s, then fails with
 * UNAVAILABLE. */
PS_MUST_USE ps_status ps_authority_lock(const char *dir, int *lock);

/* Returns whether a certificate may be issued. Called with the lock. */
typedef ps_status ps_authority_permit(void *arg);

/* Does what ps_authority_approve does, if `permit` says yes (NULL: always). Nobody revokes between
 * its answer and the certificate. */
PS_MUST_USE ps_status ps_authority_approve_if(const char *dir, const char *what, const char *pem,
                                              size_t n, const ps_principal *who, int64_t valid_s,
                                              ps_authority_permit *permit, void *arg,
                                              ps_strbuf *answer, ps_certificate *out);

#endif
