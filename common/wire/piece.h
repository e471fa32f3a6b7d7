/* SPDX-License-Identifier: Apache-2.0 */
/* piece.h - the kinds of pieces that slices travel as, and what differs between them.
 *
 * A slice goes up as one kind and comes down as one; both follow from its variable and the job's
 * update. What differs stands in this table, so that what sends and receives asks for no kind. Rows
 * of sparse tables are no slices: they are in connection_rows.c and wire_server_rows.c. Any thread.
 */
#ifndef PS_COMMON_WIRE_PIECE_H
#define PS_COMMON_WIRE_PIECE_H

#include "common/store/store.h"
#include "common/wire/coder.h"
#include "common/wire/matrix.h"
#include "common/wire/wire_link.h"

#include "psgd/v1/parameter.pb-c.h"

struct ps_connection;

/* A kind has the functions of the directions in which it travels. */
typedef struct ps_piece_kind {
    const char *name;

    /* ---- Up: gradients ---- */

    /* Returns how many slices the encoding of this one brings; 0 where another's does. */
    uint32_t (*brings)(const ps_plan *plan, const ps_placement *placement, uint32_t slice);
    /* Returns the most bytes that encoding it takes. */
    size_t (*size)(const ps_coder *coder, uint32_t slice);
    /* Writes its encoding, as ps_coder_encode; the draws are those of `contributor`. */
    size_t (*encode)(ps_coder *coder, uint32_t slice, uint64_t clock, uint32_t contributor,
                     const float *x, uint8_t *out, ps_encoding *head);
    /* Hands what a server received to `take`, slice by slice; nothing is known of head and bytes
     * but that the slice is one of the layout. */
    ps_status (*admit)(const ps_plan *plan, const ps_placement *placement, uint32_t part,
                       const Psgd__V1__Encoding *head, const uint8_t *bytes, size_t len,
                       ps_matrix_take *take, void *arg);

    /* ---- Down: weights ---- */

    bool may_stay; /* an answer may say that rows, or slices, are as they were */
    /* Completes an answer's head of n slices. (optional) */
    void (*describe)(Psgd__V1__PullWeightsResponse *head, const ps_store_answer *answer,
                     uint64_t *checksums, size_t n);
    /* Puts slice i of an answer, whose bytes `view` gives, into the worker's block. *is_new: it is
     * there now. Nothing is known of the bytes but how many there are. */
    ps_status (*apply)(struct ps_connection *conn, const Psgd__V1__PullWeightsResponse *reply,
                       size_t i, const ps_incoming *payload, size_t at, bool *is_new);
} ps_piece_kind;

/* Returns the kind that the gradients, or the weights, of a slice of the layout travel as. */
const ps_piece_kind *ps_piece_up(const ps_plan *plan, uint32_t slice);
const ps_piece_kind *ps_piece_down(const ps_plan *plan, uint32_t slice);

/* A run of a dense variable, both ways; down, one of which only touched rows come (piece.c). */
extern const ps_piece_kind ps_piece_run, ps_piece_touched;
/* Up: a variable that goes whole, as two thin matrices (matrix.h). */
extern const ps_piece_kind ps_piece_matrix;
/* Down: what a step took from a slice, broadcast to replicas (piece_change.c). */
extern const ps_piece_kind ps_piece_change;

#endif
