/* SPDX-License-Identifier: Apache-2.0 */
/* qsgd.c - levels of the Euclidean norm of a bucket (QSGD, Alistarh et al. 2017).
 *
 * Each `bucket` values of a slice share a norm. A value becomes q * norm / s, q in -s..s: |x| s
 * / norm, rounded stochastically so that the mean is right. The payload holds the norms as
 * binary32, then the packed q + s.
 */
#include "common/codec/bitpack.h"
#include "common/codec/codec_type.h"
#include "common/codec/finite.h"
#include "common/codec/kernels.h"
#include "common/codec/levels.h"
#include "common/codec/wrap.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { LEVELS, BUCKET };
enum { BUCKET_UNIT = 8, LEVELS_MAX = 32767 };

static const ps_param qsgd_params[] = {
    [LEVELS] = {"levels", 7, 1, LEVELS_MAX, true, "s: number of steps from 0 to the norm"},
    [BUCKET] = {"bucket", 512, 64, PS_CODEC_VALUES, true,
                "number of values that share a norm; rounded up to a multiple of 8"},
    PS_WRAP_PARAMS,
    {0},
};

static uint32_t levels_of(const ps_params *params)
{
    return (uint32_t)params->v[LEVELS];
}

static uint32_t bucket_of(const ps_params *params)
{
    return ((uint32_t)params->v[BUCKET] + BUCKET_UNIT - 1) / BUCKET_UNIT * BUCKET_UNIT;
}

/* Returns the bits of a number up to 2 * levels. */
static unsigned bits_of(uint32_t levels)
{
    return 32 - (unsigned)__builtin_clz(2 * levels);
}

static size_t norm_bytes(size_t n, uint32_t bucket)
{
    return (n + bucket - 1) / bucket * sizeof(float);
}

static size_t bytes_of(size_t n, uint32_t levels, uint32_t bucket)
{
    return norm_bytes(n, bucket) + ps_pack_bytes(n, bits_of(levels));
}

static ps_codec_facts qsgd_facts(const ps_params *params)
{
    /* The norm of a bucket is at most the root of its length times max|x|. */
    double step = sqrt((double)bucket_of(params)) / levels_of(params);

    return (ps_codec_facts){
        .is_unbiased = true,
        .keeps_zeros = true,
        .error_of_value = 0x1p-22,
        .error_of_max = step * (1 + 0x1p-22) + 0x1p-22,
    };
}

static size_t qsgd_size(const ps_params *params, size_t n)
{
    return bytes_of(n, levels_of(params), bucket_of(params));
}

/* Returns the norm of m values; 0 if it is too small to divide by. */
static float norm_of(const float *x, size_t m)
{
    double norm = sqrt(ps_kernels_best()->sum_square(x, m));

    return norm < 0x1p-100 ? 0.0f : norm < (double)FLT_MAX ? (float)norm : FLT_MAX;
}

static size_t qsgd_encode(const ps_params *params, uint64_t key, const float *x, size_t n,
                          uint8_t *out, ps_encoding *head)
{
    uint32_t levels = levels_of(params), bucket = bucket_of(params);
    unsigned bits = bits_of(levels);
    uint8_t *codes = out + norm_bytes(n, bucket);
    float room[PS_CODEC_VALUES], most;

    x = ps_finite(x, n, room, &most);
    for (size_t i = 0; i < n; i += bucket, out += sizeof(float)) {
        size_t m = n - i < bucket ? n - i : bucket;
        float norm = norm_of(x + i, m);

        memcpy(out, &norm, sizeof norm);
        ps_levels_write(x + i, m, norm > 0.0f ? (float)levels / norm : 0.0f, levels, bits,
                        norm > 0.0f, ps_key32(key), i, codes + i * bits / 8);
    }
    psgd__v1__qsgd__init(&head->u.qsgd);
    head->u.qsgd.levels = levels;
    head->u.qsgd.bucket = bucket;
    head->msg.codec_case = PSGD__V1__ENCODING__CODEC_QSGD;
    head->msg.qsgd = &head->u.qsgd;
    return bytes_of(n, levels, bucket);
}

static ps_status qsgd_check(const Psgd__V1__Encoding *head, const uint8_t *in, size_t len, size_t n)
{
    uint32_t levels = head->qsgd->levels, bucket = head->qsgd->bucket;

    if (levels < 1 || levels > LEVELS_MAX || bucket < BUCKET_UNIT || bucket % BUCKET_UNIT != 0 ||
        bucket > PS_CODEC_VALUES) {
        return ps_fail(PS_DATA_LOSS, "slice %u: qsgd: %u levels, buckets of %u", head->slice,
                       levels, bucket);
    }
    if (len != bytes_of(n, levels, bucket)) {
        return ps_fail(PS_DATA_LOSS, "slice %u: qsgd: %zu bytes for %zu values of %u levels",
                       head->slice, len, n, levels);
    }
    for (size_t i = 0; i < norm_bytes(n, bucket); i += sizeof(float)) {
        float norm;

        memcpy(&norm, in + i, sizeof norm);
        if (!isfinite(norm) || norm < 0.0f) {
            return ps_fail(PS_DATA_LOSS, "slice %u: qsgd: norm %g", head->slice, (double)norm);
        }
    }
    return ps_ok();
}

static float qsgd_most(const Psgd__V1__Encoding *head, const uint8_t *in, size_t n)
{
    uint32_t levels = head->qsgd->levels;
    float most = 0.0f;

    if (in == NULL) {
        return INFINITY;
    }
    for (size_t i = 0; i < norm_bytes(n, head->qsgd->bucket); i += sizeof(float)) {
        float norm;

        memcpy(&norm, in + i, sizeof norm);
        most = norm > most ? norm : most;
    }
    return ps_levels_most(bits_of(levels), most / (float)levels);
}

static ps_status qsgd_decode(const Psgd__V1__Encoding *head, const uint8_t *in, size_t len,
                             ps_into into, float *y, size_t n)
{
    ps_status st = qsgd_check(head, in, len, n);
    uint32_t levels = head->qsgd->levels, bucket = head->qsgd->bucket;
    const uint8_t *codes;
    unsigned bits;

    if (!ps_is_ok(&st)) {
        return st;
    }
    bits = bits_of(levels);
    codes = in + norm_bytes(n, bucket);
    for (size_t i = 0; i < n; i += bucket, in += sizeof(float)) {
        size_t m = n - i < bucket ? n - i : bucket;
        float norm;

        memcpy(&norm, in, sizeof norm);
        ps_levels_read(codes + i * bits / 8, m, levels, bits, norm / (float)levels, into, y + i);
    }
    return st;
}

const ps_codec ps_codec_qsgd = {
    .name = "qsgd",
    .summary = "q * |bucket|_2 / s with q in -s..s, stochastically rounded, packed",
    .params = qsgd_params,
    .own = 2,
    .wire = PSGD__V1__ENCODING__CODEC_QSGD,
    .facts = qsgd_facts,
    .size = qsgd_size,
    .encode = qsgd_encode,
    .check = qsgd_check,
    .most = qsgd_most,
    .decode = qsgd_decode,
};
