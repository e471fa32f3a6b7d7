/* SPDX-License-Identifier: Apache-2.0 */
/* kept_pushes.h - a rank keeps its newest contributions as they were encoded. From them and an
 * earlier checkpoint the state of a lost server is computed anew (a replay).
 *
 * Contributions are kept by whole clocks, up to a bound of bytes; beyond it the oldest clocks are
 * dropped. What does not fit of a clock that alone exceeds the bound is left out. The rank also
 * keeps its reports (rank_reports.h), which a lost server may have been the only one to have. One
 * thread at a time.
 *
 * The file is one of common/base/state.h, magic "PSGDKEP1", version 2:
 *
 *   kind 1, first     u64 job; u32 rank; u32 whether the rank's reports are known; if so u64
 *                     clock of the newest report, u64 offset at which it begins, u64 number of
 *                     bytes of all reports; these bytes
 *   kind 2, by clock  ascending: u64 clock; u32 number of pushes; of each push u32 block, slice
 *                     (PS_KEPT_ALL_SLICES: all slices are zeros; PS_KEPT_ROWS: rows); u32 server
 *                     and number of its parts that have rows, or 0 and 0 for slices; u32 bytes of
 *                     psgd.v1.Encoding or RowGradients, u32 bytes of payload; both
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

/* Creates an empty one for a rank. bytes_max, > 0, bounds the kept contributions. Keeps the
 * plan. */
ps_kept_pushes *ps_kept_pushes_create(const ps_plan *plan, uint32_t rank, size_t bytes_max);
/* Frees the kept contributions. NULL is allowed. */
void ps_kept_pushes_destroy(ps_kept_pushes *kept);

/* Begins a contribution, to the clock of the last one or a later clock. The calls up to the next
 * ps_kept_pushes_begin are about this contribution. */
void ps_kept_pushes_begin(ps_kept_pushes *kept, uint64_t clock, uint32_t block);
/* Adds a slice of the contribution. Does nothing if the contribution has the slice already, because
 * it is sent again. */
void ps_kept_pushes_add(ps_kept_pushes *kept, const Psgd__V1__Encoding *head, const uint8_t *bytes,
                        size_t len);
/* Adds a message with rows of the contribution. `parts`: number of parts of the server that have
 * rows. A message that is sent again must not be added. */
void ps_kept_pushes_add_rows(ps_kept_pushes *kept, uint32_t server, uint32_t parts,
                             const Psgd__V1__RowGradients *head, const uint8_t *bytes, size_t len);
/* Notes that all slices of the contribution are zeros. */
void ps_kept_pushes_zeros(ps_kept_pushes *kept);
/* Adds the rank's report that goes with the contribution. */
void ps_kept_pushes_say(ps_kept_pushes *kept, const uint8_t *bytes, size_t len, bool is_partial);

/* Drops the contributions to the clocks before `clock`, because there is a checkpoint of it; the
 * newest clock always stays. If three checkpoints in a row were of clocks before the oldest one
 * that was kept, the bound is too small for a replay, and contributions are not kept any more. */
void ps_kept_pushes_forget(ps_kept_pushes *kept, uint64_t clock);

/* Writes the file with those slices and rows that belong to servers whose is_lost (server_count) is
 * true. Returns the failure of `write`. */
PS_MUST_USE ps_status ps_kept_pushes_write(const ps_kept_pushes *kept,
                                           const ps_placement *placement, const bool *is_lost,
                                           ps_state_write_fn *write, void *arg);

/* Writes the file with all slices and rows of the newest `clocks` clocks, and without reports. Each
 * slice has its own encoding in it (ps_matrix_split), so that it can be sent to other parts than
 * those of `placement`, to which it was sent. Returns the failure of `write`. */
PS_MUST_USE ps_status ps_kept_pushes_write_newest(const ps_kept_pushes *kept,
                                                  const ps_placement *placement, size_t clocks,
                                                  ps_state_write_fn *write, void *arg);

/* Returns the most bytes that a file can have if contributions are bounded by bytes_max. */
uint64_t ps_kept_file_bytes(size_t bytes_max);

/* A file that is being read. Its bytes come from outside. */
typedef struct ps_kept_file {
    ps_state_in in;
    uint32_t rank;
    bool has_said; /* the rank's reports are in the file */
    /* clock of the newest report in `said`; said_at: offset at which that report begins */
    uint64_t said_clock;
    size_t said_at, said_len;
    const uint8_t *said;
    /* clock of the contributions that come next in the file; UINT64_MAX: none are left */
    uint64_t clock;
} ps_kept_file;

/* Begins to read the file of a rank: `bytes` (len), which are borrowed until the file has been
 * read.
 *
 * DATA_LOSS            the bytes are no such file, cut, or damaged; names the offset
 * FAILED_PRECONDITION  it is of another job or rank
 */
PS_MUST_USE ps_status ps_kept_file_open(ps_kept_file *file, const ps_plan *plan, uint32_t rank,
                                        const uint8_t *bytes, size_t len);

/* Pushes the contributions to file->clock to the stores (server_count), one of each server, and
 * goes to the next clock. A NULL element: what belongs to that server is skipped. `stores` NULL:
 * everything is skipped. Fails as ps_store_push does, and with DATA_LOSS. */
PS_MUST_USE ps_status ps_kept_file_push(ps_kept_file *file, const ps_plan *plan,
                                        const ps_placement *placement, ps_store *const *stores);

/* A contribution out of a file, encoded as it was sent, with an encoding for each slice. */
typedef struct ps_kept_contribution {
    uint64_t clock;
    uint32_t block;
    bool is_nothing;           /* all slices are zeros: `head` and `bytes` are NULLs, `len` zeros */
    Psgd__V1__Encoding **head; /* (slice_count); owned */
    const uint8_t **bytes;     /* (slice_count); the bytes stay in the file */
    size_t *len;               /* (slice_count) */
} ps_kept_contribution;

/* Takes the contribution to file->clock into *out, and goes to the next clock. Returns DATA_LOSS
 * unless it has every slice once and is the only contribution to this clock. *out can be freed
 * after a failure too. */
PS_MUST_USE ps_status ps_kept_file_take(ps_kept_file *file, const ps_plan *plan,
                                        ps_kept_contribution *out);
/* Frees what the contribution owns. A zeroed struct is allowed. */
void ps_kept_contribution_fini(ps_kept_contribution *c, const ps_plan *plan);
/* Writes the encoding of a slice of the contribution for `part`, which has the slice or a copy of
 * it, as ps_coder_encode would. Of a variable that is sent whole, this is the encoding of all
 * slices that the part has, and `slice` must be the first of them. Returns the number of bytes. */
size_t ps_kept_contribution_encode(const ps_kept_contribution *c, const ps_plan *plan,
                                   const ps_placement *placement, uint32_t part, uint32_t slice,
                                   uint8_t *out, ps_encoding *head);
/* Keeps a contribution out of a file as if it was made anew and sent to the parts of
 * `placement`. */
void ps_kept_pushes_keep(ps_kept_pushes *kept, const ps_placement *placement,
                         const ps_kept_contribution *c);

/* Returns the rank's reports with its contributions to the clocks before `clock`, by the rules of
 * ps_rank_reports_at; NULL: not known. */
const uint8_t *ps_kept_file_said(const ps_kept_file *file, uint64_t clock, size_t *len);

#endif
