/* SPDX-License-Identifier: Apache-2.0 */
/* secret.c - see secret.h. */
#include "common/pki/secret.h"

#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <stdio.h>
#include <sys/resource.h>

void ps_secret_keep_from_dumps(void)
{
    struct rlimit none = {0, 0};

    (void)setrlimit(RLIMIT_CORE, &none); /* cannot fail: a process may always lower its limit */
}

ps_status ps_secret_draw(char out[PS_SHA256_HEX_BYTES])
{
    unsigned char secret[(PS_SHA256_HEX_BYTES - 1) / 2];

    ps_secret_keep_from_dumps();
    if (RAND_priv_bytes(secret, sizeof secret) != 1) {
        return ps_fail(PS_INTERNAL, "no random bytes");
    }
    for (size_t i = 0; i < sizeof secret; i++) {
        snprintf(out + 2 * i, 3, "%02x", secret[i]);
    }
    OPENSSL_cleanse(secret, sizeof secret);
    return ps_ok();
}
