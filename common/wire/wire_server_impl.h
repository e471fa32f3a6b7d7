/* SPDX-License-Identifier: Apache-2.0 */
/* wire_server_impl.h - what the files wire_server*.c share; for them only. */
#ifndef PS_COMMON_WIRE_WIRE_SERVER_IMPL_H
#define PS_COMMON_WIRE_WIRE_SERVER_IMPL_H

#include "common/wire/wire_server.h"

#include "common/job/plan.h"
#include "common/wire/piece.h"
#include "common/wire/row_groups.h"

#include "psgd/v1/parameter.pb-c.h"

enum {
    WIRE_SERVER_BATCH = 256, /* most slices in an answer */
    /* most encodings of rows in an answer; each table may add one that is not full */
    WIRE_SERVER_ROW_HEADS = PS_ROW_HEADS_MAX + PS_MODEL_LAYERS_MAX
};

/* Memory for reading one push message and for building one answer. One thread at a time. */
typedef struct wire_scratch {
    uint8_t bytes[PS_PAYLOAD_MAX]; /* copy of an encoding whose bytes lie in two received buffers */
    ps_store_piece pieces[WIRE_SERVER_BATCH];
    /* copies of heads, because the store may change its own when the part is unlocked */
    ps_encoding copies[WIRE_SERVER_BATCH];
    ps_piece out[WIRE_SERVER_BATCH + 1];
    Psgd__V1__Encoding *heads[WIRE_SERVER_BATCH];
    uint64_t checksums[WIRE_SERVER_BATCH];
    Psgd__V1__RowValues rows;
    ps_encoding row_heads[WIRE_SERVER_ROW_HEADS];
    Psgd__V1__Encoding *row_head_ptrs[WIRE_SERVER_ROW_HEADS];
} wire_scratch;

/* An answer to a pull while it is being built. Its payload are the pieces of slices in
 * scratch->out, then the rows. */
typedef struct wire_answer {
    Psgd__V1__PullWeightsResponse head;
    size_t piece_count; /* number of pieces of slices */
    size_t bytes;       /* bytes of slices and rows */
    ps_buf *rows;       /* encoded rows; the answer owns a reference. NULL: none */
} wire_answer;

/* A server's state of one worker. If parts are shared, only that worker's thread uses it. */
typedef struct wire_worker {
    ps_wire_server *server;
    uint32_t rank;
    uint64_t incarnation;      /* highest number of a process of this worker that was seen */
    ps_wire_link *push, *pull; /* NULL: not open */
    /* with acks_late: the acknowledgement of the contribution below is due when its clock is over;
     * until then nothing is read from the push link */
    bool owes_ack;
    uint64_t owed_clock;
    uint32_t owed_block;
    bool has_acked; /* an acknowledgement was sent on this push link, for the contribution below */
    uint64_t acked_clock;
    uint32_t acked_block;
    /* the fault of a test has dropped the acknowledgement of the contribution below */
    bool has_dropped;
    uint64_t dropped_clock;
    uint32_t dropped_block;
    bool is_poisoned; /* the message that is being handled has a value that is not finite */
    bool has_news;    /* the message that is being handled may let other workers go on */
    bool may_be_in;   /* false: the part that took the message's last slice still lacks something of
                       * the contribution */

    uint32_t next_part; /* index of the part at which the search for an answer begins */
    /* wait for the locks of shared parts; false: skip a part that is locked */
    bool is_thorough;
    /* earliest deadline, in monotonic microseconds, of the shared parts that this thread has
     * entered */
    int64_t again_us;
    /* traffic of this worker's links; zeros if the job runs in one process */
    ps_traffic traffic;
    bool is_reading;       /* a read of the pull stream is in flight */
    uint64_t waits;        /* pulls that had to wait for other workers; 0 if parts are shared */
    wire_scratch *scratch; /* the server's; if parts are shared, this worker's own */
} wire_worker;

struct ps_wire_server {
    ps_loop *loop;       /* runs the timer `due`; NULL: there is no timer */
    const ps_plan *plan; /* NULL: closed */
    const ps_placement *placement;
    ps_wire_attempt attempt;
    uint32_t part; /* number, in the placement, of the part that this server has */
    /* A worker's last contribution to a clock is acknowledged only when the clock is over. Needed
     * where nothing that the worker pulls tells it that the clock is over: from a copy nothing is
     * pulled, and of tables that grow only rows whose ids the worker meets. */
    bool acks_late;
    ps_wire_parts *parts;
    uint32_t worker_count;
    wire_worker *workers;
    wire_scratch *scratch; /* NULL: each worker has its own */
    /* period of the fault of tests (ps_wire_server_create), and acknowledgements so far */
    uint64_t drop_ack, acks;
    void (*complete)(void *arg);
    void *complete_arg;
    bool is_complete; /* `complete` was called */
    void (*news)(void *arg, uint32_t worker);
    void *news_arg;
    void (*failed)(void *arg, const ps_status *why); /* NULL: failures are not reported */
    void *failed_arg;
    bool is_sockets_only; /* set by ps_wire_server_set_sockets_only */
    ps_trace_ring *trace; /* records of the server's thread; NULL: nothing is recorded */
    /* For the trace: the wait, between two push messages, for the contributions that the next step
     * still lacks. */
    struct {
        /* time at which the wait began; 0: the server does not wait, or the wait is not recorded */
        int64_t began_ns;
        /* number of the step waited for, and the ranks whose contributions are missing, as bits */
        uint64_t step, whom;
    } wait;
    ps_timer due; /* fires at the earliest deadline of the store */

