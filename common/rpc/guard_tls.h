/* SPDX-License-Identifier: Apache-2.0 */
/* guard_tls.h - makes the guard (guard.h) count frames under TLS. */
#ifndef PS_COMMON_RPC_GUARD_TLS_H
#define PS_COMMON_RPC_GUARD_TLS_H

/* Makes the guard count the frames in what SSL_read returns, instead of in what recvmsg reads,
 * which is encrypted. A process that serves TLS serves nothing else. */
void ps_guard_expect_tls(void);

#endif
