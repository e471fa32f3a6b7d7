/* SPDX-License-Identifier: Apache-2.0 */
/* codec_cost.h - measures on this machine what a codec costs. */
#ifndef PS_COMMON_CODEC_CODEC_COST_H
#define PS_COMMON_CODEC_CODEC_COST_H

#include "common/base/status.h"

#include <stddef.h>
#include <stdint.h>

/* What a codec costs: bytes (heads included) and nanoseconds on one thread, each divided by the
 * number of values. */
typedef struct ps_codec_cost {
    double bytes, encode_ns, decode_ns;
    double error; /* error of one encoding: root of sum((decoded - x)^2) / sum(x^2) */
} ps_codec_cost;

/* Measures the codec `spec` (codec_spec.h) on `values` normal draws, for for_us microseconds and at
 * least three runs in each direction; the fastest run counts. Values are decoded as a server does
 * it: checked when they arrive, then decoded. Blocks. Returns INVALID_ARGUMENT, with what is
 * allowed, for a spec that is none. */
PS_MUST_USE ps_status ps_codec_cost_measure(const char *spec, size_t values, int64_t for_us,
                                            ps_codec_cost *out);

#endif
