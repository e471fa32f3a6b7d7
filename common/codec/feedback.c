/* SPDX-License-Identifier: Apache-2.0 */
/* feedback.c - see feedback.h. */
#include "common/codec/feedback.h"

#include "common/base/clones.h"
#include "common/codec/wrap.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <string.h>

bool ps_feedback_is_on(const ps_codec *codec, const ps_params *params)
{
    return !codec->is_identity && ps_wrap_of(codec, params, PS_WRAP_FEEDBACK) != 0;
}

bool ps_feedback_differs(const ps_codec *codec, const ps_params *params)
{
    return ps_wrap_of(codec, params, PS_WRAP_DIFFERENCE) != 0;
}

bool ps_feedback_has_momentum(const ps_codec *codec, const ps_params *params)
{
    return ps_wrap_of(codec, params, PS_WRAP_MOMENTUM) != 0;
}

/* Returns whether a value's momentum becomes 0 where the value was sent. */
static bool masks(const ps_codec *codec, const ps_params *params)
{
    return ps_feedback_has_momentum(codec, params) && codec->facts(params).is_sparse &&
           codec->facts(params).keeps_zeros;
}

bool ps_feedback_decodes(const ps_codec *codec, const ps_params *params)
{
    return ps_feedback_is_on(codec, params) || ps_feedback_differs(codec, params) ||
           masks(codec, params);
}

/* The parts of a slice's state; NULL if a part does not exist. */
typedef struct parts {
    float *lost;     /* (n) error_feedback: e */
    float *velocity; /* (n) momentum: u */
    float *standing; /* (n) difference: h before the current contribution */
    float *change;   /* (n) difference: what the current contribution adds to h */
    /* (2) lazy: [0] number of contributions skipped in a row, the current one included; [1] is 1
     * if the current one is skipped, else 0 */
    float *skips;
    float *own; /* state of the codec */
} parts;

/* Finds the parts in `state` and returns its floats. With `state` NULL only the result is
 * meaningful. */
static size_t cut(const ps_codec *codec, const ps_params *params, float *state, size_t n,
                  parts *out)
{
    size_t at = 0, own = ps_codec_state_floats(codec, params, n);

    *out = (parts){0};
    if (ps_feedback_has_momentum(codec, params)) {
        out->velocity = state != NULL ? state + at : NULL;
        at += n;
    }
    if (ps_feedback_differs(codec, params)) {
        out->standing = state != NULL ? state + at : NULL;
        out->change = state != NULL ? state + at + n : NULL;
        out->skips = state != NULL ? state + at + 2 * n : NULL;
        at += 2 * n + 2;
    } else if (ps_feedback_is_on(codec, params)) {
        out->lost = state != NULL ? state + at : NULL;
        at += n;
    }
    if (own > 0) {
        out->own = state != NULL ? state + at : NULL;
        at += own;
    }
    return at;
}

size_t ps_feedback_floats(const ps_codec *codec, const ps_params *params, size_t n)
{
    parts unused;

    return cut(codec, params, NULL, n, &unused);
}

static inline float kept(float x)
{
    return fabsf(x) <= FLT_MAX ? x : 0.0f; /* the comparison is false for NaN too */
}

PS_CLONES(gather_momentum, (momentum, velocity, x, n), float momentum, float *restrict velocity,
          float *restrict x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        x[i] += momentum * velocity[i];
        velocity[i] = kept(x[i]);
    }
}

PS_CLONES(add_lost, (lost, x, n), const float *restrict lost, float *restrict x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        x[i] += lost[i];
    }
}

/* Adds what was lost to x, notes all of x as lost, and copies x to y. */
PS_CLONES(lose_and_copy, (lost, x, y, n), float *restrict lost, float *restrict x,
          float *restrict y, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float sum = x[i] + lost[i];

        x[i] = sum;
        y[i] = sum;
        lost[i] = kept(sum);
    }
}

/* Sets `lost` to what sending x has lost, if `sent` (n) is what receivers decode. */
PS_CLONES(keep_lost, (x, sent, lost, n), const float *restrict x, const float *restrict sent,
          float *restrict lost, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        lost[i] = kept(x[i] - sent[i]);
    }
}

/* The same, if all of x is lost. */
PS_CLONES(keep_all, (x, lost, n), const float *restrict x, float *restrict lost, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        lost[i] = kept(x[i]);
    }
}

PS_CLONES(mask, (sent, velocity, n), const float *restrict sent, float *restrict velocity, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        velocity[i] = sent[i] != 0.0f ? 0.0f : velocity[i];
    }
}

/* Adds the last change to h (standing), which the receiver has, and replaces x by its difference
 * from h. Decides whether the contribution is skipped (s->skips): the sum of squares of the
 * difference is below `lazy` times that of x, and fewer than PS_FEEDBACK_SKIPS were skipped in a
 * row before. */
static void differ(const parts *s, double lazy, float *x, size_t n)
{
    double of_change = 0, of_value = 0;

    for (size_t i = 0; i < n; i++) {
        float change;

        s->standing[i] = kept(s->standing[i] + s->change[i]);
        s->change[i] = 0.0f;
        change = x[i] - s->standing[i];
        of_value += (double)x[i] * (double)x[i];
        of_change += (double)change * (double)change;
        x[i] = change;
    }
    s->skips[1] = of_change < lazy * of_value && s->skips[0] < PS_FEEDBACK_SKIPS;
    s->skips[0] = s->skips[1] != 0.0f ? s->skips[0] + 1.0f : 0.0f;
}

