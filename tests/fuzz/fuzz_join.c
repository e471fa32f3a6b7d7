/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_join.c - any bytes as a join token, as the request of who joins, and as its answer.
 *
 * A token that is read must be of a node; a request must have a secret of 64 digits; parts lie
 * within the bytes.
 */
#include "common/pki/join.h"
#include "common/pki/request.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_token(const char *text)
{
    ps_join_token token;
    ps_status st = ps_join_token_parse(text, &token);

    if (ps_is_ok(&st) && (token.who.kind != PS_PRINCIPAL_NODE || token.port == 0 ||
                          strlen(token.secret) != 64 || strlen(token.fingerprint) != 64)) {
        abort();
    }
}

static void read_request(const char *bytes, size_t n)
{
    char secret[PS_SHA256_HEX_BYTES];
    const char *pem;
    size_t pem_n;
    ps_request request;
    ps_status st = ps_join_read_request(bytes, n, secret, &pem, &pem_n);

    if (!ps_is_ok(&st)) {
        return;
    }
    if (strlen(secret) != 64 || n > PS_JOIN_MESSAGE_MAX || pem < bytes ||
        pem + pem_n != bytes + n) {
        abort();
    }
    st = ps_request_read("request", pem, pem_n, &request);
    if (ps_is_ok(&st) && request.subject.who.kind == PS_PRINCIPAL_NONE) {
        abort();
    }
}

static void read_answer(const char *bytes, size_t n)
{
    const char *pem;
    size_t pem_n;
    ps_status st = ps_join_read_answer(bytes, n, &pem, &pem_n);

    if (ps_is_ok(&st) && (pem < bytes || pem + pem_n != bytes + n)) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);

    if (text == NULL) {
        abort();
    }
    memcpy(text, data, size);
    text[size] = '\0';
    read_token(text);
    read_request(text, size);
    read_answer(text, size);
    free(text);
    return 0;
}
