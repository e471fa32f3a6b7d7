/* SPDX-License-Identifier: Apache-2.0 */
/* plain.c - all to all: one holder of a block sends it to all workers that do not hold it.
 *
 * K blocks go to n - r workers each: K (n - r) |w| in copies. In a repair every holder sends its
 * blocks, so r - 1 workers may be silent.
 */
#include "common/mesh/blocks.h"

static void init(ps_mesh_machine *m)
{
    blocks_init(m, false);
}

const ps_mesh ps_mesh_plain = {
    .name = "plain",
    .summary = "all to all: a holder of a block sends it to all workers without it",
    .init = init,
    BLOCKS_MEMBERS,
};
