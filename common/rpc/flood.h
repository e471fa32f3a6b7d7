/* SPDX-License-Identifier: Apache-2.0 */
/* flood.h - bounds how much work the client of one HTTP/2 connection may cause.
 *
 * A pure state machine: it is given the bytes as they arrive, reads the heads of frames (9 bytes
 * each) and skips their content. Each kind of frame has a token bucket. A client that begins calls
 * or sends small DATA too fast is to be paused. A client that goes far beyond the bound, or that
 * floods with frames without use, is to be disconnected. No I/O, no clock. */
#ifndef PS_COMMON_RPC_FLOOD_H
#define PS_COMMON_RPC_FLOOD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    /* most concurrent calls of a connection; gRPC enforces it only after the client has
     * acknowledged the settings */
    PS_FLOOD_STREAMS_MAX = 512,
    /* most calls that a client may begin before it has acknowledged the settings */
    PS_FLOOD_UNCONFIRMED = 100,
    PS_FLOOD_HEADER_BYTES = 65536 /* most bytes of the headers of one call */
};

/* What is bounded. */
typedef enum ps_flood_kind {
    PS_FLOOD_CALLS,    /* HEADERS and CONTINUATION */
    PS_FLOOD_PIECES,   /* DATA of less than 1 KiB */
    PS_FLOOD_WINDOWS,  /* WINDOW_UPDATE */
    PS_FLOOD_RESETS,   /* RST_STREAM */
    PS_FLOOD_CONTROLS, /* all other frames, and DATA without bytes */
    PS_FLOOD_BUCKETS,

    /* more than PS_FLOOD_UNCONFIRMED calls before the settings were acknowledged */
    PS_FLOOD_UNACKNOWLEDGED = PS_FLOOD_BUCKETS,
    PS_FLOOD_HEADERS, /* more than PS_FLOOD_HEADER_BYTES of headers */
    /* the connection did not begin with HTTP/2's preface */
    PS_FLOOD_NOT_HTTP2,
    PS_FLOOD_KINDS
} ps_flood_kind;

typedef struct ps_flood_bound {
    const char *text;    /* for the log: what the client did */
    uint32_t per_second; /* tokens */
    uint32_t burst;      /* tokens that a bucket holds */
    /* tokens that a client may owe, for which it is paused; 0: it is disconnected instead of
     * paused */
    uint32_t debt;
    uint32_t suspect_share; /* n: for a suspect client, rate, burst and debt are divided by n */
} ps_flood_bound;

/* Bounds by kind. The kinds from PS_FLOOD_BUCKETS on have a text only. */
extern const ps_flood_bound ps_flood_bounds[PS_FLOOD_KINDS];

typedef enum ps_flood_verdict { PS_FLOOD_PASS, PS_FLOOD_PAUSE, PS_FLOOD_CLOSE } ps_flood_verdict;

/* One connection. */
typedef struct ps_flood {
    bool is_suspect; /* the connection's address has flooded before, so bounds are lower */
    /* tokens in each bucket, in millionths; negative: tokens that are owed */
    int64_t level[PS_FLOOD_BUCKETS];
    int64_t filled_us; /* when the buckets were last filled, in monotonic microseconds */
    unsigned preface;  /* bytes of the connection's preface that have arrived */
    unsigned have;     /* bytes in `head` */
    uint8_t head[9];   /* the next frame's head: length, type, flags, stream */
    uint32_t skip;     /* bytes of the present frame that have not arrived yet */
    uint32_t headers;  /* bytes of headers of the call that is being begun; 0: none is */
    uint32_t begun;    /* calls that the client began before it acknowledged the settings */
    uint32_t calls;    /* tokens of PS_FLOOD_CALLS taken so far; may wrap around */
    bool acknowledged; /* the client has acknowledged the settings, which limit its calls */
} ps_flood;

/* Begins a connection. `is_suspect`: its address has flooded before. */
void ps_flood_init(ps_flood *flood, bool is_suspect, int64_t now_us);

/* Reads bytes that have arrived. PS_FLOOD_CLOSE: sets *kind to the reason; the machine must not be
 * used again. */
ps_flood_verdict ps_flood_read(ps_flood *flood, const uint8_t *bytes, size_t count,
                               ps_flood_kind *kind);

/* Fills the buckets with the tokens of the time since the last call. Call it before a series of
 * ps_flood_read. `neighbours`: number of connections of the client's address; if there are more
 * than 4, they share four times the rate of new calls, but each has at least 50 a second. */
void ps_flood_fill(ps_flood *flood, uint32_t neighbours, int64_t now_us);

/* Returns after how many microseconds a paused connection may be read again; 0: now. `neighbours`
 * as for ps_flood_fill. */
int64_t ps_flood_wait_us(const ps_flood *flood, uint32_t neighbours);

#endif
