/* SPDX-License-Identifier: Apache-2.0 */
/* raw_stream.h - a stream of ParameterService or PeerService on which the test sends each message
 * itself, also those that a worker would not send. Call the functions on the test's thread. */
#ifndef PS_TESTS_SUPPORT_RAW_STREAM_H
#define PS_TESTS_SUPPORT_RAW_STREAM_H

#include "common/rpc/client.h"
#include "tests/support/side.h"

#include "psgd/v1/parameter.pb-c.h"
#include "psgd/v1/peer.pb-c.h"

enum { RAW_MESSAGES_MAX = 64 };

/* A response that was received, of any type; the members that its type does not have are 0. If it
 * has rows, `slices` is the number of their keys. */
typedef struct raw_message {
    uint64_t taken;
    uint64_t clock, version;
    uint32_t block;
    size_t slices, bytes;
    /* bytes of the payload that lies in shared memory (PayloadPlace.bytes) */
    size_t bytes_in_memory;
    bool takes_memory;
} raw_message;

typedef struct raw_stream {
    side *on;
    const char *address, *method;
    const ProtobufCServiceDescriptor *service;
    bool is_reading; /* reads messages without being asked */
    ps_channel *channel;
    ps_stream *stream; /* used on the loop's thread */

    pthread_mutex_t mutex; /* guards all below */
    pthread_cond_t changed;
    bool can_send, ended;
    ps_error error; /* status of the stream; set when it has ended */
    size_t count;   /* number of messages received, of which the first RAW_MESSAGES_MAX are kept: */
    raw_message messages[RAW_MESSAGES_MAX];
    ps_traffic traffic; /* set when the stream has ended */
} raw_stream;

/* Opens a stream. `method` is one of ParameterService, or "Exchange" of PeerService. */
void raw_open(raw_stream *s, side *on, const char *address, const char *method, bool is_reading);

/* Sends a message, after waiting until the message before was sent. Returns false if the stream has
 * ended. */
bool raw_send(raw_stream *s, const ProtobufCMessage *head, const void *payload, size_t len);

/* Waits until `count` messages were received. Returns false if the stream ended before. */
bool raw_wait(raw_stream *s, size_t count);
size_t raw_count(raw_stream *s);

void raw_half_close(raw_stream *s);
void raw_cancel(raw_stream *s);

/* Waits for the end of the stream and returns its status, which is valid until raw_close. */
const ps_error *raw_end(raw_stream *s);

/* Cancels the stream if it has not ended, waits for its end, and frees it. */
void raw_close(raw_stream *s);

#endif
