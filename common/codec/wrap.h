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

enum {
    PS_WRAP_LOSSLESS,
    PS_WRAP_ROWS,
    PS_WRAP_FEEDBACK,
    PS_WRAP_DIFFERENCE,
    PS_WRAP_MOMENTUM,
    PS_WRAP_LAZY,
    PS_WRAP_COUNT
};

/* clang-format off */
#define PS_WRAP_PARAMS PS_WRAP_STAGES, PS_WRAP_SENDER(0)

/* What an encoding goes through. */
#define PS_WRAP_STAGES \
    {"lossless", 0, 0, 2, true, "bytes are compressed where it makes them shorter: 1 LZ4, 2 Zstandard"}, \
    {"rows", 0, 0, PS_CODEC_VALUES, true, \
     "values of a row; rows of zeros are left out. 1: the variable's own rows; 0: no rows"}

/* What the sender keeps, with a codec's own defaults. */
#define PS_WRAP_SENDER(error_feedback) \
    {"error_feedback", error_feedback, 0, 1, true, \
     "1: what was lost is added to the next one; state 1 float a value"}, \
    {"difference", 0, 0, 1, true, \
     "1: the change since the last push is sent (EF21); state 2 floats a value; not with error_feedback, not for pulls"}, \
    {"momentum", 0, 0, 0.9999, false, \
     "of the sender: pushes are momentum times the last one's plus the gradient; state 1 float a value; not for pulls"}, \
    {"lazy", 0, 0, 10, false, \
     "with difference: not sent while its square is below so much of the gradient's"}
/* clang-format on */

static inline double ps_wrap_of(const ps_codec *codec, const ps_params *params, int which)
{
    return params->v[codec->own + (size_t)which];
}

#endif
