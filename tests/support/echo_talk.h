/* SPDX-License-Identifier: Apache-2.0 */
/* echo_talk.h - the client's side of one stream to an echo_world. */
#ifndef PS_TESTS_SUPPORT_ECHO_TALK_H
#define PS_TESTS_SUPPORT_ECHO_TALK_H

#include "tests/support/echo_world.h"

/* A stream that sends `to_send` blocks and reads all answers, unless its members say otherwise. The
 * test sets the members of the first group; the others say what has happened. */
typedef struct talk {
    size_t size;      /* bytes of a payload, which is sent as `pieces` parts of one buffer */
    size_t pieces;    /* 0: the payload is one piece that is not in a ps_buf, so it is copied */
    uint64_t to_send; /* number of blocks; then the stream is half closed */
    const char *text; /* text of each block */
    bool in_turn;     /* each block is sent when the echo of the one before has arrived */
    bool does_not_read;
    /* number of the block whose text tells the server to read no further; 0: never */
    uint64_t stop_at;
    uint64_t cancel_at; /* cancels the stream after so many received messages; 0: never */

    echo_world *w;
    ps_stream *stream;
    ps_buf *buf;
    uint64_t sent, received, bytes, number;
    unsigned bad_payloads, ends;
    /* with in_turn: number of calls of on_sent and on_message since the last send */
    unsigned turns;
    ps_error error;
} talk;

/* Opens a stream of this method and counts it in w->to_come. */
void talk_open(talk *t, echo_world *w, const char *method, int64_t timeout_us);
/* Does what talk_open does, and sends the first block. */
void talk_start(talk *t, echo_world *w, const char *method, int64_t timeout_us);

/* Opens Download for `count` blocks of `size` bytes. */
void talk_download(talk *t, echo_world *w, uint64_t count, uint32_t size);

void talk_send(talk *t);
void talk_go_on(talk *t); /* sends the next block, or half closes the stream, if it can send now */

extern const ps_stream_events talk_events; /* their arg is the talk */

#endif
