/* SPDX-License-Identifier: Apache-2.0 */
/* connection.h - the push stream and the pull stream between this worker and one thread of a
 * server.
 *
 * Client's thread only (wire_client.h). On the push stream a connection sends the ready parts of
 * one contribution at a time: first slices, then rows; the first rows go with the last slices if
 * they fit. On the pull stream it has at most one open request for the slices of a clock and one
 * for rows. A stream that breaks is opened again after a pause, unless its error fails the
 * exchange. The connection then repeats its open requests, and the contribution if it was not
 * acknowledged. */
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
#include "common/wire/row_groups.h"
#include "common/wire/wire_link.h"

#include "psgd/v1/parameter.pb-c.h"

enum {
    CONNECTION_BATCH = 256, /* most slices in a message */
    /* the time in microseconds that a message should take, where the transport adapts
     * (ps_connection_message_bytes) */
    CONNECTION_MESSAGE_US = 10000,
    CONNECTION_MESSAGE_LEAST = 64 << 10 /* least bytes to which messages are shortened */
};

#define CONNECTION_NO_POSITION UINT32_MAX /* position of a slice that is not sent as a slice */

typedef enum connection_slice_state { SLICE_WAITS, SLICE_READY, SLICE_SENT } connection_slice_state;

typedef struct ps_connection ps_connection;

/* A request of the trainer for rows of tables that grow. */
typedef struct wanted_rows {
    uint64_t number; /* number of the request, from 1 */
    uint64_t clock;
    const uint64_t *keys; /* (count) */
    size_t count;
    float *rows; /* the connections write the rows here: (count, width) of each table in turn */
} wanted_rows;

/* What all connections of a worker share: the exchange through servers. wire_client.c fills it and
 * frees what it owns. */
typedef struct connection_exchange connection_exchange;
struct connection_exchange {
    ps_exchange exchange; /* the connections add to its counters */
    const ps_plan *plan;
    const ps_layout *layout;
    const ps_placement *placement;
    ps_wire_attempt attempt;
    uint32_t rank;
    /* number of this process, higher than those of earlier processes of the worker */
    uint64_t incarnation;
    ps_transport *transport;
    ps_trace_ring *trace; /* records of the client's thread; NULL: nothing is recorded */
    float *weights;
    ps_buf *grad;
    ps_gate gate;
    uint64_t begins_at; /* clock of the worker's first contribution */
    /* the weights of begins_at have to be pulled; else the worker has them */
    bool lacks_weights;
    ps_coder coder; /* each connection uses its own slices only */
    /* (tables): rows of the contribution in hand; NULL: not pushed yet. Valid while
     * acknowledgements are owed */
    const ps_met_rows *met;
    /* the newest contributions, for a replay after a loss; NULL: they are not kept */
    ps_kept_pushes *kept;
    /* the contribution in hand, if it was encoded in an earlier attempt; NULL: it is a new one */
    const ps_kept_contribution *again;
    /* report that goes with the contribution in hand (rank_reports.h); NULL: none. Valid while
     * acknowledgements are owed */
    ps_buf *report;
    bool report_is_partial; /* PushGradientRequest.report_is_partial in parameter.proto */
    wanted_rows wanted;     /* the newest request for rows; valid while rows are owed */

    /* The next weights are requested before this worker sends its contribution. That is safe only
     * if no answer can arrive before the contribution, so only if no other worker may send the same
     * contribution. */
    bool asks_early;
    /* (slices): index of the slice in `owned` of the connection to its part, and of the connection
     * to the part's copy; CONNECTION_NO_POSITION if it is not sent as a slice */
    uint32_t *position;

    /* Called when an open stream of a stopped connection has ended. */
    void (*over)(connection_exchange *x);
};

/* One of a connection's two streams. */
typedef struct connection_stream {
    ps_connection *conn;
    ps_wire_link *link; /* NULL: not opened, broken or ended */
    bool greeted;       /* the worker's identity was sent on this link */
    ps_redial redial;
} connection_stream;

/* What differs between rows of tables that grow, which are pulled by key, and rows of a fixed
 * vocabulary, of which workers have all and are sent those that change (connection_rows.c). */
