/* SPDX-License-Identifier: Apache-2.0 */
/* list.h - every optimizer of this build, one per line. No include guard. */
PS_OPTIM(sgd)
PS_OPTIM(adam)
PS_OPTIM(momentum)
PS_OPTIM(nesterov)
PS_OPTIM(adamw)
PS_OPTIM(adagrad)
PS_OPTIM(rmsprop)
PS_OPTIM(adadelta)
PS_OPTIM(decay)
