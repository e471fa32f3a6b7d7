/* SPDX-License-Identifier: Apache-2.0 */
/* reader.c - see reader.h.
 *
 * A stream that waits for a lost coordinator cannot be told from a stream without messages.
 * Therefore, after a loss, GetJob is called until it is answered, at most for
 * PS_READER_PATIENCE_US; only then is the stream opened again.
 */
#include "clients/psgd/reader.h"

#include "common/base/clock.h"
#include "common/base/container_of.h"
#include "common/base/shorten.h"

#include <stdio.h>
#include <string.h>

enum { SETTLED_US = 1000 * 1000 };

static void end(ps_reader *r, ps_status st)
{
    ps_error error;

    ps_error_init(&error, st, NULL);
    r->events->on_end(r->arg, &error);
}

/* Asks again, at the coordinator that may answer now. */
static void ask_next(ps_reader *r, const ps_error *error)
{
    ps_next next = ps_follow_failed(r->cli->follow, error);

    ps_loop_after(r->cli->loop, &r->timer, next == PS_NEXT_NOW ? 0 : PS_CLI_AGAIN_US);
}

static void on_message(void *arg, const ProtobufCMessage *head, ps_payload *payload)
{
    ps_reader *r = arg;

    if (r->is_cancelled) {
        return;
    }
    r->lost_us = 0;
    r->events->on_message(r->arg, head, payload);
    if (!r->is_cancelled) {
        ps_stream_read(r->stream);
    }
}

static void on_end(void *arg, const ps_error *error)
{
    ps_reader *r = arg;
    bool is_lost = error->status.code == PS_UNAVAILABLE || error->status.code == PS_CANCELLED;

    r->stream = NULL;
    if (r->is_cancelled) {
        end(r, ps_fail(PS_CANCELLED, "cancelled"));
    } else if (!is_lost) {
        r->events->on_end(r->arg, error);
    } else {
        if (r->lost_us == 0 || ps_clock_us() - r->opened_us > SETTLED_US) {
            r->lost_us = ps_clock_us();
            fflush(stdout);
            fprintf(stderr, "psgd: lost the coordinator at %s; trying for %d s to reconnect\n",
                    ps_follow_address(r->cli->follow), PS_READER_PATIENCE_US / 1000000);
        }
        ask_next(r, error);
    }
}

static const ps_stream_events stream_events = {.on_message = on_message, .on_end = on_end};

static void open_stream(ps_reader *r)
{
    r->opened_us = ps_clock_us();
    r->stream = ps_stream_open(ps_follow_channel(r->cli->follow),
                               &psgd__v1__coordinator_service__descriptor, r->method, PS_NO_TIMEOUT,
                               r->max_bytes, &stream_events, r);
    ps_stream_send(r->stream, r->events->on_open(r->arg), NULL, 0);
    ps_stream_half_close(r->stream);
    ps_stream_read(r->stream);
}

static void on_answer(void *arg, const ps_error *error, const ProtobufCMessage *reply)
{
    ps_reader *r = arg;

    (void)reply;
    r->question = NULL;
    if (r->is_cancelled) {
        end(r, ps_fail(PS_CANCELLED, "cancelled"));
    } else if (ps_is_ok(&error->status)) {
        open_stream(r);
    } else if (error->status.code != PS_UNAVAILABLE && error->status.code != PS_DEADLINE_EXCEEDED) {
        r->events->on_end(r->arg, error);
    } else if (ps_clock_us() - r->lost_us < PS_READER_PATIENCE_US) {
        ask_next(r, error);
    } else {
        end(r, ps_fail(PS_UNAVAILABLE, "no coordinator at %s has answered for %d s: %s",
                       PS_SHORT(r->cli->general.coordinator, 60), PS_READER_PATIENCE_US / 1000000,
                       error->status.text));
    }
}

static void on_timer(ps_event *self, bool ok)
{
    ps_reader *r = PS_CONTAINER_OF(self, ps_reader, timer.event);
    Psgd__V1__GetJobRequest request = PSGD__V1__GET_JOB_REQUEST__INIT;
    int64_t left_us = r->lost_us + PS_READER_PATIENCE_US - ps_clock_us();

    if (!ok) {
        return;
    }
    if (r->is_cancelled) {
        end(r, ps_fail(PS_CANCELLED, "cancelled"));
        return;
    }
    request.job_id = (char *)r->job_id;
    r->question = ps_unary_start(ps_follow_channel(r->cli->follow),
                                 &psgd__v1__coordinator_service__descriptor, "GetJob",
                                 &request.base, ps_cli_try_us(r->cli, left_us), on_answer, r);
}

void ps_reader_open(ps_reader *reader, ps_cli *cli, const char *method, const char *job_id,
                    size_t max_bytes, const ps_reader_events *events, void *arg)
{
    *reader = (ps_reader){
        .cli = cli,
        .method = method,
        .job_id = job_id,
        .max_bytes = max_bytes,
        .events = events,
        .arg = arg,
        .timer.event.fire = on_timer,
    };
    open_stream(reader);
}

void ps_reader_cancel(ps_reader *reader)
{
    reader->is_cancelled = true;
    if (reader->stream != NULL) {
        ps_stream_cancel(reader->stream);
    } else if (reader->question != NULL) {
        ps_unary_cancel(reader->question);
    } else {
        ps_loop_after(reader->cli->loop, &reader->timer, 0);
    }
}
