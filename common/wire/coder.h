/* SPDX-License-Identifier: Apache-2.0 */
/* coder.h - a worker's slices on their way to the servers and back: what is kept from
 * one push to the next (common/codec/feedback.h), encoding of what is pushed, decoding
 * of what is pulled.
 *
 * The state is what feedback.h says: with error feedback one float a value, without
 * any of its numbers mostly none; none at all where several workers bring a block and
 * the first one counts. A variable that goes whole (matrix.h) has its factors besides. The order of
 * a contribution: begin; for each slice carry, once its gradient is final; encode, as often as it
 * is sent. One thread at a time.
 */
#ifndef PS_COMMON_WIRE_CODER_H
#define PS_COMMON_WIRE_CODER_H

#include "common/base/state.h"
#include "common/job/plan.h"
#include "common/optim/rows.h"
#include "common/wire/matrix.h"

#include <stdbool.h>

typedef struct ps_coder {
    const ps_plan *plan;           /* kept */
    const ps_placement *placement; /* kept; of the plan's layout */
    uint32_t rank;                 /* the worker's */
    float *kept;          /* from one contribution to the next; NULL: no slice keeps anything */
    float **kept_of;      /* (slice_count), into kept; NULL: nothing */
    uint8_t *is_carried;  /* (slice_count): it is in the gradient of the contribution in hand */
    ps_rows *rows;        /* (variable_count) that are not zeros; id NULL: not told */
    ps_factors *factors;  /* (variable_count) of those that go whole; the others' are zeros */
    uint8_t *is_factored; /* (variable_count): they are of the contribution in hand */
} ps_coder;

void ps_coder_init(ps_coder *coder, const ps_plan *plan, const ps_placement *placement,
                   uint32_t rank);
void ps_coder_fini(ps_coder *coder);

size_t ps_coder_memory(const ps_coder *coder); /* bytes of what was lost */

/* Puts, or takes into a coder that has not begun, what is kept of a variable between two
 * contributions: the floats of each of its slices (feedback.h); of one that goes whole then f32
 * rank
 * * stride of Q (factors.h). */
void ps_coder_put(const ps_coder *coder, uint32_t variable, ps_state_out *out);
void ps_coder_take(ps_coder *coder, uint32_t variable, ps_state_in *in);

/* A contribution begins: nothing is carried. */
void ps_coder_begin(ps_coder *coder);

/* Of a variable that goes by rows: all but these of the contribution in hand are zeros. The
 * list is borrowed until the next one begins. */
void ps_coder_touched(ps_coder *coder, uint32_t variable, const uint32_t *rows, size_t count);

/* The slice is known to be all zeros. */
bool ps_coder_is_zeros(const ps_coder *coder, uint32_t slice);

/* Makes of the slice's gradient x (n) what is to be encoded, once a contribution;
 * again changes nothing. */
void ps_coder_carry(ps_coder *coder, uint32_t slice, float *x);

/* The bytes of the slice are x itself: only a head is needed. */
bool ps_coder_is_plain(const ps_coder *coder, uint32_t slice);

/* Most bytes that encoding the slice takes. Of a variable that goes whole the leader is encoded
 * for all slices of its server, as ps_matrix_slices says; the others take none. */
size_t ps_coder_size(const ps_coder *coder, uint32_t slice);

/* Writes x (n) to out[0..size) and fills the head, slice and payload_bytes too;
 * remembers what was sent. The draws are those of (slice, clock, contributor): again
 * gives the same bytes. Returns how many there are. Of a plain slice `out` may
 * be NULL: the head alone is made. Of a leader x is where the slice lies in its variable's
 * gradient, of which all slices, whoever has them, were carried. */
size_t ps_coder_encode(ps_coder *coder, uint32_t slice, uint64_t clock, uint32_t block,
                       const float *x, uint8_t *out, ps_encoding *head);

/* The same of a slice as a run of a dense variable, or as the leader of one that goes whole
 * (piece.h); `contributor` chooses the draws. */
size_t ps_coder_kept_run(const ps_plan *plan, uint32_t slice);
size_t ps_coder_kept_matrix(const ps_plan *plan, uint32_t slice);
size_t ps_coder_size_run(const ps_coder *coder, uint32_t slice);
size_t ps_coder_size_matrix(const ps_coder *coder, uint32_t slice);
size_t ps_coder_encode_run(ps_coder *coder, uint32_t slice, uint64_t clock, uint32_t contributor,
                           const float *x, uint8_t *out, ps_encoding *head);
size_t ps_coder_encode_matrix(ps_coder *coder, uint32_t slice, uint64_t clock, uint32_t contributor,
                              const float *x, uint8_t *out, ps_encoding *head);

/* The bytes of the answer are the slice's weights themselves. */
bool ps_coder_brings_plain(const ps_plan *plan, const Psgd__V1__Encoding *head, uint32_t slice);

/* Weights of a slice out of an answer, into y (n). Nothing is known of head and
 * bytes: DATA_LOSS or INVALID_ARGUMENT as of ps_codec_decode, y is then as it
 * was. `in` may be y, if it brings them plain. Any thread. */
PS_MUST_USE ps_status ps_coder_decode(const ps_plan *plan, const Psgd__V1__Encoding *head,
                                      uint32_t slice, const uint8_t *in, float *y);

/* The same under an update that broadcasts: what is in y is a replica of the
 * servers' weights (common/store/replica.h), and the answer brings what the last
 * update took from them or, if is_change is false, the weights as float32. `in`
 * is not y. */
PS_MUST_USE ps_status ps_coder_decode_replica(const ps_plan *plan, const Psgd__V1__Encoding *head,
                                              uint32_t slice, bool is_change, const uint8_t *in,
                                              float *y);

#endif
