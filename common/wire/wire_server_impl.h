/* SPDX-License-Identifier: Apache-2.0 */
/* wire_server_impl.h - what the files wire_server*.c share; for them only. */
#ifndef PS_COMMON_WIRE_WIRE_SERVER_IMPL_H
#define PS_COMMON_WIRE_WIRE_SERVER_IMPL_H

#include "common/wire/wire_server.h"

#include "common/job/table_numbers.h"

#include "psgd/v1/parameter.pb-c.h"

enum {
    WIRE_SERVER_BATCH = 256, /* most slices in an answer */
    /* encodings of rows in an answer */
    WIRE_SERVER_ROW_HEADS = PS_PAYLOAD_MAX / (4 * PS_CODEC_VALUES) + PS_MODEL_LAYERS_MAX
};

/* What a message is made of and read with; for one thread. */
typedef struct wire_scratch {
    uint8_t bytes[PS_PAYLOAD_MAX]; /* an encoding that lies in two buffers */
    ps_store_piece pieces[WIRE_SERVER_BATCH];
    ps_encoding copies[WIRE_SERVER_BATCH]; /* of heads, which the shard may change */
    ps_piece out[WIRE_SERVER_BATCH];
    Psgd__V1__Encoding *heads[WIRE_SERVER_BATCH];
    uint64_t checksums[WIRE_SERVER_BATCH];
    uint32_t same[2 * WIRE_SERVER_BATCH];
    ps_encoding row_heads[WIRE_SERVER_ROW_HEADS];
    Psgd__V1__Encoding *row_head_ptrs[WIRE_SERVER_ROW_HEADS];
} wire_scratch;

/* What a server keeps of one worker. Where parts are shared, it is that worker's thread's. */
typedef struct wire_worker {
    ps_wire_server *server;
    uint32_t rank;
    uint64_t incarnation;      /* youngest seen */
    ps_wire_link *push, *pull; /* NULL: none open */
    bool has_acked;            /* on this push link */
    uint64_t acked_clock;
    uint32_t acked_block;
    bool has_dropped; /* the fault: this acknowledgement */
    uint64_t dropped_clock;
    uint32_t dropped_block;
    bool is_poisoned;         /* the message in hand has a value that is not finite */
    bool has_news, may_be_in; /* of the message in hand: others may go on; a part has all of it */

    uint32_t next_part; /* to look at for an answer */
    bool is_thorough;   /* it waits for locks */
    int64_t again_us;   /* the least deadline of parts that were looked at */
    ps_traffic traffic;
    uint64_t waits;
    wire_scratch *scratch; /* the server's, or its own where parts are shared */
} wire_worker;

struct ps_wire_server {
    ps_loop *loop;       /* NULL: no timer */
    const ps_plan *plan; /* NULL: closed */
    const ps_placement *placement;
    ps_wire_attempt attempt;
    uint32_t part; /* of the placement */
    ps_wire_parts *parts;
    uint32_t worker_count;
    wire_worker *workers;
    wire_scratch *scratch; /* NULL: each worker has its own */
    uint64_t drop_ack, acks;
    void (*complete)(void *arg);
    void *complete_arg;
    bool is_complete; /* complete was called */
    void (*news)(void *arg, uint32_t worker);
    void *news_arg;
    void (*failed)(void *arg, const ps_status *why); /* NULL: nobody is told */
    void *failed_arg;
    ps_timer due; /* the least deadline of all parts */
};

static inline const ps_wire_attempt *wire_server_held(const ps_wire_server *s)
{
    return s->plan != NULL ? &s->attempt : NULL;
}

extern const ps_link_events ps_wire_server_push_events, ps_wire_server_pull_events;

/* Ends the link in `slot` if it is refused, and empties the slot; false then. */
bool ps_wire_server_allows(ps_wire_link **slot, const ps_refusal *r);
/* Ends the link in `slot` with what the store refused. */
void ps_wire_server_refuse(ps_wire_link **slot, const ps_refusal *r);
/* Returns what a shard's refusal of slices is, for machines. */
ps_refusal ps_wire_server_refusal(ps_status why);

/* Sends what may be sent of one worker's answers, or of all. */
void ps_wire_server_pump_one(wire_worker *w);
void ps_wire_server_pump(ps_wire_server *s);
/* A worker's push was taken: lets others have what came of it. */
void ps_wire_server_tell(wire_worker *w);
/* Tells all parts the time, unless they are shared: then each is told when it is entered. */
void ps_wire_server_tick(ps_wire_server *s);
/* Where parts are shared: locks one and tells it the time; false: another has it and the worker
 * does not wait. */
bool ps_wire_server_enter(wire_worker *w, ps_wire_part *part);
void ps_wire_server_leave(wire_worker *w, ps_wire_part *part);
/* Forgets what the worker has asked for. */
void ps_wire_server_cancel(wire_worker *w);
/* The store was changed: arms its deadline, and says so if all steps are complete. */
void ps_wire_server_changed(ps_wire_server *s);

/* For piece.h. Of slices, wire_server_push.c and wire_server_pull.c; of rows, wire_server_rows.c.
 */
ps_refusal ps_wire_server_take_slices(wire_worker *w, const Psgd__V1__PushGradientRequest *req,
                                      const ps_incoming *payload, size_t *at);
ps_refusal ps_wire_server_take_rows(wire_worker *w, const Psgd__V1__PushGradientRequest *req,
                                    const ps_incoming *payload, size_t *at);
ps_refusal ps_wire_server_want_slices(wire_worker *w, const Psgd__V1__PullWeightsRequest *req);
ps_refusal ps_wire_server_want_rows(wire_worker *w, const Psgd__V1__PullWeightsRequest *req);
bool ps_wire_server_give_slices(wire_worker *w);
bool ps_wire_server_give_rows(wire_worker *w);

#endif
