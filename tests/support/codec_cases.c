/* SPDX-License-Identifier: Apache-2.0 */
/* codec_cases.c - see codec_cases.h. */
#include "tests/support/codec_cases.h"

#include "tests/support/cmocka_all.h"

#include "common/base/draw.h"
#include "common/codec/wrap.h"

#include <math.h>
#include <stdlib.h>

static void with(const ps_codec *c, codec_case *fn, size_t at, double value)
{
    ps_params params = ps_params_default(c->params);

    params.v[at] = value;
    fn(c, &params);
}

static void call(const ps_codec *c, void *arg)
{
    codec_case *fn = *(codec_case **)arg;
    ps_params params = ps_params_default(c->params);

    fn(c, &params);
    for (size_t i = 0; i < c->own + PS_WRAP_COUNT; i++) {
        double min = c->params[i].min, max = c->params[i].max;
        bool few = c->params[i].is_integer && max - min < 4;

        for (double v = min; few && v <= max; v++) {
            with(c, fn, i, v);
        }
        for (double v = min; !few && v <= max; v += max - min) {
            with(c, fn, i, v);
        }
    }
    with(c, fn, c->own + PS_WRAP_ROWS, 7);
}

void codec_each_case(codec_case *fn)
{
    ps_codec_each(call, &fn);
}

/* Magnitudes from 2^-13 to 2^15, which are all normal numbers in binary16. */
void codec_fill(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        double exponent = (double)ps_draw_below(7, 2 * i, 28) - 13.0;

        x[i] = (float)(ps_draw_unit(7, 2 * i + 1) < 0.5 ? -1.0 : 1.0) *
               (float)exp2(exponent + ps_draw_unit(8, i));
    }
}

void codec_fill_normal(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        x[i] = (float)ps_draw_normal(9, i);
        x[i] = fabsf(x[i]) < 0x1p-14f ? 0.0f : x[i];
    }
}

void codec_fill_equal(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        x[i] = i % 3 == 0 ? -0.125f : 0.125f;
    }
}

void codec_fill_few(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        x[i] = i % 97 == 5 ? 1.0f + (float)ps_draw_unit(10, i) : 0.0f;
    }
}

uint8_t *codec_encoded(const ps_codec *c, const ps_params *params, uint64_t key, const float *x,
                       size_t n, ps_encoding *head)
{
    /* Exactly as many bytes as the codec may write, so that AddressSanitizer sees one more. */
    size_t room = c->size(params, n), len;
    uint8_t *out = malloc(room + (room == 0));

    assert_non_null(out);
    len = ps_codec_encode(c, params, key, 3, x, n, out, head);
    assert_int_equal(head->msg.slice, 3);
    assert_int_equal(head->msg.payload_bytes, len);
    assert_true(ps_codec_depends_on_data(c, params) ? len <= room : len == room);
    return out;
}

void codec_decoded(const ps_codec *c, const ps_encoding *head, const uint8_t *in, ps_into into,
                   float *y, size_t n)
{
    ps_status st = ps_codec_decode(c, &head->msg, in, head->msg.payload_bytes, into, y, n);

    if (!ps_is_ok(&st)) {
        fail_msg("%s: %s", c->name, st.text);
    }
}
