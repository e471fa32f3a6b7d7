/* SPDX-License-Identifier: Apache-2.0 */
/* flood.c - see flood.h. */
#include "common/rpc/flood.h"

#include <string.h>

enum {
    HEAD_BYTES = 9,
    PREFACE_BYTES = 24,
    PIECE_BYTES = 1024, /* DATA frames of so many bytes or more are not counted: flow control bounds
                         * them */
    CALL_BYTES = 1024,  /* a frame of headers takes one token, and one more for each so many bytes
                         * of it */
    CONTROL_BYTES = 64, /* a control frame takes one token, and one more for each so many bytes of
                         * it */
    /* if an address has at most so many connections, each of them has the whole rate of calls; if
     * it has more, all of them share the rate of so many */
    ALONE = 4,
    CALLS_LEAST = 50, /* least rate of calls of a connection, in tokens a second, however many
                       * share */
    MILLION = 1000000
};

/* Types of frames (DATA to CONTINUATION) and flags of frames (END_STREAM to END_HEADERS), of RFC
 * 9113. */
enum {
    DATA = 0,
    HEADERS = 1,
    RST_STREAM = 3,
    SETTINGS = 4,
    WINDOW_UPDATE = 8,
    CONTINUATION = 9,
    END_STREAM = 1,
    ACK = 1,
    END_HEADERS = 4
};

/* clang-format off */
const ps_flood_bound ps_flood_bounds[PS_FLOOD_KINDS] = {
    /* The burst is half of the calls that may be open at a time, so that a new client can begin
     * that many at once. */
    [PS_FLOOD_CALLS] = {"begins calls too fast", 2000, 256, PS_FLOOD_STREAMS_MAX, 16},
    /* Over loopback a stream of messages without slices sends 5,000 such frames a second. */
    [PS_FLOOD_PIECES] = {"sends too many small DATA frames", 30000, 30000, 30000, 4},
    /* gRPC's receiver sends two of these frames for each small message. */
    [PS_FLOOD_WINDOWS] = {"sends too many WINDOW_UPDATE frames", 60000, 60000, 0, 4},
    /* A client that ends may reset all its open calls. */
    [PS_FLOOD_RESETS] = {"resets too many calls", 100, PS_FLOOD_STREAMS_MAX, 0, 16},
    /* gRPC sends a few pings a second to measure the link. */
    [PS_FLOOD_CONTROLS] = {"sends too many control frames", 200, 1000, 0, 16},
    [PS_FLOOD_UNACKNOWLEDGED] = {.text = "begins calls without acknowledging the settings"},
    [PS_FLOOD_HEADERS] = {.text = "sends headers without end"},
    [PS_FLOOD_NOT_HTTP2] = {.text = "does not speak HTTP/2"},
};
/* clang-format on */

/* Returns the divisor of bound `i` for this connection: more than 1 only if it is suspect. */
static uint32_t share(const ps_flood *flood, size_t i)
{
    return flood->is_suspect ? ps_flood_bounds[i].suspect_share : 1;
}

/* Returns the capacity of bucket `i` in millionths of a token. */
static int64_t full(const ps_flood *flood, size_t i)
{
    return (int64_t)(ps_flood_bounds[i].burst / share(flood, i)) * MILLION;
}

void ps_flood_init(ps_flood *flood, bool is_suspect, int64_t now_us)
{
    memset(flood, 0, sizeof *flood);
    flood->is_suspect = is_suspect;
    flood->filled_us = now_us;
    for (size_t i = 0; i < PS_FLOOD_BUCKETS; i++) {
        flood->level[i] = full(flood, i);
    }
}

/* Returns the rate at which bucket `i` fills, in tokens a second. `neighbours`: connections of the
 * client's address. If more than ALONE, they share ALONE rates of calls, but each has at least
 * CALLS_LEAST. */
static int64_t rate(const ps_flood *flood, size_t i, uint32_t neighbours)
{
    int64_t all = ps_flood_bounds[i].per_second / share(flood, i);

    if (i == PS_FLOOD_CALLS) {
        all = neighbours > ALONE ? all * ALONE / neighbours : all;
        all = all < CALLS_LEAST ? CALLS_LEAST : all;
    }
    return all;
}

void ps_flood_fill(ps_flood *flood, uint32_t neighbours, int64_t now_us)
{
    int64_t us = now_us - flood->filled_us;

    flood->filled_us = now_us;
    us = us < 0 ? 0 : us < 3600 * (int64_t)MILLION ? us : 3600 * (int64_t)MILLION;
    for (size_t i = 0; i < PS_FLOOD_BUCKETS; i++) {
        int64_t level = flood->level[i] + us * rate(flood, i, neighbours);

        flood->level[i] = level < full(flood, i) ? level : full(flood, i);
    }
}

