/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_tokens.c - any bytes as a file of tokens.
 *
 * What is read must be of users, and each token must be found by its id as long as it lasts.
 */
#include "common/pki/tokens.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ps_tokens tokens;
    ps_status st = ps_tokens_parse("tokens", (const char *)data, size, &tokens);

    for (size_t i = 0; ps_is_ok(&st) && i < tokens.count; i++) {
        const ps_token *t = &tokens.items[i];

        if (t->who.kind == PS_PRINCIPAL_NONE || t->who.kind == PS_PRINCIPAL_NODE ||
            t->who.kind == PS_PRINCIPAL_COORDINATOR || strlen(t->digest) != 64 ||
            strncmp(t->id, t->digest, strlen(t->id)) != 0 ||
            (t->not_after > 0 && !ps_tokens_has(&tokens, t->id, t->not_after - 1))) {
            abort();
        }
    }
    if (ps_is_ok(&st) && ps_tokens_find(&tokens, (const char *)data, size) != NULL) {
        abort(); /* a file that has its own SHA-256 */
    }
    ps_tokens_fini(&tokens);
    return 0;
}
