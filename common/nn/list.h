/* SPDX-License-Identifier: Apache-2.0 */
/* list.h - every layer, loss and network of this build, one a line. No include guard:
 * define PS_LAYER(kind), PS_LOSS(name) or PS_NETWORK(name). */
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
PS_LAYER(shortcut)
PS_LAYER(embedding)
PS_LAYER(dots)
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
#ifdef PS_NETWORK
PS_NETWORK(linear)
PS_NETWORK(cnn)
PS_NETWORK(alexnet)
PS_NETWORK(alexnet227)
PS_NETWORK(resnet)
PS_NETWORK(resnet14)
PS_NETWORK(resnet18)
PS_NETWORK(resnet20)
PS_NETWORK(ngram)
PS_NETWORK(skipgram)
PS_NETWORK(wide_deep)
#endif
