/* SPDX-License-Identifier: Apache-2.0 */
/* blocks.h - exchanges that send each block, undivided by addition, from its holders to all workers
 * that do not hold it: plain.c and ndc.c, which differ in which holder sends which cells.
 *
 * Either one holder sends the whole block, or each holder sends its share of the cells. A packet is
 * a cell of a block: `what` is the block, `piece` the cell. All holders encode it to the same
 * bytes.
 *
 * Blocks are added in their order, whatever the order of arrival; a cell that is early is parked
 * encoded. The sum is formed as servers form it: undecoded where the codec has sum_add; for a codec
 * of differences the result is the standing sum.
 *
 * A worker that has nothing to send to another sends it an empty packet. A step ends only when
 * every other worker was heard, so that workers are at most one step apart; blocks alone do not
 * ensure that where holders share them. After a rescue a silent worker is not waited for if others
 * have sent its blocks.
 */
#ifndef PS_COMMON_MESH_BLOCKS_H
#define PS_COMMON_MESH_BLOCKS_H

#include "common/mesh/mesh_impl.h"

typedef struct blocks_state {
    bool is_split;   /* each holder sends its share; else one holder sends all */
    int32_t *own;    /* (K): index among the blocks held; -1: not held */
    float *standing; /* (n): sum over all steps, for codecs of differences; NULL: no part has one */
    void *
        *undecoded;  /* (cells): replaces the cells' `sum` where the codec has sum_add; else NULL */
    uint32_t *turn;  /* (cells): the next block to add */
    bool *is_adding; /* (cells): its packet is being added */
    ps_packet **parked; /* (K, cells): not added yet */
    bool *is_heard;     /* (workers): a packet of this step has arrived */
    uint32_t unheard;   /* other workers of which none has */
    uint32_t *untold;   /* (untold_count): workers that get no cell from this one */
    uint32_t untold_count;
} blocks_state;

/* The members of ps_mesh that both exchanges have. */
#define BLOCKS_MEMBERS                                                                             \
    .state_size = sizeof(blocks_state), .fini = blocks_fini, .start = blocks_start,                \
    .ready = blocks_ready, .take = blocks_take, .encoded = blocks_encoded,                         \
    .decoded = blocks_decoded, .is_done = blocks_is_done, .finish = mesh_cells_finish,             \
    .rescue = blocks_rescue, .missing = blocks_missing, .save = blocks_save, .load = blocks_load

/* The functions of ps_mesh. blocks_rescue sends every cell that the worker holds; blocks_save
 * writes the part's values of the standing sum, if there is one. */
void blocks_init(ps_mesh_machine *m, bool is_split);
void blocks_fini(ps_mesh_machine *m);
PS_MUST_USE ps_status blocks_start(ps_mesh_machine *m);
PS_MUST_USE ps_status blocks_ready(ps_mesh_machine *m, uint32_t held, uint32_t part);
PS_MUST_USE ps_status blocks_take(ps_mesh_machine *m, ps_packet *packet);
PS_MUST_USE ps_status blocks_encoded(ps_mesh_machine *m, ps_packet *packet);
PS_MUST_USE ps_status blocks_decoded(ps_mesh_machine *m, ps_packet *packet);
bool blocks_is_done(const ps_mesh_machine *m);
void blocks_rescue(ps_mesh_machine *m);
void blocks_missing(const ps_mesh_machine *m, bool *peers);
void blocks_save(const ps_mesh_machine *m, uint32_t part, ps_state_out *out);
void blocks_load(ps_mesh_machine *m, uint32_t part, ps_state_in *in);

#endif
