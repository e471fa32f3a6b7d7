/* SPDX-License-Identifier: Apache-2.0 */
/* coder.c - see coder.h. */
#include "common/wire/coder.h"

#include "common/base/draw.h"
#include "common/base/xalloc.h"
#include "common/codec/feedback.h"
#include "common/store/replica.h"

#include <stdlib.h>
#include <string.h>

static const ps_codec_choice *up_of(const ps_plan *plan, uint32_t slice)
{
    return &plan->up[plan->layout.slices[slice].variable];
}

/* Returns whether no slice has a state. With redundancy several workers send the same block, and
 * their bytes must be equal. */
static bool is_stateless(const ps_plan *plan)
{
    return plan->update->per_block && plan->update_facts.redundancy > 1;
}

/* ---- Slices that are sent singly, and slices of variables that are sent whole ---- */

typedef struct kind {
    /* Returns the number of floats that a worker keeps of the slice from one contribution to the
     * next. */
    size_t (*kept)(const ps_plan *plan, uint32_t slice);
    /* Does what ps_coder_size does, for slices of this kind. */
    size_t (*size)(const ps_coder *coder, uint32_t part, uint32_t slice);
    /* Does what ps_coder_encode does, for slices of this kind. `contributor` goes into the key of
     * the codec's draws. */
    size_t (*encode)(ps_coder *coder, uint32_t part, uint32_t slice, uint64_t clock,
                     uint32_t contributor, float *x, uint8_t *out, ps_encoding *head);
} kind;

static size_t kept_run(const ps_plan *plan, uint32_t slice)
{
    const ps_codec_choice *up = up_of(plan, slice);

    return ps_feedback_floats(up->codec, &up->params, plan->layout.slices[slice].n);
}

static size_t kept_matrix(const ps_plan *plan, uint32_t slice)
{
    const ps_codec_choice *up = up_of(plan, slice);

    /* The codec's own state is left out: that of a matrix is in coder->factors. */
    return kept_run(plan, slice) -
           ps_codec_state_floats(up->codec, &up->params, plan->layout.slices[slice].n);
}

static size_t size_run(const ps_coder *coder, uint32_t part, uint32_t slice)
{
    const ps_codec_choice *up = up_of(coder->plan, slice);

    (void)part;
    return up->codec->size(&up->params, coder->plan->layout.slices[slice].n);
}

static size_t size_matrix(const ps_coder *coder, uint32_t part, uint32_t slice)
{
    return ps_matrix_slices(coder->plan, coder->placement, part, slice) > 0
               ? ps_matrix_size(coder->plan, coder->placement, part, slice)
               : 0;
}

/* Whether the state of a slice was added to its gradient in this contribution. */
enum { NOT_CARRIED, CARRIED, CARRIED_APART /* by ps_feedback_carry_apart */ };

static bool is_to_carry(const ps_coder *coder, uint32_t slice)
{
    return coder->kept_of[slice] != NULL && coder->carried[slice] == NOT_CARRIED;
}

/* Adds the state of the slice to its gradient x (n), once in a contribution. */
static void carry(ps_coder *coder, uint32_t slice, float *x)
{
    if (is_to_carry(coder, slice)) {
        const ps_codec_choice *up = up_of(coder->plan, slice);

        ps_feedback_carry(up->codec, &up->params, coder->kept_of[slice], x,
                          coder->plan->layout.slices[slice].n);
        coder->carried[slice] = CARRIED;
    }
}

static uint64_t key_of_run(const ps_coder *coder, uint32_t slice, uint64_t clock,
                           uint32_t contributor)
{
    return ps_draw_key(coder->plan->spec->seed, PS_DRAW_UP, slice, clock, contributor);
}

