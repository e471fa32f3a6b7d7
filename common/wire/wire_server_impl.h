/* SPDX-License-Identifier: Apache-2.0 */
/* wire_server_impl.h - what the files wire_server*.c share; for them only. */
#ifndef PS_COMMON_WIRE_WIRE_SERVER_IMPL_H
#define PS_COMMON_WIRE_WIRE_SERVER_IMPL_H

#include "common/wire/wire_server.h"

#include "common/job/plan.h"
#include "common/wire/piece.h"

#include "psgd/v1/parameter.pb-c.h"

enum {
    WIRE_SERVER_BATCH = 256, /* most slices in an answer */
    /* encodings of rows in an answer */
    WIRE_SERVER_ROW_HEADS = PS_PAYLOAD_MAX / (4 * PS_CODEC_VALUES) + PS_MODEL_LAYERS_MAX
};

/* Memory for reading one push message and for building one answer. One thread at a time. */
typedef struct wire_scratch {
    uint8_t bytes[PS_PAYLOAD_MAX]; /* copy of an encoding that lies in two received buffers */
    ps_store_piece pieces[WIRE_SERVER_BATCH];
    ps_encoding copies[WIRE_SERVER_BATCH]; /* of heads, which the store may change when unlocked */
    ps_piece out[WIRE_SERVER_BATCH + 1];
    Psgd__V1__Encoding *heads[WIRE_SERVER_BATCH];
    uint64_t checksums[WIRE_SERVER_BATCH];
    Psgd__V1__RowValues rows;
    ps_encoding row_heads[WIRE_SERVER_ROW_HEADS];
    Psgd__V1__Encoding *row_head_ptrs[WIRE_SERVER_ROW_HEADS];
} wire_scratch;

/* An answer to a pull, while it is filled. Its payload are the slices' pieces in scratch->out, and
 * then the rows. */
typedef struct wire_answer {
    Psgd__V1__PullWeightsResponse head;
    size_t piece_count; /* of slices */
    size_t bytes;       /* of slices and rows */
    ps_buf *rows;       /* the answer's; NULL: none */
} wire_answer;

/* A server's state of one worker. If parts are shared, only that worker's thread uses it. */
typedef struct wire_worker {
    ps_wire_server *server;
    uint32_t rank;
    uint64_t incarnation;      /* newest seen */
    ps_wire_link *push, *pull; /* NULL: not open */
    bool owes_ack;             /* with acks_late: it was not yet sent; nothing is read before */
    uint64_t owed_clock;
    uint32_t owed_block;
    bool has_acked; /* an acknowledgement was sent on this push link: the one below */
    uint64_t acked_clock;
    uint32_t acked_block;
    bool has_dropped; /* a fault of a test dropped the acknowledgement of the contribution below */
    uint64_t dropped_clock;
    uint32_t dropped_block;
    bool is_poisoned; /* the message being handled has a value that is not finite */
    bool has_news;    /* the message being handled may let other workers go on */
    bool may_be_in;   /* the part that took its last slice has the whole contribution */

    uint32_t next_part;    /* the part in which the search for an answer begins */
    bool is_thorough;      /* waits for locks of shared parts; false: skips locked parts */
    int64_t again_us;      /* earliest deadline of the shared parts that were entered */
    ps_traffic traffic;    /* zeros in one process */
    bool is_reading;       /* a read of the pull stream is in flight */
    uint64_t waits;        /* pulls that could not be answered completely at once */
    wire_scratch *scratch; /* the server's; if parts are shared, the worker's own */
} wire_worker;

struct ps_wire_server {
    ps_loop *loop;       /* of the timer; NULL: there is no timer */
    const ps_plan *plan; /* NULL: closed */
    const ps_placement *placement;
    ps_wire_attempt attempt;
    uint32_t part; /* of the placement: the one that this server is */
    /* A worker's last contribution to a clock is acknowledged when the clock is over, because
     * nothing that the worker pulls tells it so: nothing is pulled of a copy, and of
     * rows that are asked for only those whose ids a worker meets. */
    bool acks_late;
    ps_wire_parts *parts;
    uint32_t worker_count;
    wire_worker *workers;
    wire_scratch *scratch; /* NULL: each worker has its own */
    uint64_t drop_ack, acks;
    void (*complete)(void *arg);
    void *complete_arg;
    bool is_complete; /* `complete` was called */
    void (*news)(void *arg, uint32_t worker);
    void *news_arg;
    void (*failed)(void *arg, const ps_status *why); /* NULL: failures are not reported */
    void *failed_arg;
    bool is_sockets_only; /* see ps_wire_server_set_sockets_only */
    ps_trace_ring *trace; /* of the server's thread; NULL: none */
    struct {
        int64_t began_ns; /* 0: it does not wait, or that is not recorded */
        uint64_t step, whom;
    } wait;       /* since the last contribution, for others */
    ps_timer due; /* fires at the earliest deadline of all parts */