    ps_rank_reports reports; /* empty, unless the job can be rescued and this part keeps reports */

    /* The call that ps_wire_server_cut_at has arranged. */
    uint64_t cut_at; /* clock of the cut; UINT64_MAX: none is arranged */
    /* the cut waits only for contributions to earlier clocks: somebody pushes to its clock, or
     * nobody will (is_now) */
    bool is_cut_due;
    ps_wire_cut_fn *cut;
    void *cut_arg;
};

/* Returns the attempt that the server serves; NULL: it is closed. */
static inline const ps_wire_attempt *wire_server_held(const ps_wire_server *s)
{
    return s->plan != NULL ? &s->attempt : NULL;
}

/* Makes the thread's trace record from now on if it records the step with number `step`; 0 ends
 * recording. Does nothing without a ring. */
static inline void wire_server_trace(ps_wire_server *s, uint64_t step)
{
    if (s->trace != NULL) {
        ps_trace_enter(s->trace, step);
    }
}

/* Returns the contributor whose contribution the worker's push message brings. */
static inline uint32_t wire_server_contributor(const wire_worker *w,
                                               const Psgd__V1__PushGradientRequest *req)
{
    return w->server->plan->update->per_block ? req->block : w->rank;
}

/* What the server does with one group of pieces: slices, or rows (piece.h). */
typedef struct wire_server_group {
    /* Takes the slices or rows of a push message. Their bytes begin at *at of the payload; *at
     * becomes the offset behind them. If one is refused, those before it stay taken; a repetition
     * of the message does no harm. */
    ps_refusal (*push)(wire_worker *w, const Psgd__V1__PushGradientRequest *req,
                       const ps_incoming *payload, size_t *at);
    /* Opens the pull that a request asks for. */
    ps_refusal (*want)(wire_worker *w, const Psgd__V1__PullWeightsRequest *req);
    /* Adds to an answer what the worker may have now. Returns whether it added anything. */
    bool (*give)(wire_worker *w, wire_answer *answer);
} wire_server_group;

extern const wire_server_group ps_wire_server_groups[PS_PIECE_GROUPS];

extern const ps_link_events ps_wire_server_push_events, ps_wire_server_pull_events;

/* Returns why streams must end because code of the job has failed. If the code cannot run on this
 * machine, also calls s->failed, and the worker is told UNAVAILABLE, so that this server is blamed
 * and not the worker. */
ps_refusal ps_wire_server_check_code(ps_wire_server *s);

/* Returns true if r->reason is NULL. Else refuses the link in *slot, sets *slot to NULL and returns
 * false. */
bool ps_wire_server_allows(ps_wire_link **slot, const ps_refusal *r);
/* Refuses the link in *slot, if there is one, and sets *slot to NULL. */
void ps_wire_server_refuse(ps_wire_link **slot, const ps_refusal *r);
/* Returns the refusal for a failure of the store. Its reason is a stable name for machines, such as
 * "WRONG_CLOCK". */
ps_refusal ps_wire_server_refusal(ps_status why);

/* Calls `cut` if all contributions before its clock have arrived. Call it when a push to that clock
 * or a later one has come, and, while is_cut_due, after every push. */
void ps_wire_server_cut(ps_wire_server *s);

/* Sends the worker's next answer, if one is ready and its pull link can send. */
void ps_wire_server_pump_one(wire_worker *w);
/* Sends every worker's next answer, if one is ready and its pull link can send. */
void ps_wire_server_pump(ps_wire_server *s);
/* After a push or pull of `w`, lets the other workers go on: if s->news is NULL, sends every
 * worker's next answer; else calls it if w->has_news. Clears has_news. */
void ps_wire_server_tell(wire_worker *w);
/* Tells the store the time. Does nothing if parts are shared, because then ps_wire_server_enter
 * tells it. */
void ps_wire_server_tick(ps_wire_server *s);
/* Locks a shared part and tells its store the time. Returns false if another thread has it locked
 * and w->is_thorough is false. If parts are not shared, does nothing and returns true. */
bool ps_wire_server_enter(wire_worker *w, ps_wire_part *part);
/* Notes a shared part's deadline in w->again_us and unlocks the part. */
void ps_wire_server_leave(wire_worker *w, ps_wire_part *part);
/* Cancels the worker's pulls in all parts. */
void ps_wire_server_cancel(wire_worker *w);
/* Sets the timer to the earliest deadline of the store, and calls `complete`, once, when it has
 * completed all clocks. Call it after changes of the store. */
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