static size_t encode_run(ps_coder *coder, uint32_t part, uint32_t slice, uint64_t clock,
                         uint32_t contributor, float *x, uint8_t *out, ps_encoding *head)
{
    const ps_plan *plan = coder->plan;
    const ps_codec_choice *up = up_of(plan, slice);
    uint64_t key = key_of_run(coder, slice, clock, contributor);

    (void)part;
    carry(coder, slice, x);
    return (coder->carried[slice] == CARRIED_APART ? ps_feedback_encode_apart : ps_feedback_encode)(
        up->codec, &up->params, coder->kept_of[slice], key, slice, x, plan->layout.slices[slice].n,
        out, head);
}

/* Returns the low-rank factors of variable v's gradient x in this contribution. The contribution's
 * first call for v computes them. If residuals are kept, that call also stores each slice's
 * difference from their product as its residual. */
static const ps_factors *factor(ps_coder *coder, uint32_t v, uint64_t key, float *x)
{
    const ps_plan *plan = coder->plan;
    const ps_layout *layout = &plan->layout;
    ps_factors *f = &coder->factors[v];
    float y[PS_SLICE_VALUES];

    if (coder->is_factored[v]) {
        return f;
    }
    if (is_stateless(plan)) {
        memset(f->q, 0, f->rank * f->stride * sizeof *f->q);
    }
    for (uint32_t s = layout->first_slice[v]; s < layout->first_slice[v + 1]; s++) {
        carry(coder, s, x + (layout->slices[s].at - layout->variables[v].at));
    }
    ps_factors_step(f, key, x);
    for (uint32_t s = layout->first_slice[v]; s < layout->first_slice[v + 1]; s++) {
        const ps_slice *at = &layout->slices[s];

        if (coder->kept_of[s] != NULL) {
            ps_matrix_values(plan, s, f, y);
            ps_feedback_keep(plan->up[v].codec, &plan->up[v].params, coder->kept_of[s],
                             x + (at->at - layout->variables[v].at), y, at->n);
        }
    }
    coder->is_factored[v] = true;
    return f;
}

static size_t encode_matrix(ps_coder *coder, uint32_t part, uint32_t slice, uint64_t clock,
                            uint32_t contributor, float *x, uint8_t *out, ps_encoding *head)
{
    const ps_plan *plan = coder->plan;
    const ps_slice *at = &plan->layout.slices[slice];
    uint64_t key = ps_draw_key(plan->spec->seed, PS_DRAW_UP, plan->layout.first_slice[at->variable],
                               clock, contributor);
    const ps_factors *f =
        factor(coder, at->variable, key, x - (at->at - plan->layout.variables[at->variable].at));

    return ps_matrix_write(plan, coder->placement, part, slice, f, out, head);
}

static const kind run = {.kept = kept_run, .size = size_run, .encode = encode_run};
static const kind matrix = {.kept = kept_matrix, .size = size_matrix, .encode = encode_matrix};

static const kind *kind_of(const ps_plan *plan, uint32_t slice)
{
    return plan->by_matrix[plan->layout.slices[slice].variable] ? &matrix : &run;
}

static size_t floats_of(const ps_plan *plan, uint32_t slice)
{
    return is_stateless(plan) ? 0 : kind_of(plan, slice)->kept(plan, slice);
}

/* ---- The state between contributions ---- */

void ps_coder_init(ps_coder *coder, const ps_plan *plan, const ps_placement *placement,
                   uint32_t rank)
{
    uint32_t count = plan->layout.slice_count;
    size_t floats = 0;

    *coder = (ps_coder){.plan = plan, .placement = placement, .rank = rank};
    coder->kept_of = ps_xcalloc(count + 1, sizeof *coder->kept_of);
    coder->carried = ps_xcalloc(count + 1, sizeof *coder->carried);
    coder->factors = ps_xcalloc(plan->layout.variable_count + 1u, sizeof *coder->factors);
    coder->is_factored = ps_xcalloc(plan->layout.variable_count + 1u, sizeof *coder->is_factored);
    for (uint32_t s = 0; s < count; s++) {
        floats += floats_of(plan, s);
    }
    coder->kept = floats > 0 ? ps_xcalloc(floats, sizeof *coder->kept) : NULL;
    floats = 0;
    for (uint32_t s = 0; s < count && coder->kept != NULL; s++) {
        size_t n = floats_of(plan, s);

        coder->kept_of[s] = n > 0 ? coder->kept + floats : NULL;
        floats += n;
    }
    for (uint32_t v = 0; v < plan->layout.variable_count; v++) {
        ps_matrix_init(plan, v, &coder->factors[v]);
    }
}

