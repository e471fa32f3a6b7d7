/* SPDX-License-Identifier: Apache-2.0 */
/* connection.h - the push and the pull stream between this worker and one thread of a server.
 *
 * Client's thread only. A connection sends what is ready of the contribution in hand,
 * lower slices first and rows last, and keeps one request open for the slices of a clock and one
 * for rows. A stream that breaks is opened again after a pause; what was not acknowledged is sent
 * again and the requests are repeated.
 */
#ifndef PS_COMMON_WIRE_CONNECTION_H
#define PS_COMMON_WIRE_CONNECTION_H

#include "common/wire/redial.h"
#include "common/wire/wire_client.h"

#include "psgd/v1/parameter.pb-c.h"

enum {
    CONNECTION_BATCH = 256,              /* most slices in a message */
    CONNECTION_MESSAGE_US = 10000,       /* what a message should take on its way at most, if not */
    CONNECTION_MESSAGE_LEAST = 64 << 10, /* less than this many bytes */
    CONNECTION_ROW_HEADS =
        PS_PAYLOAD_MAX / (4 * PS_CODEC_VALUES) + 1, /* encodings of rows in a message */
    CONNECTION_ZEROS = 16 /* more slices of zeros than these go as a message of none, at the end */
};

typedef enum connection_slice_state {
    SLICE_WAITS,
    SLICE_READY,
    SLICE_ZEROS, /* ready, and known to be zeros */
    SLICE_SENT
} connection_slice_state;

typedef struct ps_connection ps_connection;
typedef struct ps_wire_client ps_wire_client;

/* One of a connection's two streams: opened, broken, opened again. */
typedef struct connection_stream {
    ps_connection *conn;
    ps_wire_link *link; /* NULL while broken or stopped */
    bool greeted;       /* the identity has been sent on it */
    ps_redial redial;
} connection_stream;

/* What a connection has to do with sparse tables (connection_rows.c). */
typedef struct connection_rows {
    size_t most;  /* keys of a message */
    size_t width; /* of the widest table */

    bool is_pulling;
    uint32_t *index; /* (table_keys): which of the client's keys are of this server */
    size_t index_count, at;
    size_t asked; /* of the message that is not answered; 0: none */

    bool is_ready, is_sent; /* the contribution's rows are there; all of them are out */
    uint32_t table, part;   /* the next ones, */
    size_t from;            /* and where in the table's rows */

    uint64_t *keys; /* (most): of one message, and what belongs to them */
    uint32_t *shows, *clicks;
    float *values; /* (most, width) */
    ps_encoding heads[CONNECTION_ROW_HEADS];
} connection_rows;

struct ps_connection {
    ps_wire_client *x;
    connection_rows *rows; /* NULL: no rows of sparse tables are there */
    uint32_t part;         /* of the placement: whom it leads to */
    const uint32_t *owned; /* slices, ascending */
    uint32_t owned_count;
    connection_stream push, pull;
    bool is_used; /* the part has something of this job */
    bool stopping;

    /* the contribution in hand */
    bool has_contribution;
    uint64_t clock;
    uint32_t block;
    bool is_last;
    bool is_nothing;  /* goes as a message without slices */
    bool request_due; /* acknowledged; the next weights may be asked for when all is ready */
    uint8_t *state;   /* (owned_count) connection_slice_state */
    uint32_t unsent;  /* slices not SENT */
    uint32_t ready;   /* slices READY or ZEROS */
    uint32_t zeros;   /* slices ZEROS */
    size_t ready_bytes;
    uint32_t from; /* position to look for ready slices from; 0 unless the transport spreads */

    /* The receiver acts on whole messages only, so on a slow link they are to be short. */
    size_t message_bytes; /* most payload of the next one, unless one slice is more */
    size_t sent_bytes;    /* of the contribution, since began_us */
    int64_t began_us;

    /* the request for slices */
    bool request_open, request_sent;
    bool request_whole;    /* of a replica that is not what it should be */
    uint32_t request_bad;  /* slices of the answer that did not make it what it should be */
    uint64_t *version;     /* (owned_count): of the replica, where changes are broadcast */
    uint64_t requested;    /* its clock */
    uint64_t *got;         /* (owned_count): newest clock received */
    uint32_t request_left; /* slices that the server has not sent yet, since it was asked last */

    /* scratch for one message */
    ps_encoding heads[CONNECTION_BATCH];
    Psgd__V1__Encoding *head_ptrs[CONNECTION_BATCH];
    ps_piece pieces[CONNECTION_BATCH];
    uint32_t *slices;   /* (owned_count): of an answer */
    ps_buf *encoded[3]; /* reused when nobody else holds them */
    ps_traffic counted; /* of the transport */
};

void ps_connection_init(ps_connection *conn, ps_wire_client *x, uint32_t part);
void ps_connection_fini(ps_connection *conn); /* both streams have ended */
void ps_connection_open(ps_connection *conn);
void ps_connection_stop(ps_connection *conn); /* ps_wire_client_ended follows when it has */
bool ps_connection_is_over(const ps_connection *conn);

/* Begins a contribution: nothing of it is ready, or it is zeros and to be told so. */
void ps_connection_contribution(ps_connection *conn, uint64_t clock, uint32_t block, bool is_last,
                                bool is_nothing);
void ps_connection_slice_ready(ps_connection *conn, uint32_t position);
/* No rows of the contribution are ready; they are in the client's box. */
void ps_connection_rows_begin(ps_connection *conn);
void ps_connection_rows_ready(ps_connection *conn);
void ps_connection_skip(ps_connection *conn,
                        uint64_t clock);          /* nothing for the clock: asks for the next */
void ps_connection_pump(ps_connection *conn);     /* sends what may be sent */
void ps_connection_ask_rows(ps_connection *conn); /* for those in the client's box */
/* Returns the payload that a message may have after one of `last` at most, where a contribution's
 * bytes took `us` until they were acknowledged: what goes in CONNECTION_MESSAGE_US,
 * CONNECTION_MESSAGE_LEAST to PS_PAYLOAD_MAX; at least half of `last`, as one stop of a busy
 * machine says nothing. */
size_t ps_connection_message_bytes(size_t last, size_t bytes, int64_t us);

#endif