    ps_rank_reports reports; /* none, unless the job can be rescued and this part keeps them */

    /* The checkpoint that is asked for. */
    uint64_t cut_at; /* UINT64_MAX: none is */
    bool is_cut_due; /* somebody pushes to it, others have not come so far */
    ps_wire_cut_fn *cut;
    void *cut_arg;
};

/* Returns the attempt that the server serves; NULL: it is closed. */
static inline const ps_wire_attempt *wire_server_held(const ps_wire_server *s)
{
    return s->plan != NULL ? &s->attempt : NULL;
}

/* Records what this thread does from now on, if its ring records `step`; 0: nothing. Does nothing
 * without a ring. */
static inline void wire_server_trace(ps_wire_server *s, uint64_t step)
{
    if (s->trace != NULL) {
        ps_trace_enter(s->trace, step);
    }
}

/* Returns the contributor of a push of the worker. */
static inline uint32_t wire_server_contributor(const wire_worker *w,
                                               const Psgd__V1__PushGradientRequest *req)
{
    return w->server->plan->update->per_block ? req->block : w->rank;
}

/* What the server does with one group of pieces. */
typedef struct wire_server_group {
    /* Takes the slices or rows of a push message. Their bytes begin at *at, which is moved behind
     * them. If one is refused, those before it stay; a repetition of the message is harmless. */
    ps_refusal (*push)(wire_worker *w, const Psgd__V1__PushGradientRequest *req,
                       const ps_incoming *payload, size_t *at);
    /* Registers a request. */
    ps_refusal (*want)(wire_worker *w, const Psgd__V1__PullWeightsRequest *req);
    /* Adds what is ready to an answer. Returns whether there was anything. */
    bool (*give)(wire_worker *w, wire_answer *answer);
} wire_server_group;

extern const wire_server_group ps_wire_server_groups[PS_PIECE_GROUPS];

extern const ps_link_events ps_wire_server_push_events, ps_wire_server_pull_events;

/* Returns true if `r` has no reason. Else refuses the link in `slot`, sets the slot to NULL and
 * returns false. */
bool ps_wire_server_allows(ps_wire_link **slot, const ps_refusal *r);
/* Refuses the link in `slot`, if there is one, and sets the slot to NULL. */
void ps_wire_server_refuse(ps_wire_link **slot, const ps_refusal *r);
/* Returns the refusal for a status of the store: its reason is a stable name, such as
 * "WRONG_CLOCK". */
ps_refusal ps_wire_server_refusal(ps_status why);

/* Calls `cut` if everything before its clock is in; call it when a push to that clock, or a later
 * one, has come, and after every push while is_cut_due. */
void ps_wire_server_cut(ps_wire_server *s);

/* Sends the worker's next answer, if one is ready and its link can send. */
void ps_wire_server_pump_one(wire_worker *w);
/* Does the same for every worker. */
void ps_wire_server_pump(ps_wire_server *s);
/* Lets the other workers go on after a push or pull of `w`: calls `news` if w->has_news, or,
 * without `news`, sends every worker's next answer. Clears has_news. */
void ps_wire_server_tell(wire_worker *w);
/* Tells all parts the time. Does nothing if parts are shared: ps_wire_server_enter does it then. */
void ps_wire_server_tick(ps_wire_server *s);
/* Locks a shared part and tells it the time. Returns false if another thread has it and
 * w->is_thorough is false. Returns true at once if parts are not shared. */
bool ps_wire_server_enter(wire_worker *w, ps_wire_part *part);
/* Unlocks a shared part and notes its deadline in w->again_us. */
void ps_wire_server_leave(wire_worker *w, ps_wire_part *part);
/* Cancels the worker's pulls in all parts. */
void ps_wire_server_cancel(wire_worker *w);
/* Sets the timer to the earliest deadline of the stores, and calls `complete` once when they have
 * completed all clocks. Call it after changes of the stores. */
void ps_wire_server_changed(ps_wire_server *s);

/* The functions of ps_wire_server_groups: for slices in wire_server_push.c and wire_server_pull.c,
 * for rows in wire_server_rows.c. */
ps_refusal ps_wire_server_take_slices(wire_worker *w, const Psgd__V1__PushGradientRequest *req,
                                      const ps_incoming *payload, size_t *at);
ps_refusal ps_wire_server_take_rows(wire_worker *w, const Psgd__V1__PushGradientRequest *req,
                                    const ps_incoming *payload, size_t *at);
ps_refusal ps_wire_server_want_slices(wire_worker *w, const Psgd__V1__PullWeightsRequest *req);
ps_refusal ps_wire_server_want_rows(wire_worker *w, const Psgd__V1__PullWeightsRequest *req);
bool ps_wire_server_give_slices(wire_worker *w, wire_answer *answer);
bool ps_wire_server_give_rows(wire_worker *w, wire_answer *answer);

#endif