void ps_coder_fini(ps_coder *coder)
{
    for (uint32_t v = 0; v < coder->plan->layout.variable_count; v++) {
        ps_factors_fini(&coder->factors[v]);
    }
    free(coder->factors);
    free(coder->is_factored);
    free(coder->kept);
    free(coder->kept_of);
    free(coder->carried);
}

size_t ps_coder_memory(const ps_coder *coder)
{
    uint32_t count = coder->plan->layout.slice_count;
    size_t bytes = 0;

    for (uint32_t s = 0; s < count; s++) {
        bytes += floats_of(coder->plan, s) * sizeof(float);
    }
    for (uint32_t v = 0; v < coder->plan->layout.variable_count; v++) {
        bytes += coder->factors[v].rank > 0 ? ps_factors_memory(&coder->factors[v]) : 0;
    }
    return bytes;
}

void ps_coder_put(const ps_coder *coder, uint32_t variable, ps_state_out *out)
{
    const ps_layout *layout = &coder->plan->layout;
    const ps_factors *f = &coder->factors[variable];

    for (uint32_t s = layout->first_slice[variable]; s < layout->first_slice[variable + 1]; s++) {
        if (coder->kept_of[s] != NULL) {
            ps_state_put(out, coder->kept_of[s],
                         floats_of(coder->plan, s) * sizeof *coder->kept_of[s]);
        }
    }
    ps_state_put(out, f->q, f->rank * f->stride * sizeof *f->q);
}

void ps_coder_take(ps_coder *coder, uint32_t variable, ps_state_in *in)
{
    const ps_layout *layout = &coder->plan->layout;
    ps_factors *f = &coder->factors[variable];

    for (uint32_t s = layout->first_slice[variable]; s < layout->first_slice[variable + 1]; s++) {
        if (coder->kept_of[s] != NULL) {
            ps_state_take(in, coder->kept_of[s],
                          floats_of(coder->plan, s) * sizeof *coder->kept_of[s]);
        }
    }
    ps_state_take(in, f->q, f->rank * f->stride * sizeof *f->q);
}

void ps_coder_begin(ps_coder *coder)
{
    memset(coder->carried, NOT_CARRIED, coder->plan->layout.slice_count);
    memset(coder->is_factored, 0, coder->plan->layout.variable_count);
}

bool ps_coder_is_plain(const ps_coder *coder, uint32_t slice)
{
    const ps_codec_choice *up = up_of(coder->plan, slice);

    return ps_codec_is_plain(up->codec, &up->params);
}

size_t ps_coder_size(const ps_coder *coder, uint32_t part, uint32_t slice)
{
    return kind_of(coder->plan, slice)->size(coder, part, slice);
}

size_t ps_coder_encode(ps_coder *coder, uint32_t part, uint32_t slice, uint64_t clock,
                       uint32_t block, float *x, uint8_t *out, ps_encoding *head)
{
    const ps_plan *plan = coder->plan;
    const ps_codec_choice *up = up_of(plan, slice);
    size_t n = plan->layout.slices[slice].n;
    uint8_t none[1];

    if (out == NULL) {
        ps_codec_encode(up->codec, &up->params, 0, slice, x, 0, none, head);
        head->msg.payload_bytes = (uint32_t)(n * sizeof *x);
        return n * sizeof *x;
    }
    return kind_of(plan, slice)
        ->encode(coder, part, slice, clock, plan->update->per_block ? block : coder->rank, x, out,
                 head);
}

