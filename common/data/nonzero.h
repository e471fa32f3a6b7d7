/* SPDX-License-Identifier: Apache-2.0 */
/* nonzero.h - samples that are images stored as their non-zero bytes, x / 255 - 0.5. Private to
 * common/data. */
#ifndef PS_COMMON_DATA_NONZERO_H
#define PS_COMMON_DATA_NONZERO_H

#include "common/base/status.h"
#include "common/data/samples.h"

typedef struct ps_nonzero ps_nonzero;

/* Creates an empty collection. `scratch` and `memory_max` as in spill.h. */
ps_nonzero *ps_nonzero_create(uint32_t features, const char *scratch, size_t memory_max);
/* Frees the collection. NULL is allowed. Not to be called after ps_nonzero_end has succeeded,
 * because the samples then own it. */
void ps_nonzero_destroy(ps_nonzero *z);

/* Adds a sample x (features). Returns disk errors and RESOURCE_EXHAUSTED. */
PS_MUST_USE ps_status ps_nonzero_add(ps_nonzero *z, const uint8_t *x, uint8_t label);

/* Ends adding and sets *out, which takes z if the call succeeds. Call it once, before the first
 * read. */
PS_MUST_USE ps_status ps_nonzero_end(ps_nonzero *z, ps_samples **out);

#endif
