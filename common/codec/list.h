/* SPDX-License-Identifier: Apache-2.0 */
/* list.h - every codec of this build, one a line. No include guard: expanded
 * with a caller's PS_CODEC(name). */
PS_CODEC(f32)
PS_CODEC(f16)
PS_CODEC(int8)
PS_CODEC(bf16)
PS_CODEC(intn)
PS_CODEC(natural)
PS_CODEC(sign)
PS_CODEC(onebit)
PS_CODEC(ternary)
PS_CODEC(qsgd)
PS_CODEC(topk)
PS_CODEC(randomk)
PS_CODEC(threshold)
PS_CODEC(threelc)
