/* SPDX-License-Identifier: Apache-2.0 */
/* error.h - what travels with a failure besides code and text.
 *
 * Every failed call carries one google.rpc.ErrorInfo (reason, domain
 * "psgd.v1", metadata) in grpc-status-details-bin, and a google.rpc.BadRequest
 * when fields of the request were wrong.
 */
#ifndef PS_COMMON_RPC_ERROR_H
#define PS_COMMON_RPC_ERROR_H

#include "common/base/status.h"

#include <stddef.h>

enum { PS_ERROR_META_MAX = 8, PS_ERROR_VIOLATIONS_MAX = 32 };

typedef struct ps_violation {
    char field[96]; /* path in the request: "spec.optimizer.params.lr" */
    char text[512]; /* the value, and what is allowed: the names of all plugins of a kind fit */
} ps_violation;

typedef struct ps_error {
    ps_status status;
    char reason[64]; /* UPPER_SNAKE; "": the code's name */
    size_t meta_count;
    struct {
        char key[32], value[96];
    } meta[PS_ERROR_META_MAX];
    size_t violation_count; /* further ones are counted in dropped */
    size_t violations_dropped;
    ps_violation violations[PS_ERROR_VIOLATIONS_MAX];
} ps_error;

/* An error with a reason and no metadata yet. `reason` NULL: the code's name. */
void ps_error_init(ps_error *e, ps_status status, const char *reason);
PS_PRINTF(3, 4) void ps_error_meta(ps_error *e, const char *key, const char *fmt, ...);
PS_PRINTF(3, 4) void ps_error_violate(ps_error *e, const char *field, const char *fmt, ...);

#endif
