/* SPDX-License-Identifier: Apache-2.0 */
/* piece.h - the kinds of pieces that are sent, and what differs between them.
 *
 * Two tables hold the differences, so that senders and receivers need no branch on the kind. A
 * message carries slices, rows of sparse variables, or both (ps_piece_group). A slice is pushed as
 * one kind and pulled as one kind; both follow from its variable and the job's update
 * (ps_piece_kind).
 * Any thread.
 */
#ifndef PS_COMMON_WIRE_PIECE_H
#define PS_COMMON_WIRE_PIECE_H

#include "common/store/store.h"
#include "common/wire/coder.h"
#include "common/wire/identity.h"
#include "common/wire/matrix.h"
#include "common/wire/wire_link.h"

#include "psgd/v1/parameter.pb-c.h"

struct connection_message;
struct ps_connection;
struct wire_answer;
struct wire_worker;

/* A kind that is only pushed, or only pulled, has the functions of that direction only. */
typedef struct ps_piece_kind {
    const char *name;

    /* ---- Up: gradients ---- */

    /* Returns how many slices the encoding of this slice holds; 0 if it is in that of another one.
     */
    uint32_t (*brings)(const ps_plan *plan, const ps_placement *placement, uint32_t slice);
    /* Returns the floats that a worker keeps of the slice from one contribution to the next. */
    size_t (*kept)(const ps_plan *plan, uint32_t slice);
    /* Returns the maximum of bytes of the encoding. */
    size_t (*size)(const ps_coder *coder, uint32_t slice);
    /* Encodes the slice as ps_coder_encode does. `contributor` is a part of the key of the draws.
     */
    size_t (*encode)(ps_coder *coder, uint32_t slice, uint64_t clock, uint32_t contributor,
                     const float *x, uint8_t *out, ps_encoding *head);
    /* Passes a received encoding to `take`, slice by slice. Head and bytes may be anything, but
     * head->slice is a slice of the layout. */
    ps_status (*admit)(const ps_plan *plan, const ps_placement *placement, uint32_t part,
                       const Psgd__V1__Encoding *head, const uint8_t *bytes, size_t len,
                       ps_matrix_take *take, void *arg);

    /* ---- Down: weights ---- */

    /* (optional) Completes the head of an answer with n slices. */
    void (*describe)(Psgd__V1__PullWeightsResponse *head, const ps_store_answer *answer,
                     uint64_t *checksums, size_t n);
    /* Decodes slice i of an answer, at byte `at` of the payload, into the worker's block. *is_new
     * says whether the slice is complete now. The bytes may be anything; their number was checked.
     */
    ps_status (*apply)(struct ps_connection *conn, const Psgd__V1__PullWeightsResponse *reply,
                       size_t i, const ps_incoming *payload, size_t at, bool *is_new);
} ps_piece_kind;

/* Return the kind as which the gradients (up) or the weights (down) of a slice are sent. */
const ps_piece_kind *ps_piece_up(const ps_plan *plan, uint32_t slice);
const ps_piece_kind *ps_piece_down(const ps_plan *plan, uint32_t slice);

/* A slice of a dense variable, both directions. */
extern const ps_piece_kind ps_piece_run;
/* Pushed: a variable that is sent whole, as two thin matrices (matrix.h). */
extern const ps_piece_kind ps_piece_matrix;
/* Pulled: what a step subtracted from a slice, broadcast to replicas (piece_change.c). */
extern const ps_piece_kind ps_piece_change;

/* ---- Messages ---- */

/* What messages do with slices, or with rows. What is due at the same time goes in one message. */
typedef struct ps_piece_group {
    const char *name;

    /* ---- A worker's connection ---- */

    /* Adds what is ready of the contribution to a message. Returns whether there was anything. */
    bool (*put)(struct ps_connection *conn, struct connection_message *m);
    /* Fills in the next request. Returns false if there is none. */
    bool (*ask)(struct ps_connection *conn, Psgd__V1__PullWeightsRequest *req);
    /* Prepares a repetition of what was sent or requested on a stream that has broken. */
    void (*again)(struct ps_connection *conn, ps_wire_stream stream);
    /* Takes the slices or rows of an answer. Their bytes begin at *at, which is moved behind them.
     */
    ps_status (*take)(struct ps_connection *conn, const Psgd__V1__PullWeightsResponse *reply,
                      const ps_incoming *payload, size_t *at);

    /* ---- A server ---- */

    /* Takes the slices or rows of a push message. Their bytes begin at *at, which is moved behind
     * them. If one is refused, those before it stay; a repetition of the message is harmless. */
    ps_refusal (*push)(struct wire_worker *w, const Psgd__V1__PushGradientRequest *req,
                       const ps_incoming *payload, size_t *at);
    /* Registers a request. */
    ps_refusal (*want)(struct wire_worker *w, const Psgd__V1__PullWeightsRequest *req);
    /* Adds what is ready to an answer. Returns whether there was anything. */
    bool (*give)(struct wire_worker *w, struct wire_answer *answer);
} ps_piece_group;

/* The order of what a contribution sends, and of the bytes in any message. Requests and answers are
 * filled in the reverse order, as rows are few bytes and the worker waits for them first. */
enum { PS_PIECE_SLICES, PS_PIECE_ROWS, PS_PIECE_GROUPS };
extern const ps_piece_group ps_piece_groups[PS_PIECE_GROUPS];

/* Returns the group that a request asks for. */
const ps_piece_group *ps_piece_asked(const Psgd__V1__PullWeightsRequest *req);

#endif
