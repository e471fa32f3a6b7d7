/* SPDX-License-Identifier: Apache-2.0 */
/* threelc.c - three values and runs of zeros (3LC, Lim, Andersen and Kaminsky 2019).
 *
 * scale = max|x| * sparsity. The value is scale, 0 or -scale, whichever is nearest. Five values
 * are one byte as in trits.h. Then each run of 2 to 14 bytes that encode zeros only becomes one
 * byte: 243 for two, 255 for fourteen. So the length depends on the data.
 */
#include "common/codec/codec_type.h"
#include "common/codec/finite.h"
#include "common/codec/trits.h"
#include "common/codec/wrap.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { RUN_LEAST = 2, RUN_MOST = 14, RUN_CODE = PS_TRITS_TOP + 1 };

static const ps_param threelc_params[] = {
    {"sparsity", 1, 1, 1.99, false, "values below half of it times max|x| become 0"},
    PS_WRAP_PARAMS,
    {0},
};

static ps_codec_facts threelc_facts(const ps_params *params)
{
    return (ps_codec_facts){
        .is_sparse = true,
        .keeps_zeros = true,
        .error_of_value = 0x1p-21,
        .error_of_max = params->v[0] / 2 + 0x1p-21,
    };
}

static size_t threelc_size(const ps_params *params, size_t n)
{
    (void)params;
    return ps_trits_bytes(n);
}

/* Shortens runs of zeros in place. Returns the length. */
static size_t squeeze(uint8_t *bytes, size_t len)
{
    size_t to = 0;

    for (size_t i = 0; i < len;) {
        size_t run = 0;

        while (run < RUN_MOST && i + run < len && bytes[i + run] == PS_TRITS_ZEROS) {
            run++;
        }
        if (run >= RUN_LEAST) {
            bytes[to++] = (uint8_t)(RUN_CODE + run - RUN_LEAST);
            i += run;
        } else {
            bytes[to++] = bytes[i++];
        }
    }
    return to;
}

static size_t run_length(uint8_t byte)
{
    return byte < RUN_CODE ? 1 : (size_t)(byte - RUN_CODE + RUN_LEAST);
}

static size_t threelc_encode(const ps_params *params, uint64_t key, const float *x, size_t n,
                             uint8_t *out, ps_encoding *head)
{
    float room[PS_CODEC_VALUES], scale;

    (void)key;
    x = ps_finite(x, n, room, &scale);
    scale *= (float)params->v[0];
    scale = scale < FLT_MAX ? scale : FLT_MAX;
    ps_trits_write(x, n, scale > 0.0f ? 1.0f / scale : 0.0f, false, 0, out);
    psgd__v1__threelc__init(&head->u.threelc);
    head->u.threelc.scale = scale;
    head->msg.codec_case = PSGD__V1__ENCODING__CODEC_THREELC;
    head->msg.threelc = &head->u.threelc;
    return squeeze(out, ps_trits_bytes(n));
}

static ps_status threelc_check(const Psgd__V1__Encoding *head, const uint8_t *in, size_t len,
                               size_t n)
{
    float scale = head->threelc->scale;
    size_t bytes = 0;

    for (size_t i = 0; i < len; i++) {
        bytes += run_length(in[i]);
    }
    if (bytes != ps_trits_bytes(n)) {
        return ps_fail(PS_DATA_LOSS, "slice %u: threelc: %zu bytes for %zu values", head->slice,
                       len, n);
    }
    if (!isfinite(scale) || scale < 0.0f) {
        return ps_fail(PS_DATA_LOSS, "slice %u: threelc: scale %g", head->slice, (double)scale);
    }
    return ps_ok();
}

static float threelc_most(const Psgd__V1__Encoding *head, const uint8_t *in, size_t n)
{
    (void)in;
    (void)n;
    return head->threelc->scale;
}

static ps_status threelc_decode(const Psgd__V1__Encoding *head, const uint8_t *in, size_t len,
                                ps_into into, float *y, size_t n)
{
    ps_status st = threelc_check(head, in, len, n);
    uint8_t bytes[PS_TRITS_BYTES];
    size_t to = 0;

    if (!ps_is_ok(&st)) {
        return st;
    }
    for (size_t i = 0; i < len; i++) {
        size_t run = run_length(in[i]);

        memset(bytes + to, in[i] < RUN_CODE ? in[i] : PS_TRITS_ZEROS, run);
        to += run;
    }
    ps_trits_read(bytes, n, head->threelc->scale, into, y);
    return st;
}

const ps_codec ps_codec_threelc = {
    .name = "threelc",
    .summary = "q * sparsity * max|x| with q the nearest of -1, 0, 1; runs of zeros shortened",
    .params = threelc_params,
    .own = 1,
    .wire = PSGD__V1__ENCODING__CODEC_THREELC,
    .facts = threelc_facts,
    .depends_on_data = true,
    .size = threelc_size,
    .encode = threelc_encode,
    .check = threelc_check,
    .most = threelc_most,
    .decode = threelc_decode,
};
