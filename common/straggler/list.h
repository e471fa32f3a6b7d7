/* SPDX-License-Identifier: Apache-2.0 */
/* list.h - every straggler of this build, one per line. No include guard. */
PS_STRAGGLER(none)
PS_STRAGGLER(fixed)
PS_STRAGGLER(random)
PS_STRAGGLER(slow)
