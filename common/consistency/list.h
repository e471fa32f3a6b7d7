/* SPDX-License-Identifier: Apache-2.0 */
/* list.h - every consistency policy of this build, one a line. No include guard. */
PS_CONSISTENCY(bsp)
PS_CONSISTENCY(ssp)
PS_CONSISTENCY(asp)
