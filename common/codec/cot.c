/* SPDX-License-Identifier: Apache-2.0 */
/* cot.c - levels that are dense near 0 and sparse at the ends, on a fitted scale, with an
 * entropy code. The grid is that of the older systems' `sgq` and `q_ext`.
 *
 * With K = 2^(bits-1) - 1 the levels are 0 and +-cot(k pi / 4 K), k = 1..K, rounded to four
 * decimals and multiplied by the scale a. The rounding also makes them the same with every
 * libm. a begins as a share of the root mean square that is about the best one for normal
 * values. Three times it is fitted to the levels nearest to x / a as a = sum(b x) / sum(b b),
 * over a quarter of a long slice. Then x / a becomes the nearest level, or a random neighbour.
 * With random rounding a is at least the value that takes max|x| to the highest level, so that
 * the mean is right for every value. The older systems turned values above the highest level
 * into 0.
 */
#include "common/codec/bitpack.h"
#include "common/codec/codec_type.h"
#include "common/codec/finite.h"
#include "common/codec/huffman.h"
#include "common/codec/kernels.h"
#include "common/codec/wrap.h"

#include <math.h>

enum { BITS, STOCHASTIC, ENTROPY };
enum { BITS_MAX = 7, TOP_MAX = (1 << (BITS_MAX - 1)) - 1, FITS = 3 };

/* First value of the fitted scale a, as a share of the root mean square, for 2 to 7 bits. */
static const double first_share[] = {1.2, 0.5, 0.5, 0.4, 0.3, 0.25};

static const ps_param cot_params[] = {
    [BITS] = {"bits", 4, 2, BITS_MAX, true, "bits a value before the entropy code"},
    [STOCHASTIC] = {"stochastic", 1, 0, 1, true, "1: stochastic rounding, unbiased; 0: to nearest"},
    [ENTROPY] = {"entropy", 1, 0, 1, true, "1: Huffman codes if they are shorter; 0: packed"},
    PS_WRAP_PARAMS,
    {0},
};

/* The grid in the form of the kernels, see grid_nearest in kernels.h. */
typedef struct grid {
    uint32_t top;
    float level[TOP_MAX + 2], edges[TOP_MAX + 2];
} grid;

static void make_grid(unsigned bits, grid *g)
{
    uint32_t top = (1u << (bits - 1)) - 1;

    *g = (grid){.top = top};
    for (uint32_t k = 1; k <= top; k++) {
        double angle = (top - k + 1) * 0.78539816339744831 / top; /* pi / 4 */

        g->level[k] = (float)(nearbyint(1e4 / tan(angle)) / 1e4);
        g->edges[k] = (g->level[k - 1] + g->level[k]) / 2;
    }
    g->level[top + 1] = g->level[top];
}

static ps_codec_facts cot_facts(const ps_params *params)
{
    /* Between 0 and the first level the error is at most a, which is at most max|x|. Above, the
     * next level is at most 2.16 times as high. */
    return (ps_codec_facts){
        .is_unbiased = params->v[STOCHASTIC] != 0,
        .keeps_zeros = true,
        .error_of_value = 1.2,
        .error_of_max = 1.0 + 0x1p-20,
    };
}

static size_t cot_size(const ps_params *params, size_t n)
{
    return ps_pack_bytes(n, (unsigned)params->v[BITS]);
}

static double fitted(const float *x, size_t n, unsigned bits, const grid *g, double most)
{
    const ps_kernels *k = ps_kernels_best();
    double a = sqrt(k->sum_square(x, n) / (double)n) * first_share[bits - 2];

    for (int i = 0; i < FITS; i++) {
        double sums[2];

        k->grid_fit(x, (float)(1 / a), g->edges, g->level, g->top, ps_fit_stride(n), sums, n);
        a = sums[1] > 0 ? sums[0] / sums[1] : most / (double)g->level[g->top];
    }
    return a;
}

