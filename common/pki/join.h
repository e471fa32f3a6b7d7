/* SPDX-License-Identifier: Apache-2.0 */
/* join.h - how a node without a certificate gets one: by a join token.
 *
 * A token is text that somebody pastes:
 *
 *     psgd-join:node/worker-1:15389:9F86...0A08:1b4f...ef6e
 *
 * for whom it is, the port where the coordinator listens for those who join, the SHA-256 of the
 * root certificate, and a secret of 256 random bits. It can be used once, until it ends. The folder
 * of the authority (authority.h) has a line for each in its file join-tokens, with the SHA-256 of
 * the secret only.
 *
 * The node connects by TLS, takes only a coordinator below that root, and sends
 *
 *     psgd-join 1 SECRET\n      and its request for a certificate, PEM
 *
 * The answer is "ok\n" and what ps_credentials_install takes, or "refused\n" and a text. How the
 * two travel says common/rpc/join_server.h. Any thread.
 */
#ifndef PS_COMMON_PKI_JOIN_H
#define PS_COMMON_PKI_JOIN_H

#include "common/base/sha256.h"
#include "common/base/strbuf.h"
#include "common/pki/certificate.h"

enum {
    PS_JOIN_PORT = 15389,          /* default of --join-listen */
    PS_JOIN_TOKEN_BYTES = 240,     /* of a token, with the NUL */
    PS_JOIN_TOKENS_MAX = 100,      /* that can still be used, of one authority */
    PS_JOIN_MESSAGE_MAX = 8 << 10, /* bytes of a request; an answer has PS_CRL_FILE_MAX at most */
    PS_JOIN_VALID_S = 600,         /* of a token, by default; */
    PS_JOIN_VALID_MAX_S = 86400
};

typedef struct ps_join_token {
    ps_principal who; /* a node */
    uint16_t port;
    char fingerprint[PS_SHA256_HEX_BYTES]; /* hexadecimal digits */
    char secret[PS_SHA256_HEX_BYTES];      /* lower-case hexadecimal digits */
} ps_join_token;

/* Parses a token. Fails with INVALID_ARGUMENT; the text does not repeat the token. */
PS_MUST_USE ps_status ps_join_token_parse(const char *text, ps_join_token *out);

/* Makes a token for `who` that ends after `valid_s` seconds, and stores
 * its line in the authority's folder `dir`. INVALID_ARGUMENT: not a node; RESOURCE_EXHAUSTED:
 * PS_JOIN_TOKENS_MAX wait. */
PS_MUST_USE ps_status ps_join_token_add(const char *dir, const ps_principal *who, uint16_t port,
                                        int64_t valid_s, char token[PS_JOIN_TOKEN_BYTES]);

/* Ends the tokens of the principal `which`, such as "node/worker-1": nobody joins by them any more.
 * *count is how many could have been used. */
PS_MUST_USE ps_status ps_join_tokens_end(const char *dir, const char *which, size_t *count);

/* Appends a node's request, whose PEM is `n` bytes. */
void ps_join_put_request(ps_strbuf *out, const char *secret, const char *pem, size_t n);

/* Reads a request of `n` bytes: its secret, 64 hexadecimal digits, and where its PEM is. Fails with
 * INVALID_ARGUMENT. */
PS_MUST_USE ps_status ps_join_read_request(const char *request, size_t n,
                                           char secret[PS_SHA256_HEX_BYTES], const char **pem,
                                           size_t *pem_n);

/* Appends a refusal, as the answer. UNAVAILABLE: the node may ask again, here or elsewhere. */
void ps_join_put_refusal(ps_strbuf *out, const ps_status *why);

/* Reads an answer of `n` bytes: *pem is the part for ps_credentials_install. A refusal is returned
 * as PERMISSION_DENIED with its text, one that may be asked again as UNAVAILABLE. */
PS_MUST_USE ps_status ps_join_read_answer(const char *answer, size_t n, const char **pem,
                                          size_t *pem_n);

/* Who has tried to join, for the audit; texts are empty as far as they are not known. */
typedef struct ps_joined {
    ps_principal who;           /* whom the request names */
    ps_certificate certificate; /* if it was issued */
} ps_joined;

/* Answers the request in `n` bytes: uses the token up and issues a certificate, valid for `valid_s`
 * seconds, with the authority in `dir`. Appends the answer, also if it is a refusal. Returns why it
 * is one:
 *
 * INVALID_ARGUMENT    it is no request, names hosts, or has another key than P-256
 * UNAUTHENTICATED     the token is not known here, was used or has ended
 * PERMISSION_DENIED   the token is for another
 * other               the authority cannot be used */
PS_MUST_USE ps_status ps_join_answer(const char *dir, const char *request, size_t n,
                                     int64_t valid_s, ps_strbuf *answer, ps_joined *out);

#endif
