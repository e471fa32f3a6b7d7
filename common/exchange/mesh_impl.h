/* SPDX-License-Identifier: Apache-2.0 */
/* mesh_impl.h - what mesh.c and the exchanges share; for common/exchange only. */
#ifndef PS_COMMON_EXCHANGE_MESH_IMPL_H
#define PS_COMMON_EXCHANGE_MESH_IMPL_H

#include "common/exchange/mesh.h"

/* A packet that was said, or is to be. */
typedef struct mesh_said {
    ps_packet *packet;
    uint32_t first, count; /* of its generation's targets */
} mesh_said;

/* All that was said in a step, in order. */
typedef struct mesh_step {
    mesh_said *said; /* (count) */
    size_t count, cap;
    uint32_t *targets; /* (target_count) */
    size_t target_count, target_cap;
    size_t next; /* the first that has not gone out */
} mesh_step;

struct ps_mesh_node {
    ps_mesh_conf conf;
    void *state; /* the exchange's */
    uint32_t nodes;
    uint64_t clock; /* of the step in hand, or the next one */
    bool is_running, is_done;
    const float *const *blocks; /* (held_count), while it runs */
    mesh_step now, before;
    ps_packet **early; /* (early_count): of steps not begun */
    size_t early_count, early_cap;
    int64_t deadline_us;
    bool is_rescued;  /* the step */
    uint8_t *answers; /* (nodes): given to each in this step */
    ps_mesh_counters counters;
};

/* For the exchanges. */

/* A new packet of this step from this node. */
ps_packet *mesh_packet(ps_mesh_node *node, uint32_t what, uint32_t piece, size_t cap);

/* The values x (count) through the codec. `slice` and `contributor` name the
 * draws, with the clock. */
ps_packet *mesh_encode(ps_mesh_node *node, uint32_t what, uint32_t piece, uint32_t slice,
                       uint32_t contributor, const float *x, size_t count);
PS_MUST_USE ps_status mesh_decode(const ps_mesh_node *node, const ps_packet *packet, ps_into into,
                                  float *y, size_t count);

/* The same bytes, of n values, said by this node. */
ps_packet *mesh_copy(ps_mesh_node *node, const ps_packet *packet, size_t n);

/* Says it to these nodes; the reference is taken. */
void mesh_say(ps_mesh_node *node, ps_packet *packet, const uint32_t *targets, uint32_t count);
void mesh_say_to(ps_mesh_node *node, ps_packet *packet, uint32_t target);

/* Holders of block b: (redundancy), ascending. */
static inline const uint32_t *mesh_holders(const ps_mesh_node *node, uint32_t block)
{
    const ps_assignment *a = node->conf.assignment;

    return a->holders + (size_t)block * a->redundancy;
}

/* Place of a node among the holders of a block; -1: it holds none of it. */
int mesh_place(const ps_mesh_node *node, uint32_t block, uint32_t holder);

/* The one of the holders that speaks for a block when all is well. */
uint32_t mesh_speaker(const ps_mesh_node *node, uint32_t block);

/* The sum of the blocks that this node speaks for, in their order, into y (n). */
void mesh_own_sum(const ps_mesh_node *node, float *y);

/* Codecs that may encode a sum again and again on its way. */
PS_MUST_USE ps_status mesh_check_sums(const ps_mesh_conf *conf);

#endif
