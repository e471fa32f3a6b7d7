/* SPDX-License-Identifier: Apache-2.0 */
/* authority.h - a folder that issues and revokes certificates.
 *
 *   root.key       the private key of the authority, mode 0600; whoever has it can be anybody
 *   root.pem       the root certificate, which all members have
 *   issued/S.pem   each certificate, by its serial number, until 30 days after its end (issued.h)
 *   crl.pem        the list of revoked certificates, signed by the root
 *   join-tokens    the tokens by which nodes join (join.h)
 *
 * Every function locks the folder. It waits up to 5 s for the lock, except ps_authority_create,
 * which does not wait. Any thread. */
#ifndef PS_COMMON_PKI_AUTHORITY_H
#define PS_COMMON_PKI_AUTHORITY_H

#include "common/base/strbuf.h"
#include "common/pki/request.h"

/* Creates the folder `dir` and an authority in it that is valid for `valid_s` seconds. `root`
 * receives what its root certificate says. Returns ALREADY_EXISTS if the folder has an
 * authority. */
PS_MUST_USE ps_status ps_authority_create(const char *dir, int64_t valid_s, ps_certificate *root);

/* Checks that the authority in `dir` can be used, and writes the fingerprint of its root. */
PS_MUST_USE ps_status ps_authority_fingerprint(const char *dir, char out[PS_FINGERPRINT_BYTES]);

/* Issues a certificate for the request in `n` bytes of PEM, which must ask for `who`. The
 * certificate begins five minutes ago, because clocks differ, and ends after `valid_s` seconds or
 * with the root. Appends to `answer` the certificate, the root and, if there is one, the list of
 * revoked certificates, as PEM. Texts of errors about the request begin with `what`. */
PS_MUST_USE ps_status ps_authority_approve(const char *dir, const char *what, const char *pem,
                                           size_t n, const ps_principal *who, int64_t valid_s,
                                           ps_strbuf *answer, ps_certificate *out);

/* Issues a new certificate to the principal of an existing one, which has this serial number. The
 * request in `n` bytes of PEM names the new key; it must ask for the same principal and hosts. The
 * old certificate stays valid. Otherwise as ps_authority_approve. PERMISSION_DENIED: the old one
 * was revoked or has expired, or the request asks for another principal or other hosts; NOT_FOUND:
 * the old one was not issued here. */
PS_MUST_USE ps_status ps_authority_renew(const char *dir, const char *what, const char *pem,
                                         size_t n, const char *serial, int64_t valid_s,
                                         ps_strbuf *answer, ps_certificate *out);

/* A certificate that was issued. */
typedef struct ps_issued {
    ps_certificate certificate;
    bool is_revoked;
} ps_issued;

/* Reads all certificates that were issued, sorted by principal, the newest first. The caller frees
 * *out. If a file cannot be read, the error names it. */
PS_MUST_USE ps_status ps_authority_list(const char *dir, ps_issued **out, size_t *count);

/* Revokes the certificate with the serial number `which`, or all certificates of the principal
 * `which`, expired ones too. *count becomes how many were revoked; those that were revoked before
 * do not count. Returns NOT_FOUND if none was. */
PS_MUST_USE ps_status ps_authority_revoke(const char *dir, const char *which, size_t *count);

/* ---- For join.c, which holds the lock of an authority's folder over several calls ---- */

/* Locks the folder. The caller unlocks it by closing the descriptor *lock. Waits up to 5 s, then
 * returns UNAVAILABLE. */
PS_MUST_USE ps_status ps_authority_lock(const char *dir, int *lock);

/* Returns OK if a certificate may be issued, else the refusal. Called while the folder is
 * locked. */
typedef ps_status ps_authority_permit(void *arg);

/* Does what ps_authority_approve does, if `permit` returns OK (NULL: always). Nobody can revoke
 * anything between its answer and the issuing. */
PS_MUST_USE ps_status ps_authority_approve_if(const char *dir, const char *what, const char *pem,
                                              size_t n, const ps_principal *who, int64_t valid_s,
                                              ps_authority_permit *permit, void *arg,
                                              ps_strbuf *answer, ps_certificate *out);

#endif
