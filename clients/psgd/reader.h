/* SPDX-License-Identifier: Apache-2.0 */
/* reader.h - reads a stream of answers about a job. If the connection is lost, opens the stream
 * again, for up to PS_READER_PATIENCE_US. */
#ifndef PS_CLIENTS_PSGD_READER_H
#define PS_CLIENTS_PSGD_READER_H

#include "clients/psgd/cli.h"

/* Longer than any election of a leader: --leader-lease is 1 min at most. */
enum { PS_READER_PATIENCE_US = 90 * 1000 * 1000 };

typedef struct ps_reader_events {
    /* Returns the request with which the stream is opened, at first and after each loss. The
     * request must stay valid until the next call. */
    const ProtobufCMessage *(*on_open)(void *arg);
    void (*on_message)(void *arg, const ProtobufCMessage *head, ps_payload *payload);
    /* Reports the end; called once and last. The code is CANCELLED after ps_reader_cancel,
     * UNAVAILABLE if the coordinator did not come back. */
    void (*on_end)(void *arg, const ps_error *error);
} ps_reader_events;

typedef struct ps_reader {
    ps_cli *cli;
    const char *method, *job_id;
    size_t max_bytes;
    const ps_reader_events *events;
    void *arg;
    ps_stream *stream; /* NULL: the connection is lost, and the stream is not open again yet */
    /* a call of GetJob that runs after a loss, to find out whether the coordinator is back; NULL:
     * none */
    ps_unary *question;
    ps_timer timer; /* fires when the next call of GetJob is due */
    /* monotonic microseconds at which the connection was lost; 0: not lost since the last
     * message */
    int64_t lost_us;
    int64_t opened_us; /* monotonic microseconds at which the stream was last opened */
    bool is_cancelled;
} ps_reader;

/* Opens `method` of CoordinatorService. `reader` and `job_id` must live until on_end. `max_bytes`
 * is that of ps_stream_open. Calls on_open; the other events come after this call. */
void ps_reader_open(ps_reader *reader, ps_cli *cli, const char *method, const char *job_id,
                    size_t max_bytes, const ps_reader_events *events, void *arg);

/* Cancels reading. on_end is still called. */
void ps_reader_cancel(ps_reader *reader);

#endif
