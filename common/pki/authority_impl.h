/* SPDX-License-Identifier: Apache-2.0 */
/* authority_impl.h - the lock of an authority's folder, and what is done with it. Private to
 * common/pki. */
#ifndef PS_COMMON_PKI_AUTHORITY_IMPL_H
#define PS_COMMON_PKI_AUTHORITY_IMPL_H

#include "common/pki/authority.h"

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
