/* SPDX-License-Identifier: Apache-2.0 */
/* coder.h - encodes the slices that a worker pushes, with the state that codecs keep between
 * contributions, and decodes the slices that it pulls.
 *
 * The state of a slice is that of common/codec/feedback.h: with error feedback one float for each
 * value; without it, most codecs have none. No slice has a state if several workers may send the
 * same block, because their bytes must be equal. A variable that is sent whole (matrix.h) also has
 * its factors.
 *
 * Order of calls for a contribution: ps_coder_begin; ps_coder_encode each time a slice is sent,
 * which adds the slice's state to its gradient first. One thread at a time, unless a comment says
 * otherwise. */
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
    uint32_t rank;                 /* rank of the worker */
    float *kept;                   /* memory of all states; NULL: no slice has a state */
    /* (slice_count): the state of each slice, within `kept`; NULL: it has none */
    float **kept_of;
    /* (slice_count): whether the slice's state was added to its gradient in this contribution */
    uint8_t *carried;
    /* (variable_count): factors of the variables that are sent whole; zeros for others */
    ps_factors *factors;
    uint8_t *is_factored; /* (variable_count): the factors were computed for this contribution */
} ps_coder;

void ps_coder_init(ps_coder *coder, const ps_plan *plan, const ps_placement *placement,
                   uint32_t rank);
void ps_coder_fini(ps_coder *coder);

/* Returns the number of bytes of the states and factors. */
size_t ps_coder_memory(const ps_coder *coder);

/* Writes what is kept of a variable between two contributions: the state of each of its slices as
 * f32; then, of a variable that is sent whole, f32 (rank, stride) of Q (factors.h). */
void ps_coder_put(const ps_coder *coder, uint32_t variable, ps_state_out *out);
/* Reads what ps_coder_put has written into a coder that has encoded nothing yet. */
void ps_coder_take(ps_coder *coder, uint32_t variable, ps_state_in *in);

/* Begins a contribution. */
void ps_coder_begin(ps_coder *coder);

/* Returns whether the slice is sent as float32: then its bytes are x itself, and ps_coder_encode
 * makes only the head. */
bool ps_coder_is_plain(const ps_coder *coder, uint32_t slice);

/* Returns the most bytes that ps_coder_encode writes for the slice. `part` is the receiver, which
 * has the slice or a copy of it. If the variable is sent whole, one encoding has all slices of it
 * that the part has, and counts for the first of them, the leader (ps_matrix_slices); the other
 * slices take 0 bytes. */
size_t ps_coder_size(const ps_coder *coder, uint32_t part, uint32_t slice);

/* Encodes the final gradient x (n) of the slice into out[0..ps_coder_size) for `part` and fills the
 * whole head. Adds the slice's state to x before, if no call in this contribution has
 * (ps_feedback_carry). Notes in the state what the encoding has lost. Returns the number of bytes.
 * A second call in the same contribution gives the same bytes, because draws depend on (seed,
 * slice, clock, contributor) only. If the slice is sent as float32, `out` may be NULL, and only the
 * head is made. For a leader (ps_coder_size) x must point into the gradient of the whole variable,
 * which must be final. */
size_t ps_coder_encode(ps_coder *coder, uint32_t part, uint32_t slice, uint64_t clock,
                       uint32_t block, float *x, uint8_t *out, ps_encoding *head);

/* Adds a slice, which ps_coder_encode will encode afterwards, to those that the codec encodes
 * together on this thread. Adds the slice's state to x as ps_coder_encode does. Returns false if
 * the codec takes no more (ps_codec_encode_ahead) or the variable is sent whole. */
bool ps_coder_encode_ahead(ps_coder *coder, uint32_t slice, uint64_t clock, uint32_t block,
                           float *x);

/* Lets a script's codec decode slices of a received message together: heads[0 .. count), whose
 * bytes begin at `at` of the payload. Stops before the first slice that the codec cannot take;
 * returns the number of slices before it. Heads and bytes may be anything: an invalid slice is one
 * that cannot be taken. `scratch` has room for `room` bytes. Call ps_codec_end_ahead before the
 * heads are freed. Any thread. */
size_t ps_coder_decode_ahead(const ps_layout *layout, Psgd__V1__Encoding *const *heads,
                             size_t count, const ps_incoming *payload, size_t at, uint8_t *scratch,
                             size_t room);

/* Returns whether the slice's bytes in an answer are its float32 weights, without a codec. */
bool ps_coder_brings_plain(const ps_plan *plan, const Psgd__V1__Encoding *head, uint32_t slice);

/* Decodes the weights of a slice from an answer into y (n). Head and bytes may be anything: fails
 * as ps_codec_decode does, and then leaves y as it was. `in` are the slice's bytes; they may be y
 * itself if ps_coder_brings_plain. Any thread. */
PS_MUST_USE ps_status ps_coder_decode(const ps_plan *plan, const Psgd__V1__Encoding *head,
                                      uint32_t slice, const uint8_t *in, float *y);

/* Applies a slice of an answer to y (n), a replica of the servers' weights, if servers broadcast
 * changes (common/store/replica.h). is_change: the answer is what the last step subtracted from the
 * weights, and is subtracted from y. Else it is the float32 weights, which replace y. Fails as
 * ps_coder_decode does. `in` must not be y. Any thread. */
PS_MUST_USE ps_status ps_coder_decode_replica(const ps_plan *plan, const Psgd__V1__Encoding *head,
                                              uint32_t slice, bool is_change, const uint8_t *in,
                                              float *y);

#endif
