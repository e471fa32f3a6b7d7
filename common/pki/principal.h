/* SPDX-License-Identifier: Apache-2.0 */
/* principal.h - whom a certificate names: KIND/NAME, such as node/worker-1.
 *
 * In a certificate a principal is the URI psgd://KIND/NAME. Any thread.
 */
#ifndef PS_COMMON_PKI_PRINCIPAL_H
#define PS_COMMON_PKI_PRINCIPAL_H

#include "common/base/plain_name.h"
#include "common/base/status.h"

/* Calls X(constant, name) for each kind of principal. */
#define PS_PRINCIPAL_KINDS(X)                                                                      \
    X(ADMIN, "admin")                                                                              \
    X(SUBMITTER, "submitter")                                                                      \
    X(OBSERVER, "observer")                                                                        \
    X(NODE, "node")                                                                                \
    X(COORDINATOR, "coordinator")

typedef enum ps_principal_kind {
    PS_PRINCIPAL_NONE, /* nobody is named */
#define X(constant, name) PS_PRINCIPAL_##constant,
    PS_PRINCIPAL_KINDS(X)
#undef X
} ps_principal_kind;

enum {
    PS_PRINCIPAL_NAME_BYTES = PS_PLAIN_NAME_NODE + 1, /* NAME and the NUL */
    PS_PRINCIPAL_TEXT_BYTES = 80,                     /* KIND/NAME and the NUL */
    PS_PRINCIPAL_URI_BYTES = 7 + 80                   /* psgd://KIND/NAME and the NUL */
};

typedef struct ps_principal {
    ps_principal_kind kind;
    char name[PS_PRINCIPAL_NAME_BYTES];
} ps_principal;

/* Parses "node/worker-1". Fails with INVALID_ARGUMENT, which has the text and what is allowed. */
PS_MUST_USE ps_status ps_principal_parse(const char *text, ps_principal *out);

/* Parses "psgd://node/worker-1". Fails as ps_principal_parse does. */
PS_MUST_USE ps_status ps_principal_parse_uri(const char *uri, ps_principal *out);

/* Writes "node/worker-1"; "nobody" if the kind is NONE. Returns `out`. */
const char *ps_principal_text(const ps_principal *who, char out[PS_PRINCIPAL_TEXT_BYTES]);

/* Writes "psgd://node/worker-1". Returns `out`. */
const char *ps_principal_uri(const ps_principal *who, char out[PS_PRINCIPAL_URI_BYTES]);

/* Returns whether kind and name are the same. */
bool ps_principal_is(const ps_principal *who, ps_principal_kind kind, const char *name);

/* Returns "node"; "nobody" for NONE. */
const char *ps_principal_kind_name(ps_principal_kind kind);

#endif
