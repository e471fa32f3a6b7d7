/* SPDX-License-Identifier: Apache-2.0 */
/* wire_server_world.h - one parameter server, and messages to it that the test makes itself. */
#ifndef PS_TESTS_SUPPORT_WIRE_SERVER_WORLD_H
#define PS_TESTS_SUPPORT_WIRE_SERVER_WORLD_H

#include "tests/support/dataplane.h"
#include "tests/support/raw_stream.h"

typedef Psgd__V1__PushGradientRequest push_t;
typedef Psgd__V1__PullWeightsRequest pull_t;

enum { SW_SLICES_MAX = 64 };

typedef struct wire_server_world {
    dp_job job;
    side serving, calling;
    dp_server server;
} wire_server_world;

/* Starts a server of a job with the optimizer sgd at rate 1 and all weights 1000, so that sums of
 * whole numbers are exact. `choices` are further members of the JobSpec in JSON, each with a comma
 * before it. */
void sw_begin(wire_server_world *w, uint32_t workers, const char *choices, uint64_t drop_ack);
void sw_end(wire_server_world *w);

/* Fills the identity of the worker with this rank, with incarnation 5. */
void sw_identify(const wire_server_world *w, Psgd__V1__WorkerIdentity *who, uint32_t rank);

/* A push of the slices [first, first + count) in f32, in which all values are equal. */
typedef struct sw_gift {
    push_t head;
    Psgd__V1__WorkerIdentity who;
    Psgd__V1__Encoding slices[SW_SLICES_MAX], *pointers[SW_SLICES_MAX];
    Psgd__V1__F32 f32;
    Psgd__V1__Int8 int8;
    char long_name[100 << 10];
    float *values;
    size_t bytes; /* number of bytes of `values` that are sent as payload */
} sw_gift;

/* Makes a valid push of rank 0 and attempt 1, with the worker's identity. */
void sw_gift_init(const wire_server_world *w, sw_gift *g, uint64_t clock, uint32_t first,
                  uint32_t count, float value);
/* Makes a valid push of all slices, as sw_gift_init does. */
void sw_gift_whole(const wire_server_world *w, sw_gift *g, uint64_t clock, float value);
void sw_gift_send(sw_gift *g, raw_stream *s); /* sends the push on a stream, and frees its values */

/* Sends a whole contribution and waits for the acknowledgement, on a stream of
 * its own. */
void sw_push_honestly(wire_server_world *w, uint64_t clock, uint32_t rank, float value);

/* Returns a request for the slices of `clock`; `who` may be NULL behind the first message. */
pull_t sw_pull(uint64_t clock, Psgd__V1__WorkerIdentity *who);

void sw_open_push(wire_server_world *w, raw_stream *s);
void sw_open_pull(wire_server_world *w, raw_stream *s, bool is_reading);

/* Returns value 0 of slice 0, as the server has it. */
float sw_first_weight(wire_server_world *w);

/* Waits for the end of the stream and asserts that its status has this code and this reason. */
void sw_must_end(raw_stream *s, ps_code code, const char *reason);

#endif
