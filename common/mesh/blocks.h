/* SPDX-License-Identifier: Apache-2.0 */
/* blocks.h - every block goes whole from its holders to those that do not hold
 * it; for plain.c and ndc.c, which differ in who says which part.
 *
 * Cells are shared out among the holders of a block, or one says all. A cell of a block is
 * a packet, encoded alike by all holders: `what` is the block, `piece` the cell. Sums are
 * formed in the order of blocks, whatever the order of arrival: a cell that is early waits
 * as it came. They are formed as servers do: undecoded where the codec has sum_add, and of
 * differences the standing sum is the result.
 *
 * A node that has nothing to say to another says that it is here, and a step ends
 * when all have been heard: so nobody gets further ahead than one step, which
 * blocks alone would not see to where holders share them. After a rescue those who
 * are silent are not waited for, as long as others have said their blocks.
 */
#ifndef PS_COMMON_MESH_BLOCKS_H
#define PS_COMMON_MESH_BLOCKS_H

#include "common/mesh/mesh_impl.h"

typedef struct blocks_state {
    bool is_split;      /* each holder says its own share; else one holder says all */
    int32_t *own;       /* (K): index among the held ones; -1: not held */
    float *sum;         /* (n): of the blocks before the turn */
    float *standing;    /* (n): of all sums, where parts have differences; NULL: none has */
    void **undecoded;   /* (cells): in place of sum, where codecs have sum_add; else NULL */
    uint32_t *turn;     /* (cells): the next block to be added */
    ps_packet **parked; /* (K, cells) */
    uint32_t whole;     /* cells whose sum is complete */
    bool *is_heard;     /* (nodes) */
    uint32_t unheard;   /* of the others */
    uint32_t *untold;   /* (untold_count): those to whom none of this node's packets goes */
    uint32_t untold_count;
} blocks_state;

void blocks_init(ps_mesh_node *node, bool is_split);
void blocks_fini(ps_mesh_node *node);
PS_MUST_USE ps_status blocks_start(ps_mesh_node *node);
PS_MUST_USE ps_status blocks_ready(ps_mesh_node *node, uint32_t held, uint32_t part);
PS_MUST_USE ps_status blocks_take(ps_mesh_node *node, ps_packet *packet);
bool blocks_is_done(const ps_mesh_node *node);
void blocks_finish(ps_mesh_node *node, float *sum);
void blocks_rescue(ps_mesh_node *node); /* says all that it holds */
void blocks_missing(const ps_mesh_node *node, bool *peers);

#endif
