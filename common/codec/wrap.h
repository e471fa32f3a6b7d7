/* SPDX-License-Identifier: Apache-2.0 */
/* wrap.h - the numbers that every codec takes behind its own.
 *
 * They stand at the end of each table of numbers, in this order; ps_codec.own is how many
 * precede them. stages.h has what an encoding goes through besides its codec, feedback.h what a
 * sender keeps between two encodings.
 */
#ifndef PS_COMMON_CODEC_WRAP_H
#define PS_COMMON_CODEC_WRAP_H

#include "common/codec/codec_type.h"

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

/* Numbers of stages.h. */
#define PS_WRAP_STAGES \
    {"lossless", 0, 0, 2, true, \
     "compresses the bytes if that makes them shorter: 1 LZ4, 2 Zstandard"}, \
    {"rows", 0, 0, PS_CODEC_VALUES, true, \
     "values of a row; rows of zeros are not sent. 1: the variable's own rows; 0: no rows"}

/* Numbers of feedback.h; error_feedback has a default of the codec. */
#define PS_WRAP_SENDER(error_feedback) \
    {"error_feedback", error_feedback, 0, 1, true, \
     "1: adds what an encoding lost to the next one; state: 1 float a value"}, \
    {"difference", 0, 0, 1, true, \
     "1: sends the change since the last push (EF21); state: 2 floats a value; not with " \
     "error_feedback, not for pulls"}, \
    {"momentum", 0, 0, 0.9999, false, \
     "momentum of the sender: it pushes momentum times its last value plus the gradient; state: " \
     "1 float a value; not for pulls"}, \
    {"lazy", 0, 0, 10, false, \
     "with difference: nothing is sent while the squared norm of the change is below this share " \
     "of the gradient's"}
/* clang-format on */

/* Returns the value of the number `which`, a PS_WRAP_ constant. */
static inline double ps_wrap_of(const ps_codec *codec, const ps_params *params, int which)
{
    return params->v[codec->own + (size_t)which];
}

#endif
