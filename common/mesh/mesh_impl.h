/* SPDX-License-Identifier: Apache-2.0 */
/* mesh_impl.h - the struct of a machine (mesh.h), and functions that the exchanges use. For
 * common/mesh only. */
#ifndef PS_COMMON_MESH_MESH_IMPL_H
#define PS_COMMON_MESH_MESH_IMPL_H

#include "common/mesh/mesh.h"

/* A cell: the values of one part that travel in one packet, at most the part's `step`. */
typedef struct mesh_cell {
    size_t at;
    uint32_t n, part;
    /* which share of its bucket the cell is in (mesh_cut); the exchange maps shares to workers */
    uint32_t share;
} mesh_cell;

/* The cells that cover all parts. */
typedef struct mesh_cells {
    uint32_t count;
    mesh_cell *cell; /* (count): in ascending order of `at` */
    uint32_t *first; /* (parts + 1): part p has cells [first[p], first[p + 1]) */
    float *kept;     /* memory of the states that codecs keep between steps; NULL: they keep none */
    float **kept_of; /* (count): the state of each cell's codec, within `kept`; NULL: it has none */
    size_t kept_floats;
    float *sum;     /* (n): the sum of the running step, as far as it is formed */
    uint32_t whole; /* number of cells whose sum is complete; the exchange counts them */
} mesh_cells;

/* A packet, sent or to be sent, with its receivers. */
typedef struct mesh_sent {
    ps_packet *packet;
    uint32_t first, count; /* the receivers are targets[first .. first + count) of the step */
} mesh_sent;

/* All packets that this worker sends in a step, in order. */
typedef struct mesh_step {
    mesh_sent *said; /* (count) */
    size_t count, cap;
    uint32_t *targets; /* (target_count) */
    size_t target_count, target_cap;
    size_t next; /* index in `said` of the first packet that ps_mesh_next has not given yet */
} mesh_step;

/* A deed: the encoding or decoding of one cell, which may be put off. */
typedef struct mesh_deed {
    ps_packet *packet; /* the packet to decode; NULL: `x` is to be encoded */
    ps_into into;      /* whether decoding sets the cell's sum or adds to it */
    uint32_t cell;
    bool is_down;
    bool is_carried; /* `x` is a copy to which the codec's state of the cell was added */
    uint32_t what, contributor;
    const float *x; /* (n of the cell): the values to encode */
} mesh_deed;

/* Deeds that are put off while the machine is held (deeds.c). */
typedef struct mesh_deeds {
    mesh_deed *deed; /* elements [first, count) are not done; each has a reference to its packet */
    size_t first, count, cap;
    /* copies of the values of deeds that are encoded together; NULL unless may_block */
    float *room;
} mesh_deeds;

struct ps_mesh_machine {
    ps_mesh_conf conf;
    void *state;    /* the state of the exchange: state_size bytes */
    uint32_t nodes; /* number of workers */
    uint64_t clock; /* clock of the running step or, if none runs, of the one that has ended */
    bool is_running, is_done;
    const float *const *blocks; /* (held_count): the argument of ps_mesh_begin, while a step runs */
    mesh_cells cells;           /* zeros if the exchange does not call mesh_cut (ccdc) */
    uint32_t *ready;            /* (parts): number of held blocks in which the part is final */
    uint32_t unready;           /* number of (held block, part) pairs that are not final yet */
    bool is_started;            /* `start` of the exchange was called for this step */
    float *scratch;             /* (PS_CODEC_VALUES) */
    /* what ps_mesh_may_block returns; ps_mesh_hold was called, and not yet ps_mesh_release */
    bool may_block, is_held;
    mesh_deeds deeds;
    mesh_step now, before;
    ps_packet **early; /* (early_count): received packets of steps that have not begun */
    size_t early_count, early_cap;
    int64_t deadline_us;
    bool is_repaired;  /* the step has had its repair */
    bool has_listened; /* the step got one more window (ps_mesh_tick) */
    /* (workers): number of requests to send again that were answered to each worker in this step */
    uint8_t *answers;
    /* (workers): 1 + the newest step in which the worker said that it waits for others itself
     * (mesh_waits); 0: it never did, or it has sent a packet of a later step since */
    uint64_t *waits_in;
    /* The members about reports are used only with has_reports. */
    /* (workers): report of each worker in this step; NULL: it has not arrived yet */
    ps_packet **reports;
    uint32_t reports_due; /* number of reports that have not arrived, this worker's own included */
    ps_buf *report;       /* this worker's report, until it is sent; NULL: it is empty */
    uint32_t *heirs;      /* (workers): scratch for the list of workers to which a report is sent */
    ps_mesh_counters counters;
};

/* Returns a new packet of this step from this worker, with room for `cap` bytes. */
ps_packet *mesh_packet(ps_mesh_machine *m, uint32_t what, uint32_t piece, size_t cap);

/* Cuts all parts into cells, m->cells (cells.c). Consecutive parts form buckets; each bucket is
 * divided into `shares` shares of equal size, and each share into cells. is_down (optional) returns
 * whether this worker encodes the complete sum of the cell, with the codec `down`; the cell then
 * has the state of that codec, else that of `up`. */
void mesh_cut(ps_mesh_machine *m, uint32_t shares,
              bool (*is_down)(const ps_mesh_machine *m, const mesh_cell *cell));
void mesh_cells_fini(mesh_cells *cells);

/* Returns whether the sum of every cell is complete. For `is_done` of ps_mesh. */
bool mesh_cells_are_whole(const ps_mesh_machine *m);

/* Copies the complete sum to sum (n). For `finish` of ps_mesh. */
void mesh_cells_finish(ps_mesh_machine *m, float *sum);

