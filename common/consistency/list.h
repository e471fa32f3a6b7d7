/* SPDX-License-Identifier: Apache-2.0 */
/* list.h - every consistency policy of this build, one per line. No include guard. */
PS_CONSISTENCY(bsp)
PS_CONSISTENCY(ssp)
PS_CONSISTENCY(asp)
PS_CONSISTENCY(dssp)
PS_CONSISTENCY(backup)
PS_CONSISTENCY(quorum)
PS_CONSISTENCY(half_async)
PS_CONSISTENCY(lag_discard)
PS_CONSISTENCY(stale_scaled)
