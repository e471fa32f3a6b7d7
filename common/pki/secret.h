/* SPDX-License-Identifier: Apache-2.0 */
/* secret.h - draws secrets. Private to common/pki. */
#ifndef PS_COMMON_PKI_SECRET_H
#define PS_COMMON_PKI_SECRET_H

#include "common/base/sha256.h"
#include "common/base/status.h"

/* Writes 256 random bits as 64 lower-case hexadecimal digits. Any thread. */
PS_MUST_USE ps_status ps_secret_draw(char out[PS_SHA256_HEX_BYTES]);

#endif
