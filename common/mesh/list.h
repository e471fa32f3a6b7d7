/* SPDX-License-Identifier: Apache-2.0 */
/* list.h - every exchange among workers, one a line. No include guard: expanded
 * with a caller's PS_MESH(name). */
PS_MESH(plain)
PS_MESH(ndc)
PS_MESH(ccdc)
PS_MESH(ring)
PS_MESH(tree)
