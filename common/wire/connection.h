/* SPDX-License-Identifier: Apache-2.0 */
/* connection.h - the push and the pull stream between this worker and one thread of a server.
 *
 * Client's thread only. On the push stream a connection sends the ready parts of one contribution
 * at a time: slices ascending, then rows, of which the first go with the last slices if they fit.
 * On the pull stream it has at most one request for the
 * slices of a clock and one for rows. A stream that breaks is opened again after a pause; the
 * connection then repeats a contribution that was not acknowledged, and its requests.
 */
#ifndef PS_COMMON_WIRE_CONNECTION_H
#define PS_COMMON_WIRE_CONNECTION_H

#include "common/base/buf.h"
#include "common/job/plan.h"
#include "common/placement/placement.h"
#include "common/trace/trace.h"
#include "common/train/exchange.h"
#include "common/wire/coder.h"
#include "common/wire/identity.h"
#include "common/wire/kept_pushes.h"
#include "common/wire/redial.h"
#include "common/wire/wire_link.h"

#include "psgd/v1/parameter.pb-c.h"

enum {
    CONNECTION_BATCH = 256,              /* most slices in a message */
    CONNECTION_MESSAGE_US = 10000,       /* messages get shorter if they take longer than this, */
    CONNECTION_MESSAGE_LEAST = 64 << 10, /* but not shorter than this many bytes */
    /* most encodings of rows in a message */
    CONNECTION_ROW_HEADS = PS_PAYLOAD_MAX / (4 * PS_CODEC_VALUES) + 1
};

#define CONNECTION_NO_POSITION UINT32_MAX /* of slices that do not travel */

typedef enum connection_slice_state { SLICE_WAITS, SLICE_READY, SLICE_SENT } connection_slice_state;

typedef struct ps_connection ps_connection;

/* A request of the trainer for rows. */
typedef struct wanted_rows {
    uint64_t number; /* number of requests so far, with this one */
    uint64_t clock;
    const uint64_t *keys; /* (count) */
    size_t count;
    float *rows; /* written: (count, width) for each table in turn */
} wanted_rows;

/* An exchange through servers, as its connections use it: what they share. wire_client.c fills it
 * and frees what it owns. */
typedef struct connection_exchange connection_exchange;
struct connection_exchange {
    ps_exchange exchange; /* the connections add to its counters */
    const ps_plan *plan;
    const ps_layout *layout;
    const ps_placement *placement;
    ps_wire_attempt attempt;
    uint32_t rank;
    uint64_t incarnation; /* of this process */
    ps_transport *transport;
    ps_trace_ring *trace; /* of the client's thread; NULL: none */
    float *weights;
    ps_buf *grad;
    ps_gate gate;
    uint64_t begins_at;     /* the clock at the start */
    bool lacks_weights;     /* those of that clock are pulled; else the worker has them */
    ps_coder coder;         /* each connection uses its own slices */
    const ps_met_rows *met; /* rows of the contribution in hand; NULL: not pushed yet. Valid while
                             * acknowledgements are owed */
    ps_kept_pushes *kept;   /* NULL: contributions are not kept */
    /* the contribution in hand was made before this attempt; NULL: it was not */
    const ps_kept_contribution *again;
    ps_buf *report;         /* what is said with the contribution in hand; NULL: nothing. Valid as
                             * `met` is */
    bool report_is_partial; /* see parameter.proto */
    wanted_rows wanted;     /* the newest request; valid while rows are owed */

    /* Requests for the next weights are sent before this worker's contribution. Safe only if no
     * answer can arrive before that contribution, so if no other worker may bring it. */
    bool asks_early;
    uint32_t *position; /* (slices): index in `owned` of the slice's connections, also that to its
                         * copy; or CONNECTION_NO_POSITION */

    /* Called when a stream of a stopped connection has ended. */
    void (*over)(connection_exchange *x);
};

/* One of a connection's two streams. It is opened again whenever it breaks. */
typedef struct connection_stream {
    ps_connection *conn;
    ps_wire_link *link; /* NULL while broken or stopped */
    bool greeted;       /* the worker's identity has been sent on this link */
    ps_redial redial;
} connection_stream;

/* What differs between rows that are pulled by key and rows of a fixed vocabulary, of which workers
 * have all and follow the changes (connection_rows.c). */
typedef struct connection_rows_way connection_rows_way;

/* The rows of sparse variables that a connection pulls and pushes (connection_rows.c). */
typedef struct connection_rows {
    const connection_rows_way *way;
    size_t most;  /* limit of keys in a message */
    size_t width; /* values in a row of the widest table */

    /* pulls */
    bool is_pulling;
    uint32_t *index;    /* (table_keys): positions in wanted.keys of the keys of this server */
    size_t index_count; /* keys to pull */
    size_t at;          /* keys whose rows have arrived */
    size_t asked;       /* keys in the request that is not answered; 0: no such request */

    /* of a fixed vocabulary */
    uint32_t *slices; /* (slice_count): slices of the part whose rows these are */
    uint32_t slice_count;
    size_t values; /* of all these slices */
    uint64_t got;  /* newest clock of which all rows have arrived */

    /* pushes */
    bool is_ready;  /* the rows of the contribution are in the client's box */
    bool is_sent;   /* all of them have been sent */
    uint32_t table; /* table of the next message */
    uint32_t part;  /* number of the next message of the contribution */
    size_t from;    /* position of the next key in the table's rows */
    uint32_t kept;  /* messages of the contribution that are kept (kept_pushes.h) */
    uint32_t parts; /* parts of the server that have rows */

    /* scratch for one message */
    uint64_t *keys;           /* (most) */
    uint32_t *shows, *clicks; /* (most) */
    float *values_of_rows;    /* (most, width) */
    ps_encoding heads[CONNECTION_ROW_HEADS];
    Psgd__V1__Encoding *head_ptrs[CONNECTION_ROW_HEADS];
    Psgd__V1__RowGradients message;
} connection_rows;

