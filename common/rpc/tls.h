/* SPDX-License-Identifier: Apache-2.0 */
/* tls.h - mutual TLS for the servers and channels of a loop.
 *
 * Both ends prove who they are by a certificate of one authority (common/pki/credentials.h). A
 * server accepts every member; its tables say what each may call (server.h). A channel is told whom
 * it expects. What counts is the principal that the certificate names and not its host names,
 * because addresses prove nothing. TLS 1.2 and 1.3, ALPN h2.
 *
 * The files are read again when they change, within PS_TLS_REFRESH_S seconds; open connections stay
 * open. Revoked certificates are refused at handshakes and when calls begin, and streams of their
 * owners are ended.
 *
 * A server may accept users without a certificate, by tokens (common/pki/tokens.h): then every call
 * carries "authorization: Bearer TOKEN". */
#ifndef PS_COMMON_RPC_TLS_H
#define PS_COMMON_RPC_TLS_H

#include "common/pki/credentials.h"
#include "common/pki/tokens.h"

enum { PS_TLS_REFRESH_S = 2 };

typedef struct ps_tls ps_tls;

/* Reads and checks the folder `dir`. The caller releases *out by ps_tls_release. The process must
 * have a loop. Fails as ps_credentials_check and ps_revoked_read do. */
PS_MUST_USE ps_status ps_tls_create(const char *dir, ps_tls **out);

/* Does the same as ps_tls_create for a user without a certificate: of the folder only root.pem is
 * read, and every call carries the token in the file `token` (ps_token_read). There is no
 * certificate of the program's own. */
PS_MUST_USE ps_status ps_tls_create_guest(const char *dir, const char *token, ps_tls **out);

/* Makes servers that are created from now on accept users by the tokens of a file, which is read
 * again when it changes. Fails as ps_tokens_read does, so with NOT_FOUND if there is no such
 * file. */
PS_MUST_USE ps_status ps_tls_take_tokens(ps_tls *tls, const char *file);

/* Releases the caller's reference; the object stays as long as a server or channel uses it. NULL is
 * allowed. */
void ps_tls_release(ps_tls *tls);

/* Returns the folder `dir`. */
const char *ps_tls_dir(const ps_tls *tls);

/* Returns what the program's own certificate said when `tls` was created; zeros if it has none. */
const ps_certificate *ps_tls_own(const ps_tls *tls);

/* Returns whether the certificate with this serial number, written as in ps_certificate, was
 * revoked. Any thread. */
bool ps_tls_has_revoked(ps_tls *tls, const char *serial);

/* Returns whether servers accept tokens. */
bool ps_tls_takes_tokens(const ps_tls *tls);

/* Who makes a call, and the credential that says so. */
typedef struct ps_tls_identity {
    ps_principal who;
    /* serial number of the certificate; "": the caller has a token */
    char serial[PS_PKI_SERIAL_BYTES];
    char token[PS_TOKEN_ID_BYTES]; /* id of the token; "": the caller has a certificate */
    /* when the certificate ends, in seconds since 1970; 0 for a token */
    int64_t not_after;
} ps_tls_identity;

/* Reads whom a certificate names that was not shown to gRPC: `n` bytes of DER. Returns
 * UNAUTHENTICATED if it is not of the authority, not valid now, or revoked. Any thread. */
PS_MUST_USE ps_status ps_tls_identify(ps_tls *tls, const void *der, size_t n, ps_tls_identity *out);

/* Reads to whom a token of `n` bytes belongs. Returns UNAUTHENTICATED if the token is not known or
 * has ended, or if servers accept no tokens. Any thread. */
PS_MUST_USE ps_status ps_tls_identify_token(ps_tls *tls, const char *text, size_t n,
                                            ps_tls_identity *out);

/* Writes a token for ps_channel_bring. With it a call of this process to its own server counts as a
 * call of `identity`, who has shown this process a certificate outside of gRPC. The token contains
 * a secret of the process. */
enum { PS_TLS_VOUCHED_BYTES = PS_SHA256_HEX_BYTES + PS_PKI_SERIAL_BYTES + PS_PRINCIPAL_TEXT_BYTES };
void ps_tls_vouch(const ps_tls *tls, const ps_tls_identity *identity,
                  char out[PS_TLS_VOUCHED_BYTES]);

/* Connects to host:port and makes a handshake, within `timeout_us` microseconds of waiting. The
 * server's certificate must name this kind and name. Returns UNAVAILABLE if nobody listens, and
 * UNAUTHENTICATED if one side does not accept the other; the text says which side and why. Blocks;
 * any thread. */
PS_MUST_USE ps_status ps_tls_probe(const ps_tls *tls, const char *address, ps_principal_kind kind,
                                   const char *name, int64_t timeout_us);

#endif
