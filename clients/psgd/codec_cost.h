/* SPDX-License-Identifier: Apache-2.0 */
/* codec_cost.h - measures on this machine what a codec costs. */
#ifndef PS_CLIENTS_PSGD_CODEC_COST_H
#define PS_CLIENTS_PSGD_CODEC_COST_H

#include <stddef.h>
#include <stdint.h>

/* What a codec costs a value, on one thread. */
typedef struct ps_codec_cost {
    double bytes, encode_ns, decode_ns;
    double error; /* of one encoding of normal draws, relative to them */
} ps_codec_cost;

/* Measures the codec `spec`, as psgd_codec_create has it (clients/lib/psgd.h), on `values` normal
 * draws, for_us for each direction: the fastest run. Returns a code of psgd.h; psgd_last_error says
 * more. */
int ps_codec_cost_measure(const char *spec, size_t values, int64_t for_us, ps_codec_cost *out);

#endif
