/* SPDX-License-Identifier: Apache-2.0 */
/* mesh_impl.h - the machine, and functions that all exchanges use. For common/mesh only. */
#ifndef PS_COMMON_MESH_MESH_IMPL_H
#define PS_COMMON_MESH_MESH_IMPL_H

#include "common/mesh/mesh.h"

/* Values of one part that travel in one packet: at most the part's `step`. */
typedef struct mesh_cell {
    size_t at;
    uint32_t n, part;
    uint32_t share; /* index of the worker, or holder, that is responsible for it */
} mesh_cell;

/* The cells that cover all parts. */
typedef struct mesh_cells {
    uint32_t count;
    mesh_cell *cell; /* (count), ascending `at` */
    uint32_t *first; /* (parts + 1): part p has cells [first[p], first[p + 1]) */
    float *kept;     /* state of codecs between steps; NULL: none */
    float **kept_of; /* (count): a cell's, in kept; NULL: none */
    size_t kept_floats;
    float *sum;     /* (n): of the running step, as far as it is formed */
    uint32_t whole; /* cells whose sum is complete; the exchange counts them */
} mesh_cells;

/* A packet with its receivers, sent or to be sent. */
typedef struct mesh_sent {
    ps_packet *packet;
    uint32_t first, count; /* its range of the step's targets */
} mesh_sent;

/* All packets of a step, in order. */
typedef struct mesh_step {
    mesh_sent *said; /* (count) */
    size_t count, cap;
    uint32_t *targets; /* (target_count) */
    size_t target_count, target_cap;
    size_t next; /* the first that was not handed out yet */
} mesh_step;

/* A cell that is encoded or decoded. */
typedef struct mesh_deed {
    ps_packet *packet; /* to decode; NULL: to encode */
    ps_into into;      /* how it is decoded into the cell's sum */
    uint32_t cell;
    bool is_down;
    bool is_carried; /* x has what the codec keeps of the cell */
    uint32_t what, contributor;
    const float *x; /* (cell's n) to encode */
} mesh_deed;

/* Deeds that are put off while the machine is held (deeds.c). */
typedef struct mesh_deeds {
    mesh_deed *deed; /* [first, count) are not done; each has a reference to its packet */
    size_t first, count, cap;
    float *room; /* values of deeds that are done together; NULL unless may_block */
} mesh_deeds;

struct ps_mesh_machine {
    ps_mesh_conf conf;
    void *state;    /* the exchange's */
    uint32_t nodes; /* workers */
    uint64_t clock; /* of the running step, or of the one that has ended */
    bool is_running, is_done;
    const float *const *blocks; /* (held_count), while a step runs */
    mesh_cells cells;           /* (optional) of an exchange that calls mesh_cut */
    uint32_t *ready;            /* (parts): held blocks whose part is final */
    uint32_t unready;           /* (block, part) pairs that are not final yet */
    bool is_started;            /* `start` of the exchange was called for this step */
    float *scratch;             /* (PS_CODEC_VALUES) */
    bool may_block, is_held;    /* see mesh.h */
    mesh_deeds deeds;
    mesh_step now, before;
    ps_packet **early; /* (early_count): of steps not begun */
    size_t early_count, early_cap;
    int64_t deadline_us;
    bool is_rescued;   /* the step has had its rescue */
    bool has_listened; /* the second window was extended, see ps_mesh_tick */
    uint8_t *answers;  /* (workers): repetitions sent to each in this step */
    /* (workers): 1 + the newest step in which each said that it waits itself; 0: none, or it has
     * sent something of a later step since */
    uint64_t *waits_in;
    /* of has_reports: */
    ps_packet **reports;  /* (workers): of this step; NULL: not here yet */
    uint32_t reports_due; /* of them that are not here */
    ps_buf *report;       /* this worker's, until it is sent; NULL: it is empty */
    uint32_t *heirs;      /* (workers): scratch for receivers of a report */
    ps_mesh_counters counters;
};

/* Returns a new packet of this step from this worker, with room for `cap` bytes. */
ps_packet *mesh_packet(ps_mesh_machine *m, uint32_t what, uint32_t piece, size_t cap);

/* Cuts all parts into cells (cells.c). Consecutive parts form buckets; each bucket is divided
 * evenly among `shares`. is_down (optional) returns whether this worker encodes the cell's complete
 * sum, with the codec `down`; it decides how much state the codec keeps. */
void mesh_cut(ps_mesh_machine *m, uint32_t shares,
              bool (*is_down)(const ps_mesh_machine *m, const mesh_cell *cell));
void mesh_cells_fini(mesh_cells *cells);

/* Returns whether the sum of every cell is complete. An `is_done` of ps_mesh. */
bool mesh_cells_are_whole(const ps_mesh_machine *m);

/* Copies the complete sum. A `finish` of ps_mesh. */
void mesh_cells_finish(ps_mesh_machine *m, float *sum);

/* Returns the states of the codecs of a part's cells, which lie one after the other; *n: how many
 * floats they have. */
