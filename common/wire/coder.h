/* SPDX-License-Identifier: Apache-2.0 */
/* coder.h - encodes the slices that a worker pushes, with the state that codecs keep between
 * contributions, and decodes those that it pulls.
 *
 * The state of a slice is that of common/codec/feedback.h: with error feedback one float a value,
 * mostly none without its numbers. There is no state if several workers may bring the same block,
 * since their bytes must be equal. A variable that is sent whole (matrix.h) also has its factors.
 *
 * Order of calls for a contribution: ps_coder_begin; for each slice ps_coder_carry when its
 * gradient is final; ps_coder_encode each time the slice is sent. One thread at a time.
 */
#ifndef PS_COMMON_WIRE_CODER_H
#define PS_COMMON_WIRE_CODER_H

#include "common/base/state.h"
#include "common/job/plan.h"
#include "common/wire/matrix.h"
#include "common/wire/wire_link.h"

#include <stdbool.h>

typedef struct ps_coder {
    const ps_plan *plan;           /* kept */
    const ps_placement *placement; /* kept; of the plan's layout */
    uint32_t rank;                 /* the worker's */
    float *kept;                   /* memory of all states; NULL: no slice has any */
    float **kept_of;               /* (slice_count): state of each slice, in `kept`; NULL: none */
    uint8_t *is_carried;  /* (slice_count): the state is in the gradient of this contribution */
    ps_factors *factors;  /* (variable_count): of variables sent whole; all 0 for the others */
    uint8_t *is_factored; /* (variable_count): the factors are those of this contribution */
} ps_coder;

void ps_coder_init(ps_coder *coder, const ps_plan *plan, const ps_placement *placement,
                   uint32_t rank);
void ps_coder_fini(ps_coder *coder);

/* Returns the bytes of the states and factors. */
size_t ps_coder_memory(const ps_coder *coder);

/* Writes what is kept of a variable between two contributions: the state of each of its slices, f32
 * each; then, of one that is sent whole, f32 (rank, stride) of Q (factors.h). */
void ps_coder_put(const ps_coder *coder, uint32_t variable, ps_state_out *out);
/* Reads the same into a coder that has encoded nothing yet. */
void ps_coder_take(ps_coder *coder, uint32_t variable, ps_state_in *in);

/* Begins a contribution, of which no slice has been carried. */
void ps_coder_begin(ps_coder *coder);

/* Adds the state of the slice to its gradient x (n), as ps_feedback_carry does. Further calls in
 * the same contribution change nothing. */
void ps_coder_carry(ps_coder *coder, uint32_t slice, float *x);

/* Returns whether the codec sends float32: the bytes are x itself, and only a head is made. */
bool ps_coder_is_plain(const ps_coder *coder, uint32_t slice);

/* Returns the maximum of bytes of the slice that is encoded for `part`, which has it or a copy of
 * it. Of a variable that is sent whole, the leader of a part is encoded for all slices of that part
 * (ps_matrix_slices); the others take 0. */
size_t ps_coder_size(const ps_coder *coder, uint32_t part, uint32_t slice);

/* Encodes x (n) into out[0..ps_coder_size) and fills the whole head. Records in the state what was
 * sent. Returns the number of bytes. A repetition gives the same bytes, since draws depend on
 * (seed, slice, clock, contributor) only. For a plain slice `out` may be NULL; then only the head
 * is made. For a leader (ps_coder_size) x must point into the gradient of the whole variable, of
 * which every slice was carried. */
size_t ps_coder_encode(ps_coder *coder, uint32_t part, uint32_t slice, uint64_t clock,
                       uint32_t block, const float *x, uint8_t *out, ps_encoding *head);

/* Adds what ps_coder_encode will encode to the slices of this thread that are encoded together, as
 * ps_codec_encode_ahead does. */
bool ps_coder_encode_ahead(ps_coder *coder, uint32_t slice, uint64_t clock, uint32_t block,
                           const float *x);

/* Gives slices of a received message, heads[0..count) with their bytes from `at` of the payload on,
 * to a script's codec to decode together, up to the first that it cannot take. Returns their
 * number. Heads and bytes may be anything: an invalid slice is one that cannot be taken. `scratch`
 * has room for `room` bytes. Call ps_codec_end_ahead before the heads are freed. Any thread. */
size_t ps_coder_decode_ahead(const ps_layout *layout, Psgd__V1__Encoding *const *heads,
                             size_t count, const ps_incoming *payload, size_t at, uint8_t *scratch,
                             size_t room);

/* Returns whether the bytes of an answer are the slice's float32 weights themselves. */
bool ps_coder_brings_plain(const ps_plan *plan, const Psgd__V1__Encoding *head, uint32_t slice);

/* Decodes the weights of a slice from an answer into y (n). Head and bytes may be anything: fails
 * as ps_codec_decode does, and leaves y as it was. `in` may be y if ps_coder_brings_plain. Any
 * thread. */
PS_MUST_USE ps_status ps_coder_decode(const ps_plan *plan, const Psgd__V1__Encoding *head,
                                      uint32_t slice, const uint8_t *in, float *y);

/* Applies an answer to y (n), a replica of the servers' weights, if servers broadcast changes
 * (common/store/replica.h). If `is_change`, the answer is what the last step subtracted from the
 * weights; else it is the float32 weights. Fails as ps_coder_decode does. `in` must not be y. Any
 * thread. */
PS_MUST_USE ps_status ps_coder_decode_replica(const ps_plan *plan, const Psgd__V1__Encoding *head,
                                              uint32_t slice, bool is_change, const uint8_t *in,
                                              float *y);

#endif
