/* SPDX-License-Identifier: Apache-2.0 */
/* wire_server_impl.h - what the files wire_server*.c share; for them only. */
#ifndef PS_COMMON_WIRE_WIRE_SERVER_IMPL_H
#define PS_COMMON_WIRE_WIRE_SERVER_IMPL_H

#include "common/wire/wire_server.h"

#include "common/job/table.h"

#include "psgd/v1/parameter.pb-c.h"

enum {
    WIRE_SERVER_BATCH = 256, /* most slices in an answer */
    /* encodings of rows in an answer */
    WIRE_SERVER_ROW_HEADS = PS_PAYLOAD_MAX / (4 * PS_CODEC_VALUES) + PS_MODEL_LAYERS_MAX
};

/* What a server keeps of one worker. */
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

    bool wants_rows; /* asked for on the pull link and not given yet: */
    uint64_t rows_clock;
    size_t key_count;
    uint64_t keys[PS_TABLE_KEYS];
} wire_worker;

struct ps_wire_server {
    ps_loop *loop;       /* NULL: no timer */
    const ps_plan *plan; /* NULL: closed */
    const ps_placement *placement;
    ps_wire_attempt attempt;
    uint32_t rank; /* the server's */
    ps_shard *shard;
    ps_tables *tables; /* NULL: the job has none, or they are being saved */
    uint32_t worker_count;
    wire_worker *workers;
    uint64_t drop_ack, acks;
    void (*complete)(void *arg);
    void *complete_arg;
    bool is_complete; /* complete was called */
    ps_timer due;     /* the shard's deadline */
    ps_traffic traffic;
    uint64_t waits;
    uint8_t scratch[PS_PAYLOAD_MAX]; /* an encoding that lies in two buffers */
    ps_shard_piece pieces[WIRE_SERVER_BATCH];
    ps_piece out[WIRE_SERVER_BATCH];
    Psgd__V1__Encoding *heads[WIRE_SERVER_BATCH];
    uint64_t checksums[WIRE_SERVER_BATCH];
    uint32_t same[2 * WIRE_SERVER_BATCH];
    ps_encoding row_heads[WIRE_SERVER_ROW_HEADS];
    Psgd__V1__Encoding *row_head_ptrs[WIRE_SERVER_ROW_HEADS];
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
/* Tells the store the time. */
void ps_wire_server_tick(ps_wire_server *s);
/* The store was changed: arms its deadline, and says so if all steps are complete. */
void ps_wire_server_changed(ps_wire_server *s);

/* wire_server_rows.c. Takes rows of a contribution, whose bytes are the payload's from `at` on. */
ps_refusal ps_wire_server_take_rows(wire_worker *w, const Psgd__V1__PushGradientRequest *req,
                                    const ps_incoming *payload, size_t at);
/* Remembers a request for rows; refused if it cannot be, or one is open. */
ps_refusal ps_wire_server_want_rows(wire_worker *w, const Psgd__V1__PullWeightsRequest *req);
/* Sends the rows wanted if they may be had; returns whether. */
bool ps_wire_server_give_rows(wire_worker *w);

#endif
