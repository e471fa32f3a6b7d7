/* SPDX-License-Identifier: Apache-2.0 */
/* raw_stream.h - a stream of ParameterService or PeerService by hand: what a client sends that
 * is not our worker. Everything is called from the test's thread. */
#ifndef PS_TESTS_SUPPORT_RAW_STREAM_H
#define PS_TESTS_SUPPORT_RAW_STREAM_H

#include "common/rpc/client.h"
#include "tests/support/side.h"

#include "psgd/v1/parameter.pb-c.h"
#include "psgd/v1/peer.pb-c.h"

enum { RAW_MESSAGES_MAX = 64 };

/* What was received: of all types of response; of rows, `slices` are their keys. */
typedef struct raw_message {
    uint64_t taken;
    uint64_t clock, version;
    uint32_t block;
    size_t slices, bytes;
    size_t bytes_in_memory; /* of the payload, by its place */
    bool takes_memory;
} raw_message;

typedef struct raw_stream {
    side *on;
    const char *address, *method;
    const ProtobufCServiceDescriptor *service;
    bool is_reading; /* asks for message after message by itself */
    ps_channel *channel;
    ps_stream *stream; /* loop's */

    pthread_mutex_t mutex; /* guards all below */
    pthread_cond_t changed;
    bool can_send, ended;
    ps_error error; /* when ended */
    size_t count;   /* messages received; the first ones are kept: */
    raw_message messages[RAW_MESSAGES_MAX];
    ps_traffic traffic; /* when ended */
} raw_stream;

/* `method`: of ParameterService, or "Exchange". */
void raw_open(raw_stream *s, side *on, const char *address, const char *method, bool is_reading);

/* Waits until the message before is out. False: the stream has ended. */
bool raw_send(raw_stream *s, const ProtobufCMessage *head, const void *payload, size_t len);

/* Waits until so many messages have come; false: it ended before. */
bool raw_wait(raw_stream *s, size_t count);
size_t raw_count(raw_stream *s);

void raw_half_close(raw_stream *s);
void raw_cancel(raw_stream *s);

/* Waits for the end and says how it was; valid until close. */
const ps_error *raw_end(raw_stream *s);

/* Cancels it if it has not ended, waits, frees. */
void raw_close(raw_stream *s);

#endif