typedef struct connection_rows_way connection_rows_way;

/* The rows of sparse variables that a connection pulls and pushes (connection_rows.c). */
typedef struct connection_rows {
    const connection_rows_way *way;
    size_t most;  /* most keys in a message */
    size_t width; /* values in a row of the widest table */

    /* Used for pulls. */
    bool is_pulling;    /* the newest request of the trainer is not answered completely */
    uint32_t *index;    /* (table_keys): indices in wanted.keys of the keys that this part has */
    size_t index_count; /* number of elements of `index` */
    size_t at;          /* number of elements of `index` whose rows have arrived */
    /* number of keys in the request that was sent and is not answered; 0: none */
    size_t asked;

    /* Used for a fixed vocabulary. */
    uint32_t *slices; /* (slice_count): the slices whose rows the part has */
    uint32_t slice_count;
    size_t values; /* number of values of all these slices */
    uint64_t got;  /* newest clock for which all rows have arrived */

    /* Used for pushes. */
    bool is_ready;  /* the rows of the contribution are in x->met */
    bool is_sent;   /* all rows of the contribution were sent */
    uint32_t table; /* table whose rows the next message has */
    uint32_t part;  /* number of the next message of rows of the contribution, from 0 */
    size_t from;    /* index, in the table's rows, of the first one for the next message */
    /* number of messages of rows that were kept of the contribution (kept_pushes.h) */
    uint32_t kept;
    uint32_t parts; /* number of parts of the server that have rows */

    /* Scratch for one message. */
    uint64_t *keys;           /* (most) */
    uint32_t *shows, *clicks; /* (most) */
    float *values_of_rows;    /* (most, width) */
    ps_encoding heads[PS_ROW_HEADS_MAX];
    Psgd__V1__Encoding *head_ptrs[PS_ROW_HEADS_MAX];
    Psgd__V1__RowGradients message;
} connection_rows;

/* A message of the contribution in hand while it is being built. */
typedef struct connection_message {
    Psgd__V1__PushGradientRequest head;
    /* number of the payload's pieces, which are in conn->pieces, and of its bytes */
    size_t piece_count, bytes;
    /* one of conn->encoded, with the bytes that were encoded; NULL: none were */
    ps_buf *encoded;
} connection_message;

struct ps_connection {
    connection_exchange *x;
    connection_rows *rows; /* NULL: the part has no rows of sparse tables */
    uint32_t part;         /* number, in the placement, of the part at the other end */
    bool is_copy;          /* the part is a copy of another one; nothing is pulled from it */
    uint32_t original;     /* if is_copy: the part of which it is a copy; else equal to `part` */
    /* (owned_count): slices of the part that are sent as slices, ascending */
    uint32_t *owned;
    uint32_t owned_count;
    connection_stream push, pull;
    bool is_used; /* the part has slices or rows of this job; else the streams are not opened */
    bool stopping;

    /* The contribution in hand. */
    bool has_contribution;
    uint64_t clock;
    uint32_t block;
    bool is_last;
    bool is_nothing; /* all values are 0: one message without slices says so */
    /* the server has acknowledged the contribution; if not all of it was sent, the server has it
     * from an earlier attempt or from another worker */
    bool is_acked;
    /* the contribution is acknowledged, and the next weights are to be requested when all its
     * slices are ready */
    bool request_due;
    uint8_t *state;  /* (owned_count): a connection_slice_state each */
    uint32_t unsent; /* number of slices that are not SLICE_SENT */
    uint32_t ready;  /* number of slices that are SLICE_READY */
    /* (owned_count): bytes of each slice when it was encoded last; before that the most it may have
     */
    uint32_t *took;
    size_t ready_bytes; /* sum of `took` of the ready slices */
    /* index in `owned` at which the next message begins; 0 unless transport->spreads */
    uint32_t from;

    /* A receiver acts on complete messages only, so messages on a slow link should be short. */
    /* most bytes of the next message's payload; a slice that is larger is sent alone */
    size_t message_bytes;
    size_t sent_bytes; /* payload bytes of the contribution that were sent since began_us */
    /* monotonic time in microseconds at which the first message of the contribution was sent */
    int64_t began_us;

