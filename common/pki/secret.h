/* SPDX-License-Identifier: Apache-2.0 */
/* secret.h - draws secrets, and keeps them from core dumps. */
#ifndef PS_COMMON_PKI_SECRET_H
#define PS_COMMON_PKI_SECRET_H

#include "common/base/sha256.h"
#include "common/base/status.h"

/* Has the process write no core dump from now on. Called before a key, token or secret gets into
 * its memory. Any thread. */
void ps_secret_keep_from_dumps(void);

/* Writes 256 random bits as 64 lower-case hexadecimal digits. Any thread. */
PS_MUST_USE ps_status ps_secret_draw(char out[PS_SHA256_HEX_BYTES]);

#endif
