/* SPDX-License-Identifier: Apache-2.0 */
/* list.h - every layer and loss of this build, one a line. No include guard:
 * define PS_LAYER(kind) or PS_LOSS(name), or both. */
#ifdef PS_LAYER
PS_LAYER(dense)
PS_LAYER(tanh)
PS_LAYER(relu)
PS_LAYER(sigmoid)
PS_LAYER(conv2d)
PS_LAYER(maxpool2d)
PS_LAYER(avgpool2d)
PS_LAYER(global_avgpool)
PS_LAYER(flatten)
PS_LAYER(reshape)
PS_LAYER(linear)
PS_LAYER(leaky_relu)
PS_LAYER(hard_tanh)
PS_LAYER(softmax)
PS_LAYER(add)
PS_LAYER(concat)
PS_LAYER(slice)
PS_LAYER(batch_norm)
PS_LAYER(dropout)
PS_LAYER(channel_dropout)
#endif
#ifdef PS_LOSS
PS_LOSS(softmax_cross_entropy)
PS_LOSS(binary_cross_entropy)
PS_LOSS(mse)
PS_LOSS(tanh_error)
#endif
