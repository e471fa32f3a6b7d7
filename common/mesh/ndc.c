/* SPDX-License-Identifier: Apache-2.0 */
/* ndc.c - naive duplication: each of the r holders of a block sends one r-th of it.
 *
 * The p-th holder sends values [n p / r, n (p + 1) / r). In all as much is sent as by plain,
 * divided among the holders. In a repair every holder sends all of its blocks.
 */
#include "common/mesh/blocks.h"

static void init(ps_mesh_machine *m)
{
    blocks_init(m, true);
}

const ps_mesh ps_mesh_ndc = {
    .name = "ndc",
    .summary = "every holder of a block sends its r-th part of it to all workers without the block",
    .init = init,
    BLOCKS_MEMBERS,
};
