/* SPDX-License-Identifier: Apache-2.0 */
/* piece.c - see piece.h: chooses the kind of each slice, implements runs, and lists the functions
 * for the groups of a message. */
#include "common/wire/piece.h"

#include "common/wire/wire_client_impl.h"
#include "common/wire/wire_server_impl.h"

const ps_piece_kind *ps_piece_up(const ps_plan *plan, uint32_t slice)
{
    return plan->by_matrix[plan->layout.slices[slice].variable] ? &ps_piece_matrix : &ps_piece_run;
}

const ps_piece_kind *ps_piece_down(const ps_plan *plan, uint32_t slice)
{
    (void)slice;
    return plan->update->broadcasts ? &ps_piece_change : &ps_piece_run;
}

static uint32_t bring_itself(const ps_plan *plan, const ps_placement *placement, uint32_t slice)
{
    (void)plan;
    (void)placement;
    (void)slice;
    return 1;
}

static ps_status admit_itself(const ps_plan *plan, const ps_placement *placement, uint32_t part,
                              const Psgd__V1__Encoding *head, const uint8_t *bytes, size_t len,
                              ps_matrix_take *take, void *arg)
{
    (void)plan;
    (void)placement;
    (void)part;
    return take(arg, head, bytes, len);
}

static ps_status apply(ps_connection *conn, const Psgd__V1__PullWeightsResponse *reply, size_t i,
                       const ps_incoming *payload, size_t at, bool *is_new)
{
    ps_wire_client *x = conn->x;
    const Psgd__V1__Encoding *head = reply->slices[i];
    const ps_slice *slice = &x->layout->slices[head->slice];
    uint8_t scratch[PS_SLICE_VALUES * sizeof(float)];
    float *to = x->weights + slice->at;
    /* A plain slice is copied only once, from the message into the block. */
    const uint8_t *from =
        ps_incoming_view(payload, at, head->payload_bytes,
                         ps_coder_brings_plain(x->plan, head, head->slice) ? (void *)to : scratch);
    ps_status st = ps_coder_decode(x->plan, head, head->slice, from, to);

    *is_new = ps_is_ok(&st);
    return st;
}

const ps_piece_kind ps_piece_run = {
    .name = "run",
    .brings = bring_itself,
    .kept = ps_coder_kept_run,
    .size = ps_coder_size_run,
    .encode = ps_coder_encode_run,
    .admit = admit_itself,
    .apply = apply,
};

const ps_piece_kind ps_piece_matrix = {
    .name = "matrix",
    .brings = ps_matrix_slices,
    .kept = ps_coder_kept_matrix,
    .size = ps_coder_size_matrix,
    .encode = ps_coder_encode_matrix,
    .admit = ps_matrix_push,
};

/* ---- Messages ---- */

const ps_piece_group ps_piece_groups[PS_PIECE_GROUPS] = {
    [PS_PIECE_SLICES] =
        {
            .name = "weights",
            .put = ps_connection_slices_put,
            .ask = ps_connection_slices_ask,
            .again = ps_connection_slices_again,
            .take = ps_connection_slices_take,
            .push = ps_wire_server_take_slices,
            .want = ps_wire_server_want_slices,
            .give = ps_wire_server_give_slices,
        },
    [PS_PIECE_ROWS] =
        {
            .name = "rows",
            .put = ps_connection_rows_put,
            .ask = ps_connection_rows_ask,
            .again = ps_connection_rows_again,
            .take = ps_connection_rows_take,
            .push = ps_wire_server_take_rows,
            .want = ps_wire_server_want_rows,
            .give = ps_wire_server_give_rows,
        },
};

const ps_piece_group *ps_piece_asked(const Psgd__V1__PullWeightsRequest *req)
{
    return &ps_piece_groups[req->n_keys > 0 ? PS_PIECE_ROWS : PS_PIECE_SLICES];
}
