/* SPDX-License-Identifier: Apache-2.0 */
/* guard_impl.h - how guard_tls.c has guard.c bound what it has decrypted. Private to the guard. */
#ifndef PS_COMMON_RPC_GUARD_IMPL_H
#define PS_COMMON_RPC_GUARD_IMPL_H

#include "common/rpc/flood.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Names an accepted connection, which may be closed by now. */
typedef struct ps_guard_ref {
    int fd;
    uint64_t id; /* 0: none */
} ps_guard_ref;

/* Finds the functions of libssl that guard_tls.c replaces. Returns whether they are there. */
bool ps_guard_find_tls(void);

/* Returns whether the process serves TLS. */
bool ps_guard_has_tls(void);

/* Finds the connection from which these encrypted bytes come: that of which this thread has just
 * read the same memory. Returns false if they come from elsewhere. */
bool ps_guard_fed(const void *bytes, size_t n, ps_guard_ref *out);

/* Counts n decrypted bytes of a connection by `flood`, which is the connection's. Pauses the
 * connection if it is too fast. Returns false if it floods: then it is ended, and gRPC shall not
 * see the bytes. */
bool ps_guard_take(const ps_guard_ref *ref, ps_flood *flood, const uint8_t *bytes, size_t n);

#endif
