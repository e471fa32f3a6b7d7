/* SPDX-License-Identifier: Apache-2.0 */
/* kept_rows.h - the rows of one contribution out of a file of kept_pushes.h, on their way to the
 * stores. A contribution's rows came in messages to each part of a server, numbered there; a store
 * of all of the server takes them together, in the order of their keys. One thread at a time. */
#ifndef PS_COMMON_WIRE_KEPT_ROWS_H
#define PS_COMMON_WIRE_KEPT_ROWS_H

#include "common/job/plan.h"
#include "common/store/store.h"

#include "psgd/v1/parameter.pb-c.h"

typedef struct ps_kept_rows ps_kept_rows;

/* Creates an empty one. The plan is kept. */
ps_kept_rows *ps_kept_rows_create(const ps_plan *plan, uint32_t server_count);
void ps_kept_rows_destroy(ps_kept_rows *rows); /* NULL is allowed */

/* Adds a message to one of the `parts` parts of a server that have rows: `packed` (packed_bytes) is
 * a psgd.v1.RowGradients, `bytes` (len) its values. They may be anything. Fails with DATA_LOSS or
 * INVALID_ARGUMENT. */
PS_MUST_USE ps_status ps_kept_rows_add(ps_kept_rows *rows, uint32_t server, uint32_t parts,
                                       const uint8_t *packed, size_t packed_bytes,
                                       const uint8_t *bytes, size_t len);

/* Pushes what was added as the contribution (worker, clock, contributor) to the stores, by server
 * (server_count; NULL: skipped), and begins anew. A server of which a part lacks its last message
 * gets nothing. Fails as ps_store_push_rows does. */
PS_MUST_USE ps_status ps_kept_rows_push(ps_kept_rows *rows, uint32_t worker, uint64_t clock,
                                        uint32_t contributor, ps_store *const *stores);

#endif
