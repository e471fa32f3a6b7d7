/* SPDX-License-Identifier: Apache-2.0 */
/* tls_handshake.h - a TLS handshake without gRPC, which says what is wrong. Private to common/rpc.
 *
 * gRPC tells a caller only that it could not connect. This opens a connection of its own, and reads
 * until the server has said something, because under TLS 1.3 a server refuses a client only after
 * the client's handshake. */
#ifndef PS_COMMON_RPC_TLS_HANDSHAKE_H
#define PS_COMMON_RPC_TLS_HANDSHAKE_H

#include "common/base/status.h"

#include <openssl/ssl.h>
#include <stdbool.h>
#include <stdint.h>

/* Why a handshake has failed; the texts are borrowed. */
typedef struct ps_handshake_end {
    const char *untaken; /* why this side does not accept the server's certificate; NULL: it does */
    bool is_plaintext;   /* the server does not speak TLS */
    const char *reason;  /* what libssl says about the server's refusal of this side */
} ps_handshake_end;

typedef struct ps_handshake {
    const char *address; /* host:port */
    SSL_CTX *context;    /* has the certificates; ps_handshake_try sets ALPN and verification */
    bool checks_host;    /* the certificate must be for the address's host */
    /* Checks the server's certificate, in PEM, after libssl has verified it; NULL: no further
     * check. */
    ps_status (*check)(const void *arg, const char *pem);
    /* Makes the status, UNAUTHENTICATED, with a text that describes the failure. */
    ps_status (*word)(const void *arg, const ps_handshake_end *end);
    const void *arg;
} ps_handshake;

/* Connects and makes the handshake, within `timeout_us` microseconds of waiting. Returns
 * UNAVAILABLE if nobody listens or answers, else what `word` returns. Blocks; any thread. */
PS_MUST_USE ps_status ps_handshake_try(const ps_handshake *handshake, int64_t timeout_us);

/* After a call of SSL returned `result`, waits until the socket, which does not block, is ready for
 * what SSL wants next. Returns false if SSL has failed, or if the time until_us (ps_clock_us) has
 * passed; then *timed_out is true. */
bool ps_handshake_wait(SSL *ssl, int fd, int64_t until_us, int result, bool *timed_out);

#endif
