/* SPDX-License-Identifier: Apache-2.0 */
/* error.h - the error of a failed call: status, reason, metadata and wrong fields.
 *
 * Every failed call carries one google.rpc.ErrorInfo (reason, domain "psgd.v1", metadata) in
 * grpc-status-details-bin. It also carries a google.rpc.BadRequest if fields of the request were
 * wrong.
 */
#ifndef PS_COMMON_RPC_ERROR_H
#define PS_COMMON_RPC_ERROR_H

#include "common/base/status.h"

#include <stddef.h>

enum { PS_ERROR_META_MAX = 8, PS_ERROR_VIOLATIONS_MAX = 32 };

typedef struct ps_violation {
    char field[96]; /* path in the request, such as "spec.optimizer.params.lr" */
    /* the value and what is allowed; long enough for the names of all plugins of a kind */
    char text[512];
} ps_violation;

typedef struct ps_error {
    ps_status status;
    char reason[64]; /* UPPER_SNAKE; by default the name of the status code */
    size_t meta_count;
    struct {
        char key[32], value[96];
    } meta[PS_ERROR_META_MAX];
    /* violations beyond the array are dropped and counted in violations_dropped */
    size_t violation_count;
    size_t violations_dropped;
    ps_violation violations[PS_ERROR_VIOLATIONS_MAX];
} ps_error;

/* Makes an error without metadata and violations. A `reason` that is NULL or "" becomes the name
 * of the status code. */
void ps_error_init(ps_error *e, ps_status status, const char *reason);
PS_PRINTF(3, 4) void ps_error_meta(ps_error *e, const char *key, const char *fmt, ...);
PS_PRINTF(3, 4) void ps_error_violate(ps_error *e, const char *field, const char *fmt, ...);

#endif