int64_t ps_flood_wait_us(const ps_flood *flood, uint32_t neighbours)
{
    int64_t longest = 0;

    for (size_t i = 0; i < PS_FLOOD_BUCKETS; i++) {
        if (flood->level[i] < 0) {
            int64_t per_second = rate(flood, i, neighbours);
            int64_t us = (-flood->level[i] + per_second - 1) / per_second;

            longest = us > longest ? us : longest;
        }
    }
    return longest;
}

/* Takes tokens from a bucket. Returns false if the bucket then owes more than it may. */
static bool take(ps_flood *flood, ps_flood_kind kind, uint32_t tokens)
{
    flood->level[kind] -= (int64_t)tokens * MILLION;
    flood->calls += kind == PS_FLOOD_CALLS ? tokens : 0;
    return flood->level[kind] >=
           -(int64_t)(ps_flood_bounds[kind].debt / share(flood, kind)) * MILLION;
}

/* Counts a frame of `len` bytes that carries headers of a call. Returns false if the headers of the
 * call so far are too long; *kind is then PS_FLOOD_HEADERS. */
static bool add_headers(ps_flood *flood, uint32_t len, uint8_t flags, ps_flood_kind *kind)
{
    *kind = PS_FLOOD_HEADERS;
    flood->headers += len + 1;
    if (flood->headers > PS_FLOOD_HEADER_BYTES) {
        return false;
    }
    if ((flags & END_HEADERS) != 0) {
        flood->headers = 0;
    }
    return true;
}

/* Counts a frame, of which length, type and flags are given, and sets *kind to the bound that it
 * counts against. Does not count DATA of PIECE_BYTES or more. Returns false if the connection
 * exceeds the bound. */
static bool count(ps_flood *flood, uint32_t len, uint8_t type, uint8_t flags, ps_flood_kind *kind)
{
    switch (type) {
    case DATA:
        if (len >= PIECE_BYTES) {
            return true;
        }
        *kind = len > 0 || (flags & END_STREAM) != 0 ? PS_FLOOD_PIECES : PS_FLOOD_CONTROLS;
        return take(flood, *kind, 1);
    case HEADERS:
        if (!flood->acknowledged && flood->begun++ >= PS_FLOOD_UNCONFIRMED) {
            *kind = PS_FLOOD_UNACKNOWLEDGED;
            return false;
        }
        flood->headers = 0;
        /* fall through */
    case CONTINUATION:
        if (!add_headers(flood, len, flags, kind)) {
            return false;
        }
        *kind = PS_FLOOD_CALLS;
        return take(flood, *kind, 1 + len / CALL_BYTES);
    case RST_STREAM:
        *kind = PS_FLOOD_RESETS;
        return take(flood, *kind, 1);
    case WINDOW_UPDATE:
        *kind = PS_FLOOD_WINDOWS;
        return take(flood, *kind, 1);
    case SETTINGS:
        flood->acknowledged = flood->acknowledged || (flags & ACK) != 0;
        break;
    default: /* PING, PRIORITY, GOAWAY, and types that gRPC ignores */
        break;
    }
    *kind = PS_FLOOD_CONTROLS;
    return take(flood, *kind, 1 + len / CONTROL_BYTES);
}

/* Compares n bytes with what is still missing of the preface of HTTP/2. Returns how many of them
 * belong to the preface, or SIZE_MAX if they differ from it. */
static size_t read_preface(ps_flood *flood, const uint8_t *bytes, size_t n)
{
    static const char preface[PREFACE_BYTES + 1] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    size_t left = PREFACE_BYTES - flood->preface;

    n = n < left ? n : left;
    if (memcmp(bytes, preface + flood->preface, n) != 0) {
        return SIZE_MAX;
    }
    flood->preface += (unsigned)n;
    return n;
}

ps_flood_verdict ps_flood_read(ps_flood *flood, const uint8_t *bytes, size_t n, ps_flood_kind *kind)
{
    size_t at = 0;

    if (flood->preface < PREFACE_BYTES) {
        at = read_preface(flood, bytes, n);
        if (at == SIZE_MAX) {
            *kind = PS_FLOOD_NOT_HTTP2;
            return PS_FLOOD_CLOSE;
        }
    }
    while (at < n) {
        size_t part = n - at;

        if (flood->skip > 0) {
            part = part < flood->skip ? part : flood->skip;
            flood->skip -= (uint32_t)part;
            at += part;
            continue;
        }
        part = part < HEAD_BYTES - flood->have ? part : HEAD_BYTES - flood->have;
        memcpy(flood->head + flood->have, bytes + at, part);
        flood->have += (unsigned)part;
        at += part;
        if (flood->have == HEAD_BYTES) {
            const uint8_t *h = flood->head;

            flood->have = 0;
            flood->skip = (uint32_t)h[0] << 16 | (uint32_t)h[1] << 8 | h[2];
            if (!count(flood, flood->skip, h[3], h[4], kind)) {
                return PS_FLOOD_CLOSE;
            }
        }
    }
    return ps_flood_wait_us(flood, 0) > 0 ? PS_FLOOD_PAUSE : PS_FLOOD_PASS;
}
