/* SPDX-License-Identifier: Apache-2.0 */
/* list.h - every update of this build, one a line. No include guard. */
PS_UPDATE(gradient)
PS_UPDATE(gradient_average)
