/* SPDX-License-Identifier: Apache-2.0 */
/* ndc.c - naive duplication: each holder of a block says its own r-th of it.
 *
 * Segment p of r, values [n p / r, n (p + 1) / r), is the p-th holder's to say. As
 * much is sent as by plain, but the r holders share it. After a time-out every
 * holder says all of its blocks, which the ancestor could not.
 */
#include "common/mesh/blocks.h"

static void init(ps_mesh_node *node)
{
    blocks_init(node, true);
}

const ps_mesh ps_mesh_ndc = {
    .name = "ndc",
    .summary = "every holder of a block says its r-th part of it to all that lack the block",
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
