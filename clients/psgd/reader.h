/* SPDX-License-Identifier: Apache-2.0 */
/* reader.h - a stream of answers about a job that outlives a loss of the
 * connection: for up to PS_READER_PATIENCE_US it is opened again. */
#ifndef PS_CLIENTS_PSGD_READER_H
#define PS_CLIENTS_PSGD_READER_H

#include "clients/psgd/cli.h"

enum { PS_READER_PATIENCE_US = 30 * 1000 * 1000 };

typedef struct ps_reader_events {
    /* What to open it with, at first and after each loss; used until it returns
     * again. */
    const ProtobufCMessage *(*on_open)(void *arg);
    void (*on_message)(void *arg, const ProtobufCMessage *head, ps_payload *payload);
    /* Once, and last. CANCELLED after ps_reader_cancel, UNAVAILABLE when it was
     * lost for good. */
    void (*on_end)(void *arg, const ps_error *error);
} ps_reader_events;

typedef struct ps_reader {
    ps_cli *cli;
    const char *method, *job_id;
    size_t max_bytes;
    const ps_reader_events *events;
    void *arg;
    ps_stream *stream;  /* NULL: lost */
    ps_unary *question; /* whether the coordinator is back; NULL: none */
    ps_timer timer;     /* between two questions */
    int64_t lost_us;    /* when; 0: not since the last message */
    int64_t opened_us;  /* the stream, last */
    bool is_cancelled;
} ps_reader;

/* Opens METHOD of CoordinatorService; `reader` and job_id are kept until
 * on_end. max_bytes as of ps_stream_open. Never calls back from within. */
void ps_reader_open(ps_reader *reader, ps_cli *cli, const char *method, const char *job_id,
                    size_t max_bytes, const ps_reader_events *events, void *arg);
void ps_reader_cancel(ps_reader *reader); /* on_end still comes */

#endif