/* Does what ps_feedback_carry does, except that it does not add what was lost. */
static void carry_rest(const ps_codec *codec, const ps_params *params, const parts *s, float *x,
                       size_t n)
{
    if (s->velocity != NULL) {
        gather_momentum((float)ps_wrap_of(codec, params, PS_WRAP_MOMENTUM), s->velocity, x, n);
    }
    if (s->standing != NULL) {
        differ(s, ps_wrap_of(codec, params, PS_WRAP_LAZY), x, n);
    }
}

void ps_feedback_carry(const ps_codec *codec, const ps_params *params, float *state, float *x,
                       size_t n)
{
    parts s;

    if (state == NULL) {
        return;
    }
    cut(codec, params, state, n, &s);
    carry_rest(codec, params, &s, x, n);
    if (s.lost != NULL) {
        add_lost(s.lost, x, n);
    }
}

void ps_feedback_carry_apart(const ps_codec *codec, const ps_params *params, float *state, float *x,
                             float *y, size_t n)
{
    parts s;

    cut(codec, params, state, n, &s);
    carry_rest(codec, params, &s, x, n);
    if (s.lost != NULL) {
        lose_and_copy(s.lost, x, y, n);
    } else {
        memcpy(y, x, n * sizeof *y);
    }
}

/* Encodes 0 values in place of the slice x, which tells the receiver that all its values are
 * zeros. */
static size_t leave_out(const ps_codec *codec, const ps_params *params, uint64_t key,
                        uint32_t slice, const float *x, ps_encoding *head)
{
    uint8_t none[1];

    return ps_codec_encode(codec, params, key, slice, x, 0, none, head);
}

/* What receivers decode from an encoding: `count` values at ascending positions, the others 0; or
 * all n values, if count is n. */
typedef struct decoded {
    float values[PS_CODEC_VALUES];
    uint16_t positions[PS_CODEC_VALUES / 2];
    size_t count;
} decoded;

/* Does what `mask` does. */
static void mask_sent(const decoded *sent, float *velocity, size_t n)
{
    if (sent->count == n) {
        mask(sent->values, velocity, n);
        return;
    }
    for (size_t i = 0; i < sent->count; i++) {
        if (sent->values[i] != 0.0f) {
            velocity[sent->positions[i]] = 0.0f;
        }
    }
}

/* Does what keep_lost does. is_noted: all of x is noted as lost already. */
static void keep_unsent(const float *x, const decoded *sent, bool is_noted, float *lost, size_t n)
{
    if (sent->count == n) {
        keep_lost(x, sent->values, lost, n);
        return;
    }
    if (!is_noted) {
        keep_all(x, lost, n);
    }
    for (size_t i = 0; i < sent->count; i++) {
        uint16_t at = sent->positions[i];

        lost[at] = kept(x[at] - sent->values[i]);
    }
}

/* Does what ps_feedback_encode does. is_noted: all of x is noted as lost already. */
static size_t encode(const ps_codec *codec, const ps_params *params, float *state, bool is_noted,
                     uint64_t key, uint32_t slice, const float *x, size_t n, uint8_t *out,
                     ps_encoding *head)
{
    decoded sent;
    size_t bytes;
    parts s;

    if (state == NULL) {
        return ps_codec_encode(codec, params, key, slice, x, n, out, head);
    }
    cut(codec, params, state, n, &s);
    if (s.skips != NULL && s.skips[1] != 0.0f) {
        return leave_out(codec, params, key, slice, x, head);
    }
    bytes = ps_codec_encode_with(codec, params, s.own, key, slice, x, n, out, head);
    if (!ps_feedback_decodes(codec, params)) {
        return bytes;
    }
    if (s.change != NULL) {
        ps_codec_decode_own(&head->msg, out, s.change, n);
        if (masks(codec, params)) {
            mask(s.change, s.velocity, n);
        }
        return bytes;
    }
    sent.count = ps_codec_decode_own_few(&head->msg, out, sent.values, sent.positions, n);
    if (masks(codec, params)) {
        mask_sent(&sent, s.velocity, n);
    }
    if (s.lost != NULL) {
        keep_unsent(x, &sent, is_noted, s.lost, n);
    }
    return ps_codec_replace_few(head, sent.values, sent.positions, n, sent.count, out);
}

size_t ps_feedback_encode(const ps_codec *codec, const ps_params *params, float *state,
                          uint64_t key, uint32_t slice, const float *x, size_t n, uint8_t *out,
                          ps_encoding *head)
{
    return encode(codec, params, state, false, key, slice, x, n, out, head);
}

size_t ps_feedback_encode_apart(const ps_codec *codec, const ps_params *params, float *state,
                                uint64_t key, uint32_t slice, const float *x, size_t n,
                                uint8_t *out, ps_encoding *head)
{
    return encode(codec, params, state, true, key, slice, x, n, out, head);
}

void ps_feedback_keep(const ps_codec *codec, const ps_params *params, float *state, const float *x,
                      const float *y, size_t n)
{
    parts s;

    if (state == NULL) {
        return;
    }
    cut(codec, params, state, n, &s);
    if (s.velocity != NULL && codec->facts(params).keeps_zeros) {
        mask(y, s.velocity, n);
    }
    if (s.lost != NULL) {
        keep_lost(x, y, s.lost, n);
    }
}