float *mesh_kept(const ps_mesh_machine *m, uint32_t part, size_t *n);

/* Returns the codec of a cell: `down` or `up` of its part. */
const ps_mesh_codec *mesh_codec(const ps_mesh_machine *m, uint32_t cell, bool is_down);

/* Ends the step if it is complete. */
void mesh_look(ps_mesh_machine *m);

void mesh_deeds_init(ps_mesh_machine *m);
void mesh_deeds_fini(ps_mesh_machine *m);

/* Encodes the values x of a cell and gives `encoded` of the exchange a packet, whose `piece` is the
 * cell; at once, or if the machine is held later, so x must stay. Updates the codec's state, so it
 * may be called once a step and cell. `contributor`, cell and clock key the draws. Fails as
 * `encoded` does. */
PS_MUST_USE ps_status mesh_encode(ps_mesh_machine *m, uint32_t what, uint32_t cell, bool is_down,
                                  uint32_t contributor, const float *x);
/* Decodes a packet into the sum of its cell, sets or adds, and gives it to `decoded` of the
 * exchange; at once, or if the machine is held later. Fails with DATA_LOSS, at once, or as
 * `decoded` does. */
PS_MUST_USE ps_status mesh_decode(ps_mesh_machine *m, ps_packet *packet, bool is_down,
                                  ps_into into);
/* Checks that the bytes of a packet are an encoding of its cell. Fails with DATA_LOSS. */
PS_MUST_USE ps_status mesh_check(const ps_mesh_machine *m, const ps_packet *packet, bool is_down);

/* Returns whether the part is final in all blocks held. */
bool mesh_is_ready(const ps_mesh_machine *m, uint32_t part);

/* Writes into y (cell's n) the sum of a cell's values over the blocks whose sender is this worker
 * (mesh_sender), in the order of blocks. */
void mesh_own_sum(const ps_mesh_machine *m, const mesh_cell *cell, float *y);

/* Checks that the codecs of all parts suit partial sums, which are encoded again at every hop.
 * Fails with INVALID_ARGUMENT. */
PS_MUST_USE ps_status mesh_check_sums(const ps_mesh_conf *conf);

/* Returns a packet from this worker that shares the bytes of `packet` and represents n values. */
ps_packet *mesh_copy(ps_mesh_machine *m, const ps_packet *packet, size_t n);

/* Queues the packet for these workers. Takes over the caller's reference. */
void mesh_send(ps_mesh_machine *m, ps_packet *packet, const uint32_t *targets, uint32_t count);
void mesh_send_to(ps_mesh_machine *m, ps_packet *packet, uint32_t target);

/* Returns the holders of a block: (redundancy), ascending. */
static inline const uint32_t *mesh_holders(const ps_mesh_machine *m, uint32_t block)
{
    const ps_assignment *a = m->conf.assignment;

    return a->holders + (size_t)block * a->redundancy;
}

/* Returns the place of a worker among the holders of a block; -1: it does not hold the block. */
int mesh_place(const ps_mesh_machine *m, uint32_t block, uint32_t holder);

/* Returns the holder that sends the block when nobody is silent. */
uint32_t mesh_sender(const ps_mesh_machine *m, uint32_t block);

/* `what` of a packet that asks its receiver to call mesh_repeat. */
extern const uint32_t mesh_again;
/* `what` of a packet by which a worker says that it waits itself: its own part of the step is
 * sent, and the window has passed. */
extern const uint32_t mesh_waits;

/* `what` of a packet with the report of worker `piece`. */
extern const uint32_t mesh_report;

/* Reports (reports.c): without has_reports, init, begin, say and find_missing do nothing. */
void mesh_reports_init(ps_mesh_machine *m);
void mesh_reports_fini(ps_mesh_machine *m);
/* Forgets those of the step before. */
void mesh_reports_begin(ps_mesh_machine *m);
/* Sends this worker's report, whose own part of the step is said. */
void mesh_reports_say(ps_mesh_machine *m);
/* Checks the report of another worker on arrival, so that its sender is refused, also if its step
 * has not begun. INVALID_ARGUMENT: there are none, or the sender does not pass this one on to this
 * worker. Fails also as check_report does. */
PS_MUST_USE ps_status mesh_reports_check(const ps_mesh_machine *m, const ps_packet *packet);
/* Keeps a report that was checked, and passes it on. */
void mesh_reports_take(ps_mesh_machine *m, ps_packet *packet);
/* Sets peers[i] for each worker from which a report has to come. */
void mesh_reports_missing(const ps_mesh_machine *m, bool *peers);

/* Queues again everything that was sent to worker `to` in a step. */
void mesh_repeat(ps_mesh_machine *m, const mesh_step *step, uint32_t to);

/* Drops all packets of a step, and keeps its memory. */
void mesh_step_forget(mesh_step *step);

/* Drops all packets and frees the memory. */
void mesh_step_fini(mesh_step *step);

#endif
