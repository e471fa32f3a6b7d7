/* SPDX-License-Identifier: Apache-2.0 */
/* protect.h - how a service protects its links, by its flags --tls-dir and --insecure. */
#ifndef PS_COMMON_RPC_PROTECT_H
#define PS_COMMON_RPC_PROTECT_H

#include "common/rpc/loop.h"
#include "common/rpc/tls.h"

/* The values are those of LinkProtection (membership.proto). */
typedef enum ps_protection {
    PS_PROTECTION_LOOPBACK = 1, /* plaintext, on loopback */
    PS_PROTECTION_INSECURE = 2, /* plaintext, open to other hosts because of --insecure */
    PS_PROTECTION_TLS = 3
} ps_protection;

#define PS_PROTECT_TLS_HELP                                                                        \
    "mutual TLS on every link, with root.pem and identity.pem of this folder (psgd pki)"
#define PS_PROTECT_INSECURE_HELP                                                                   \
    "allow other hosts to connect without TLS: whoever reaches the port can use it"

/* What a service was told. */
typedef struct ps_protect_conf {
    const char *program; /* "psgd-worker" */
    const char *listen;  /* complete host:port */
    const char *tls_dir; /* NULL or "": none */
    const char *tokens;  /* file of the tokens of users; NULL or "": none */
    bool is_insecure;
    ps_principal_kind kind; /* kind of principal that the service's own certificate must name */
} ps_protect_conf;

/* Checks that the flags fit together, and that a service may listen on conf->listen: beyond
 * loopback it needs TLS, or --insecure. Returns INVALID_ARGUMENT, which says what to do. */
PS_MUST_USE ps_status ps_protect_check(const ps_protect_conf *conf);

/* Checks as ps_protect_check does whether a service may listen on `at`, complete host:port, which
 * the flag `flag` has set. `more`, for the text of the error: flags that the service then needs
 * beside --tls-dir, such as " --tokens FILE". */
PS_MUST_USE ps_status ps_protect_check_at(const ps_protect_conf *conf, const char *flag,
                                          const char *at, const char *more);

/* Reads the folder of the certificate, if there is one, and makes the loop use it. *tls is NULL in
 * plaintext; the caller releases it after the loop. Returns FAILED_PRECONDITION if the certificate
 * is of another kind than the service needs; else fails as ps_tls_create does. */
PS_MUST_USE ps_status ps_protect_loop(ps_loop *loop, const ps_protect_conf *conf, ps_tls **tls);

/* Returns how a service on this loop that listens on `listen` is protected. */
ps_protection ps_protection_of(const ps_loop *loop, const char *listen);

#endif
