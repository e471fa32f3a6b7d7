/* SPDX-License-Identifier: Apache-2.0 */
/* precommit_weights.c - the packages of PreCommit with weights: copies them to session->weights. */
#include "common/base/xalloc.h"
#include "common/node/precommit_impl.h"

#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "weights travel little-endian");

bool ps_precommit_is_worker(const ps_precommit *pc)
{
    return pc->node->hooks->role == PSGD__V1__NODE_ROLE__NODE_ROLE_WORKER;
}

uint32_t ps_precommit_slice_count(const ps_precommit *pc)
{
    const ps_session *s = pc->session;

    return ps_precommit_is_worker(pc) ? s->plan->layout.slice_count
                                      : ps_placement_held_count(&s->placement, s->rank);
}

static const ps_slice *slice_at(const ps_precommit *pc, uint32_t i)
{
    const ps_session *s = pc->session;

    return &s->plan->layout
                .slices[ps_precommit_is_worker(pc) ? i
                                                   : ps_placement_held(&s->placement, s->rank, i)];
}

bool ps_precommit_make_room(ps_precommit *pc)
{
    ps_session *s = pc->session;

    if (s->weights != NULL) {
        return true;
    }
    s->weight_count = ps_precommit_is_worker(pc) ? s->plan->layout.param_count : 0;
    for (uint32_t i = 0; !ps_precommit_is_worker(pc) && i < ps_precommit_slice_count(pc); i++) {
        s->weight_count += slice_at(pc, i)->n;
    }
    s->weights = ps_aligned_alloc(s->weight_count * sizeof(float));
    if (s->weights == NULL) {
        ps_precommit_fail(pc, ps_fail(PS_RESOURCE_EXHAUSTED, "no memory for the weights"), NULL);
        return false;
    }
    /* a worker's weights also have places for sparse tables, which no slice fills: they stay 0 */
    memset(s->weights, 0, s->weight_count * sizeof(float));
    return true;
}

/* Copies the next slice of a message, at offset *at of the payload, to session->weights: on a
 * worker to its place in the model, on a server behind the slices that came before it. */
static void take_slice(ps_precommit *pc, ps_payload *payload, size_t *at)
{
    const ps_slice *slice = slice_at(pc, pc->slices_in);
    size_t bytes = slice->n * sizeof(float);
    float *to = pc->session->weights + (ps_precommit_is_worker(pc) ? slice->at : pc->values_in);

    ps_precommit_copy(pc, payload, *at, bytes, to);
    pc->slices_in++;
    pc->values_in += slice->n;
    *at += bytes;
}

void ps_precommit_take_weights(ps_precommit *pc, const Psgd__V1__WeightsChunk *chunk,
                               ps_payload *payload)
{
    size_t values = 0, bytes = ps_payload_len(payload), at = 0;

    if (!ps_precommit_make_room(pc)) {
        return;
    }
    for (size_t k = 0; k < chunk->n_slices; k++) {
        if (pc->slices_in + k >= ps_precommit_slice_count(pc) ||
            chunk->slices[k] != slice_at(pc, pc->slices_in + (uint32_t)k)->index) {
            ps_precommit_fail(pc,
                              ps_fail(PS_INVALID_ARGUMENT,
                                      "slice %u of the weights is not the next one",
                                      chunk->slices[k]),
                              "BAD_WEIGHTS");
            return;
        }
        values += slice_at(pc, pc->slices_in + (uint32_t)k)->n;
    }
    if (values * sizeof(float) != bytes) {
        ps_precommit_fail(
            pc,
            ps_fail(PS_INVALID_ARGUMENT, "%zu bytes for %zu values of the weights", bytes, values),
            "BAD_WEIGHTS");
        return;
    }
    for (size_t k = 0; k < chunk->n_slices; k++) {
        take_slice(pc, payload, &at);
    }
    ps_precommit_read(pc);
}
