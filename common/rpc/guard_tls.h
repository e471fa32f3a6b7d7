/* SPDX-License-Identifier: Apache-2.0 */
/* guard_tls.h - has the guard (guard.h) count frames under TLS. */
#ifndef PS_COMMON_RPC_GUARD_TLS_H
#define PS_COMMON_RPC_GUARD_TLS_H

/* Has the guard count the frames that SSL_read returns, instead of those that recvmsg reads: what
 * connections bring is encrypted. A process that serves TLS serves nothing else. */
void ps_guard_expect_tls(void);

#endif
