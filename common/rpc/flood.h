/* SPDX-License-Identifier: Apache-2.0 */
/* flood.h - bounds how much work the client of one HTTP/2 connection may cause.
 *
 * A pure machine: it is fed the bytes as they arrive, reads the heads of frames (9 bytes each) and
 * passes over what is in them. Each kind of frame has a token bucket. A client that begins calls or
 * sends small DATA too fast is to be paused; one that goes far beyond, or that floods with frames
 * that bring nothing, is to be closed. No I/O, no clock.
 */
#ifndef PS_COMMON_RPC_FLOOD_H
#define PS_COMMON_RPC_FLOOD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PS_FLOOD_STREAMS_MAX = 512,   /* concurrent calls of a connection, which gRPC enforces ... */
    PS_FLOOD_UNCONFIRMED = 100,   /* ... after the client has acknowledged it; calls until then */
    PS_FLOOD_HEADER_BYTES = 65536 /* of the headers of one call */
};

/* What is bounded. */
typedef enum ps_flood_kind {
    PS_FLOOD_CALLS,    /* HEADERS and CONTINUATION */
    PS_FLOOD_PIECES,   /* DATA of less than 1 KiB */
    PS_FLOOD_WINDOWS,  /* WINDOW_UPDATE */
    PS_FLOOD_RESETS,   /* RST_STREAM */
    PS_FLOOD_CONTROLS, /* all other frames, and DATA without bytes */
    PS_FLOOD_BUCKETS,

    PS_FLOOD_UNACKNOWLEDGED = PS_FLOOD_BUCKETS, /* PS_FLOOD_UNCONFIRMED */
    PS_FLOOD_HEADERS,                           /* PS_FLOOD_HEADER_BYTES */
    PS_FLOOD_NOT_HTTP2,                         /* the connection began otherwise */
    PS_FLOOD_KINDS
} ps_flood_kind;

typedef struct ps_flood_bound {
    const char *text;       /* for the log: what the client did */
    uint32_t per_second;    /* tokens */
    uint32_t burst;         /* tokens that a bucket holds */
    uint32_t debt;          /* tokens that may be owed, by being paused; 0: closed instead */
    uint32_t suspect_share; /* rate, burst and debt are this part, 1/n, for a suspect */
} ps_flood_bound;

/* The members behind PS_FLOOD_BUCKETS have a text only. */
extern const ps_flood_bound ps_flood_bounds[PS_FLOOD_KINDS];

typedef enum ps_flood_verdict { PS_FLOOD_PASS, PS_FLOOD_PAUSE, PS_FLOOD_CLOSE } ps_flood_verdict;

/* One connection. */
typedef struct ps_flood {
    bool is_suspect;
    int64_t level[PS_FLOOD_BUCKETS]; /* millionths of a token; negative: owed */
    int64_t filled_us;
    unsigned preface;  /* bytes of the preface that have come */
    unsigned have;     /* bytes of the next head that have come */
    uint8_t head[9];   /* length, type, flags, stream */
    uint32_t skip;     /* bytes of the frame in hand that are still to come */
    uint32_t headers;  /* bytes of the headers in hand; 0: no headers are in hand */
    uint32_t begun;    /* calls before the settings were acknowledged */
    uint32_t calls;    /* tokens of PS_FLOOD_CALLS taken so far; it may wrap around */
    bool acknowledged; /* the settings, which say how many calls there may be */
} ps_flood;

/* Begins a connection. `is_suspect`: its address has flooded before. */
void ps_flood_init(ps_flood *flood, bool is_suspect, int64_t now_us);

/* Reads bytes that have arrived. `neighbours` is how many connections the address has: beyond 4
 * they share the rate of new calls. CLOSE sets *kind, and the machine is not to be used again. */
ps_flood_verdict ps_flood_read(ps_flood *flood, const uint8_t *bytes, size_t count,
                               ps_flood_kind *kind);

/* Adds what has come to the buckets since the last call. Call it before a round of
 * ps_flood_read. */
void ps_flood_fill(ps_flood *flood, uint32_t neighbours, int64_t now_us);

/* Returns microseconds after which a paused connection may be read again; 0: now. */
int64_t ps_flood_wait_us(const ps_flood *flood, uint32_t neighbours);

#endif
