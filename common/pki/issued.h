/* SPDX-License-Identifier: Apache-2.0 */
/* issued.h - the certificates that an authority has issued: files issued/S.pem in its folder, by
 * serial number.
 *
 * The caller holds the lock of the authority (authority.h), except for ps_issued_find and
 * ps_issued_each; without it they may miss a certificate that is stored or removed meanwhile. Any
 * thread. */
#ifndef PS_COMMON_PKI_ISSUED_H
#define PS_COMMON_PKI_ISSUED_H

#include "common/base/strbuf.h"
#include "common/pki/certificate.h"

enum {
    /* seconds for which a certificate is kept after its end, so that it can be listed and
     * revoked */
    PS_ISSUED_KEPT_S = 30 * 86400,
    PS_ISSUED_SWEPT_MAX = 5000 /* most certificates that one sweep reads, in about 0.5 s */
};

/* Stores a certificate: `pem` is the file's content, `facts` what it says. */
PS_MUST_USE ps_status ps_issued_store(const char *dir, const ps_certificate *facts,
                                      const ps_strbuf *pem);

/* Reads the certificate with this serial number. INVALID_ARGUMENT: it is no serial number;
 * NOT_FOUND: the certificate was not issued here, or was removed after its end. */
PS_MUST_USE ps_status ps_issued_find(const char *dir, const char *serial, ps_certificate *out);

/* Calls fn for each certificate, in any order, until fn fails. If a file cannot be read, the error
 * names it. */
typedef ps_status ps_issued_fn(void *arg, const ps_certificate *facts);
PS_MUST_USE ps_status ps_issued_each(const char *dir, ps_issued_fn *fn, void *arg);

/* Removes certificates that ended more than PS_ISSUED_KEPT_S seconds before now_s, in seconds since
 * 1970. Does nothing for a day after a complete sweep, whose time the file `swept` beside issued/
 * has; so it may be called each time a certificate is issued. After a failure, or after
 * PS_ISSUED_SWEPT_MAX certificates, the next call goes on. Returns how many were removed. */
size_t ps_issued_sweep(const char *dir, int64_t now_s);

#endif
