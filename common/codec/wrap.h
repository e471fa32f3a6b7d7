/* SPDX-License-Identifier: Apache-2.0 */
/* wrap.h - the numbers that every codec takes behind its own.
 *
 * They stand at the end of each table of parameters, in this order; ps_codec.own
 * is how many are before them. What the encoding of a slice goes through besides
 * the codec is stages.h's, what a sender keeps between two is feedback.h's.
 */
#ifndef PS_COMMON_CODEC_WRAP_H
#define PS_COMMON_CODEC_WRAP_H

#include "common/codec/codec.h"

enum { PS_WRAP_LOSSLESS, PS_WRAP_ROWS, PS_WRAP_FEEDBACK, PS_WRAP_COUNT };

/* clang-format off */
#define PS_WRAP_PARAMS \
    {"lossless", 0, 0, 2, true, "bytes are compressed where it makes them shorter: 1 LZ4, 2 Zstandard"}, \
    {"rows", 0, 0, PS_CODEC_VALUES, true, \
     "values of a row; rows of zeros are left out. 1: the variable's own rows; 0: no rows"}, \
    {"error_feedback", 0, 0, 1, true, "1: what was lost is added to the next push; not for pulls"}
/* clang-format on */

static inline double ps_wrap_of(const ps_codec *codec, const ps_params *params, int which)
{
    return params->v[codec->own + (size_t)which];
}

#endif
