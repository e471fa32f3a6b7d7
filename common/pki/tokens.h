/* SPDX-License-Identifier: Apache-2.0 */
/* tokens.h - a file of tokens: secrets by which users prove who they are without a certificate.
 *
 * A token is "psgd_" and 64 hexadecimal digits, 256 random bits. The file has a line for each:
 *
 *     submitter/sue 1798675200 9f86d081884c7d65...
 *
 * the principal, when it ends (seconds since 1970) and the SHA-256 of the token. Empty lines and
 * lines that begin with # are left out. A file that others may write is refused. Any thread.
 */
#ifndef PS_COMMON_PKI_TOKENS_H
#define PS_COMMON_PKI_TOKENS_H

#include "common/base/sha256.h"
#include "common/pki/principal.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PS_TOKENS_MAX = 1000,
    PS_TOKEN_BYTES = 5 + 64 + 1, /* bytes of a token, with the NUL */
    PS_TOKEN_ID_BYTES = 13       /* the first 12 digits of its SHA-256, and the NUL */
};

typedef struct ps_token {
    ps_principal who; /* an admin, submitter or observer */
    int64_t not_after;
    char digest[PS_SHA256_HEX_BYTES];
    char id[PS_TOKEN_ID_BYTES];
} ps_token;

/* Reads a user's own token: a file with nothing else, for which others have no rights. Errors name
 * the file and do not repeat its content. */
PS_MUST_USE ps_status ps_token_read(const char *file, char token[PS_TOKEN_BYTES]);

typedef struct ps_tokens {
    ps_token *items; /* (count), in the order of the file */
    size_t count;
} ps_tokens;

/* Reads a file. Errors name file and line. The caller frees *out by ps_tokens_fini. */
PS_MUST_USE ps_status ps_tokens_read(const char *file, ps_tokens *out);
void ps_tokens_fini(ps_tokens *tokens);

/* Reads the content of a file, `n` bytes; `what` is how errors begin. Otherwise as ps_tokens_read.
 */
PS_MUST_USE ps_status ps_tokens_parse(const char *what, const char *text, size_t n, ps_tokens *out);

/* Returns the token with this text of n bytes, or NULL; it may have ended. Takes the same time
 * whatever the text has in common with a token. */
const ps_token *ps_tokens_find(const ps_tokens *tokens, const char *text, size_t n);

/* Returns whether there is a token of this id that has not ended. */
bool ps_tokens_has(const ps_tokens *tokens, const char *id, int64_t now_s);

/* Draws a token for a user and adds it to the file, which is created with mode 0600. `token`
 * receives its text, which is nowhere else. Fails with INVALID_ARGUMENT if `who` is no user, with
 * RESOURCE_EXHAUSTED if the file has PS_TOKENS_MAX tokens, and with UNAVAILABLE if another program
 * holds it for 5 s. */
PS_MUST_USE ps_status ps_tokens_add(const char *file, const ps_principal *who, int64_t not_after,
                                    char token[PS_TOKEN_BYTES], ps_token *out);

/* Removes the token of an id, or all of a principal. *count is how many; NOT_FOUND if there is
 * none. */
PS_MUST_USE ps_status ps_tokens_remove(const char *file, const char *which, size_t *count);

#endif
