/* SPDX-License-Identifier: Apache-2.0 */
/* list.h - every optimizer of this build, one a line. No include guard. */
PS_OPTIM(sgd)
PS_OPTIM(adam)
