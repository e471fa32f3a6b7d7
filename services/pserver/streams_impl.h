/* SPDX-License-Identifier: Apache-2.0 */
/* streams_impl.h - what streams.c shares with streams_push.c and streams_pull.c;
 * for them only. */
#ifndef PS_SERVICES_PSERVER_STREAMS_IMPL_H
#define PS_SERVICES_PSERVER_STREAMS_IMPL_H

#include "services/pserver/streams.h"

#include "common/job/table.h"

#include "common/node/identity.h"

enum {
    STREAMS_BATCH = 256, /* most slices in an answer */
    STREAMS_ROW_HEADS = PS_PAYLOAD_MAX / (4 * PS_CODEC_VALUES) + PS_MODEL_LAYERS_MAX, /* of rows */
    STREAMS_HEAD_BYTES = 64 << 10 /* most bytes of a message beside its payload of at most 1 MiB */
};

/* What a server keeps of one worker. */
typedef struct streams_peer {
    ps_streams *streams;
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
} streams_peer;

struct ps_streams {
    ps_loop *loop;             /* NULL: no timer */
    const ps_session *session; /* NULL: closed */
    ps_shard *shard;
    uint32_t peer_count;
    streams_peer *peers;
    uint64_t drop_ack, acks;
    void (*complete)(void *arg);
    void *complete_arg;
    bool is_complete; /* complete was called */
    ps_timer due;     /* the shard's deadline */
    ps_traffic traffic;
    uint64_t waits;
    uint8_t scratch[PS_PAYLOAD_MAX]; /* an encoding that lies in two buffers */
    ps_shard_piece pieces[STREAMS_BATCH];
    ps_piece out[STREAMS_BATCH];
    Psgd__V1__Encoding *heads[STREAMS_BATCH];
    uint64_t checksums[STREAMS_BATCH];
    uint32_t same[2 * STREAMS_BATCH];
    ps_tables *tables; /* NULL: the job has none */
    ps_encoding row_heads[STREAMS_ROW_HEADS];
    Psgd__V1__Encoding *row_head_ptrs[STREAMS_ROW_HEADS];
};

ps_handler ps_streams_handle_push, ps_streams_handle_pull;
ps_handler ps_streams_handle_push_rows, ps_streams_handle_pull_rows;

/* The peer that opens a stream, or NULL with the call failed. */
streams_peer *ps_streams_identify(ps_streams *s, ps_call *call, const Psgd__V1__WorkerIdentity *who,
                                  uint32_t attempt);
/* False with the call failed, when it is not of the attempt that is held. */
bool ps_streams_check_attempt(const ps_streams *s, ps_call *call, uint32_t attempt);
const char *ps_streams_reason(const ps_status *st); /* of what the shard refuses */

/* Sends what may be sent of all answers. */
void ps_streams_pump(ps_streams *s);
/* The same of rows that were waited for. */
void ps_streams_pump_rows(ps_streams *s);
/* The shard was changed: arms its deadline, and says so if all steps are complete. */
void ps_streams_changed(ps_streams *s);

#endif
