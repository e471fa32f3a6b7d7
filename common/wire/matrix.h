/* SPDX-License-Identifier: Apache-2.0 */
/* matrix.h - variables that workers push whole, as the product of two thin matrices P and Q
 * (ps_plan.by_matrix; the codec powersgd without `columns`).
 *
 * One encoding holds all slices of such a variable that one part has. It is named by the first of
 * these slices, the leader. Its bytes are, for each slice, the columns of P for the rows that
 * overlap the slice; then Q (Powersgd.slices in codec.proto). The server turns it into float32
 * slices before its store gets them. If a contribution is sent again to other parts, its encodings
 * are first split into encodings of one slice each. Any thread. */
#ifndef PS_COMMON_WIRE_MATRIX_H
#define PS_COMMON_WIRE_MATRIX_H

#include "common/codec/factors.h"
#include "common/job/plan.h"
#include "common/placement/placement.h"

/* Returns how many slices the encoding holds that is named by this slice and made for `part`, which
 * has the slice or a copy of it. 1: the variable is not sent whole. For a leader: the number of
 * slices of the variable that the part has. 0: the slice is in the encoding of an earlier slice. */
uint32_t ps_matrix_slices(const ps_plan *plan, const ps_placement *placement, uint32_t part,
                          uint32_t slice);

/* Allocates the factors of a variable that is sent whole; does nothing for others. */
void ps_matrix_init(const ps_plan *plan, uint32_t variable, ps_factors *f);

/* Returns the number of bytes of a leader's encoding for `part`, at most PS_MATRIX_BYTES_MAX. */
size_t ps_matrix_size(const ps_plan *plan, const ps_placement *placement, uint32_t part,
                      uint32_t leader);

/* Writes a leader's encoding for `part` to out[0..ps_matrix_size) and fills the head. Returns the
 * number of bytes. */
size_t ps_matrix_write(const ps_plan *plan, const ps_placement *placement, uint32_t part,
                       uint32_t leader, const ps_factors *f, uint8_t *out, ps_encoding *head);

/* Writes to y (n) the values of a slice that the receiver will decode, bit for bit. */
void ps_matrix_values(const ps_plan *plan, uint32_t slice, const ps_factors *f, float *y);

/* A function that takes one slice of a contribution, with its head and `len` bytes. */
typedef ps_status ps_matrix_take(void *arg, const Psgd__V1__Encoding *head, const uint8_t *bytes,
                                 size_t len);

/* Splits an encoding that this process has made for `part`: passes its slices to `take`, ascending,
 * each as an encoding of its own (Powersgd.slices is 1), with its columns of P, then Q. Passes an
 * encoding of any other variable on as it is. Returns the first failure of `take`. */
PS_MUST_USE ps_status ps_matrix_split(const ps_plan *plan, const ps_placement *placement,
                                      uint32_t part, const Psgd__V1__Encoding *head,
                                      const uint8_t *bytes, size_t len, ps_matrix_take *take,
                                      void *arg);
/* Checks that an encoding, which may be anything, is one of a single slice of a variable that is
 * sent whole, as ps_matrix_split makes them. Fails as ps_matrix_push does. */
PS_MUST_USE ps_status ps_matrix_check_single(const ps_plan *plan, uint32_t slice,
                                             const Psgd__V1__Encoding *head, size_t len);
/* Joins encodings of single slices, which ps_matrix_split has made: singles[i] are the bytes of
 * slice i of the layout. Writes what ps_matrix_write would write for a leader and `part`. Returns
 * the number of bytes. */
size_t ps_matrix_join(const ps_plan *plan, const ps_placement *placement, uint32_t part,
                      uint32_t leader, const uint8_t *const *singles, uint8_t *out,
                      ps_encoding *head);

/* Decodes an encoding of a variable that is sent whole and passes its slices, ascending, to `take`
 * until `take` fails. Passes an encoding on as it is if it names no such variable or has no bytes.
 * Head and bytes come from the network and may be anything.
 *
 * INVALID_ARGUMENT  the codec is not that of the variable, or the slices are not those of `part`
 * DATA_LOSS         the numbers are not the job's, or the number of bytes does not match them
 */
PS_MUST_USE ps_status ps_matrix_push(const ps_plan *plan, const ps_placement *placement,
                                     uint32_t part, const Psgd__V1__Encoding *head,
                                     const uint8_t *bytes, size_t len, ps_matrix_take *take,
                                     void *arg);

#endif
