/* SPDX-License-Identifier: Apache-2.0 */
/* matrix.h - variables that go to the servers whole, as the product of two thin matrices
 * (ps_plan.by_matrix; the codec powersgd without `columns`).
 *
 * An encoding of such a variable is of all slices of it that one part has, and names the
 * first of them, its leader: for each slice the columns of P for the rows that the slice
 * has a part in, then Q (Powersgd.slices in codec.proto). A server makes values of it before its
 * shard sees it, which therefore takes these slices as float32. Any thread.
 */
#ifndef PS_COMMON_WIRE_MATRIX_H
#define PS_COMMON_WIRE_MATRIX_H

#include "common/codec/factors.h"
#include "common/job/plan.h"
#include "common/placement/placement.h"

/* How many slices the encoding of this one brings: 1 unless its variable goes whole; then
 * those of its variable that its part has, or 0 where another is their leader. */
uint32_t ps_matrix_slices(const ps_plan *plan, const ps_placement *placement, uint32_t slice);

/* Takes memory for the factors of a variable that goes whole; does nothing for others. */
void ps_matrix_init(const ps_plan *plan, uint32_t variable, ps_factors *f);

/* Bytes of a leader's encoding, at most PS_MATRIX_BYTES_MAX. */
size_t ps_matrix_size(const ps_plan *plan, const ps_placement *placement, uint32_t leader);

/* Writes it to out[0..size) and fills the head. Returns size. */
size_t ps_matrix_write(const ps_plan *plan, const ps_placement *placement, uint32_t leader,
                       const ps_factors *f, uint8_t *out, ps_encoding *head);

/* What the receiver of those bytes makes of them for a slice, into y (n): the same bits
 * as it has there. */
void ps_matrix_values(const ps_plan *plan, uint32_t slice, const ps_factors *f, float *y);

/* Where one slice of a contribution goes. */
typedef ps_status ps_matrix_take(void *arg, const Psgd__V1__Encoding *head, const uint8_t *bytes,
                                 size_t len);

/* A slice, or a variable's slices one after the other, lowest first, through `take` until it
 * fails. Nothing is known of head and bytes, which come from the network: what is not
 * of a variable that goes whole is handed on as it is.
 *
 * INVALID_ARGUMENT  not the codec of such a variable, or slices that are not `part`'s of it
 * DATA_LOSS         other numbers than the job's, or not as many bytes as they take */
PS_MUST_USE ps_status ps_matrix_push(const ps_plan *plan, const ps_placement *placement,
                                     uint32_t part, const Psgd__V1__Encoding *head,
                                     const uint8_t *bytes, size_t len, ps_matrix_take *take,
                                     void *arg);

#endif
