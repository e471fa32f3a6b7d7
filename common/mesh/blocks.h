/* SPDX-License-Identifier: Apache-2.0 */
/* blocks.h - exchanges that send each block as it is, not added to others. Holders of a block send
 * it to all workers that do not hold it. In plain.c one holder sends all cells of the block. In
 * ndc.c each holder sends its share of the cells.
 *
 * A packet has one cell of a block: `what` is the number of the block, `piece` that of the cell.
 * All holders encode a cell of a block to the same bytes.
 *
 * Each cell has a sum. Blocks are added to it in the order of their numbers, whatever the order of
 * arrival. A packet that arrives before its turn is parked, encoded. If the codec has sum_add, the
 * sum is formed without decoding, as on servers. If the codec sends differences, the result is the
 * standing sum: the sum of the sums of all steps so far.
 *
 * A worker that has no cell to send to another worker sends it an empty packet. A step ends only
 * when a packet from every other worker has arrived, so workers are at most one step apart. The
 * cells alone do not ensure that if several workers hold each block. Exceptions: If all workers
 * hold all blocks, none sends a packet. After its repair a worker does not wait for a silent worker
 * whose blocks other holders have sent. */
#ifndef PS_COMMON_MESH_BLOCKS_H
#define PS_COMMON_MESH_BLOCKS_H

#include "common/mesh/mesh_impl.h"

typedef struct blocks_state {
    /* each holder of a block sends its share of the cells; else one holder sends all cells */
    bool is_split;
    int32_t *own;    /* (K): index of the block among those that this worker holds; -1: not held */
    float *standing; /* (n): sum over all steps, for codecs of differences; NULL: no part has one */
    /* (cells): the sum of a cell in the codec's own form, if the codec has sum_add; else NULL */
    void **undecoded;
    uint32_t *turn;  /* (cells): the next block to add */
    bool *is_adding; /* (cells): the packet of the block in turn is being added to the cell */
    /* (K, cells): packets that have arrived, or that this worker made, and are not added yet; NULL:
     * none */
    ps_packet **parked;
    bool *is_heard;   /* (workers): a packet of this step has arrived */
    uint32_t unheard; /* number of other workers from which no packet of this step has arrived */
    uint32_t *untold; /* (untold_count): workers that get no cell from this one */
    uint32_t untold_count;
} blocks_state;

/* The members of ps_mesh that are alike in both exchanges. */
#define BLOCKS_MEMBERS                                                                             \
    .state_size = sizeof(blocks_state), .fini = blocks_fini, .start = blocks_start,                \
    .ready = blocks_ready, .take = blocks_take, .encoded = blocks_encoded,                         \
    .decoded = blocks_decoded, .is_done = blocks_is_done, .finish = mesh_cells_finish,             \
    .repair = blocks_repair, .missing = blocks_missing, .save = blocks_save, .load = blocks_load

/* The functions that BLOCKS_MEMBERS sets; mesh.h says what each has to do. blocks_repair sends the
 * cells that other holders of this worker's blocks should have sent. blocks_save writes the part's
 * values of the standing sum, if there is one. */
void blocks_init(ps_mesh_machine *m, bool is_split);
void blocks_fini(ps_mesh_machine *m);
PS_MUST_USE ps_status blocks_start(ps_mesh_machine *m);
PS_MUST_USE ps_status blocks_ready(ps_mesh_machine *m, uint32_t held, uint32_t part);
PS_MUST_USE ps_status blocks_take(ps_mesh_machine *m, ps_packet *packet);
PS_MUST_USE ps_status blocks_encoded(ps_mesh_machine *m, ps_packet *packet);
PS_MUST_USE ps_status blocks_decoded(ps_mesh_machine *m, ps_packet *packet);
bool blocks_is_done(const ps_mesh_machine *m);
void blocks_repair(ps_mesh_machine *m);
void blocks_missing(const ps_mesh_machine *m, bool *peers);
void blocks_save(const ps_mesh_machine *m, uint32_t part, ps_state_out *out);
void blocks_load(ps_mesh_machine *m, uint32_t part, ps_state_in *in);

#endif
