/* SPDX-License-Identifier: Apache-2.0 */
/* tls.h - mutual TLS for the servers and channels of a loop.
 *
 * Both ends prove who they are by a certificate of one authority (common/pki/credentials.h). A
 * server takes any member; what each may call is in its tables (server.h). A channel says whom it
 * expects, because addresses prove nothing: the principal of the certificate counts, not its hosts.
 * TLS 1.2 and 1.3, ALPN h2.
 *
 * Files are read again when they change, within PS_TLS_REFRESH_S seconds; connections that are open
 * stay open. Revoked certificates are refused at handshakes and at the begin of calls, and streams
 * of their members are ended.
 *
 * A server may take users without a certificate, by tokens (common/pki/tokens.h): then every call
 * brings "authorization: Bearer TOKEN".
 */
#ifndef PS_COMMON_RPC_TLS_H
#define PS_COMMON_RPC_TLS_H

#include "common/pki/credentials.h"
#include "common/pki/tokens.h"

enum { PS_TLS_REFRESH_S = 2 };

typedef struct ps_tls ps_tls;

/* Reads and checks the folder `dir`; *out is released by ps_tls_release. The process must have a
 * loop. Errors are those of ps_credentials_check. */
PS_MUST_USE ps_status ps_tls_create(const char *dir, ps_tls **out);

/* The same for a user without a certificate: of the folder only root.pem is read, and every call
 * brings the token of the file `token` (ps_token_read). There is no own certificate. */
PS_MUST_USE ps_status ps_tls_create_guest(const char *dir, const char *token, ps_tls **out);

/* Has servers that are made from now on take users by the tokens of a file, which is read again
 * when it changes. Errors are those of ps_tokens_read. */
PS_MUST_USE ps_status ps_tls_take_tokens(ps_tls *tls, const char *file);

/* Releases it; it lives on as long as a server or channel uses it. NULL is allowed. */
void ps_tls_release(ps_tls *tls);

/* Returns the folder of the files. */
const char *ps_tls_dir(const ps_tls *tls);

/* Returns what the program's own certificate said when it was created; all 0 without one. */
const ps_certificate *ps_tls_own(const ps_tls *tls);

/* Returns whether the certificate of this serial number, as in ps_certificate, was revoked. Any
 * thread. */
bool ps_tls_has_revoked(ps_tls *tls, const char *serial);

/* Returns whether servers take tokens. */
bool ps_tls_takes_tokens(const ps_tls *tls);

/* Who makes a call, and by what it is known. */
typedef struct ps_tls_identity {
    ps_principal who;
    char serial[PS_PKI_SERIAL_BYTES]; /* of its certificate; "": it has a token */
    char token[PS_TOKEN_ID_BYTES];    /* the id of the token, else "" */
    int64_t not_after;                /* of its certificate, in seconds since 1970; else 0 */
} ps_tls_identity;

/* Reads who has a certificate that came without gRPC, `n` bytes of DER. Fails with UNAUTHENTICATED
 * if it is not of the authority, not valid now or revoked. Any thread. */
PS_MUST_USE ps_status ps_tls_identify(ps_tls *tls, const void *der, size_t n, ps_tls_identity *out);

/* Reads who has the token of `n` bytes. Fails with UNAUTHENTICATED if it is not known, has ended or
 * tokens are not taken. Any thread. */
PS_MUST_USE ps_status ps_tls_identify_token(ps_tls *tls, const char *text, size_t n,
                                            ps_tls_identity *out);

/* Writes what a call of this process to its own server brings as token to be one of `identity`, who
 * has shown a certificate without gRPC (ps_channel_bring). It has a secret of the process. */
enum { PS_TLS_VOUCHED_BYTES = PS_SHA256_HEX_BYTES + PS_PKI_SERIAL_BYTES + PS_PRINCIPAL_TEXT_BYTES };
void ps_tls_vouch(const ps_tls *tls, const ps_tls_identity *identity,
                  char out[PS_TLS_VOUCHED_BYTES]);

/* Connects to host:port and shakes hands, within `timeout_us` of waiting. Fails with UNAVAILABLE if
 * nobody listens, and with UNAUTHENTICATED if one side does not take the other; the text says which
 * and why. Blocks; any thread. */
PS_MUST_USE ps_status ps_tls_probe(const ps_tls *tls, const char *address, ps_principal_kind kind,
                                   const char *name, int64_t timeout_us);

#endif
