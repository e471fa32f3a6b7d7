/* SPDX-License-Identifier: Apache-2.0 */
/* codec_spec.h - a codec and its numbers as one line of text: "topk:fraction=0.01,rows=64". */
#ifndef PS_COMMON_CODEC_CODEC_SPEC_H
#define PS_COMMON_CODEC_CODEC_SPEC_H

#include "common/codec/codec.h"

/* Sets *codec and *params from the text; numbers that it leaves out have their defaults. Returns
 * INVALID_ARGUMENT, with what is allowed, for other text. */
PS_MUST_USE ps_status ps_codec_spec_parse(const char *text, const ps_codec **codec,
                                          ps_params *params);

#endif
