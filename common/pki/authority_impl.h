/* SPDX-License-Identifier: Apache-2.0 */
/* authority_impl.h - the lock of an authority's folder. Private to common/pki. */
#ifndef PS_COMMON_PKI_AUTHORITY_IMPL_H
#define PS_COMMON_PKI_AUTHORITY_IMPL_H

#include "common/base/status.h"

/* Locks the folder; *lock holds it until it is closed. Waits up to 5 s, then fails with
 * UNAVAILABLE. */
PS_MUST_USE ps_status ps_authority_lock(const char *dir, int *lock);

#endif
