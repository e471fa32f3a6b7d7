/* SPDX-License-Identifier: Apache-2.0 */
/* kept_pushes.h - the newest contributions of a rank, as they were encoded. From them and a
 * checkpoint before, the state of a lost server is computed anew (replay).
 *
 * Whole clocks are kept, up to a bound of bytes; beyond it the oldest go. With them is what the
 * rank has said of its steps (rank_reports.h), which the lost server may have had alone. One thread
 * at a time.
 *
 * The file is one of common/base/state.h, magic "PSGDKEP1", version 2:
 *
 *   kind 1, first     u64 job; u32 rank; u32 whether it is known what the rank has said; if so u64
 *                     clock of the newest bytes, u64 where these begin, u64 bytes; bytes
 *   kind 2, by clock  ascending: u64 clock; u32 pushes; of each u32 block, slice
 *                     (PS_KEPT_ALL_SLICES: zeros for all; PS_KEPT_ROWS: rows); of rows
 *                     server and how many of its parts have rows, else 0; bytes of psgd.v1.Encoding
 *                     or RowGradients, bytes of payload; both
 */
#ifndef PS_COMMON_WIRE_KEPT_PUSHES_H
#define PS_COMMON_WIRE_KEPT_PUSHES_H

#include "common/base/state.h"
#include "common/job/plan.h"
#include "common/placement/placement.h"
#include "common/store/store.h"

#include "psgd/v1/parameter.pb-c.h"

#define PS_KEPT_ALL_SLICES UINT32_MAX
#define PS_KEPT_ROWS (UINT32_MAX - 1)

typedef struct ps_kept_pushes ps_kept_pushes;

/* Creates an empty one for a rank, of at most bytes_max > 0. The plan is kept. */
ps_kept_pushes *ps_kept_pushes_create(const ps_plan *plan, uint32_t rank, size_t bytes_max);
/* Frees it. NULL is allowed. */
void ps_kept_pushes_destroy(ps_kept_pushes *kept);

/* Begins a contribution, to a clock that is not before the last one. The calls up to the next one
 * are about it. */
void ps_kept_pushes_begin(ps_kept_pushes *kept, uint64_t clock, uint32_t block);
/* Adds a slice of it. One that is there already, as it is sent again, is left out. */
void ps_kept_pushes_add(ps_kept_pushes *kept, const Psgd__V1__Encoding *head, const uint8_t *bytes,
                        size_t len);
/* Adds a message with rows of it, to one of the `parts` parts of a server that have rows. One that
 * is sent again the caller leaves out. */
void ps_kept_pushes_add_rows(ps_kept_pushes *kept, uint32_t server, uint32_t parts,
                             const Psgd__V1__RowGradients *head, const uint8_t *bytes, size_t len);
/* Says that all slices of it are zeros. */
void ps_kept_pushes_zeros(ps_kept_pushes *kept);
/* Adds what the rank says with it. */
void ps_kept_pushes_say(ps_kept_pushes *kept, const uint8_t *bytes, size_t len, bool is_partial);

/* Drops the contributions to the clocks before `clock`: there is a checkpoint of it. If three of
 * these in a row were older than what was kept, nothing is kept any more. */
void ps_kept_pushes_forget(ps_kept_pushes *kept, uint64_t clock);

/* Writes the file, with the slices and rows of the servers for which is_lost (server_count) is
 * true. Returns the failure of `write`. */
PS_MUST_USE ps_status ps_kept_pushes_write(const ps_kept_pushes *kept,
                                           const ps_placement *placement, const bool *is_lost,
                                           ps_state_write_fn *write, void *arg);

/* Writes such a file with all slices of the newest `clocks` clocks, and without what was said. In
 * it each slice is on its own (ps_matrix_split), so that it can be sent to other parts than those
 * of `placement`, to which it was sent. */
PS_MUST_USE ps_status ps_kept_pushes_write_newest(const ps_kept_pushes *kept,
                                                  const ps_placement *placement, size_t clocks,
                                                  ps_state_write_fn *write, void *arg);

/* Returns the most bytes of such a file, of at most bytes_max of contributions. */
uint64_t ps_kept_file_bytes(size_t bytes_max);

/* A file that is read; bytes from outside. */
typedef struct ps_kept_file {
    ps_state_in in;
    uint32_t rank;
    bool has_said;
    uint64_t said_clock; /* of the newest bytes of `said`, which begin at said_at */
    size_t said_at, said_len;
    const uint8_t *said;
    uint64_t clock; /* of the contributions that are pushed next; UINT64_MAX: none are left */
} ps_kept_file;

/* Begins to read the file of a rank, (len) bytes, which are kept.
 *
 * DATA_LOSS            the bytes are no such file, cut, or damaged; names the offset
 * FAILED_PRECONDITION  it is of another job or rank */
PS_MUST_USE ps_status ps_kept_file_open(ps_kept_file *file, const ps_plan *plan, uint32_t rank,
                                        const uint8_t *bytes, size_t len);

/* Pushes the contributions to file->clock to the stores, by server (server_count; NULL: the slices
 * of this server are skipped), and goes to the next clock; with stores NULL skips all. Fails as
 * ps_store_push does, and with DATA_LOSS. */
PS_MUST_USE ps_status ps_kept_file_push(ps_kept_file *file, const ps_plan *plan,
                                        const ps_placement *placement, ps_store *const *stores);

/* A contribution of a file, as it was sent, with each slice on its own. */
typedef struct ps_kept_contribution {
    uint64_t clock;
    uint32_t block;
    bool is_nothing;           /* zeros for all slices; there are none */
    Psgd__V1__Encoding **head; /* (slice_count); owned */
    const uint8_t **bytes;     /* (slice_count): in the file */
    size_t *len;               /* (slice_count) */
} ps_kept_contribution;

/* Takes the contribution to file->clock, which has all slices once and is the only one to this
 * clock, and goes to the next clock. Fails with DATA_LOSS; *out can be freed in any case. */
PS_MUST_USE ps_status ps_kept_file_take(ps_kept_file *file, const ps_plan *plan,
                                        ps_kept_contribution *out);
/* Frees what it owns. All zeros are allowed. */
void ps_kept_contribution_fini(ps_kept_contribution *c, const ps_plan *plan);
/* Writes the encoding of a slice of it for `part`, which has the slice or a copy of it, as
 * ps_coder_encode does: of a variable that is sent whole, that of a leader. Returns the bytes. */
size_t ps_kept_contribution_encode(const ps_kept_contribution *c, const ps_plan *plan,
                                   const ps_placement *placement, uint32_t part, uint32_t slice,
                                   uint8_t *out, ps_encoding *head);
/* Keeps such a contribution as if it was made anew, for the parts of `placement`. */
void ps_kept_pushes_keep(ps_kept_pushes *kept, const ps_placement *placement,
                         const ps_kept_contribution *c);

/* Returns the bytes that the rank has said with its contributions to the clocks before `clock`, as
 * ps_rank_reports_at does; NULL: not known. */
const uint8_t *ps_kept_file_said(const ps_kept_file *file, uint64_t clock, size_t *len);

#endif
