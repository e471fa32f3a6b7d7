/* SPDX-License-Identifier: Apache-2.0 */
/* wire_server_impl.h - what wire_server.c shares with wire_server_push.c and wire_server_pull.c;
 * for them only. */
#ifndef PS_COMMON_WIRE_WIRE_SERVER_IMPL_H
#define PS_COMMON_WIRE_WIRE_SERVER_IMPL_H

#include "common/wire/wire_server.h"

#include "common/job/table.h"

#include "common/wire/identity.h"

enum {
    WIRE_SERVER_BATCH = 256, /* most slices in an answer */
    WIRE_SERVER_ROW_HEADS =
        PS_PAYLOAD_MAX / (4 * PS_CODEC_VALUES) + PS_MODEL_LAYERS_MAX, /* of rows */
    WIRE_SERVER_HEAD_BYTES =
        64 << 10 /* most bytes of a message beside its payload of at most 1 MiB */
};

/* What a server keeps of one worker. */
typedef struct wire_worker {
    ps_wire_server *server;
    uint32_t rank;
    uint64_t incarnation; /* youngest seen */
    ps_call *push, *pull; /* NULL: none open */
    bool has_acked;       /* on this push stream */
    uint64_t acked_clock;
    uint32_t acked_block;
    bool has_dropped; /* the fault: this acknowledgement */
    uint64_t dropped_clock;
    uint32_t dropped_block;

    ps_call *push_rows, *pull_rows; /* of sparse tables; NULL: none open */
    bool has_wish;                  /* rows asked for on pull_rows that were not given */
    uint64_t wish_clock;
    size_t wish_count;
    uint64_t wish_keys[PS_TABLE_KEYS];
} wire_worker;

struct ps_wire_server {
    ps_loop *loop;             /* NULL: no timer */
    const ps_session *session; /* NULL: closed */
    ps_shard *shard;
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
    ps_tables *tables; /* NULL: the job has none */
    ps_encoding row_heads[WIRE_SERVER_ROW_HEADS];
    Psgd__V1__Encoding *row_head_ptrs[WIRE_SERVER_ROW_HEADS];
};

ps_handler ps_wire_server_handle_push, ps_wire_server_handle_pull;
ps_handler ps_wire_server_handle_push_rows, ps_wire_server_handle_pull_rows;

/* The peer that opens a stream, or NULL with the call failed. */
wire_worker *ps_wire_server_identify(ps_wire_server *s, ps_call *call,
                                     const Psgd__V1__WorkerIdentity *who, uint32_t attempt);
/* False with the call failed, when it is not of the attempt that is held. */
bool ps_wire_server_check_attempt(const ps_wire_server *s, ps_call *call, uint32_t attempt);
const char *ps_wire_server_reason(const ps_status *st); /* of what the shard refuses */

/* Sends what may be sent of all answers. */
void ps_wire_server_pump(ps_wire_server *s);
/* The same of rows that were waited for. */
void ps_wire_server_pump_rows(ps_wire_server *s);
/* The shard was changed: arms its deadline, and says so if all steps are complete. */
void ps_wire_server_changed(ps_wire_server *s);

#endif
