/* SPDX-License-Identifier: Apache-2.0 */
/* join.h - how a node without a certificate gets one: by a join token.
 *
 * A token is text that a person copies to the node:
 *
 *   psgd-join:node/worker-1:15389:9F86...0A08:1b4f...ef6e
 *
 * It has the principal for which it is, the port on which the coordinator listens for nodes that
 * join, the SHA-256 of the root certificate, and a secret of 256 random bits. It can be used once,
 * until it ends. The folder of the authority (authority.h) has a line for each token in its file
 * join-tokens, with only the SHA-256 of the secret.
 *
 * The node connects by TLS, accepts only a coordinator below that root, and sends
 *
 *   psgd-join 1 SECRET\n      and its request for a certificate, PEM
 *
 * The answer is "ok\n" and what ps_credentials_install takes, or "refused\n" and a text; or, if the
 * node may ask again, "later\n" and a text. common/rpc/join_server.h says how both are sent. Any
 * thread. */
#ifndef PS_COMMON_PKI_JOIN_H
#define PS_COMMON_PKI_JOIN_H

#include "common/base/sha256.h"
#include "common/base/strbuf.h"
#include "common/pki/certificate.h"

enum {
    PS_JOIN_PORT = 15389,      /* default of --join-listen */
    PS_JOIN_TOKEN_BYTES = 240, /* bytes of a token with its NUL, at most */
    PS_JOIN_TOKENS_MAX = 100,  /* most tokens of one authority that can still be used */
    /* most bytes of a request; an answer has at most PS_CRL_FILE_MAX */
    PS_JOIN_MESSAGE_MAX = 8 << 10,
    /* seconds for which a token can be used, by default and at most */
    PS_JOIN_VALID_S = 600,
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

/* Makes a token for `who`, which ends after `valid_s` seconds, and stores its line in the
 * authority's folder `dir`. INVALID_ARGUMENT: `who` is not a node; RESOURCE_EXHAUSTED:
 * PS_JOIN_TOKENS_MAX tokens can still be used. */
PS_MUST_USE ps_status ps_join_token_add(const char *dir, const ps_principal *who, uint16_t port,
                                        int64_t valid_s, char token[PS_JOIN_TOKEN_BYTES]);

/* Ends the tokens of the principal `which`, such as "node/worker-1", so that they cannot be used
 * any more. *count becomes how many could still have been used. */
PS_MUST_USE ps_status ps_join_tokens_end(const char *dir, const char *which, size_t *count);

/* Appends a node's request to `out`: the secret of its token, and `n` bytes of PEM. */
void ps_join_put_request(ps_strbuf *out, const char *secret, const char *pem, size_t n);

/* Reads a request of `n` bytes: its secret, 64 hexadecimal digits, and where its PEM is. Fails with
 * INVALID_ARGUMENT. */
PS_MUST_USE ps_status ps_join_read_request(const char *request, size_t n,
                                           char secret[PS_SHA256_HEX_BYTES], const char **pem,
                                           size_t *pem_n);

/* Appends the answer that refuses a request because of `why`. If its code is UNAVAILABLE, the node
 * may ask again, here or elsewhere. */
void ps_join_put_refusal(ps_strbuf *out, const ps_status *why);

/* Reads an answer of `n` bytes; *pem becomes the part for ps_credentials_install. If the answer is
 * a refusal, returns PERMISSION_DENIED with its text, or UNAVAILABLE if the node may ask again;
 * INTERNAL if the bytes are no answer. */
PS_MUST_USE ps_status ps_join_read_answer(const char *answer, size_t n, const char **pem,
                                          size_t *pem_n);

/* Who has tried to join, for the audit. What is not known is empty. */
typedef struct ps_joined {
    ps_principal who;           /* whom the request names */
    ps_certificate certificate; /* the certificate, if one was issued */
} ps_joined;

/* Answers the request in `n` bytes: uses up the token and issues a certificate, valid for `valid_s`
 * seconds, with the authority in `dir`. Appends the answer, a refusal too. Returns OK, or why it
 * refuses:
 *
 * INVALID_ARGUMENT    it is no request, names hosts, or has another key than P-256
 * UNAUTHENTICATED     the token is not known here, was used or has ended
 * PERMISSION_DENIED   the token is for another principal
 * other               the authority cannot be used
 */
PS_MUST_USE ps_status ps_join_answer(const char *dir, const char *request, size_t n,
                                     int64_t valid_s, ps_strbuf *answer, ps_joined *out);

#endif
