/* SPDX-License-Identifier: Apache-2.0 */
/* matrix.h - variables that workers push whole, as the product of two thin matrices
 * (ps_plan.by_matrix; the codec powersgd without `columns`).
 *
 * One encoding holds all slices of such a variable that one part has, and names the first of them,
 * the leader. Its bytes are, for each slice, the columns of P for the rows that overlap the slice,
 * then Q (Powersgd.slices in codec.proto). The server turns it into float32 slices before its store
 * gets them. A contribution that is sent again to other parts is taken apart between, into
 * encodings of one slice each. Any thread.
 */
#ifndef PS_COMMON_WIRE_MATRIX_H
#define PS_COMMON_WIRE_MATRIX_H

#include "common/codec/factors.h"
#include "common/job/plan.h"
#include "common/placement/placement.h"

/* Returns how many slices the encoding of this slice holds that is for `part`, which has the slice
 * or a copy of it: 1 if its variable is not sent whole; for a leader the slices of the variable
 * that the part has; else 0. */
uint32_t ps_matrix_slices(const ps_plan *plan, const ps_placement *placement, uint32_t part,
                          uint32_t slice);

/* Allocates the factors of a variable that is sent whole; does nothing for others. */
void ps_matrix_init(const ps_plan *plan, uint32_t variable, ps_factors *f);

/* Returns the bytes of a leader's encoding for `part`, at most PS_MATRIX_BYTES_MAX. */
size_t ps_matrix_size(const ps_plan *plan, const ps_placement *placement, uint32_t part,
                      uint32_t leader);

/* Writes a leader's encoding for `part` to out[0..ps_matrix_size) and fills the head. Returns the
 * bytes. */
size_t ps_matrix_write(const ps_plan *plan, const ps_placement *placement, uint32_t part,
                       uint32_t leader, const ps_factors *f, uint8_t *out, ps_encoding *head);

/* Writes into y (n) the values of a slice that the receiver decodes, bit for bit. */
void ps_matrix_values(const ps_plan *plan, uint32_t slice, const ps_factors *f, float *y);

/* Takes one slice of a contribution. */
typedef ps_status ps_matrix_take(void *arg, const Psgd__V1__Encoding *head, const uint8_t *bytes,
                                 size_t len);

/* Passes the slices of an encoding that this process has made for `part` to `take`, ascending, each
 * as an encoding of its own: of `slices` 1, with its columns of P, then Q. Passes any other
 * encoding on as it is. Returns the first failure of `take`. */
PS_MUST_USE ps_status ps_matrix_split(const ps_plan *plan, const ps_placement *placement,
                                      uint32_t part, const Psgd__V1__Encoding *head,
                                      const uint8_t *bytes, size_t len, ps_matrix_take *take,
                                      void *arg);
/* Checks that an encoding, which may be anything, is one of a single slice of a variable that is
 * sent whole, as ps_matrix_split makes them. Fails as ps_matrix_push. */
PS_MUST_USE ps_status ps_matrix_check_single(const ps_plan *plan, uint32_t slice,
                                             const Psgd__V1__Encoding *head, size_t len);
/* Writes the encoding of a leader for `part`, of those of single slices, by slice: does what
 * ps_matrix_write does. */
size_t ps_matrix_join(const ps_plan *plan, const ps_placement *placement, uint32_t part,
                      uint32_t leader, const uint8_t *const *singles, uint8_t *out,
                      ps_encoding *head);

/* Decodes an encoding of a variable that is sent whole and passes its slices, ascending, to `take`
 * until that fails. Passes any other encoding on as it is. Head and bytes come from the network and
 * may be anything.
 *
 * INVALID_ARGUMENT  the codec is not that of the variable, or the slices are not those of `part`
 * DATA_LOSS         the numbers are not the job's, or the number of bytes does not match them */
PS_MUST_USE ps_status ps_matrix_push(const ps_plan *plan, const ps_placement *placement,
                                     uint32_t part, const Psgd__V1__Encoding *head,
                                     const uint8_t *bytes, size_t len, ps_matrix_take *take,
                                     void *arg);

#endif
