/* SPDX-License-Identifier: Apache-2.0 */
/* echo_talk.h - the client's side of one stream to an echo_world. */
#ifndef PS_TESTS_SUPPORT_ECHO_TALK_H
#define PS_TESTS_SUPPORT_ECHO_TALK_H

#include "tests/support/echo_world.h"

/* Sends `to_send` blocks and reads on, unless told otherwise. The first group is
 * given, the second is what happened. */
typedef struct talk {
    size_t size;      /* of a payload; cut in `pieces` of one buffer */
    size_t pieces;    /* 0: one piece without a buffer, to be copied */
    uint64_t to_send; /* blocks; then the stream is half closed */
    const char *text; /* of each block */
    bool in_turn;     /* send the next when the echo is in */
    bool does_not_read;
    uint64_t stop_at;   /* block that tells the server to read no further; 0: never */
    uint64_t cancel_at; /* messages received; 0: never */

    echo_world *w;
    ps_stream *stream;
    ps_buf *buf;
    uint64_t sent, received, bytes, number;
    unsigned bad_payloads, ends;
    unsigned turns; /* of on_sent and on_message since the last send, when in_turn */
    ps_error error;
} talk;

/* Opens METHOD and counts it in to_come; start also sends the first block. */
void talk_open(talk *t, echo_world *w, const char *method, int64_t timeout_us);
void talk_start(talk *t, echo_world *w, const char *method, int64_t timeout_us);

/* Opens Download for `count` blocks of `size` bytes. */
void talk_download(talk *t, echo_world *w, uint64_t count, uint32_t size);

void talk_send(talk *t);
void talk_go_on(talk *t); /* sends the next or half closes, if it may */

extern const ps_stream_events talk_events; /* arg: a talk */

#endif
