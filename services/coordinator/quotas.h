/* SPDX-License-Identifier: Apache-2.0 */
/* quotas.h - how much a submitter may have at a time, as a file says (--quotas).
 *
 *   default:
 *     jobs: 20                 # queued and running
 *     workers: 16              # of these jobs together
 *     parameters: 50000000     # of the models of these jobs together
 *     artifact_bytes: 1.0e10   # of the files of all its jobs, also of those that are over
 *   submitter/sue:
 *     workers: 64
 *
 * What a submitter's own entry does not limit is limited by `default`, or not at all if `default`
 * does not limit it either. Only submitters have quotas. The file is YAML or JSON, and is read
 * again when it has changed. Any thread. */
#ifndef PS_COORDINATOR_QUOTAS_H
#define PS_COORDINATOR_QUOTAS_H

#include "common/pki/principal.h"

#include <stdint.h>

/* Calls X(constant, name) for each kind of quota. */
#define PS_QUOTA_KINDS(X)                                                                          \
    X(JOBS, "jobs")                                                                                \
    X(WORKERS, "workers")                                                                          \
    X(PARAMETERS, "parameters")                                                                    \
    X(ARTIFACT_BYTES, "artifact_bytes")

typedef enum ps_quota {
#define X(constant, name) PS_QUOTA_##constant,
    PS_QUOTA_KINDS(X)
#undef X
        PS_QUOTA_COUNT
} ps_quota;

/* An amount of each kind. */
typedef struct ps_amounts {
    uint64_t of[PS_QUOTA_COUNT];
} ps_amounts;

typedef struct ps_quotas ps_quotas;

/* Reads a file. Errors name the file, and the entry if one is wrong. Wrong content is
 * INVALID_ARGUMENT. */
PS_MUST_USE ps_status ps_quotas_create(const char *file, ps_quotas **out);
void ps_quotas_destroy(ps_quotas *quotas); /* NULL is allowed */

/* Reads the file again if it has changed, or could not be used the last time. If it cannot be used,
 * logs the reason once and keeps the quotas that were read before. Blocks on the disk; no other
 * function does, except ps_quotas_create. NULL is allowed. */
void ps_quotas_refresh(ps_quotas *quotas);

/* Writes how much a caller may have of each kind; UINT64_MAX: no limit. `quotas` NULL: nobody has a
 * limit. */
void ps_quotas_of(ps_quotas *quotas, const ps_principal *who, ps_amounts *most);

/* Checks that `used` plus `wanted` is within `most`, for each kind. Returns RESOURCE_EXHAUSTED,
 * with the numbers in the text, if not; *kind becomes the first kind that is exceeded. */
PS_MUST_USE ps_status ps_quotas_check(const ps_principal *who, const ps_amounts *most,
                                      const ps_amounts *used, const ps_amounts *wanted,
                                      ps_quota *kind);

const char *ps_quota_name(ps_quota kind);

#endif
