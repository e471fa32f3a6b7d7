/* SPDX-License-Identifier: Apache-2.0 */
/* list.h - every layer and loss of this build, one a line. No include guard:
 * define PS_LAYER(kind) or PS_LOSS(name), or both. */
#ifdef PS_LAYER
PS_LAYER(dense)
PS_LAYER(tanh)
PS_LAYER(relu)
PS_LAYER(sigmoid)
#endif
#ifdef PS_LOSS
PS_LOSS(softmax_cross_entropy)
#endif