/* A message of the contribution in hand, while it is filled. */
typedef struct connection_message {
    Psgd__V1__PushGradientRequest head;
    size_t piece_count, bytes; /* of the payload: pieces in conn->pieces */
    ps_buf *encoded;           /* the connection's, with what was encoded; NULL: nothing was */
} connection_message;

struct ps_connection {
    connection_exchange *x;
    connection_rows *rows; /* NULL: the part has no rows of sparse variables */
    uint32_t part;         /* of the placement: the one at the other end */
    bool is_copy;          /* nothing is pulled from the part, as it is a copy */
    uint32_t original;     /* the part of which it is the copy; else the part itself */
    uint32_t *owned;       /* (owned_count): slices of the part that travel, ascending */
    uint32_t owned_count;
    connection_stream push, pull;
    bool is_used; /* the part has slices or rows of this job; else the streams stay closed */
    bool stopping;

    /* the contribution in hand */
    bool has_contribution;
    uint64_t clock;
    uint32_t block;
    bool is_last;
    bool is_nothing;  /* all zeros: goes as one message without slices */
    bool is_acked;    /* the server has it: from an earlier attempt, if not all of it is sent yet */
    bool request_due; /* acknowledged: request the next weights when all slices are ready */
    uint8_t *state;   /* (owned_count) connection_slice_state */
    uint32_t unsent;  /* slices not SENT */
    uint32_t ready;   /* slices READY */
    size_t ready_bytes;
    uint32_t from; /* position in `owned` at which a message begins; 0 unless transport->spreads */

    /* A receiver acts on complete messages only, so messages on a slow link should be short. */
    size_t message_bytes; /* limit of the payload of the next message; a larger slice goes alone */
    size_t sent_bytes;    /* payload bytes of the contribution sent since began_us */
    int64_t began_us;

    /* the request for slices */
    bool request_open, request_sent;
    bool is_reading;      /* a read of the pull stream is in flight */
    bool request_whole;   /* asks for weights instead of changes, as the replica is wrong */
    uint32_t request_bad; /* slices whose checksum differed after the answer was applied */
    uint64_t *version;    /* (owned_count): versions of the replica, if servers broadcast changes */
    uint64_t requested;   /* clock of the request */
    uint64_t *got;        /* (owned_count): newest clock received */
    uint32_t request_left; /* slices that the server has not sent yet for this request */
    bool request_rows;     /* rows that have changed come too, and are not complete */

    /* scratch for one message */
    uint32_t ahead; /* slices that were encoded together and follow in the message */
    ps_encoding heads[CONNECTION_BATCH];
    Psgd__V1__Encoding *head_ptrs[CONNECTION_BATCH];
    ps_piece pieces[CONNECTION_BATCH + 1];
    uint32_t *fresh; /* (fresh_count): slices that an answer brings, of those of the part */
    uint32_t fresh_count;
    bool has_weights;   /* the answer has slices, or rows that have changed */
    ps_buf *encoded[3]; /* reused when no message in flight holds them */
    ps_traffic counted; /* traffic of the part that the exchange has counted already */
};

/* Initialises a connection to a part of the placement. `x` is kept. */
void ps_connection_init(ps_connection *conn, connection_exchange *x, uint32_t part);
/* Frees what the connection owns. Both streams must have ended. */
void ps_connection_fini(ps_connection *conn);
/* Opens both streams, unless the part has nothing of this job. */
void ps_connection_open(ps_connection *conn);
/* Ends both streams. x->over is called for each when it has ended. */
void ps_connection_stop(ps_connection *conn);
/* Returns whether both streams have ended. */
bool ps_connection_is_over(const ps_connection *conn);

/* Begins a contribution, of which no slice is ready. If `is_nothing`, all its values are 0, and one
 * message without slices says so. */
void ps_connection_contribution(ps_connection *conn, uint64_t clock, uint32_t block, bool is_last,
                                bool is_nothing);
/* Marks the gradient of slice owned[position] as final. */
void ps_connection_slice_ready(ps_connection *conn, uint32_t position);
/* Notes that a contribution begins, of which no rows are ready. */
void ps_connection_rows_begin(ps_connection *conn);
/* Notes that the contribution's rows are in x->met. */
void ps_connection_rows_ready(ps_connection *conn);
/* Skips a clock, to which this worker contributes nothing: requests the weights of the next one. */
void ps_connection_skip(ps_connection *conn, uint64_t clock);
/* Encodes the ready slices of the contribution in hand that were not sent, and keeps them. What is
 * kept of the contribution is whole then, and the coder's state is that after it. */
void ps_connection_keep_rest(ps_connection *conn);
/* Sends the messages that are ready, as many as the stream accepts now. */
void ps_connection_pump(ps_connection *conn);
/* Requests the rows of x->wanted that the part has. */
void ps_connection_ask_rows(ps_connection *conn);
/* Returns the limit in bytes of the next message's payload. `last` is the limit so far; `bytes` of
 * payload took `us` microseconds until they were acknowledged. The result is what would take
 * CONNECTION_MESSAGE_US, from CONNECTION_MESSAGE_LEAST to PS_PAYLOAD_MAX. It is at least half of
 * `last`, since one pause of a busy machine says nothing about the link. */
size_t ps_connection_message_bytes(size_t last, size_t bytes, int64_t us);

#endif
