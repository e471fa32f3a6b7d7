/* SPDX-License-Identifier: Apache-2.0 */
/* piece.h - the kinds of pieces that travel, and what differs between them.
 *
 * What differs stands in two tables, so that what sends and receives asks for no kind. A message
 * carries slices or rows of sparse tables: ps_piece_group. A slice goes up as one kind and comes
 * down as one; both follow from its variable and the job's update: ps_piece_kind. Any thread.
 */
#ifndef PS_COMMON_WIRE_PIECE_H
#define PS_COMMON_WIRE_PIECE_H

#include "common/store/store.h"
#include "common/wire/coder.h"
#include "common/wire/identity.h"
#include "common/wire/matrix.h"
#include "common/wire/wire_link.h"

#include "psgd/v1/parameter.pb-c.h"

struct ps_connection;
struct wire_worker;

/* A kind has the functions of the directions in which it travels. */
typedef struct ps_piece_kind {
    const char *name;

    /* ---- Up: gradients ---- */

    /* Returns how many slices the encoding of this one brings; 0 where another's does. */
    uint32_t (*brings)(const ps_plan *plan, const ps_placement *placement, uint32_t slice);
    /* Returns the floats that a worker keeps of the slice from one contribution to the next. */
    size_t (*kept)(const ps_plan *plan, uint32_t slice);
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

/* ---- Messages ---- */

/* Slices, or rows. */
typedef struct ps_piece_group {
    const char *name;

    /* ---- A worker's connection ---- */

    /* Sends the next message of the contribution; false: none is to go now. */
    bool (*send)(struct ps_connection *conn);
    /* Fills the next request; false: there is none. */
    bool (*ask)(struct ps_connection *conn, Psgd__V1__PullWeightsRequest *req);
    /* The stream was opened again: what was sent or asked for on it may not have arrived. */
    void (*again)(struct ps_connection *conn, ps_wire_stream stream);
    /* Takes an answer. */
    ps_status (*take)(struct ps_connection *conn, const Psgd__V1__PullWeightsResponse *reply,
                      const ps_incoming *payload);

    /* ---- A server ---- */

    /* Takes what a message of a contribution has of them; their bytes are from *at on, which is
     * behind them then. On failure what is before the bad one is in, which a repetition does not
     * mind. */
    ps_refusal (*push)(struct wire_worker *w, const Psgd__V1__PushGradientRequest *req,
                       const ps_incoming *payload, size_t *at);
    /* Remembers a request. */
    ps_refusal (*want)(struct wire_worker *w, const Psgd__V1__PullWeightsRequest *req);
    /* Sends the next answer that may be had; false: there is none. */
    bool (*give)(struct wire_worker *w);
} ps_piece_group;

/* In the order in which a contribution's messages and bytes go; requests and answers go the other
 * way round, as rows are few bytes and a worker waits for nothing else. */
enum { PS_PIECE_SLICES, PS_PIECE_ROWS, PS_PIECE_GROUPS };
extern const ps_piece_group ps_piece_groups[PS_PIECE_GROUPS];

/* Returns what a request asks for, or an answer brings. */
const ps_piece_group *ps_piece_asked(const Psgd__V1__PullWeightsRequest *req);
const ps_piece_group *ps_piece_answered(const Psgd__V1__PullWeightsResponse *reply);

#endif
