/* SPDX-License-Identifier: Apache-2.0 */
/* mesh_impl.h - what mesh.c and the exchanges share; for common/mesh only. */
#ifndef PS_COMMON_MESH_MESH_IMPL_H
#define PS_COMMON_MESH_MESH_IMPL_H

#include "common/mesh/mesh.h"

/* Values that travel together: of one part, at most its step. */
typedef struct mesh_cell {
    size_t at;
    uint32_t n, part;
    uint32_t share; /* whose of those that share the work */
} mesh_cell;

/* Once cut, the cells cover all parts; packets are of one each. */
typedef struct mesh_cells {
    uint32_t count;
    mesh_cell *cell; /* (count), ascending `at` */
    uint32_t *first; /* (parts + 1): of part p are [first[p], first[p + 1]) */
    float *kept;     /* what codecs keep between steps; NULL: nothing */
    float **kept_of; /* (count), into kept; NULL: nothing */
    size_t kept_floats;
} mesh_cells;

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
    mesh_cells cells;           /* (optional) of an exchange that cuts them */
    uint32_t *ready;            /* (parts): blocks of which it is there */
    uint32_t unready;           /* parts of blocks that are not there yet */
    bool is_started;            /* the exchange, with this step */
    float *scratch;             /* (PS_CODEC_VALUES) */
    mesh_step now, before;
    ps_packet **early; /* (early_count): of steps not begun */
    size_t early_count, early_cap;
    int64_t deadline_us;
    bool is_rescued;   /* the step */
    bool has_listened; /* once more, having been away when it was overdue again */
    uint8_t *answers;  /* (nodes): given to each in this step */
    ps_mesh_counters counters;
};

/* For the exchanges. */

/* A new packet of this step from this node. */
ps_packet *mesh_packet(ps_mesh_node *node, uint32_t what, uint32_t piece, size_t cap);

/* cells.c. Cuts all parts: each bucket, a run of parts of some size, is shared out evenly among
 * `shares`. is_down (optional): does this node say the cell's whole sum, by the codec for the
 * way down? */
void mesh_cut(ps_mesh_node *node, uint32_t shares,
              bool (*is_down)(const ps_mesh_node *node, const mesh_cell *cell));
void mesh_cells_fini(mesh_cells *cells);

/* The codec of a cell's part. */
const ps_mesh_codec *mesh_codec(const ps_mesh_node *node, uint32_t cell, bool is_down);

/* The values x of a cell through its codec, with what that keeps, so once a step. `contributor`
 * names the draws, with cell and clock; `piece` of the packet is the cell. */
ps_packet *mesh_encode(ps_mesh_node *node, uint32_t what, uint32_t cell, bool is_down,
                       uint32_t contributor, const float *x);
PS_MUST_USE ps_status mesh_check(const ps_mesh_node *node, const ps_packet *packet, bool is_down);
PS_MUST_USE ps_status mesh_decode(const ps_mesh_node *node, const ps_packet *packet, bool is_down,
                                  ps_into into, float *y);

/* Is the part there of all held blocks? */
bool mesh_is_ready(const ps_mesh_node *node, uint32_t part);

/* The sum of a cell's values in the blocks that this node speaks for, in their order, into
 * y (cell's n). */
void mesh_own_sum(const ps_mesh_node *node, const mesh_cell *cell, float *y);

/* What of parts does not suit sums that are encoded again and again on their way. */
PS_MUST_USE ps_status mesh_check_sums(const ps_mesh_conf *conf);

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

/* said.c: to one node again what it was told in a step; and a step is forgotten. */
extern const uint32_t mesh_again; /* `what` of a packet that asks for that */
void mesh_repeat(ps_mesh_node *node, const mesh_step *step, uint32_t to);
void mesh_step_forget(mesh_step *step);
void mesh_step_fini(mesh_step *step);

#endif
