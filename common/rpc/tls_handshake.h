/* SPDX-License-Identifier: Apache-2.0 */
/* tls_handshake.h - a handshake of psgd's own, which says what is wrong. Private to common/rpc.
 *
 * gRPC tells a caller only that it could not connect. This connects beside it, and reads until the
 * server has said something: under TLS 1.3 a server refuses a client after the client's handshake.
 */
#ifndef PS_COMMON_RPC_TLS_HANDSHAKE_H
#define PS_COMMON_RPC_TLS_HANDSHAKE_H

#include "common/base/status.h"

#include <openssl/ssl.h>
#include <stdbool.h>
#include <stdint.h>

/* Why a handshake has failed; texts are borrowed. */
typedef struct ps_handshake_end {
    const char *untaken; /* why the server's certificate is not taken here; NULL: it is taken */
    bool is_plaintext;   /* the server does not speak TLS */
    const char *reason;  /* what libssl says of the server's refusal */
} ps_handshake_end;

typedef struct ps_handshake {
    const char *address; /* host:port */
    SSL_CTX *context;    /* with the files; ALPN and verification are set here */
    bool checks_host;    /* the certificate must be of the address's host */
    /* Checks the server's certificate, which libssl has verified, in PEM; NULL: no more checks. */
    ps_status (*check)(const void *arg, const char *pem);
    /* Words a failure, as UNAUTHENTICATED. */
    ps_status (*word)(const void *arg, const ps_handshake_end *end);
    const void *arg;
} ps_handshake;

/* Connects and shakes hands, within `timeout_us` of waiting. Fails with UNAVAILABLE if nobody
 * listens or answers. Blocks; any thread. */
PS_MUST_USE ps_status ps_handshake_try(const ps_handshake *handshake, int64_t timeout_us);

/* Waits for what SSL wants after a call of it that gave `result`, on a socket that does not block.
 * Returns false if SSL has failed or the deadline, of ps_clock_us, has passed. */
bool ps_handshake_wait(SSL *ssl, int fd, int64_t until_us, int result, bool *timed_out);

#endif
