/* SPDX-License-Identifier: Apache-2.0 */
/* schedule_list.h - every schedule of this build, one per line. No include guard. */
PS_SCHEDULE(constant)
PS_SCHEDULE(step)
PS_SCHEDULE(exponential)
PS_SCHEDULE(cosine)
PS_SCHEDULE(polynomial)
PS_SCHEDULE(inverse_sqrt)
