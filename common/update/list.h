/* SPDX-License-Identifier: Apache-2.0 */
/* list.h - every update of this build, one a line. No include guard. */
PS_UPDATE(gradient)
PS_UPDATE(gradient_average)
PS_UPDATE(parameter_average)
PS_UPDATE(delta)
PS_UPDATE(localsgd)
PS_UPDATE(post_local)
PS_UPDATE(fedavg)