/* Returns the states that codecs keep of the cells of a part, which lie one after the other. Sets
 * *n to their number of floats. */
float *mesh_kept(const ps_mesh_machine *m, uint32_t part, size_t *n);

/* Returns the codec of a cell: `down` or `up` of its part. */
const ps_mesh_codec *mesh_codec(const ps_mesh_machine *m, uint32_t cell, bool is_down);

/* Ends the running step if all its parts are ready, all reports have arrived and the exchange is
 * done. */
void mesh_look(ps_mesh_machine *m);

void mesh_deeds_init(ps_mesh_machine *m);
void mesh_deeds_fini(ps_mesh_machine *m);

/* Encodes the values x of a cell and passes a packet, whose `piece` is the cell, to `encoded` of
 * the exchange. Does so at once or, if the machine is held, in ps_mesh_release; x must stay until
 * then. Updates the codec's state, so it may be called only once for a cell that has one in a step.
 * `contributor`, cell and clock are the key of the draws. Fails as `encoded` does. */
PS_MUST_USE ps_status mesh_encode(ps_mesh_machine *m, uint32_t what, uint32_t cell, bool is_down,
                                  uint32_t contributor, const float *x);
/* Decodes a packet into the sum of its cell (`into`: sets it, or adds to it) and then passes the
 * packet to `decoded` of the exchange. Does so at once or, if the machine is held, in
 * ps_mesh_release. Fails with DATA_LOSS if the bytes are no encoding of the cell, which is found at
 * once in both cases; else fails as `decoded` does. */
PS_MUST_USE ps_status mesh_decode(ps_mesh_machine *m, ps_packet *packet, bool is_down,
                                  ps_into into);
/* Checks that the bytes of a packet are an encoding of its cell. Fails with DATA_LOSS. */
PS_MUST_USE ps_status mesh_check(const ps_mesh_machine *m, const ps_packet *packet, bool is_down);

/* Returns whether the part is final in all blocks that this worker holds. */
bool mesh_is_ready(const ps_mesh_machine *m, uint32_t part);

/* Writes to y (n of the cell) the sum of the cell's values over those blocks whose sender
 * (mesh_sender) is this worker. Adds them in the order of the blocks' numbers. */
void mesh_own_sum(const ps_mesh_machine *m, const mesh_cell *cell, float *y);

/* Checks that the codecs of all parts suit partial sums, which are encoded again at every hop.
 * Fails with INVALID_ARGUMENT. */
PS_MUST_USE ps_status mesh_check_sums(const ps_mesh_conf *conf);

/* Returns a new packet from this worker that shares the bytes of `packet` and represents n
 * values. */
ps_packet *mesh_copy(ps_mesh_machine *m, const ps_packet *packet, size_t n);

/* Queues the packet for these workers (count), for ps_mesh_next. Takes the caller's reference. */
void mesh_send(ps_mesh_machine *m, ps_packet *packet, const uint32_t *targets, uint32_t count);
void mesh_send_to(ps_mesh_machine *m, ps_packet *packet, uint32_t target);

/* Returns the holders of a block: (redundancy), ascending. */
static inline const uint32_t *mesh_holders(const ps_mesh_machine *m, uint32_t block)
{
    const ps_assignment *a = m->conf.assignment;

    return a->holders + (size_t)block * a->redundancy;
}

/* Returns the index of a worker among the holders of a block; -1: it does not hold the block. */
int mesh_place(const ps_mesh_machine *m, uint32_t block, uint32_t holder);

/* Returns the sender of a block: the one of its holders that sends it in a step without a
 * repair. */
uint32_t mesh_sender(const ps_mesh_machine *m, uint32_t block);

/* `what` of a packet that asks its receiver to send the sender everything of the packet's step
 * again (mesh_repeat). */
extern const uint32_t mesh_again;
/* `what` of a packet by which a worker says that it waits for others itself: it has sent its own
 * part of the step, and the window of the step has passed. */
extern const uint32_t mesh_waits;

/* `what` of a packet that has the report of worker number `piece` of the packet. */
extern const uint32_t mesh_report;

/* Reports (reports.c). Without has_reports the functions that return nothing do nothing. */
void mesh_reports_init(ps_mesh_machine *m);
void mesh_reports_fini(ps_mesh_machine *m);
/* Drops the reports of the step before, when a step begins. */
void mesh_reports_begin(ps_mesh_machine *m);
/* Sends this worker's report. Called when all parts of its blocks are ready. */
void mesh_reports_say(ps_mesh_machine *m);
/* Checks a packet with a report when it arrives, even if its step has not begun, so that the packet
 * is refused to its sender. Returns INVALID_ARGUMENT if workers send no reports, or if this report
 * does not come to this worker from that sender; else fails as check_report does. */
PS_MUST_USE ps_status mesh_reports_check(const ps_mesh_machine *m, const ps_packet *packet);
/* Keeps a report that mesh_reports_check has accepted, and passes it on to other workers. */
void mesh_reports_take(ps_mesh_machine *m, ps_packet *packet);
/* Sets peers[i] (workers) to true for each worker i from which a report still has to come. */
void mesh_reports_missing(const ps_mesh_machine *m, bool *peers);

/* Queues again for worker `to` everything that was queued for it in `step`, but no packet of
 * mesh_again or mesh_waits. */
void mesh_repeat(ps_mesh_machine *m, const mesh_step *step, uint32_t to);

/* Drops all packets of a step, and keeps its memory. */
void mesh_step_forget(mesh_step *step);

/* Drops all packets and frees the memory. */
void mesh_step_fini(mesh_step *step);

#endif
