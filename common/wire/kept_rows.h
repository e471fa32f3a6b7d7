/* SPDX-License-Identifier: Apache-2.0 */
/* kept_rows.h - collects the rows of one contribution out of a file of kept_pushes.h and pushes
 * them to stores. The rows had been sent as numbered messages to each part of a server. Here one
 * store has the rows of all parts of a server, and takes them together in ascending order of their
 * keys. One thread at a time. */
#ifndef PS_COMMON_WIRE_KEPT_ROWS_H
#define PS_COMMON_WIRE_KEPT_ROWS_H

#include "common/job/plan.h"
#include "common/store/store.h"

#include "psgd/v1/parameter.pb-c.h"

typedef struct ps_kept_rows ps_kept_rows;

/* Creates an empty collection. Keeps the plan. */
ps_kept_rows *ps_kept_rows_create(const ps_plan *plan, uint32_t server_count);
void ps_kept_rows_destroy(ps_kept_rows *rows); /* NULL is allowed */

/* Adds a message that was sent to one part (thread) of a server. `parts`: how many of the server's
 * parts have rows; ps_kept_rows_push needs the last message to each of them. `packed`
 * (packed_bytes) is a psgd.v1.RowGradients, `bytes` (len) its values; both are untrusted. Returns
 * DATA_LOSS or INVALID_ARGUMENT if they are wrong. */
PS_MUST_USE ps_status ps_kept_rows_add(ps_kept_rows *rows, uint32_t server, uint32_t parts,
                                       const uint8_t *packed, size_t packed_bytes,
                                       const uint8_t *bytes, size_t len);

/* Pushes what was added to the stores (server_count; NULL: that server is skipped) as the
 * contribution (worker, clock, contributor), and empties the collection. If the last message to
 * some part of a server is missing, that server gets nothing. Fails as ps_store_push_rows does. */
PS_MUST_USE ps_status ps_kept_rows_push(ps_kept_rows *rows, uint32_t worker, uint64_t clock,
                                        uint32_t contributor, ps_store *const *stores);

#endif