    /* The request for slices. */
    bool request_open, request_sent;
    bool is_reading; /* a read of the pull stream is in flight */
    /* the request asks for weights instead of changes, because the replica is wrong */
    bool request_whole;
    /* number of slices that lacked an earlier change, or whose checksum was wrong after the answer
     * was applied */
    uint32_t request_bad;
    /* (owned_count): version of each slice of the replica, if servers broadcast changes */
    uint64_t *version;
    uint64_t requested;    /* clock that the newest request asks for */
    uint64_t *got;         /* (owned_count): newest clock for which the slice has arrived */
    uint32_t request_left; /* number of slices that have not arrived yet for this request */
    /* the answer also has rows that have changed, and not all of them have arrived */
    bool request_rows;

    /* Scratch for one message. */
    uint32_t ahead; /* number of slices that were encoded together and go into this message next */
    ps_encoding heads[CONNECTION_BATCH];
    Psgd__V1__Encoding *head_ptrs[CONNECTION_BATCH];
    ps_piece pieces[CONNECTION_BATCH + 1];
    uint32_t *fresh; /* (fresh_count): slices that an answer delivers, as numbers of the layout */
    uint32_t fresh_count;
    bool has_weights; /* the answer has slices, or rows that have changed */
    /* buffers for encoded bytes; each is used again when no message in flight refers to it */
    ps_buf *encoded[3];
    ps_traffic counted; /* traffic of the part that was added to the exchange's counters so far */
};

/* Initialises a connection to this part of the placement. Keeps `x`. */
void ps_connection_init(ps_connection *conn, connection_exchange *x, uint32_t part);
/* Frees what the connection owns. Both streams must have ended. */
void ps_connection_fini(ps_connection *conn);
/* Opens both streams (of a copy only the push stream), unless the part has nothing of this job. */
void ps_connection_open(ps_connection *conn);
/* Ends both streams. x->over is called for each open stream when it has ended. */
void ps_connection_stop(ps_connection *conn);
/* Returns whether both streams have ended. */
bool ps_connection_is_over(const ps_connection *conn);

/* Begins a contribution. None of its slices is ready yet. is_nothing: all its values are 0, and one
 * message without slices says so. */
void ps_connection_contribution(ps_connection *conn, uint64_t clock, uint32_t block, bool is_last,
                                bool is_nothing);
/* Marks the gradient of slice owned[position] as final. */
void ps_connection_slice_ready(ps_connection *conn, uint32_t position);
/* Notes that a contribution begins whose rows are not ready yet. */
void ps_connection_rows_begin(ps_connection *conn);
/* Notes that the rows of the contribution are in x->met. */
void ps_connection_rows_ready(ps_connection *conn);
/* Skips a clock, to which this worker contributes nothing, by requesting the weights of the next
 * clock. */
void ps_connection_skip(ps_connection *conn, uint64_t clock);
/* Encodes the ready slices of the contribution in hand that were not sent, and keeps them
 * (x->kept). If all its slices were ready, x->kept then has them all, and the coder's state is the
 * one after the contribution. Does nothing for a copy, for zeros, and for a contribution of an
 * earlier attempt (x->again). */
void ps_connection_keep_rest(ps_connection *conn);
/* Sends messages of the contribution as long as something is ready and the stream accepts one. */
void ps_connection_pump(ps_connection *conn);
/* Requests those rows of x->wanted that the part has. */
void ps_connection_ask_rows(ps_connection *conn);
/* Returns the most bytes of the next message's payload. `last` is the limit so far; `bytes` of
 * payload took `us` microseconds until they were acknowledged. The result is what would take
 * CONNECTION_MESSAGE_US, but not below CONNECTION_MESSAGE_LEAST, not above PS_PAYLOAD_MAX, and not
 * below half of `last`, because one pause of a busy machine says nothing about the link. If `bytes`
 * is at most CONNECTION_MESSAGE_LEAST, it is `last`. */
size_t ps_connection_message_bytes(size_t last, size_t bytes, int64_t us);

#endif