bool ps_coder_encode_ahead(ps_coder *coder, uint32_t slice, uint64_t clock, uint32_t block,
                           float *x)
{
    const ps_plan *plan = coder->plan;
    const ps_codec_choice *up = up_of(plan, slice);
    uint32_t contributor = plan->update->per_block ? block : coder->rank;
    bool carries = is_to_carry(coder, slice);
    size_t n = plan->layout.slices[slice].n;
    float *copy;

    if (kind_of(plan, slice) != &run ||
        !ps_codec_encode_ahead(up->codec, &up->params, key_of_run(coder, slice, clock, contributor),
                               x, n, carries ? &copy : NULL)) {
        return false;
    }
    if (carries) {
        ps_feedback_carry_apart(up->codec, &up->params, coder->kept_of[slice], x, copy, n);
        coder->carried[slice] = CARRIED_APART;
    }
    return true;
}

size_t ps_coder_decode_ahead(const ps_layout *layout, Psgd__V1__Encoding *const *heads,
                             size_t count, const ps_incoming *payload, size_t at, uint8_t *scratch,
                             size_t room)
{
    size_t n = 0;

    ps_codec_end_ahead();
    for (; n < count; n++) {
        const Psgd__V1__Encoding *head = heads[n];
        size_t left = payload->len - at < room ? payload->len - at : room;

        if (head->codec_case != PSGD__V1__ENCODING__CODEC_SCRIPT || head->payload_bytes > left ||
            head->slice >= layout->slice_count ||
            !ps_codec_decode_ahead(head,
                                   ps_incoming_view(payload, at, head->payload_bytes, scratch),
                                   layout->slices[head->slice].n)) {
            break;
        }
        at += head->payload_bytes;
    }
    ps_codec_run_ahead();
    return n;
}

bool ps_coder_brings_plain(const ps_plan *plan, const Psgd__V1__Encoding *head, uint32_t slice)
{
    const ps_slice *at = &plan->layout.slices[slice];
    const ps_codec *codec = plan->down[at->variable].codec;

    return codec->is_identity && ps_encoding_is_plain(head) &&
           head->payload_bytes == at->n * sizeof(float);
}

ps_status ps_coder_decode(const ps_plan *plan, const Psgd__V1__Encoding *head, uint32_t slice,
                          const uint8_t *in, float *y)
{
    const ps_slice *at = &plan->layout.slices[slice];

    if (ps_coder_brings_plain(plan, head, slice)) {
        if (in != (const uint8_t *)y) {
            memcpy(y, in, head->payload_bytes);
        }
        return ps_ok();
    }
    return ps_codec_decode(plan->down[at->variable].codec, head, in, head->payload_bytes,
                           PS_INTO_SET, y, at->n);
}

static ps_status take_whole(const Psgd__V1__Encoding *head, const ps_slice *slice,
                            const uint8_t *bytes, float *y)
{
    if (!ps_encoding_is_plain(head) || head->payload_bytes != slice->n * sizeof *y) {
        return ps_fail(PS_DATA_LOSS, "slice %u: %u bytes that are not its %u weights as float32",
                       head->slice, head->payload_bytes, slice->n);
    }
    memcpy(y, bytes, head->payload_bytes);
    return ps_ok();
}

ps_status ps_coder_decode_replica(const ps_plan *plan, const Psgd__V1__Encoding *head,
                                  uint32_t slice, bool is_change, const uint8_t *in, float *y)
{
    const ps_slice *at = &plan->layout.slices[slice];
    float change[PS_SLICE_VALUES];
    ps_status st;

    if (!is_change) {
        return take_whole(head, at, in, y);
    }
    st = ps_codec_decode(plan->down[at->variable].codec, head, in, head->payload_bytes, PS_INTO_SET,
                         change, at->n);
    if (ps_is_ok(&st)) {
        ps_replica_step(y, change, at->n);
    }
    return st;
}
