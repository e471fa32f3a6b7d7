/* SPDX-License-Identifier: Apache-2.0 */
/* tqn.c - -1, 0 or 1 times a fitted scale; the older systems' `tqn`.
 *
 * A first scale s, 0.7 times the root mean square, makes a value non-zero with probability p =
 * min(1, |x| / s). The scale that fits such draws best on average is a = sum(p |x|) / sum(p),
 * over a quarter of a long slice. The values are then drawn with it: the sign of x times a with
 * probability min(1, |x| / a). Values above a are clipped to it. Five values are one byte.
 */
#include "common/codec/codec_type.h"
#include "common/codec/finite.h"
#include "common/codec/kernels.h"
#include "common/codec/trits.h"
#include "common/codec/wrap.h"

#include <math.h>

static const double first_scale = 0.7;

static const ps_param tqn_params[] = {
    PS_WRAP_PARAMS,
    {0},
};

static ps_codec_facts tqn_facts(const ps_params *params)
{
    (void)params;
    return (ps_codec_facts){
        .keeps_zeros = true,
        .error_of_value = 0x1p-22,
        .error_of_max = 1.0 + 0x1p-20, /* a is a mean of magnitudes */
    };
}

static size_t tqn_size(const ps_params *params, size_t n)
{
    (void)params;
    return ps_trits_bytes(n);
}

static size_t tqn_encode(const ps_params *params, uint64_t key, const float *x, size_t n,
                         uint8_t *out, ps_encoding *head)
{
    const ps_kernels *k = ps_kernels_best();
    float room[PS_CODEC_VALUES], most, scale = 0;

    (void)params;
    x = ps_finite(x, n, room, &most);
    if (most > 0.0f) {
        double sums[2], first = first_scale * sqrt(k->sum_square(x, n) / (double)n);

        k->soft_fit(x, (float)(1 / first), ps_fit_stride(n), sums, n);
        scale = sums[1] > 0 ? (float)(sums[0] / sums[1]) : (float)first;
    }
    ps_trits_write(x, n, scale > 0.0f ? 1.0f / scale : 0.0f, scale > 0.0f, ps_key32(key), out);
    psgd__v1__tqn__init(&head->u.tqn);
    head->u.tqn.scale = scale;
    head->msg.codec_case = PSGD__V1__ENCODING__CODEC_TQN;
    head->msg.tqn = &head->u.tqn;
    return ps_trits_bytes(n);
}

static ps_status tqn_check(const Psgd__V1__Encoding *head, const uint8_t *in, size_t len, size_t n)
{
    return ps_trits_check("tqn", head->slice, head->tqn->scale, in, len, n);
}

static float tqn_most(const Psgd__V1__Encoding *head, const uint8_t *in, size_t n)
{
    (void)in;
    (void)n;
    return head->tqn->scale;
}

static ps_status tqn_decode(const Psgd__V1__Encoding *head, const uint8_t *in, size_t len,
                            ps_into into, float *y, size_t n)
{
    ps_status st = tqn_check(head, in, len, n);

    if (ps_is_ok(&st)) {
        ps_trits_read(in, n, head->tqn->scale, into, y);
    }
    return st;
}

const ps_codec ps_codec_tqn = {
    .name = "tqn",
    .summary = "q * a with q in -1, 0, 1, stochastically rounded; a fitted to the values",
    .params = tqn_params,
    .wire = PSGD__V1__ENCODING__CODEC_TQN,
    .facts = tqn_facts,
    .size = tqn_size,
    .encode = tqn_encode,
    .check = tqn_check,
    .most = tqn_most,
    .decode = tqn_decode,
};
