/* SPDX-License-Identifier: Apache-2.0 */
/* plain.c - all to all: one holder of a block says it to those that do not hold it.
 *
 * K blocks, each to n - r nodes: K (n - r) |w| in copies. After a time-out every
 * holder says its blocks, so with r copies r - 1 nodes may be silent.
 */
#include "common/mesh/blocks.h"

static void init(ps_mesh_node *node)
{
    blocks_init(node, false);
}

const ps_mesh ps_mesh_plain = {
    .name = "plain",
    .summary = "all to all: a holder of a block says it to all that lack it",
    .state_size = sizeof(blocks_state),
    .init = init,
    .fini = blocks_fini,
    .start = blocks_start,
    .ready = blocks_ready,
    .take = blocks_take,
    .is_done = blocks_is_done,
    .finish = blocks_finish,
    .rescue = blocks_rescue,
    .missing = blocks_missing,
};