static size_t cot_encode(const ps_params *params, uint64_t key, const float *x, size_t n,
                         uint8_t *out, ps_encoding *head)
{
    unsigned bits = (unsigned)params->v[BITS];
    bool draws = params->v[STOCHASTIC] != 0;
    float room[PS_CODEC_VALUES], most, inverse = 0;
    uint8_t codes[PS_CODEC_VALUES];
    size_t bytes = 0;
    double a = 0;
    grid g;

    make_grid(bits, &g);
    x = ps_finite(x, n, room, &most);
    if (most > 0.0f) {
        double least = (double)most / (double)g.level[g.top];

        a = fitted(x, n, bits, &g, (double)most);
        a = draws && a < least ? least : a;
        inverse = 1.0f / (float)a;
    }
    if (draws) {
        ps_kernels_best()->grid_drawn(x, inverse, g.level, g.top, ps_key32(key), codes, n);
    } else {
        ps_kernels_best()->grid_nearest(x, inverse, g.edges, g.top, codes, n);
    }
    if (params->v[ENTROPY] != 0 && n > 0) {
        bytes = ps_huffman_write(codes, n, 2 * g.top + 1, out, ps_pack_bytes(n, bits));
    }
    psgd__v1__cot__init(&head->u.cot);
    head->u.cot.scale = (float)a;
    head->u.cot.bits = bits;
    head->u.cot.coded = bytes > 0;
    head->msg.codec_case = PSGD__V1__ENCODING__CODEC_COT;
    head->msg.cot = &head->u.cot;
    if (bytes == 0) {
        ps_pack8(codes, n, bits, out);
        bytes = ps_pack_bytes(n, bits);
    }
    return bytes;
}

/* Checks the encoding and reads its codes. */
static ps_status read(const Psgd__V1__Encoding *head, const uint8_t *in, size_t len, uint8_t *codes,
                      size_t n)
{
    const Psgd__V1__Cot *cot = head->cot;

    if (cot->bits < 2 || cot->bits > BITS_MAX) {
        return ps_fail(PS_DATA_LOSS, "slice %u: cot: has %u bits a value; 2 to 7 are allowed",
                       head->slice, cot->bits);
    }
    if (!isfinite(cot->scale) || cot->scale < 0.0f) {
        return ps_fail(PS_DATA_LOSS, "slice %u: cot: scale %g", head->slice, (double)cot->scale);
    }
    if (cot->coded) {
        if (!ps_huffman_read(in, len, (1u << cot->bits) - 1, codes, n)) {
            return ps_fail(PS_DATA_LOSS, "slice %u: cot: %zu bytes are not a code of %zu values",
                           head->slice, len, n);
        }
        return ps_ok();
    }
    if (len != ps_pack_bytes(n, cot->bits)) {
        return ps_fail(PS_DATA_LOSS, "slice %u: cot: %zu bytes for %zu values of %u bits",
                       head->slice, len, n, cot->bits);
    }
    ps_unpack8(in, n, cot->bits, codes);
    return ps_ok();
}

static ps_status cot_check(const Psgd__V1__Encoding *head, const uint8_t *in, size_t len, size_t n)
{
    uint8_t codes[PS_CODEC_VALUES];

    return read(head, in, len, codes, n);
}

/* Returns a bound of decoded magnitudes: scale times 2 * TOP_MAX. A level is at most top * 4 / pi,
 * because tan(a) > a. */
static float cot_most(const Psgd__V1__Encoding *head, const uint8_t *in, size_t n)
{
    (void)in;
    (void)n;
    return head->cot->scale * (2.0f * TOP_MAX);
}

static ps_status cot_decode(const Psgd__V1__Encoding *head, const uint8_t *in, size_t len,
                            ps_into into, float *y, size_t n)
{
    uint8_t codes[PS_CODEC_VALUES];
    ps_status st = read(head, in, len, codes, n);
    const ps_kernels *k = ps_kernels_best();
    float value[2 * TOP_MAX + 2];
    grid g;

    if (!ps_is_ok(&st)) {
        return st;
    }
    make_grid(head->cot->bits, &g);
    for (uint32_t c = 0; c <= g.top; c++) {
        value[g.top + c] = g.level[c] * head->cot->scale;
        value[g.top - c] = -value[g.top + c];
    }
    value[g.top] = 0.0f;
    value[2 * g.top + 1] = value[2 * g.top];
    (into == PS_INTO_SET ? k->lookup8_set : k->lookup8_add)(codes, value, 2 * g.top + 2, y, n);
    return st;
}

const ps_codec ps_codec_cot = {
    .name = "cot",
    .summary = "a fitted scale times 0 or +-cot(k pi / 4 K), with Huffman codes",
    .params = cot_params,
    .own = 3,
    .wire = PSGD__V1__ENCODING__CODEC_COT,
    .facts = cot_facts,
    .depends_on_data = true,
    .size = cot_size,
    .encode = cot_encode,
    .check = cot_check,
    .most = cot_most,
    .decode = cot_decode,
};
